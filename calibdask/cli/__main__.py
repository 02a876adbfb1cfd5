"""``python -m calibdask.cli``: the command line."""

import sys

from calibdask.cli import main

if __name__ == "__main__":
    sys.exit(main())

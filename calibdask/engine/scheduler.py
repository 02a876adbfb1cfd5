"""The scheduler of Dask that computations run on."""

import sys
from typing import Any

import dask
import dask.threaded


def scheduler() -> Any:
    """Dask's choice, or its threads where it has no other: asking it would import distributed, which takes a second.

    Where nobody has imported that package, nobody has a client of it.
    """
    if "distributed" in sys.modules or dask.config.get("scheduler", None) is not None:
        return None
    return dask.threaded.get

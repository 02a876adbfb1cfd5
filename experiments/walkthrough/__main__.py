"""Run the walkthroughs cell by cell, and write their pages: text, code, output and figures."""

import argparse
import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from calibdask.storage.atomic_replace import write_text

SCRIPTS = ("portfolio", "walkthrough")
_CELL = re.compile(r"^# %%", re.MULTILINE)


def cells(script: str) -> Iterator[tuple[str, str]]:
    """Kind, ``markdown`` or ``python``, and text of each cell."""
    for part in _CELL.split(_path(script).read_text(encoding="utf-8"))[1:]:
        head, body = part.split("\n", 1)
        if head.strip() == "[markdown]":
            lines = (line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())
            yield "markdown", "\n".join(lines)
        else:
            yield "python", body.strip()


def _path(script: str) -> Path:
    return Path(__file__).parent / f"{script}.py"


def run(script: str, folder: Path) -> dict[str, Any]:
    """Execute all cells of a script in this folder and write its page there; returns what they have defined."""
    folder.mkdir(parents=True, exist_ok=True)
    # Dataclasses look their module up by name.
    defined: dict[str, Any] = {"__name__": "__main__"}
    page = []
    with contextlib.chdir(folder):
        for kind, text in cells(script):
            if kind == "markdown":
                page.append(text)
                continue
            page.append(f"```python\n{text}\n```")
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(text, str(_path(script)), "exec"), defined)
            if printed.getvalue():
                lines = "\n".join(line.rstrip() for line in printed.getvalue().splitlines())
                print(lines, flush=True)
                page.append(f"```text\n{lines}\n```")
    write_text(folder / f"{script}.md", "\n\n".join(page) + "\n")
    return defined


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m experiments.walkthrough", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("walkthrough"), help="folder of pages and pictures")
    folder = parser.parse_args().out
    for script in SCRIPTS:
        run(script, folder)
        print(f"\n{folder / script}.md")


if __name__ == "__main__":
    main()

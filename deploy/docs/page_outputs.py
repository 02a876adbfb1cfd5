"""Run the blocks of pages in order, and write what they print beneath them and the pictures that pages show.

``python deploy/docs/page_outputs.py [PAGE ...]`` does so for these pages, or for all with examples.
"""

import contextlib
import io
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from calibdask.cli import main as command

FOLDER = Path(__file__).resolve().parent
PICTURES = FOLDER / "pictures"
# A block and, where there is one, the output that stands beneath it.
BLOCK = re.compile(r"```(python|sh)\n(.*?)```(\n\n```text\n(?P<output>.*?)```)?", re.DOTALL)
_STATUS = re.compile(r"# exit status (\d)")
_SHOWN = re.compile(r"\]\((?:\.\./)*pictures/([\w.-]+)\)|^\.\. image:: (?:\.\./)*pictures/(\S+)$", re.MULTILINE)


def pages() -> list[Path]:
    """Pages with examples."""
    found = [FOLDER.parents[1] / "README.md", *sorted(FOLDER.rglob("*.md"))]
    return [page for page in found if "build" not in page.parts and "```python\n" in page.read_text(encoding="utf-8")]


def pictures(text: str) -> set[str]:
    """Names of the pictures that a page shows and its blocks make."""
    return {name for match in _SHOWN.findall(text) for name in match if name}


def run(page: Path, folder: Path) -> str:
    """Run the blocks of a page in this folder; returns the text of the page with what they print."""
    # One namespace for globals and locals, as in a script; dataclasses look their module up by name.
    defined: dict[str, Any] = {"__name__": "__main__"}
    text = page.read_text(encoding="utf-8")
    parts, end = [], 0
    with contextlib.chdir(folder):
        for match in BLOCK.finditer(text):
            language, code = match[1], match[2]
            if language == "python":
                printed = _printed_by(compile(code, str(page), "exec"), defined)
            elif match["output"] is not None:
                printed = "".join(
                    _printed_by_command(line, match["output"]) for line in code.replace("\\\n", " ").splitlines()
                )
            else:
                continue
            if match["output"] is not None:
                parts += [text[end : match.start("output")], printed]
                end = match.end("output")
    return "".join([*parts, text[end:]])


def _printed_by(code: Any, defined: dict[str, Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, defined)
    if not printed.getvalue():
        raise ValueError(f"Examples print something; a block of {code.co_filename} prints nothing.")
    return _stripped(printed.getvalue())


def _printed_by_command(line: str, shown: str) -> str:
    expected = _STATUS.search(line)
    name, *words = shlex.split(line, comments=True)
    if name != "calibdask":
        raise ValueError(f"Commands whose output is shown are those of calibdask, got {line!r}.")
    # On a terminal the diagram is printed without being asked for.
    diagram = ["--text-plot"] if "Frequency of" in shown else []
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = command([*words, *diagram])
    if status != (int(expected[1]) if expected else 0):
        raise ValueError(f"{line!r} ended with exit status {status}.")
    return _stripped(printed.getvalue())


def _stripped(printed: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def without_time(printed: str) -> str:
    """What is printed, but for how long it took, and hashes, which hold the version."""
    return re.sub(r"[\d.]+ s$|\b[0-9a-f]{64}\b", "", printed, flags=re.MULTILINE)


def changed(chosen: list[Path]) -> Iterator[Path]:
    """Write the outputs and pictures of these pages; yields those whose text has changed."""
    for page in chosen:
        before = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory(prefix="calibdask-") as folder:
            after = run(page, Path(folder))
            PICTURES.mkdir(exist_ok=True)
            for name in pictures(before):
                shutil.copy(Path(folder, name), PICTURES / name)
        if without_time(after) != without_time(before):
            page.write_text(after, encoding="utf-8")
            yield page


if __name__ == "__main__":
    for written in changed([Path(name).resolve() for name in sys.argv[1:]] or pages()):
        sys.stdout.write(f"{written}\n")

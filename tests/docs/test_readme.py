"""Python examples of the README and of the pages run, and commands print what is shown beneath them."""

import re
import shlex
from pathlib import Path

import pytest

from calibdask.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "deploy" / "docs").glob("*.md"))]
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"```sh\ncalibdask ([^\n]*)\n```\n\n```text\n(.*?)```", re.DOTALL)
WITH_EXAMPLES = {page.stem: page for page in PAGES if PYTHON.search(page.read_text())}


@pytest.mark.parametrize("page", WITH_EXAMPLES.values(), ids=WITH_EXAMPLES)
def test_examples_run(
    page: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # One namespace for globals and locals, as in a script; dataclasses look their module up by name.
    defined = {"__name__": "__main__"}
    for example in PYTHON.findall(page.read_text()):
        exec(compile(example, str(page), "exec"), defined)
        assert capsys.readouterr().out
    for command, expected in COMMAND.findall(page.read_text()):
        # On a terminal the diagram is printed without being asked for.
        diagram = ["--text-plot"] if "Frequency of" in expected else []
        assert main([*shlex.split(command), *diagram]) == 0
        assert without_time(capsys.readouterr().out) == without_time(expected)


def without_time(printed: str) -> str:
    return re.sub(r"[\d.]+ s$", "", printed, flags=re.MULTILINE)


def test_pages_with_examples() -> None:
    assert set(WITH_EXAMPLES) == {
        "README",
        "auditing",
        "data",
        "ecosystem",
        "extending",
        "gates",
        "intervals",
        "looking",
        "recalibrating",
        "reliability_display",
        "results",
        "studies",
        "summaries",
        "testing",
        "watching",
    }
    assert [len(COMMAND.findall(WITH_EXAMPLES[page].read_text())) for page in ("README", "testing")] == [3, 1]

"""Python examples of the README and of the pages run; commands of the README print what it shows."""

import re
import shlex
from pathlib import Path

import pytest

from calibdask.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "deploy" / "docs").glob("*.md"))]
EXAMPLES = {page: re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL) for page in PAGES}


@pytest.mark.parametrize("page", [page for page in PAGES if EXAMPLES[page]], ids=lambda page: page.stem)
def test_examples_run(
    page: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # One namespace for globals and locals, as in a script; dataclasses look their module up by name.
    defined = {"__name__": "__main__"}
    for example in EXAMPLES[page]:
        exec(compile(example, str(page), "exec"), defined)
        assert capsys.readouterr().out


def test_commands_print_what_the_readme_shows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    script = next(example for example in EXAMPLES[ROOT / "README.md"] if ".to_csv(" in example)
    exec(compile(script, "README.md", "exec"), {"__name__": "__main__"})
    capsys.readouterr()
    shown = re.findall(r"```sh\ncalibdask ([^\n]*)\n```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert len(shown) == 3
    for command, expected in shown:
        # On a terminal, where it is not sliced, there is the diagram too.
        diagram = ["--text-plot"] if "Frequency of" in expected else []
        assert main([*shlex.split(command), *diagram]) == 0
        assert without_time(capsys.readouterr().out) == without_time(expected)


def without_time(printed: str) -> str:
    return re.sub(r"[\d.]+ s$", "", printed, flags=re.MULTILINE)


def test_pages_with_examples() -> None:
    assert {page.stem for page in PAGES if EXAMPLES[page]} == {
        "README",
        "data",
        "ecosystem",
        "extending",
        "intervals",
        "looking",
        "results",
        "studies",
        "summaries",
        "testing",
    }

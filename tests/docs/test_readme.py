"""Python examples of the README and of the pages of the documentation run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "deploy" / "docs").glob("*.md"))]
EXAMPLES = [
    pytest.param(example, page, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, example in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize(("example", "page"), EXAMPLES)
def test_example_runs(
    example: str, page: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # One namespace for globals and locals, as in a script; dataclasses look their module up by name.
    exec(compile(example, str(page), "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out


def test_pages_with_examples() -> None:
    with_examples = {example.id.rsplit("-", 1)[0] for example in EXAMPLES}
    assert with_examples == {
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

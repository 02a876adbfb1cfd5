"""The README's Python examples run."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_example_runs(
    example: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(EXAMPLES) == 5
    monkeypatch.chdir(tmp_path)
    # One namespace for globals and locals, as in a script; dataclasses look their module up by name.
    exec(compile(example, str(README), "exec"), {"__name__": "__main__"})
    assert "ece" in capsys.readouterr().out

"""Hostile names are shown, and only shown, wherever they are met."""

from pathlib import Path

import pytest

from calibdask.cli import main
from tests.hostile.texts import CALLS, COMMANDS, FORBIDDEN, SHOWN


@pytest.mark.parametrize("case", COMMANDS)
def test_nothing_raw_reaches_the_terminal_or_a_page(
    case: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    arguments = COMMANDS[case](tmp_path)
    capfd.readouterr()
    main(arguments)
    out, err = capfd.readouterr()
    pages = [path.read_text(encoding="utf-8") for path in tmp_path.glob("*.html")]
    for text in (out, err, *pages):
        assert not FORBIDDEN.search(text), ascii(text)
    # The status of a study shows the traceback of a failed cell.
    assert "Traceback" not in err
    assert "Traceback" not in out or case == "status"
    # The name is not dropped: it is there in signs that show; tables cut it short.
    assert any(SHOWN.search(text) for text in (out, err, *pages)), out + err


@pytest.mark.parametrize("case", CALLS)
def test_nothing_raw_is_returned_or_raised(case: str) -> None:
    try:
        text = str(CALLS[case]())
    except (ValueError, TypeError, KeyError) as error:
        text = str(error)
    assert not FORBIDDEN.search(text), ascii(text)

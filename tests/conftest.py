"""The command, as tests of all kinds call it."""

from typing import Any

import pytest

from calibdask.cli import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Call ``calibdask``; its status, and what it says on either stream."""

    def call(*arguments: Any) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call

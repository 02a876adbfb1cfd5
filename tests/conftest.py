"""The command, as tests of all kinds call it, and a heap in which looking for garbage is quick."""

import gc
from collections.abc import Generator
from typing import Any

import pytest

from calibdask.cli import main


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Modules and thousands of tests stay: a search for garbage need not pass over them, 0.4 s each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Call ``calibdask``; its status, and what it says on either stream."""

    def call(*arguments: Any) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call

"""The way of rows from the user to the kernels is short: few functions return them, so that a reader can follow it."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.cli import main

# Other than of any array that the library makes for itself.
N = 3001
RNG = np.random.default_rng(0)
SCORES = RNG.random(N)
LABELS = (RNG.random(N) < SCORES).astype(int)
FRAME = pd.DataFrame({"label": LABELS, "score": SCORES})
PACKAGE = str(Path(cd.__file__).parent)
CONTAINERS = {"ndarray", "Series", "DataFrame", "DataArray", "Dataset", "Table", "ChunkedArray"}


def holds_rows(value: Any, depth: int = 0) -> bool:
    """Whether a value is, or has inside, an array of as many entries as there are rows."""
    if type(value).__name__ in CONTAINERS:
        shape = getattr(value, "shape", (-1,))
        return len(shape) > 0 and shape[0] == N
    if depth > 3:
        return False
    parts: list[Any] = []
    if isinstance(value, list | tuple):
        parts = list(value[:20])
    elif isinstance(value, dict):
        parts = list(value.values())[:20]
    elif type(value).__module__.startswith("calibdask"):
        slots = {name: getattr(value, name, None) for name in getattr(type(value), "__slots__", ())}
        parts = list((getattr(value, "__dict__", None) or slots).values())
    return any(holds_rows(part, depth + 1) for part in parts)


def returning_rows(call: Callable[[], Any]) -> set[str]:
    """Functions of the package that return rows while this runs, on this thread."""
    call()
    found = set()

    def note(frame: FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        is_ours = code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<")
        if event == "return" and is_ours and holds_rows(result):
            found.add(f"{Path(code.co_filename).stem}.{code.co_qualname}")

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


# Functions that returned rows before the data had one way in: 27 and 53.
@pytest.mark.parametrize(("way", "most"), [("arrays", 13), ("frame", 19), ("file", 26), ("shell", 26)])
def test_few_functions_pass_rows_on(way: str, most: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "rows.parquet")
    FRAME.to_parquet(path)
    ways: dict[str, Callable[[], Any]] = {
        "arrays": lambda: cd.evaluate(LABELS, SCORES, "ece"),
        "frame": lambda: cd.evaluate(FRAME, metrics="ece", label="label", score="score"),
        "file": lambda: cd.evaluate(path, metrics="ece"),
        "shell": lambda: main(["evaluate", path, "--metric", "ece", "--json"]),
    }
    found = returning_rows(ways[way])
    assert 3 < len(found) <= most, sorted(found)

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
            found.add(f"{Path(code.co_filename).relative_to(PACKAGE)}:{code.co_qualname}")

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


# Before the data had one way in, 27 functions returned rows as arrays, and 53 those of a file at the shell.
WAYS = [("arrays", 9), ("frame", 15), ("file", 22), ("shell", 23), ("calibrators", 15)]


@pytest.mark.parametrize(("way", "most"), WAYS)
def test_few_functions_pass_rows_on(way: str, most: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "rows.parquet")
    FRAME.to_parquet(path)
    ways: dict[str, Callable[[], Any]] = {
        "arrays": lambda: cd.evaluate(LABELS, SCORES, "ece"),
        "frame": lambda: cd.evaluate(FRAME, metrics="ece", label="label", score="score"),
        "file": lambda: cd.evaluate(path, metrics="ece"),
        "shell": lambda: main(["evaluate", path, "--metric", "ece", "--json"]),
        "calibrators": lambda: cd.compare_calibrators(FRAME, label="label", score="score"),
    }
    found = returning_rows(ways[way])
    if way == "calibrators":
        # Its folds and maps make arrays of their own.
        found = {name for name in found if name.startswith(("data/", "engine/arrays", "storage/"))}
    assert 3 < len(found) <= most, sorted(found)

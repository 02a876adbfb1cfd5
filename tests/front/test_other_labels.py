"""A notice lists the labels that count as negative, and a text among numbers is refused by row and value: the same from
every container, for every function and command."""

import inspect
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import calibdask as cd
from tests.cli.sample_rows import Run
from tests.combinations import rotated
from tests.front.row_containers import CONTAINERS, Call, columns
from tests.front.test_ways_in_options import FRAME, FUNCTIONS, SCORES, N

pytestmark = pytest.mark.usefixtures("without_recalibration")

KINDS = np.random.default_rng(3).integers(0, 4, N)
NAMES = FRAME.assign(y=np.array(["auk", "emu", "owl", "tit"], object)[KINDS])
NUMBERS = FRAME.assign(y=np.array([2, 1, 10, 3])[KINDS])
# A rare label: most blocks lack it.
RARE = FRAME.assign(y=np.where(np.arange(N) == 555, "?", np.where(FRAME.y, "yes", "no")).astype(object))
MANY = FRAME.assign(y=[f"c{number % 40:02d}" for number in range(N)])
OPTIONS: dict[str, tuple[pd.DataFrame, Call, str]] = {
    "names": (NAMES, {"pos_label": "owl"}, "'auk', 'emu', 'tit'"),
    "numbers": (NUMBERS, {"pos_label": 1}, "2, 3, 10"),
    "rare": (RARE, {"pos_label": "yes"}, "'?', 'no'"),
    "many": (MANY, {"pos_label": "c07"}, "'c00', 'c01', 'c02', 'c03', 'c04', ..."),
}
STRAY = FRAME.assign(y=FRAME.y.astype(str).astype(object).mask(np.isin(np.arange(N), [433, 500]), "?"))
STREAM = "stream"
FILES = ("csv", "jsonl", "parquet", "feather")


def given(frame: pd.DataFrame, container: str, folder: Path) -> Call:
    if container == STREAM:
        return columns(frame, lambda: pa.Table.from_pandas(frame).to_reader(max_chunksize=100))
    return CONTAINERS[container](frame, folder)


def notices(function: str, call: Call) -> list[str]:
    """What a function warns of."""
    call = dict(call)
    if function == "audit":
        call["features"] = call["by"]
    if "by" not in inspect.signature(FUNCTIONS[function][0]).parameters:
        del call["by"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        FUNCTIONS[function][1](**call)
    assert all(warning.filename.endswith(".py") and "/calibdask/" not in warning.filename for warning in caught)
    return [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]


@pytest.mark.parametrize(("container", "function"), rotated([*CONTAINERS, STREAM], FUNCTIONS, 4))
@pytest.mark.parametrize("option", OPTIONS)
def test_labels_that_count_as_negative(option: str, container: str, function: str, tmp_path: Path) -> None:
    if container == STREAM and function in ("compare", "audit"):
        pytest.skip("needs columns of all rows")
    frame, said, expected = OPTIONS[option]
    found = notices(function, {**given(frame, container, tmp_path), **said})
    # Functions that read the rows twice warn twice of the same, which Python shows once.
    (text,) = {text for text in found if "count as negative" in text}
    assert f"count as negative: {expected}." in text


@pytest.mark.parametrize("container", [*CONTAINERS, STREAM])
def test_two_classes_need_no_notice(container: str, tmp_path: Path) -> None:
    frame = FRAME.assign(y=np.where(FRAME.y, "yes", "no").astype(object))
    assert notices("evaluate", {**given(frame, container, tmp_path), "pos_label": "yes"}) == []


@pytest.mark.parametrize("rows", [1, 7, N])
def test_accumulator(rows: int) -> None:
    accumulator, other = cd.Accumulator(["ece"], pos_label="owl"), cd.Accumulator(["ece"], pos_label="owl")
    for start in range(0, N, rows):
        one = accumulator if start < N // 2 else other
        one.update(NAMES.y[start : start + rows], SCORES[start : start + rows])
    with pytest.warns(UserWarning, match="count as negative: 'auk', 'emu', 'tit'"):
        result = accumulator.merge(other).result()
    assert result.attrs["negative_labels"] == "'auk', 'emu', 'tit'"


def test_a_state_of_arrays_cannot_hold_them() -> None:
    """So that it is said when the state is made, also by a process without rows of the positive class."""
    accumulator = cd.Accumulator(["ece"], pos_label="owl")
    accumulator.update(NAMES.y[NAMES.y != "owl"], SCORES[NAMES.y != "owl"])
    with pytest.warns(UserWarning, match="count as negative: 'auk', 'emu', 'tit'"):
        accumulator.state_dict()


def test_blocks() -> None:
    blocks = [(NAMES.y[start : start + 1].to_numpy(), SCORES[start : start + 1]) for start in range(N)]
    with pytest.warns(UserWarning, match="count as negative: 'auk', 'emu', 'tit'"):
        cd.evaluate(blocks, metrics="ece", pos_label="owl")


COMMANDS = {
    "evaluate": "evaluate DATA",
    "panel of tests": "evaluate DATA --panel tests",
    "models": "evaluate DATA --score a=p --score b=p",
    "compare": "compare DATA --score a=p --score b=p --n-boot 20",
    "check": "check DATA --limit ece=0.9 --n-boot 20",
    "receipt": "evaluate DATA --receipt OUT.json",
    "report": "report DATA --n-boot 20 --out OUT.html",
    "summarize": "summarize DATA --out OUT.zarr",
    "audit": "audit DATA --features g",
    "calibrate": "calibrate DATA --method platt --out OUT.json",
    "calibrators": "calibrate DATA --compare",
    "threshold": "threshold DATA --risk 0.6",
}


def words_of(command: str, path: Any, folder: Path) -> list[str]:
    named = f"{path} --label y" + " --score p" * ("--score" not in command)
    return command.replace("DATA", named).replace("OUT", str(folder / "out")).split()


@pytest.mark.filterwarnings("default:Several labels:UserWarning")
@pytest.mark.parametrize(("container", "command"), rotated(FILES, COMMANDS, 4))
def test_commands(container: str, command: str, run: Run, tmp_path: Path) -> None:
    frame, said, expected = OPTIONS["rare"]
    path = given(frame, container, tmp_path)["y_true"]
    status, _, err = run(*words_of(COMMANDS[command], path, tmp_path), "--pos-label", said["pos_label"])
    assert status in (0, 1, 3), err
    assert err.count(f"calibdask: Several labels besides the positive one count as negative: {expected}. ") == 1


@pytest.mark.parametrize("said", [{"pos_label": "1"}, {}], ids=["positive label", "no option"])
@pytest.mark.parametrize("container", sorted({*CONTAINERS, STREAM} - {"list of mappings"}))
def test_stray_texts_are_shown_by_row_and_value(container: str, said: Call, tmp_path: Path) -> None:
    expected = r"2 of 600 labels are other texts; the first is row 433, '\?'\."
    with pytest.raises(ValueError, match=expected):
        cd.evaluate(**given(STRAY, container, tmp_path), **said, metrics="ece")


@pytest.mark.parametrize("container", [*CONTAINERS, STREAM])
def test_rows_that_are_left_out_count_for_the_number_of_a_stray_text(container: str, tmp_path: Path) -> None:
    frame = STRAY.assign(p=np.where(np.arange(N) % 50 == 3, np.nan, STRAY.p))
    with pytest.raises(ValueError, match=r"the first is row 433, '\?'\."):
        cd.evaluate(**given(frame, container, tmp_path), metrics="ece", pos_label="1", skip_missing=True)

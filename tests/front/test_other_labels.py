"""A notice lists the labels that count as negative, and a text among numbers is refused by row and value: the same from
every container, for every function and command."""

import datetime
import inspect
import re
import warnings
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr

import calibdask as cd
from calibdask.engine.row_notes import EXCLUDED_ROWS, OtherLabels, RowNotes
from tests.cli.sample_rows import Run
from tests.combinations import pairwise, rotated
from tests.front.row_containers import CONTAINERS, STATES, Call, columns
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
STREAM, BLOCKS = "stream", "blocks"
FILES = ("csv", "jsonl", "parquet", "feather")
EVERYWHERE = (*CONTAINERS, STREAM, BLOCKS)


def given(frame: pd.DataFrame, container: str, folder: Path) -> Call:
    """Also streams that are read again, and blocks."""
    if container == BLOCKS:
        parts = [frame.iloc[start : start + 100] for start in range(0, N, 100)]
        return {"y_true": [(part.y.to_numpy(), part.p.to_numpy()) for part in parts]}
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


# Two functions for each container, and one of four options for each pair in turn.
PAIRS = [
    (container, function)
    for container, function in rotated([*CONTAINERS, STREAM], FUNCTIONS, 1)
    # These need columns of all rows.
    if container != STREAM or function not in ("compare", "audit")
]
WITH_OPTIONS = [(option, *pair) for option, pair in zip(cycle(OPTIONS), PAIRS, strict=False)]


@pytest.mark.parametrize(("option", "container", "function"), WITH_OPTIONS)
def test_labels_that_count_as_negative(option: str, container: str, function: str, tmp_path: Path) -> None:

    frame, said, expected = OPTIONS[option]
    found = notices(function, {**given(frame, container, tmp_path), **said})
    (text,) = (text for text in found if "count as negative" in text)
    assert f"count as negative: {expected}." in text


ROWS: Call = {"y_true": FRAME.assign(y=NAMES.y, day=np.arange(N) % 2), "label": "y", "score": "p", "pos_label": "owl"}
# Each call of a public function that takes rows, summaries or states; `test_every_entry_point_is_called` names others.
LIMITS: Call = {"limits": {"ece": 0.9}, "n_boot": 20}
OF_ROWS: dict[str, Call] = {
    "evaluate": {},
    "summarize": {"settings": ["binary"]},
    "audit": {"features": ["g"]},
    "check": {**LIMITS, "by": "g", "slice_limits": {"mean-gap": 0.9}},
    "receipt": {**LIMITS, "by": "g"},
    "compare_calibrators": {},
    "threshold": {"risk": 0.6},
    "fingerprint": {},
}
OF_SUMMARIES: dict[str, Callable[[xr.Dataset, Path], Any]] = {
    "evaluate": lambda summary, folder: cd.evaluate(summary, ci=0.9),
    "evaluate for a population": lambda summary, folder: cd.evaluate(summary, population=cd.Population(prevalence=0.1)),
    "check": lambda summary, folder: cd.check(summary, **OF_ROWS["check"]),
    "threshold": lambda summary, folder: cd.threshold(summary, risk=0.6, setting="binary"),
    "watch": lambda summary, folder: cd.watch(summary, "day"),
    "attribute": lambda summary, folder: cd.attribute(summary, [0], [1], period="day"),
    "merge": lambda summary, folder: cd.merge(summary, summary, summary),
    "append": lambda summary, folder: cd.append(summary, folder / "store.zarr", {"date": "2026-11-02"}),
    "audit": lambda summary, folder: cd.audit(summary),
    "fit": lambda summary, folder: cd.PlattScaling().fit(summary),
    "fit by slice": lambda summary, folder: cd.IsotonicCalibration().fit(summary, by="g"),
}


def number_of_notices(call: Callable[[], Any]) -> int:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return sum("count as negative" in str(warning.message) for warning in caught)


def test_every_entry_point_is_called() -> None:
    by_name = {name: getattr(cd, name) for name in dir(cd)}
    functions = {name: one for name, one in by_name.items() if inspect.isfunction(one)}
    takes = {
        name
        for name, one in functions.items()
        if {"y_true", "summary", "summaries"} & {*inspect.signature(one).parameters}
    }
    shorthands = {name for name, one in functions.items() if one.__module__.endswith("shorthands")}
    assert takes - shorthands - {*OF_ROWS} - {*OF_SUMMARIES} <= {"compare", "verify"}


@pytest.mark.parametrize("function", OF_ROWS)
def test_one_notice_of_rows(function: str) -> None:
    assert number_of_notices(lambda: getattr(cd, function)(**ROWS, **OF_ROWS[function])) == 1


@pytest.mark.parametrize("function", OF_SUMMARIES)
def test_one_notice_of_summaries(function: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        choice: Call = {"features": ["g"]} if function == "audit" else {"by": ["g", "day"], "settings": ["binary"]}
        summary = cd.summarize(**ROWS, **choice)
    assert number_of_notices(lambda: OF_SUMMARIES[function](summary, tmp_path)) == 1


def test_one_notice_of_stores_that_are_merged(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dates = np.array(["2026-01-01", "2026-01-02", "2026-02-01", "2026-02-02", "2026-03-01"])
        days = cd.summarize(**ROWS | {"y_true": ROWS["y_true"].assign(day=dates[np.arange(N) % 5])}, by=["day"])
        cd.append(days, tmp_path / "store.zarr")
    assert number_of_notices(lambda: cd.expire(tmp_path / "store.zarr", 0)) == 1


@pytest.mark.parametrize("rows", [1, 7, N])
def test_accumulator(rows: int) -> None:
    accumulator, other = cd.Accumulator(["ece"], pos_label="owl"), cd.Accumulator(["ece"], pos_label="owl")
    for start in range(0, N, rows):
        one = accumulator if start < N // 2 else other
        one.update(NAMES.y[start : start + rows], SCORES[start : start + rows])
    with pytest.warns(UserWarning, match="count as negative: 'auk', 'emu', 'tit'"):
        result = accumulator.merge(other).result()
    assert result.attrs["negative_labels"] == "'auk', 'emu', 'tit'"


# The first half has other negative labels than the second; both lack some values.
HALF = N // 2
PARTS = FRAME.assign(
    y=np.where(FRAME.y, "yes", np.where(np.arange(N) < HALF, "no", "unknown")).astype(object),
    g=FRAME.g.mask(np.arange(N) % 17 == 4, None),
).drop(columns=["w", "c"], errors="ignore")
PARTS = PARTS.assign(y=PARTS.y.mask(np.arange(N) % 29 == 3, None), p=PARTS.p.mask(np.arange(N) % 31 == 5))
BOTH: Call = {"pos_label": "yes", "skip_missing": True}
NOTED = ("negative_labels", *EXCLUDED_ROWS)


def noted(attributes: Any) -> Call:
    return {name: attributes[name] for name in NOTED if name in attributes}


OF_ARRAYS = ("accumulators", "sum of states")
OF_STATES = [
    *zip(cycle(["numpy", "dask", "series"]), STATES, strict=False),
    *((name, state) for name, state in rotated(["parquet", "frame of dask"], STATES, 4) if state not in OF_ARRAYS),
]


@pytest.mark.filterwarnings("default:Several labels:UserWarning")
@pytest.mark.parametrize(("container", "state"), OF_STATES)
def test_states_say_the_same_as_one_pass(container: str, state: str, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("whole", "first", "second")]
    for folder in folders:
        folder.mkdir()
    frames = PARTS, PARTS.iloc[:HALF].reset_index(drop=True), PARTS.iloc[HALF:].reset_index(drop=True)
    whole, *halves = (given(frame, container, folder) for frame, folder in zip(frames, folders, strict=True))
    expected = noted(cd.evaluate(**whole, **BOTH, metrics="ece").attrs)
    assert expected["negative_labels"] == "'no', 'unknown'"

    states = STATES[state](*halves, BOTH, tmp_path)
    with pytest.warns(UserWarning, match="count as negative: 'no', 'unknown'"):
        found = cd.evaluate(states, metrics="ece").attrs
    # Without slices there is nobody without one.
    without = {"missing_slices": 0} if state in (*OF_ARRAYS, "concatenated") else {}
    assert noted(found) == expected | without


def stored(frame: pd.DataFrame, **options: Any) -> xr.Dataset:
    return cd.summarize(frame, label="y", score="p", by=["g"], settings=["binary"], **options)


def test_notes_of_summaries_that_are_selected_or_of_earlier_versions() -> None:
    rows = PARTS.assign(y=PARTS.y.replace({"unknown": "no"}))
    one, other = stored(rows, **BOTH), stored(rows.assign(y=rows.y.replace({"no": "unknown"})), **BOTH)
    counts = noted(one.attrs)
    assert noted(cd.evaluate(one, metrics="ece").attrs) == counts
    # Of a part of the rows the counts are not known.
    assert noted(cd.evaluate(one.isel(g=[0]), metrics="ece").attrs) == {}
    earlier = one.drop_vars("row_notes")
    earlier.attrs.clear()
    assert noted(cd.evaluate(earlier, metrics="ece").attrs) == {}
    assert noted(cd.merge(earlier, one).attrs) == {}
    with pytest.warns(UserWarning, match="summarize the rows again and leave its rows out by ignore_label"):
        assert noted(cd.merge(earlier, one, other).attrs) == {"negative_labels": "'no', 'unknown'"}
    damaged = one.assign_coords(row_notes=((), "{"))
    assert noted(cd.evaluate(damaged, metrics="ece").attrs) == {}


@pytest.mark.filterwarnings("default:Several labels:UserWarning")
def test_sums_by_xarray_keep_notes_or_are_refused() -> None:
    one, other = (stored(rows.assign(g="a"), **BOTH) for rows in (PARTS, PARTS[: HALF + 9]))
    apart = [xr.concat([one, two], "part") for two in (one, other)]
    for twice in (one + one, apart[0], apart[0].sum("part")):
        assert noted(cd.evaluate(twice, metrics="ece").attrs) == noted(cd.merge(one, one).attrs)
    assert noted(cd.evaluate(apart[1], metrics="ece").attrs) == noted(cd.merge(one, other).attrs)
    for lost in (one + other, apart[1].sum("part")):
        with pytest.raises(ValueError, match=r"lost the numbers of rows that were left out .* by calibdask.merge"):
            cd.evaluate(lost, metrics="ece")
    # Where nothing was left out, sums have what they need.
    whole, part = (stored(rows.assign(y="yes", p=0.5, g="a"), **BOTH) for rows in (FRAME, FRAME.iloc[:HALF]))
    assert noted(cd.evaluate(whole + part, metrics="ece").attrs) == noted(cd.merge(whole, part).attrs) != {}


@pytest.mark.filterwarnings("default:Several labels:UserWarning")
@pytest.mark.parametrize("into", [["month"], ["month", "year"]])
def test_counts_of_joint_periods_outlive_merging_some_of_them(into: list[str], tmp_path: Path) -> None:
    dates = np.array(["2026-08-01", "2026-08-02", "2026-09-02", "2027-02-03"])
    together = cd.summarize(
        PARTS.assign(day=dates[np.arange(N) % 4]), label="y", score="p", by=["day"], settings=["binary"], **BOTH
    )
    alone = cd.summarize(PARTS[:99], label="y", score="p", settings=["binary"], **BOTH)
    plain = cd.summarize(FRAME[:50], label="y", score="p", settings=["binary"])
    store = tmp_path / "store.zarr"
    cd.append(together, store)
    cd.append(alone, store, {"day": "2026-08-03"})
    cd.append(plain, store, {"day": "2026-08-04"})
    found = [noted(cd.evaluate(store, metrics="ece").attrs)]
    for length in into:
        assert cd.expire(store, 0, length)
        found.append(noted(cd.evaluate(store, metrics="ece").attrs))
    counts = ("rows_skipped", "missing_labels", "missing_scores")
    expected = {name: together.attrs[name] + alone.attrs[name] for name in counts}
    assert [{name: one[name] for name in counts} for one in found] == [expected] * len(found)
    # Of a part of those that were added together the counts are not known.
    cd.drop_periods(store, ["2027-02-03"], "wrong rows")
    assert "rows_skipped" not in cd.evaluate(store, metrics="ece").attrs
    assert "rows_skipped" not in cd.open_summary(store).attrs


@pytest.mark.filterwarnings("default:Several labels:UserWarning")
def test_periods_that_were_added_together_share_their_counts(tmp_path: Path) -> None:
    days = PARTS.assign(day=np.where(np.arange(N) < HALF, "2026-01-01", "2026-01-02"))
    expected = noted(cd.evaluate(days, label="y", score="p", by=["g"], metrics="ece", **BOTH).attrs)
    store = tmp_path / "store.zarr"
    summary = cd.summarize(days, label="y", score="p", by=["g", "day"], settings=["binary"], **BOTH)
    cd.append(summary, store)
    assert noted(cd.evaluate(store, metrics="ece").attrs) == expected
    assert noted(cd.open_summary(store).attrs) == expected
    later = stored(PARTS.assign(y=PARTS.y.mask(PARTS.y == "unknown", "no"), p=0.5), **BOTH)
    cd.append(later, store, {"day": "2026-03-01"})
    assert [*cd.expire(store, 0)] == ["2026-01"]
    attributes = cd.evaluate(store, metrics="ece").attrs
    names = [name for name in expected if name != "negative_labels"]
    assert {name: attributes[name] for name in names} == {name: expected[name] + later.attrs[name] for name in names}
    cd.append(summary, tmp_path / "other.zarr")
    cd.drop_periods(tmp_path / "other.zarr", ["2026-01-02"], "wrong rows")
    assert "rows_skipped" not in cd.evaluate(tmp_path / "other.zarr", metrics="ece").attrs


@pytest.mark.filterwarnings("ignore:Several labels:UserWarning")
@pytest.mark.parametrize("positive", ["auk", "tit"])
def test_any_chunk_may_lack_the_positive_class(positive: str) -> None:
    ordered = np.sort(NAMES.y.to_numpy(str))
    found = cd.ece(da.from_array(ordered, chunks=50), SCORES, pos_label=positive)
    assert found == cd.ece(ordered == positive, SCORES)


def test_labels_of_many_processes() -> None:
    """Arrays add up to the labels of all, whatever their length; of too many, that there are more."""
    names = ["a", "b" * 100, "b" * 99 + "c", "10", "2", "'\u00e9t\u00e9'"]
    notes = [RowNotes({"rows_skipped": 1}, OtherLabels.of_texts(names[start : start + 3])) for start in range(6)]
    arrays = [one.to_arrays() for one in notes for _ in range(300)]
    added = RowNotes.from_arrays({name: sum(one[name] for one in arrays) for name in arrays[0]}, "yes")
    assert added.excluded == {"rows_skipped": 1800}
    assert len(added.others.negative) == 6
    assert added.others.negative[:4] == ("2", "10", "'\u00e9t\u00e9'", "a")
    many = [RowNotes(others=OtherLabels.of_texts([f"label {number}"])).to_arrays() for number in range(500)]
    assert "..." in RowNotes.from_arrays({name: sum(one[name] for one in many) for name in many[0]}, 1).others.negative


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
@pytest.mark.parametrize(("container", "command"), [*zip(cycle(FILES), COMMANDS, strict=False)])
def test_commands(container: str, command: str, run: Run, tmp_path: Path) -> None:
    frame, said, expected = OPTIONS["rare"]
    path = given(frame, container, tmp_path)["y_true"]
    status, _, err = run(*words_of(COMMANDS[command], path, tmp_path), "--pos-label", said["pos_label"])
    assert status in (0, 1, 3), err
    assert err.count(f"calibdask: Several labels besides the positive one count as negative: {expected}. ") == 1


COMMANDS_OF_SUMMARIES = (
    "evaluate STORE --ci 0.9 --metric ece",
    "check STORE --limit ece=0.9 --by g --slice-limit ece=0.9",
    "watch STORE --period day",
    "attribute STORE --period day --before 2026-01-01 --after 2026-02-01",
    "report STORE --out OUT.html",
    "merge STORE --out OUT.zarr",
    "calibrate STORE --method platt --out OUT.json",
    "threshold STORE --risk 0.6",
    "summarize --append STORE --expire 1d",
    "summarize DATA --by g --period day --append OUT.zarr --expire 1d",
)


@pytest.mark.filterwarnings("default:Several labels:UserWarning")
@pytest.mark.parametrize("command", COMMANDS_OF_SUMMARIES)
def test_commands_of_summaries_warn_once(command: str, run: Run, tmp_path: Path) -> None:
    data, store = tmp_path / "rows.parquet", tmp_path / "store.zarr"
    NAMES.assign(day=np.where(np.arange(N) < HALF, "2026-01-01", "2026-02-01")).to_parquet(data)
    rows = f"{data} --label y --score p --pos-label owl"
    run(*f"summarize {rows} --by g --period day --append {store}".split())
    words = command.replace("DATA", rows).replace("STORE", str(store)).replace("OUT", str(tmp_path / "out"))
    status, _, err = run(*words.split())
    assert (status in (0, 1, 3), err.count("count as negative: 'auk', 'emu', 'tit'. ")) == (True, 1), err


@pytest.mark.parametrize(("container", "said"), [*zip(EVERYWHERE, cycle([{"pos_label": "1"}, {}]), strict=False)])
def test_stray_texts_are_shown_by_row_and_value(container: str, said: Call, tmp_path: Path) -> None:
    expected = r"2 of 600 labels are other texts; the first is row 433, '\?'\."
    with pytest.raises(ValueError, match=expected):
        cd.evaluate(**given(STRAY, container, tmp_path), **said, metrics="ece")


# Of two rows with labels that are no class, the first one.
WRONG = np.isin(np.arange(N), [433, 500])
YES_OR_NO = pd.Series(np.where(FRAME.y, "yes", "no").astype(object))
NO_CLASS: dict[str, tuple[Any, Call, str]] = {
    "unknown": (
        YES_OR_NO.mask(WRONG, pd.Series(["?"] * 500 + ["!"] * (N - 500))),
        {"labels": ["no", "yes"]},
        r"expects classes among \['no', 'yes'\], got '\?' in row 433, the first of 2 of 600 labels that are none",
    ),
    "missing": (YES_OR_NO.mask(WRONG, None), {"labels": ["no", "yes"]}, "2 of 600 lack one; the first is row 433"),
    "missing, with a positive label": (
        YES_OR_NO.mask(WRONG, None),
        {"pos_label": "yes"},
        "2 of 600 lack one; the first is row 433",
    ),
}


@pytest.mark.parametrize(("container", "kind"), [*zip(EVERYWHERE, cycle(NO_CLASS), strict=False)])
def test_labels_that_are_no_class(kind: str, container: str, tmp_path: Path) -> None:
    labels, said, expected = NO_CLASS[kind]
    with pytest.raises(ValueError, match=expected):
        cd.evaluate(**given(FRAME.assign(y=labels), container, tmp_path), **said, metrics="ece")


@pytest.mark.parametrize(("container", "missing"), [*zip(EVERYWHERE, cycle([0, 434, 433]), strict=False)])
def test_missing_and_unknown_labels_are_counted_apart(missing: int, container: str, tmp_path: Path) -> None:
    """However many there are: the first row is named with its value."""
    unknown = pd.Series([f"x{number * 7919 % N:03d}" for number in range(N)], dtype=object)
    labels = unknown.mask(np.arange(N) < 433, YES_OR_NO).mask(np.arange(N) == missing, None)
    call = given(FRAME.assign(y=labels), container, tmp_path)
    count = N - 433 - (missing >= 433)
    expected = (
        rf"got {labels[433]!r} in row 433, the first of {count} of {N} labels that are none of them.*1 more row is inv"
        if missing == 434
        else rf"1 of {N} lacks one; the first is row {missing}\..* {count} more rows are invalid in other ways"
    )
    with pytest.raises(ValueError, match=expected):
        cd.evaluate(**call, labels=["no", "yes"], metrics="ece")


@pytest.mark.parametrize("chunks", [300, 2_000, 10_000])
def test_the_first_of_very_many_unknown_labels_is_named(chunks: int) -> None:
    labels = np.array([f"x{number * 7919 % 10_000}" for number in range(10_000)], object)
    labels[:77] = "no"
    for given_labels in (labels, da.from_array(labels, chunks)):
        with pytest.raises(ValueError, match=rf"got {labels[77]!r} in row 77, the first of 9923 of 10000 labels"):
            cd.evaluate(given_labels, np.linspace(0, 1, 10_000), metrics="ece", labels=["no", "yes"])


# Of values that are no numbers, in a container that holds objects, the first one.
OBJECTS = {"date": datetime.date(2026, 11, 2), "text": "high", "bytes": b"0.5"}
OF_OBJECTS = ("list", "numpy", "dask", "pandas", "dask frame", "xarray", "blocks")


# NumPy and Dask make texts of these columns.
TEXTS_THERE = (("date", "dask frame"), ("bytes", "list"), ("bytes", "dask frame"))


@pytest.mark.parametrize(
    ("kind", "container", "role"),
    [one for one in pairwise(OBJECTS, OF_OBJECTS, ["y_prob", "sample_weight"]) if one[:2] not in TEXTS_THERE],
)
def test_objects_among_scores_are_named_by_the_row_of_all(kind: str, container: str, role: str) -> None:

    values = np.array(FRAME.p, object)
    for row in (433, 500):
        values[row] = OBJECTS[kind]
    arrays = {"y_true": FRAME.y.to_numpy(), "y_prob": FRAME.p.to_numpy(), role: values}
    if container == "list":
        arrays = {name: list(array) for name, array in arrays.items()}
    elif container == "dask":
        arrays = {name: da.from_array(array, 100) for name, array in arrays.items()}
    elif container == "xarray":
        arrays = {name: xr.DataArray(array, dims="sample") for name, array in arrays.items()}
    elif container == "pandas":
        arrays = {name: pd.Series(array) for name, array in arrays.items()}
    elif container == "dask frame":
        frame = dd.from_pandas(pd.DataFrame(arrays), npartitions=6, sort=False)
        arrays = {name: frame[name] for name in arrays}
    elif container == "blocks":
        starts = range(0, N, 100)
        arrays = {"y_true": [tuple(array[at : at + 100] for array in arrays.values()) for at in starts]}
    with pytest.raises(ValueError, match=rf"expects numbers, got {re.escape(repr(OBJECTS[kind]))}, .* in row 433;"):
        cd.evaluate(**arrays, metrics="ece")


# A column of texts, of which one, or none, is not that of a number.
TEXTS = {
    "one is no number": (FRAME.p.astype(str).astype(object).mask(WRONG, "low"), "low", 433),
    "all are numbers": (FRAME.p.astype(str).astype(object), str(FRAME.p[0]), 0),
}


@pytest.mark.parametrize(
    ("container", "kind"), [*zip(EVERYWHERE, cycle(TEXTS), strict=False), ("csv", "one is no number")]
)
def test_texts_among_scores(kind: str, container: str, tmp_path: Path) -> None:
    scores, value, row = TEXTS[kind]
    call = given(FRAME.assign(p=scores), container, tmp_path)
    if container.startswith("csv") and kind == "all are numbers":
        assert cd.evaluate(**call, metrics="ece").rows.sum() == N
        return
    # A CSV says it as pyarrow does.
    with pytest.raises(ValueError, match=f"(got '{value}', of type str, in|expects numbers,) row {row}[;:]"):
        cd.evaluate(**call, metrics="ece")


@pytest.mark.parametrize("container", ["numpy", "dask", "frame", "nullable frame of dask", "csv", STREAM])
def test_rows_that_are_left_out_count_for_the_number_of_a_stray_text(container: str, tmp_path: Path) -> None:
    frame = STRAY.assign(p=np.where(np.arange(N) % 50 == 3, np.nan, STRAY.p))
    with pytest.raises(ValueError, match=r"the first is row 433, '\?'\."):
        cd.evaluate(**given(frame, container, tmp_path), metrics="ece", pos_label="1", skip_missing=True)

"""Rows with missing values are left out in the same way from every container, by every function that reads rows."""

from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

import calibdask as cd
from calibdask.analyses.gating.gate import plain
from tests.combinations import rotated
from tests.front import row_containers

STREAM = "stream"
N = 600
RNG = np.random.default_rng(7)
SCORES = RNG.random(N)
LABELS = (RNG.random(N) < SCORES**1.3).astype(float)
SLICES = RNG.choice(["de", "fr", "se"], N)
NO_LABEL, NO_SCORE = np.arange(N) % 13 == 0, np.arange(N) % 29 == 3
# A value that only rows have which are left out makes no slice.
SLICES[NO_LABEL & (np.arange(N) < 20)] = "xx"
KEEP = ~(NO_LABEL | NO_SCORE)
FRAME = pd.DataFrame(
    {"y": np.where(NO_LABEL, np.nan, LABELS), "p": np.where(NO_SCORE, np.nan, SCORES), "g": SLICES.astype(object)}
)
INTEGERS = FRAME.assign(y=FRAME.y.astype("Int64"))
TABLE = pa.Table.from_pandas(INTEGERS, preserve_index=False)

Call = dict[str, Any]


def columns(frame: Any) -> Call:
    return {"y_true": frame, "label": "y", "score": "p", "by": ["g"]}


def arrays(convert: Callable[[np.ndarray], Any], slices: Any = SLICES) -> Call:
    return {"y_true": convert(FRAME.y.to_numpy()), "y_prob": convert(FRAME.p.to_numpy()), "by": {"g": slices}}


def lazy(array: np.ndarray) -> Any:
    return da.from_array(array, chunks=170)


# Read batch by batch: what needs all rows at once is refused.
STREAMS: dict[str, Callable[[], Call]] = {
    "lazy frame": lambda: columns(pl.from_arrow(TABLE).lazy()),  # type: ignore[union-attr]
    "function of readers": lambda: columns(lambda: TABLE.to_reader(max_chunksize=100)),
}
PLAIN: Call = {"y_true": LABELS[KEEP].astype(int), "y_prob": SCORES[KEEP], "by": {"g": SLICES[KEEP]}}


def without_slices(call: Call) -> Call:
    return {name: value for name, value in call.items() if name != "by"}


def numbers(result: xr.Dataset) -> dict[str, str]:
    """All numbers with all digits; NaN equals NaN."""
    variables = {**result.data_vars, **result.coords}
    return {str(name): repr(values.values.tolist()) for name, values in variables.items()}


def compared(call: Call, *, attributes: bool = False) -> dict[str, Any]:
    """The model against itself, as a frame has a column for each."""
    if "label" not in call:
        models = {"own": call["y_prob"], "other": call["y_prob"]}
        by, skip = call["by"], call.get("skip_missing", False)
        result = cd.compare(call["y_true"], models, metrics=cd.BrierScore(), by=by, n_boot=20, skip_missing=skip)
    else:
        rest = {name: value for name, value in call.items() if name not in ("y_true", "score")}
        result = cd.compare(call["y_true"], {"own": "p", "other": "p"}, metrics=cd.BrierScore(), n_boot=20, **rest)
    return result.attrs if attributes else numbers(result)


FUNCTIONS: dict[str, Callable[[Call], Any]] = {
    "evaluate": lambda call: numbers(cd.evaluate(**call, metrics=[cd.ECE(), cd.ECE(binning="equal-mass")], ci=0.9)),
    "summarize": lambda call: numbers(cd.summarize(**call, settings=["binary"]).drop_vars("row_notes")),
    "check": lambda call: [str(one) for one in cd.check(**call, limits={"ece": 0.5}).judgements],
    "threshold": lambda call: numbers(cd.threshold(**call, risk=0.4)),
    "fingerprint": lambda call: cd.fingerprint(**call),
    "receipt": lambda call: cd.receipt(**call, metrics="ece")["numbers"],
    "compare": compared,
    "compare_calibrators": lambda call: numbers(
        cd.compare_calibrators(**without_slices(call), calibrators=[cd.PlattScaling()])
    ),
    "fit": lambda call: cd.PlattScaling().fit(**call, min_rows=1).coef_.tolist(),
    "ece": lambda call: cd.ece(**without_slices(call)),
}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return {name: function(dict(PLAIN)) for name, function in FUNCTIONS.items()}


@pytest.mark.parametrize(
    ("container", "function"), [*zip(cycle(STREAMS), sorted({*FUNCTIONS} - {"compare"}), strict=False)]
)
def test_streams(container: str, function: str, expected: dict[str, Any]) -> None:
    call = {**STREAMS[container](), "skip_missing": True}
    assert FUNCTIONS[function](call) == expected[function]


# Rows without a slice stay, and are counted: those of them that are kept.
NO_SLICE = np.arange(N) % 17 == 4
COUNTS = {
    "rows_skipped": int((~KEEP).sum()),
    "missing_labels": int(NO_LABEL.sum()),
    "missing_scores": int(NO_SCORE.sum()),
    "missing_weights": 0,
    "missing_slices": int((NO_SLICE & KEEP).sum()),
}
ALL_COUNTS: dict[str, Callable[[Call], dict[str, Any]]] = {
    "evaluate": lambda call: cd.evaluate(**call, metrics=cd.ECE()).attrs,
    "summarize": lambda call: cd.summarize(**call, settings=["binary"]).attrs,
    "check": lambda call: cd.check(**call, limits={"ece": 0.5}).result.attrs,
    "check as JSON": lambda call: plain(cd.check(**call, limits={"ece": 0.5})),
    "receipt": lambda call: cd.receipt(**call, metrics="ece")["excluded"],
    "fit": lambda call: cd.PlattScaling().fit(**call, min_rows=1).excluded_,
    "fitted map": lambda call: cd.PlattScaling().fit(**call, min_rows=1).to_dict()["excluded"],
    "threshold": lambda call: cd.threshold(**call, risk=0.4).attrs,
    "shrink_slices": lambda call: cd.shrink_slices(call.pop("y_true"), **call).attrs,
    "compare": lambda call: compared(call, attributes=True),
    "compare_calibrators": lambda call: {
        **cd.compare_calibrators(**without_slices(call), calibrators=[cd.PlattScaling()]).attrs,
        "missing_slices": COUNTS["missing_slices"],
    },
    "audit": lambda call: {
        **cd.audit(**without_slices(call), features=call["by"]).attrs,
        "missing_slices": COUNTS["missing_slices"],
    },
}


def without_some_slices(container: str, folder: Path) -> Call:
    frame = FRAME.assign(g=FRAME.g.mask(NO_SLICE, None))
    if container == STREAM:
        return columns(lambda: pa.Table.from_pandas(frame).to_reader(max_chunksize=100))
    return row_containers.CONTAINERS[container](frame, folder)


@pytest.mark.parametrize(
    ("container", "function"),
    [*rotated(row_containers.CONTAINERS, ALL_COUNTS, 1), (STREAM, "evaluate"), (STREAM, "receipt")],
)
def test_every_function_counts_by_variable(container: str, function: str, tmp_path: Path) -> None:

    found = ALL_COUNTS[function]({**without_some_slices(container, tmp_path), "skip_missing": True})
    assert {name: found[name] for name in COUNTS} == COUNTS


@pytest.mark.parametrize("container", ["numpy", "dask", "frame", "parquet"])
def test_otherwise_they_are_refused(container: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"leave them out by skip_missing=True"):
        cd.evaluate(**without_some_slices(container, tmp_path), metrics=cd.ECE())


@pytest.mark.parametrize(
    "container", ["nullable booleans", "nullable booleans of dask", "parquet of booleans", "csv of integers"]
)
def test_types_with_missing_values(container: str, tmp_path: Path, expected: dict[str, Any]) -> None:
    booleans, path = FRAME.assign(y=FRAME.y.astype("boolean")), tmp_path / "rows"
    if container == "csv of integers":
        INTEGERS.to_csv(path := path.with_suffix(".csv"), index=False)
    else:
        booleans.to_parquet(path := path.with_suffix(".parquet"), index=False, row_group_size=90)
    given: Any = {
        "nullable booleans": booleans,
        # Partitions without missing values have the type of the others.
        "nullable booleans of dask": dd.from_pandas(booleans, npartitions=60),
    }.get(container, str(path))
    call = columns(given)
    assert FUNCTIONS["evaluate"]({**call, "skip_missing": True}) == expected["evaluate"]


def test_several_models_are_measured_on_the_same_rows() -> None:
    scores = np.stack([SCORES, SCORES**2])
    scores[1, 5] = np.nan
    keep = ~NO_LABEL & (np.arange(N) != 5)
    labels = FRAME.y.to_numpy()
    result = cd.evaluate(labels, scores, cd.ECE(), task="binary", skip_missing=True)
    both = [cd.ece(LABELS[keep], row[keep]) for row in scores]
    assert result.ece.values.tolist() == both
    chunked = cd.evaluate(lazy(labels), da.from_array(scores, (1, 100)), cd.ECE(), task="binary", skip_missing=True)
    assert chunked.ece.values.tolist() == both
    named = cd.evaluate(
        FRAME.assign(p=scores[0], q=scores[1]),
        metrics=cd.ECE(),
        label="y",
        score={"a": "p", "b": "q"},
        skip_missing=True,
    )
    assert dict(zip(named.model.values.tolist(), named.ece.values.tolist(), strict=True)) == dict(
        zip("ab", both, strict=True)
    )


def test_pairs_and_ordered_statistics_count_the_rows_that_are_left() -> None:
    metrics = {"pairs": cd.SKCE(), "blocks": cd.SKCE(estimator="block", block=10)}
    plain = cd.evaluate(LABELS[KEEP], SCORES[KEEP], metrics)
    for convert in (np.asarray, lazy):
        call = arrays(convert)
        result = cd.evaluate(call["y_true"], call["y_prob"], metrics, skip_missing=True)
        assert numbers(result) == numbers(plain)


def test_grids() -> None:
    dims = ("y", "x")
    labels, scores = FRAME.y.to_numpy().reshape(20, 30), FRAME.p.to_numpy().reshape(20, 30)
    for chunks in (None, (7, 30), (20, 11)):
        cells = [array if chunks is None else da.from_array(array, chunks) for array in (labels, scores)]
        named = [xr.DataArray(array, dims=dims) for array in cells]
        found = cd.evaluate(*named, cd.ECE(), sample_dim=dims, skip_missing=True)
        assert found.ece.item() == cd.ece(LABELS[KEEP], SCORES[KEEP])


def test_accumulator() -> None:
    accumulator = cd.Accumulator([cd.ECE()], skip_missing=True)
    for start in range(0, N, 150):
        rows = FRAME.iloc[start : start + 150]
        accumulator.update(rows.y, rows.p)
    result = accumulator.result()
    assert result.ece.item() == cd.ece(LABELS[KEEP], SCORES[KEEP])
    assert {name: result.attrs[name] for name in COUNTS} == COUNTS | {"missing_slices": 0}


def test_rows_to_be_ignored_and_rows_with_missing_values_are_counted_apart() -> None:
    labels = FRAME.y.fillna(-1).to_numpy()
    result = cd.evaluate(labels, FRAME.p.to_numpy(), cd.ECE(), ignore_label=-1, skip_missing=True)
    assert result.ece.item() == cd.ece(LABELS[KEEP], SCORES[KEEP])
    assert (result.attrs["rows_ignored"], result.attrs["rows_skipped"]) == (
        NO_LABEL.sum(),
        (NO_SCORE & ~NO_LABEL).sum(),
    )


def test_no_row_is_left() -> None:
    with pytest.raises(ValueError, match=r"no rows are left of 2: 1 lack a label, 1 lack a score\."):
        cd.ece([np.nan, 1], [0.5, np.nan], skip_missing=True)


@pytest.mark.parametrize(
    ("container", "function"),
    [*zip(cycle(["numpy", "dask", "frame", "lazy frame"]), sorted({*FUNCTIONS} - {"compare"}), strict=False)],
)
def test_no_row_of_any_slice_is_left(function: str, container: str) -> None:
    """Also where the rows have slices, of which none is left then."""
    rows = {"y": np.full(60, np.nan), "p": np.linspace(0, 1, 60), "g": np.arange(60) % 3}
    kinds: dict[str, Callable[[], Call]] = {
        "numpy": lambda: {"y_true": rows["y"], "y_prob": rows["p"], "by": {"g": rows["g"]}},
        "dask": lambda: {"y_true": lazy(rows["y"]), "y_prob": lazy(rows["p"]), "by": {"g": lazy(rows["g"])}},
        "frame": lambda: columns(pd.DataFrame(rows)),
        "lazy frame": lambda: columns(pl.from_arrow(pa.table(rows)).lazy()),  # type: ignore[union-attr]
    }
    with pytest.raises(ValueError, match=r"no rows are left of 60: 60 lack a label\."):
        FUNCTIONS[function](kinds[container]() | {"skip_missing": True})


def test_rows_without_a_slice_are_not_counted_for_other_slices() -> None:
    """The count of a summary is that of all its columns of slices; of some of them it is not known."""
    rng = np.random.default_rng(4)
    scores = rng.random(300)
    labels = (rng.random(300) < scores).astype(int)
    first, second = (rng.choice(["a", "b"], 300).astype(object) for _ in range(2))
    first[:10], second[100:140] = None, None
    summary = cd.summarize(labels, scores, by={"first": first, "second": second}, skip_missing=True)
    assert cd.evaluate(summary, metrics="ece").attrs["missing_slices"] == 50
    for by in (["first"], ["second"], []):
        assert "missing_slices" not in cd.evaluate(summary, metrics="ece", by=by).attrs

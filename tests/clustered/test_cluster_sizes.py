"""Exponents 1 / m of the rows of clusters of m rows, from any container."""

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from calibdask.data.cluster_sizes import check_exponents, slice_numbers, with_exponents
from calibdask.data.data import Data
from calibdask.data.input import Input
from calibdask.data.options import InputOptions
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.cluster_sizes import ClusterExponents, ClusterSizes, ClusterSizesState
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.outcome_sums import OutcomeSums
from calibdask.statistics.settings import Setting
from tests.clustered.clustered_data import clustered_rows

ROWS = clustered_rows(clusters=25, size=12)
DAY = np.arange(ROWS.g.size) % 3
FRAME = pd.DataFrame({"label": ROWS.y, "score": ROWS.p, "patient": ROWS.g, "day": DAY, "sex": DAY % 2})


def with_cluster_exponents(read: Input, within: Sequence[str] = ()) -> Input:
    """The rows with the weight 1 / m, in two passes."""
    sizes = ClusterSizes(slice_numbers(read.by, within))
    (state,) = read.source.answer((sizes,))
    return with_exponents(read, ClusterExponents.of(state, sizes.within))


def sums(data: Data, within: Sequence[str] = ()) -> tuple[list[float], list[float], int]:
    """Sums of exponents, and of exponents times outcomes, by slice; and passes."""
    read = with_cluster_exponents(data.read(takes_groups=True), within)
    (state,) = read.source.answer((OutcomeSums(Setting("class", 1)),))
    weight, outcome = (exact.value(part)[0, :, 0].tolist() for part in (state.weight, state.outcome))
    return weight, outcome, read.source.passes


def expected(by: Sequence[str], *keys: str) -> tuple[Any, Any]:
    exponent = 1 / FRAME.groupby(["patient", *keys]).label.transform("size")
    slices = [FRAME[name] for name in by] or np.zeros(len(FRAME))
    return (pytest.approx(column.groupby(slices).sum().tolist()) for column in (exponent, exponent * FRAME.label))


@pytest.mark.parametrize(
    ("by", "within"),
    [((), ()), (("day",), ()), (("day",), ("day",)), (("sex", "day"), ("day",)), (("sex", "day"), ("day", "sex"))],
)
def test_exponents_of_a_cluster_add_up_to_one(by: tuple[str, ...], within: tuple[str, ...]) -> None:
    data = Data.of(FRAME, by=list(by) or None, options=InputOptions(label="label", score="score", groups="patient"))
    weight, outcome = expected(by, *within)
    if by == ("sex", "day"):
        # Days 0 and 2 have sex 0, day 1 has sex 1.
        found, events, passes = sums(data, within)
        filled = np.flatnonzero(found)
        assert ([found[i] for i in filled], [events[i] for i in filled], passes) == (weight, outcome, 2)
    else:
        assert sums(data, within) == (weight, outcome, 2)


def test_any_container_gives_the_same(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    FRAME.to_parquet(path)
    named = InputOptions(label="label", score="score", groups="patient")
    weight, outcome = expected(())
    chunked = [da.from_array(array, chunks=chunks) for array, chunks in ((ROWS.y, 40), (ROWS.p, 70))]
    for data in (
        Data.of(ROWS.y, ROWS.p, options=InputOptions(groups=ROWS.g)),
        Data.of(*chunked, options=InputOptions(groups=da.from_array(ROWS.g, chunks=13))),
        Data.of(FRAME.sample(frac=1.0, random_state=0), options=named),
        Data.of(dd.from_pandas(FRAME, npartitions=3), options=named),
        Data.of(path, options=named),
    ):
        assert sums(data) == (weight, outcome, 2)


def test_rows_that_are_left_out_are_not_counted() -> None:
    frame = FRAME.assign(label=FRAME.label.where(FRAME.index % 4 > 0))
    options = InputOptions(label="label", score="score", groups="patient", skip_missing=True)
    assert sums(Data.of(frame, options=options))[0] == [pytest.approx(frame.dropna().patient.nunique())]


def state_of(clusters: np.ndarray, most: int) -> ClusterSizesState:
    rows = clusters.size
    block = Block(Layout(), np.full((1, rows, 1), 0.5), np.zeros((1, rows)), clusters=clusters)
    return ClusterSizes(most=most).from_block(block)


def test_too_many_clusters_count_together_whatever_the_blocks() -> None:
    clusters = np.repeat(np.arange(500), np.resize([1, 2, 5], 500))
    exact_sizes = state_of(clusters, 500)
    assert exact_sizes.level == 0
    assert (np.sort(exact_sizes.rows) == np.sort(np.bincount(clusters))).all()
    whole = state_of(clusters, 100)
    assert 50 < whole.key.size <= 100
    assert whole.rows.sum() == clusters.size
    # With one bit more they would not fit.
    assert np.unique(exact_sizes.key >> (int(whole.level[0]) - 1)).size > 100
    order = np.random.default_rng(0).permutation(clusters.size)
    parts = [state_of(clusters[part], 100) for part in np.array_split(order, 7)]
    for some in (parts, parts[::-1]):
        for mine, theirs in zip(reduce(ClusterSizes(most=100).merge, some), whole, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    # The exponents are smaller than those of the clusters themselves.
    rows = clusters.size
    block = Block(Layout(), np.full((1, rows, 1), 0.5), np.zeros((1, rows)), clusters=clusters)
    weights = ClusterExponents.of(whole).block(block).weights_of(0)
    assert (weights <= 1 / np.bincount(clusters)[clusters]).all()
    assert weights.sum() == pytest.approx(whole.key.size)


def test_what_does_not_fit_is_refused() -> None:
    options = InputOptions(label="label", score="score", groups="patient")
    read = Data.of(FRAME, by=["day"], options=options).read(takes_groups=True)
    with pytest.raises(ValueError, match="within expects names of slices, day, got week"):
        with_cluster_exponents(read, ["week"])
    with pytest.raises(ValueError, match="pass groups"):
        with_cluster_exponents(Data.of(ROWS.y, ROWS.p).read())
    with pytest.raises(ValueError, match=r"audit expects either groups \(--groups\) or sample_weight"):
        check_exponents("audit", Layout(weighted=True, clustered=True))
    other = ClusterExponents(0, FrozenArray(np.array([3])), FrozenArray(np.array([1])))
    with pytest.raises(ValueError, match="changed between two passes"):
        other.block(Block(Layout(), np.full((1, 1, 1), 0.5), np.zeros((1, 1)), clusters=np.array([7])))

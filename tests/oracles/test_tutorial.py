"""The exact fractions of the ECML-PKDD tutorial's table of 30 rows, cut in every way into up to three chunks."""

from itertools import combinations_with_replacement, pairwise

import dask
import dask.array as da
import pytest

import calibdask as cd
from tests.oracles.tutorial import EXACT, LABELS, SCORES


def metric(measure: str, setting: object, closed: str) -> object:
    if measure == "brier":
        return cd.BrierScore()
    return (cd.MCE if measure == "mce" else cd.ECE)(bins=5, setting=setting, closed=closed)


METRICS = {f"{measure} {setting} {closed}": metric(measure, setting, closed) for measure, setting, closed in EXACT}
VALUES = {f"{measure} {setting} {closed}": float(v) for (measure, setting, closed), v in EXACT.items()}


def test_numpy() -> None:
    result = cd.evaluate(LABELS, SCORES, METRICS)
    assert {name: float(result[name]) for name in METRICS} == pytest.approx(VALUES, rel=0, abs=1e-12)


def test_dask_cut_in_every_way_into_two_chunks_and_many_into_three() -> None:
    """A fourth chunk merges with what three have made, which the laws of the statistics hold for any number."""
    expected = cd.evaluate(LABELS, SCORES, METRICS)
    with dask.config.set(scheduler="sync"):
        for points in combinations_with_replacement(range(31), 2):
            # Two chunks in every way, of three a fourth.
            if points[0] and points[1] < 30 and sum(points) % 4:
                continue
            cut = [0, *points, 30]
            sizes = tuple(b - a for a, b in pairwise(cut))
            lazy = cd.evaluate(
                da.from_array(LABELS, chunks=(sizes,)), da.from_array(SCORES, chunks=(sizes, 2)), METRICS
            )
            assert all(float(lazy[name]) == float(expected[name]) for name in METRICS), sizes

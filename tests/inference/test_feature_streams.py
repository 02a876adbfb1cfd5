"""Streams counted by value and cell are those that `calibdask.watch` reads from summaries by features."""

import numpy as np
import xarray as xr

import calibdask as cd
from tests.inference import feature_streams
from tests.inference.false_alarms import of_features

STREAMS, DAYS = 2, 6


def test_counted_streams_are_watched_summaries() -> None:
    rng = np.random.default_rng(5)
    days = [feature_streams.drawn(rng, STREAMS, 300, 0.2) for _ in range(DAYS)]
    told = feature_streams.watched(days, STREAMS)
    for stream in range(STREAMS):
        summaries = [feature_streams.summarized(rows, stream, cuts=feature_streams.history()) for rows in days]
        summary = xr.concat(summaries, xr.IndexVariable("day", np.arange(DAYS)))
        result = cd.watch(summary, features=True, alpha=feature_streams.ALPHA)
        last = result.isel(day=-1)
        np.testing.assert_array_equal(told.log_e[stream], last.log_e)
        np.testing.assert_array_equal(told.found[stream], last.found)
        np.testing.assert_array_equal(told.alarm[stream], last.alarm)
        ever = result.found.any("day").values
        np.testing.assert_array_equal(~np.isnan(told.first[stream]), ever)
        np.testing.assert_array_equal(told.first[stream][ever], result.found.argmax("day").values[ever] + 1)
        planted = feature_streams.slice_of(0, feature_streams.PLANTED)
        assert str(result.segment.values[planted]) == "x0 = c"
        assert ever[planted]
        np.testing.assert_array_equal(np.flatnonzero(result.rows.sum("day")), feature_streams.with_rows())


def test_streams_are_calibrated_and_features_depend_on_each_other() -> None:
    rows = feature_streams.drawn(np.random.default_rng(6), 1, 200_000)
    for values in rows.values:
        shares = np.bincount(values[0]) / values.size
        np.testing.assert_allclose(shares, feature_streams.SHARES, atol=0.005)
        residual = rows.label - rows.score
        for value in range(feature_streams.VALUES.size):
            here = residual[values == value]
            assert abs(here.mean()) < 4 * here.std() / np.sqrt(here.size)
    both = (rows.values[0] == rows.values[1]).mean()
    assert both > np.square(feature_streams.SHARES).sum() + 0.04


def test_tables_of_few_streams() -> None:
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in of_features(20, 25)]
    assert [line[:2] for line in lines if line and line[0].isdigit()] == [
        ["30", "20"],
        ["300", "20"],
        ["30", "2"],
        ["300", "2"],
    ]
    assert lines[-2][4] == "over 6"

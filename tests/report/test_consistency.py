"""Consistency bars in reports: which points they hold, and that they are not taken for intervals of the points."""

import re
from typing import Any

import pytest
import xarray as xr

import calibdask as cd
from calibdask.report.numbers import consistency_figures
from tests.report.sample_rows import CLASSES as LABELS_OF_FOUR
from tests.report.sample_rows import LABELS, MATRIX, TRUTH

BENT = TRUTH**1.15


def counted(result: xr.Dataset) -> tuple[int, int, int]:
    """Points within their bars, above and below, by the numbers."""
    outcome, low, high = (result[f"x_{part}"].values for part in ("outcome", "expected_low", "expected_high"))
    return int(((low <= outcome) & (outcome <= high)).sum()), int((outcome > high).sum()), int((outcome < low).sum())


def drawn_sides(picture: str) -> tuple[int, ...]:
    """The same by the colours of the points."""
    return tuple(picture.count(f'class="dot {side}"') for side in ("consistent", "under", "over"))


@pytest.mark.parametrize("scores", [TRUTH, BENT, BENT[::-1], TRUTH / 50])
def test_points_are_coloured_outside_their_bars(scores: Any) -> None:
    result = cd.evaluate(LABELS, scores, {"x": cd.ConsistencyBars(bins=10)}, ci=0.9)
    (figure,) = consistency_figures(result, "rows")
    within, above, below = counted(result)
    assert drawn_sides(figure.picture) == (within, above, below)
    filled = within + above + below
    assert filled == int((result.x_count > 0).sum())
    assert len(re.findall(r"M[\d.]+ [\d.]+V", figure.picture)) == filled
    assert "in 90 % of data sets, pointwise (not confidence intervals" in figure.caption
    assert figure.caption.endswith(f"{above + below} of {filled}")
    assert "whisker" not in figure.picture


def test_each_class_has_its_figure_and_nothing_is_drawn_without_ends() -> None:
    metric = {"x": cd.ConsistencyBars(bins=5, setting="classwise")}
    figures = list(consistency_figures(cd.evaluate(LABELS_OF_FOUR, MATRIX, metric, ci=0.95), "rows"))
    assert [re.search(r"class (\d)", figure.caption).group(1) for figure in figures] == list("0123")
    assert not list(consistency_figures(cd.evaluate(LABELS_OF_FOUR, MATRIX, metric), "rows"))

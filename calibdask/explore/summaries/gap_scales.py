"""The two scales of the first page: gaps in points, and observed over expected."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibdask.explore.summaries.slice_gaps import Array, Gaps
from calibdask.results.format import figure, signed_column


@dataclass(frozen=True)
class GapScale:
    """How the first page shows mean gaps: their numbers and texts, and how far each is from the ideal.

    Attributes
    ----------
    name, caption : str
        In the choice, and in the caption of the map.
    ideal : float
        The number of a calibrated slice.
    axis : str
        The heading of an axis.
    ends : function
        Values and ends of the intervals of gaps.
    texts : function
        The values as texts; nothing for NaN.
    size : function
        The distance of values from the ideal, for the strength of colours.
    """

    name: str
    caption: str
    ideal: float
    axis: str
    ends: Callable[[Gaps], tuple[Array, Array, Array]]
    texts: Callable[[Array], list[str]]
    size: Callable[[Array], Array]


def _points(gaps: Gaps) -> tuple[Array, Array, Array]:
    return 100 * gaps.value, 100 * gaps.low, 100 * gaps.high


def _ratios(gaps: Gaps) -> tuple[Array, Array, Array]:
    """Frequency over mean score: the interval leaves out 1 where that of the gap leaves out 0.

    NaN for slices that expect no event. No slice has more events than rows.
    """
    expects = gaps.score > 0
    score = np.where(expects, gaps.score, np.nan)
    value, low, high = (1 + end / score for end in (gaps.value, gaps.low, gaps.high))
    return value, np.maximum(low, 0.0), np.minimum(high, 1 / score)


def _ratio_texts(values: Array) -> list[str]:
    return [f"{value:.2f}" if value < 10 else figure(value) if value == value else "" for value in values.tolist()]


def _log_size(values: Array) -> Array:
    """Twice as many and half as many events are equally far from the ideal; at most ten times as many or a tenth."""
    return np.abs(np.log(np.clip(np.nan_to_num(values, nan=10.0), 0.1, 10.0)))


POINTS_SCALE = GapScale(
    name="difference",
    caption="Observed rate minus mean prediction in points",
    ideal=0.0,
    axis="outcome − score, points",
    ends=_points,
    texts=signed_column,
    size=np.abs,
)
RATIO_SCALE = GapScale(
    name="observed / expected",
    caption="Observed over expected events",
    ideal=1.0,
    axis="observed / expected",
    ends=_ratios,
    texts=_ratio_texts,
    size=_log_size,
)
GAP_SCALES = {scale.name: scale for scale in (POINTS_SCALE, RATIO_SCALE)}

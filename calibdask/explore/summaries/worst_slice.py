"""The slice that is farthest off for certain, where all rows together are not: a sentence, and where it is."""

from collections.abc import Mapping

import numpy as np

from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.selection_widgets import selection_text
from calibdask.explore.summaries.slice_gaps import gaps_of
from calibdask.results.format import counted, joined, percent
from calibdask.results.over_time import GapEnds, points_text

_LEVEL = 0.95
# More slices take longer than a hint may.
_MOST_SLICES = 2000


def worst_slice(
    pool: Pool, selection: Selection, setting: str | int | None
) -> tuple[str, tuple[str, Mapping[str, int]] | None]:
    """Whether a slice of a selection is off by its mean gap, in a sentence; its name and its position if one is.

    Slices by each dimension that is not selected, with ends for all of them together (Bonferroni). Without slices the
    sentence is empty.
    """
    dims = [dim for dim in pool.slices if dim not in dict(selection.slices) and len(pool.labels[dim]) > 1]
    places = [(dim, at) for dim in dims for at in range(len(pool.labels[dim]))]
    if not places:
        return "", None
    by = f"by {joined(dims)}"
    if len(places) > _MOST_SLICES:
        return f"Slices {by} may still be miscalibrated: see the worst slices on the first tab.", None
    groups = [group for dim in dims for group in pool.grid([dim], selection)]
    gaps = gaps_of(pool, groups, setting, 1 - (1 - _LEVEL) / len(groups))
    judged = f"{percent(_LEVEL)} interval, adjusted for {counted(len(groups), 'slice')} {by}"
    worst = int(np.argmax(gaps.distance))
    if not gaps.certain[worst]:
        return f"No slice is significantly miscalibrated on average ({judged}).", None
    dim, at = places[worst]
    name = selection_text(pool, Selection(((dim, (at,)),)))
    ends = GapEnds(*(float(part[worst]) for part in (gaps.value, gaps.low, gaps.high)))
    return f"But a slice is miscalibrated: {name}, scores {points_text(ends)}, {judged}.", (name, {dim: at})

"""The gap of the rows since a period that was chosen by looking at all of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from calibdask.analyses.monitoring.period_sums import PeriodSums
from calibdask.inference.choice import check_level
from calibdask.inference.sequential.sequences import gap_ends
from calibdask.results.over_time import GapEnds


def gap_since(
    summary: xr.Dataset,
    since: Any,
    period: str = "day",
    by: str | Sequence[str] | None = None,
    *,
    setting: str | int | None = None,
    alpha: float = 0.05,
    chosen_from: int = 1,
) -> list[GapEnds]:
    """The mean of outcome less score over the rows since a period, of each slice (and class), in their order.

    Ends hold with probability 1 - alpha whichever of the periods ``since`` is, and whichever of ``chosen_from``
    processes has been chosen to be told: each gets its share of alpha.

    Parameters
    ----------
    summary, period, by, setting
        As for `calibdask.watch`.
    since : label
        Of the first period.
    alpha : float, default 0.05
    chosen_from : int, default 1

    Raises
    ------
    TypeError, ValueError
        As `calibdask.watch`.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> scores, day = rng.random(40_000), np.repeat(np.arange(10), 4_000)
    >>> drifted = 0.9 * scores + np.where(day >= 6, 0.1, 0.1 * scores)
    >>> summary = cd.summarize(rng.random(40_000) < drifted, scores, by={"day": day}, settings=["binary"])
    >>> [gap] = gap_since(summary, 6)
    >>> gap.low < 0.05 < gap.high, gap.high - gap.low < 0.05
    (True, True)
    """
    check_level(alpha, "alpha")
    sums = PeriodSums.of("gap_since", summary, period, by, setting)
    size = int(np.prod([labels.size for labels in sums.slices.values()])) * sums.columns
    rows, residual, square = np.zeros((3, size))
    for position in np.flatnonzero(sums.periods >= np.asarray(since).astype(sums.periods.dtype)).tolist():
        for block, cells in sums.cells(position):
            rows[block] += cells.by_process(cells.rows)
            residual[block] += cells.by_process(cells.events - cells.rows * cells.mean)
            square[block] += cells.by_process(cells.square)
    low, high = gap_ends(rows, residual, square, alpha / (sums.periods.size * max(1, chosen_from)))
    with np.errstate(invalid="ignore"):
        return [GapEnds(*map(float, ends)) for ends in zip(residual / rows, low, high, strict=True)]

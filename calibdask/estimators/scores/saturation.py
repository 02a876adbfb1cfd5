"""Saturation of scores: shares next to 0 and 1, distinct scores, and the effective number of rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.parts import Estimate, FixedPart
from calibdask.estimators.smooth.gridded import GriddedEstimator
from calibdask.statistics.bins.grid import Grid, GridHistogram, GridState, cells_of
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

# The refined grid resolves the ends down to 2**-16 of a cell; scores farther from them are not saturated.
_NEAREST, _FARTHEST = 1e-8, 0.01


@dataclass(frozen=True, kw_only=True)
class Saturation(GriddedEstimator):
    """The shares of scores next to 0 and 1, the number of distinct scores, and the effective number of rows.

    Scores of 0 and 1 claim certainty: a single wrong one makes the log loss infinite, and no recalibration that
    preserves the order of the scores can separate it from correct ones.

    Parameters
    ----------
    within : float, default 1e-6
        Largest distance from 0 or 1 that counts as saturated, from 1e-8 to 0.01; rounded down to a cell boundary of the
        refined grid.
    setting, k, step
        As for `DensityECE`.

    Notes
    -----
    Parts ``at_zero`` and ``at_one``, shares of the weight; ``distinct_scores``, the number of occupied cells of the
    refined grid, a lower bound; ``effective_rows``, the number of rows, with weights Kish's effective number. In the
    class-wise setting there is one for each class. They describe the data and have no intervals. One pass; can be
    computed from a summary.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.0, 0.4, 1.0, 1.0], cd.Saturation())
    >>> float(result.saturation_at_zero), float(result.saturation_at_one), int(result.saturation_distinct_scores)
    (0.25, 0.5, 3)
    """

    about = About(
        "Saturation",
        "The shares of scores next to 0 and 1, and a lower bound on the number of distinct scores. A wrong score "
        "of 0 or 1 makes the log loss infinite.",
    )

    within: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        within: Any = self.within
        number = isinstance(within, int | float | np.number) and not isinstance(within, bool)
        if not number or not _NEAREST <= float(within) <= _FARTHEST:
            raise ValueError(f"within expects a number from {_NEAREST:g} to {_FARTHEST:g}, got {within!r}.")

    def interval(self, layout: Layout) -> NoInterval:
        """None: these numbers describe the data."""
        return NoInterval()

    def histogram(self, layout: Layout) -> GridHistogram:
        """The refined histogram on the unit interval, which summaries store."""
        return GridHistogram(self.measured(layout), Grid(cells_of(self.step), refined=True))

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "at_zero": PartInfo(f"share of scores within {self.within:g} of 0", "statistic", bounds=(0.0, 1.0)),
            "at_one": PartInfo(f"share of scores within {self.within:g} of 1", "statistic", bounds=(0.0, 1.0)),
            "distinct_scores": PartInfo("lower bound on the number of distinct scores", "count"),
            "effective_rows": PartInfo("effective number of rows under the weights", "count"),
        }

    @override
    def estimate(self) -> Requests[Estimate]:
        gridded = yield from self.gridded()
        shares = self._shares(gridded.state, gridded.grid)
        return {
            name: FixedPart(gridded.setting.by_class(values), gridded.setting.dims) for name, values in shares.items()
        }

    def _shares(self, state: GridState, grid: Grid) -> Mapping[str, np.ndarray]:
        """By (batch, group, column); NaN where there are no rows."""
        mass = np.asarray(state.mass.sum(-1), np.float64)
        total = mass.sum(-1)
        ends = {
            "at_zero": mass[..., grid.edges[1:] <= self.within],
            "at_one": mass[..., grid.edges[:-1] >= 1.0 - self.within],
        }
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = {name: cells.sum(-1) / total for name, cells in ends.items()}
        return {**shares, "distinct_scores": (mass > 0).sum(-1), "effective_rows": state.effective_rows}

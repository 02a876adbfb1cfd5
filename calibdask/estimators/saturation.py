"""How scores are spread: those next to 0 and 1, how many differ, how many rows the weights leave."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibdask.estimators.estimator import Estimation, Meanings, Part
from calibdask.estimators.gridded import GriddedEstimator
from calibdask.statistics.grid import Grid, GridHistogram, GridState, cells_of
from calibdask.statistics.layout import Layout

__all__ = ["Saturation"]

# The refined grid tells the ends down to 2**-16 of a cell; a share of the scores farther off is no saturation.
_NEAREST, _FARTHEST = 1e-8, 0.01


@dataclass(frozen=True, kw_only=True)
class Saturation(GriddedEstimator):
    """The share of scores next to 0 and 1, and what else the spread of the scores says about estimates from them.

    Scores of 0 and 1 claim certainty: one of them that is wrong makes the log loss infinite, and no recalibration that
    keeps the order of the scores tells it from those that are right.

    Parameters
    ----------
    within : float, default 1e-6
        How near to an end is next to it, from 1e-8 to 0.01; rounded down to a border of the refined grid.
    setting, k, step
        As for `DensityECE`.

    Notes
    -----
    Parts ``at_zero`` and ``at_one``, shares of the weight; ``distinct_scores``, the number of cells and parts of cells
    of the refined grid that hold rows, so that this many scores differ at least; ``effective_rows``, the number of
    rows, with weights Kish's effective number. Class-wise for each class. They are no estimates, and have no intervals.
    One pass; a summary tells them.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.0, 0.4, 1.0, 1.0], cd.Saturation())
    >>> float(result.saturation_at_zero), float(result.saturation_at_one), int(result.saturation_distinct_scores)
    (0.25, 0.5, 3)
    """

    within: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.within
        number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
        if not number or not _NEAREST <= float(given) <= _FARTHEST:
            raise ValueError(f"within expects a number from {_NEAREST:g} to {_FARTHEST:g}, got {given!r}.")

    @property
    def name(self) -> str:
        """``saturation``."""
        return "saturation"

    def histograms(self, layout: Layout) -> tuple[GridHistogram]:
        """The refined one on the unit interval, which summaries hold."""
        setting = layout.setting(self.setting, self.k)
        return (GridHistogram(setting, Grid(cells_of(self.step), refined=True)),)

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        near = f"to within {self.within:g}"
        return {
            "at_zero": f"share of scores that are 0 {near}",
            "at_one": f"share of scores that are 1 {near}",
            "distinct_scores": "at least so many scores differ",
            "effective_rows": "rows, less what unequal weights cost",
        }

    def estimate(self) -> Estimation:
        """Shares of the refined histogram."""
        gridded = yield from self.gridded()
        found = self._shares(gridded.state, gridded.grid)
        return {name: Part(gridded.by_class(values), gridded.dims, role="given") for name, values in found.items()}

    def _shares(self, state: GridState, grid: Grid) -> Mapping[str, np.ndarray]:
        """By (batch, group, column); NaN where there are no rows."""
        mass = np.asarray(state.mass.sum(-1), np.float64)
        total = mass.sum(-1)
        ends = {
            "at_zero": mass[..., grid.edges[1:] <= self.within],
            "at_one": mass[..., grid.edges[:-1] >= 1.0 - self.within],
        }
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = {name: each.sum(-1) / total for name, each in ends.items()}
        return {**shares, "distinct_scores": (mass > 0).sum(-1), "effective_rows": state.effective_rows}

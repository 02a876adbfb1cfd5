"""Maximum likelihood for maps that are linear in terms of the score, and the fallback if no maximum exists."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from calibdask.calibrators.curves.columns import PointsCalibrator
from calibdask.calibrators.fitted import Sliced
from calibdask.estimators.regression.column_points import ColumnPoints
from calibdask.estimators.regression.logistic import LogisticFit, fit_logistic, standard_errors
from calibdask.estimators.regression.separation import check_distinct, is_separated
from calibdask.statistics.exact import Array

# Fits move by less than a hundredth of their standard errors while there are fewer rows in the outermost cells than
# this share of the square root of all.
_MOST_MERGED = 0.05
SEPARATED = (
    "the score separates the outcomes, up to rounding, so that the likelihood has no maximum; they were smoothed as by "
    "Platt (attribute smoothed_), which bounds the map; use more rows."
)


class LogitCalibrator(PointsCalibrator):
    """A calibrator fitted to logits of the score; its numbers record clipping and smoothing."""

    # Sums over logits need the mean score of either outcome.
    by_outcome = True

    def _cautions(self, sliced: Sliced) -> Iterable[str]:
        if (sliced.numbers["smoothed"] == 1).any():
            yield SEPARATED
        clipped = np.nansum(sliced.numbers["clipped"][-1])
        if clipped > 0:
            end = -np.log(np.nanmax(sliced.numbers["clip"][-1]))
            yield (
                f"scores of exactly 0 or 1, in rows of weight {clipped:,.6g}, have logits clipped at -{end:.0f} and "
                f"{end:.0f}, which may decide the map. IsotonicCalibration takes no logits; or move such scores inside "
                "before, for example to 1 / (2 n) and 1 - 1 / (2 n) of n rows."
            )
        merged = np.nanmax(sliced.numbers["merged"][-1])
        if merged > _MOST_MERGED * np.sqrt(sliced.rows[-1]):
            yield (
                f"{merged:,.6g} rows have scores in the outermost cells of the grid, nearer to 0 or 1 than about 4e-9, "
                "whose logits are known as one only (attribute merged_): parameters may be off by more than a "
                "hundredth of their standard errors. Fit to the rows themselves, up to four million of them."
            )


def fit_notes(points: ColumnPoints, *, was_smoothed: bool) -> dict[str, float]:
    """Numbers of a fit that record clipping, merging and smoothing."""
    return {"smoothed": was_smoothed, "clip": points.clip, "clipped": points.clipped, "merged": points.merged}


def falling_caution(falling: Array, where: str = "") -> Iterable[str]:
    """A sentence on maps that fall as the score rises, for these shares of the rows; ``where`` that is, in words."""
    most = np.nanmax(falling)
    if most > 0:
        yield (
            f"the map falls as the score rises for up to {most:.2g} of the rows (attribute falling_){where}, so that "
            "the order of scores is not kept."
        )


class TermsFit(NamedTuple):
    """A fit, the standard errors of its coefficients, and whether outcomes had to be smoothed."""

    fit: LogisticFit
    errors: Array
    smoothed: bool


def fit_terms(points: ColumnPoints, z: Array, terms: Array) -> TermsFit:
    """The fit of maximum likelihood; of smoothed outcomes where it has no maximum.

    ``terms`` (p, points) are functions of z whose combinations have at most p - 1 zeros, anywhere. Standard errors are
    NaN where outcomes were smoothed: separated, they say next to nothing about how far the parameters may be off.

    Raises
    ------
    Undetermined
        If there are fewer than p distinct scores.
    """
    check_distinct(points, z, len(terms))
    if not is_separated(z, points.weight, points.outcome, len(terms)):
        fit = fit_logistic(terms, points.weight, points.outcome)
        if fit.converged:
            return TermsFit(fit, standard_errors(fit, terms, points), False)
    fit = fit_logistic(terms, points.weight, smoothed(points))
    return TermsFit(fit, np.full(len(terms), np.nan), True)


def smoothed(points: ColumnPoints) -> Array:
    """Outcomes moved towards one half by one row of either kind, of weight 1."""
    positive = points.outcome.sum()
    negative = points.weight.sum() - positive
    return points.outcome * (positive + 1) / (positive + 2) + (points.weight - points.outcome) / (negative + 2)

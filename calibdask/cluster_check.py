"""The check for clusters that nobody named: residuals that correlate among rows of one value of an identifier."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy
from typing_extensions import override

from calibdask.data.input import Input
from calibdask.engine.row_notes import level_of_caller
from calibdask.errors import ClusteredRowsWarning
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.parts import Estimate, Part
from calibdask.safe_text import visible
from calibdask.statistics.column_sums import ColumnSums
from calibdask.statistics.identifier_sums import UNIT, IdentifierSums, IdentifierSumsState
from calibdask.statistics.layout import Layout
from calibdask.statistics.prefetch import Prefetch, together
from calibdask.statistics.request import Requests

# The name of the check among metrics, and of what it found.
_CHECK, CAUTION = "\0identifiers", "cluster_caution"
# Values that occur in several rows; independent rows are taken for dependent in one of so many columns.
_FEWEST_REPEATED, _ALPHA = 10, 1e-3
# Intervals that are too narrow by 5 % or less are not worth a warning.
_LEAST_EFFECT = 1.1


@dataclass(frozen=True)
class Dependence:
    """How much the residuals of rows with one value of an identifier correlate.

    Attributes
    ----------
    rows, values : float
        Rows with a value, and distinct values; of a sample of these, scaled up.
    correlation : float
        Mean product of the centred residuals of two rows with one value, relative to their variance.
    design_effect : float
        Variance of the mean residual relative to that of independent rows.
    pvalue : float
        Of independent rows.
    is_sample : bool
        Whether rows and values are those of a sample of the values, scaled up.
    """

    rows: float
    values: float
    correlation: float
    design_effect: float
    pvalue: float
    is_sample: bool = False

    @property
    def matters(self) -> bool:
        """Whether rows are significantly dependent, and so much that intervals are too narrow."""
        return self.pvalue < _ALPHA and self.design_effect > _LEAST_EFFECT


def dependence(state: IdentifierSumsState) -> Dependence | None:
    """The dependence of rows that share a value; None where fewer than 10 values occur in several rows.

    With the centred residuals r, the test statistic is T, the sum of r_i r_j over the ordered pairs of different rows
    with one value. Independent rows have E T = 0 and the variance of T is estimated by V, twice the sum of r_i**2
    r_j**2 over the same pairs, whatever their variances. T / sqrt(V) is compared with a chi-square variable of the
    same skewness, that of a sum of squares over clusters: with few of them it is far from normal.
    """
    rows = state.rows.astype(np.float64)
    repeated = int((rows > 1).sum())
    total = rows.sum()
    if repeated < _FEWEST_REPEATED:
        return None
    first, second, third, fourth = state.powers.astype(np.float64) * UNIT
    mean = first.sum() / total
    sums = first - mean * rows
    squares = second - 2 * mean * first + mean**2 * rows
    fourths = fourth - 4 * mean * third + 6 * mean**2 * second - 4 * mean**3 * first + mean**4 * rows
    products = float((sums**2 - squares).sum())
    variance = 2 * float(np.maximum(squares**2 - fourths, 0.0).sum())
    pairs = float((rows * (rows - 1)).sum())
    if variance <= 0 or squares.sum() <= 0:
        return None
    level = int(state.level[0])
    scale = 2.0**level
    correlation = products / pairs / (squares.sum() / total)
    effect = 1 + (float((rows**2).sum()) / total - 1) * correlation
    # The eigenvalues of a cluster of n rows of variance v are (n - 1) v once and -v n - 1 times.
    typical = squares / np.maximum(rows, 1)
    cubes = 8 * float((typical**3 * ((rows - 1) ** 3 - (rows - 1))).sum())
    score = products / np.sqrt(variance)
    pvalue = _tail(score, cubes / variance**1.5)
    return Dependence(total * scale, rows.size * scale, correlation, effect, pvalue, level > 0)


def _tail(score: float, skewness: float) -> float:
    """P(X >= score) of a standardised chi-square variable with this skewness; of a normal one where there is none."""
    # The square of one normal variable is the most skewed: few outcomes in large clusters seem more so.
    freedom = max(1.0, 8 / skewness**2) if skewness > 1e-6 else np.inf
    if not np.isfinite(freedom):
        return float(scipy.special.ndtr(-score))
    return float(scipy.special.chdtrc(freedom, max(0.0, freedom + score * np.sqrt(2 * freedom))))


def cluster_check(data: Input, *, intervals: bool) -> dict[str, Estimator]:
    """The check of the identifiers of the rows, under a name of no metric; none without identifiers."""
    layout = data.source.layout
    is_checked = data.identifiers and not layout.clustered and not data.batch
    return {_CHECK: ClusterCheck(data.identifiers, intervals)} if is_checked else {}


def cluster_cautions(estimates: Mapping[str, Estimate]) -> dict[str, str]:
    """The attribute of a result that says which rows are dependent; empty if none are."""
    found = [] if _CHECK not in estimates else estimates[_CHECK][CAUTION].values.tolist()
    return {CAUTION: str(found[0])} if found else {}


@dataclass(frozen=True)
class ClusterCheck(Estimator):
    """Warns if residuals correlate significantly among rows that share a value of an identifier.

    Parameters
    ----------
    names : tuple of str
        The further columns of the rows, which hold hashes of the values.
    intervals : bool
        Whether intervals are computed, which the warning is about.
    """

    names: tuple[str, ...]
    intervals: bool

    def interval(self, layout: Layout) -> NoInterval:
        """None: it gives no numbers."""
        return NoInterval()

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        setting = layout.setting(None)
        yield from Prefetch(ColumnSums(setting))
        states = yield from together(IdentifierSums(setting, column) for column, _ in enumerate(self.names))
        counted = yield from ColumnSums(setting)
        found = zip(self.names, map(dependence, states), strict=True)
        dependent = [(name, one) for name, one in found if one is not None and one.matters]
        if not dependent:
            return {CAUTION: Part(np.array([], object))}
        # The identifier with the largest design effect leaves the fewest independent rows.
        name, worst = max(dependent, key=lambda pair: pair[1].design_effect)
        rows = float(counted.rows[0, :, 0].sum())
        message = sentence(name, replace(worst, rows=min(worst.rows, rows)), intervals=self.intervals)
        warnings.warn(message, ClusteredRowsWarning, stacklevel=level_of_caller())
        return {CAUTION: Part(np.array([message], object))}


def sentence(name: str, found: Dependence, *, intervals: bool) -> str:
    """A sentence on the dependence of rows, and how to account for it."""
    shown = visible(name)
    least = "p < 0.001" if found.pvalue >= 1e-6 else "p < 0.000001"
    rows, values = (
        f"about {_three_digits(number):,.0f}" if found.is_sample else f"{number:,.0f}"
        for number in (found.rows, found.values)
    )
    worth = _three_digits(found.rows / found.design_effect)
    verb = "are" if intervals else "would be"
    return (
        f"Rows with the same {shown} are dependent: {rows} rows have {values} values, and the residuals within one "
        f"correlate by {found.correlation:.2g} ({least}); the rows are worth about {worth:,.0f} independent ones: "
        f"intervals {verb} too narrow, and p-values too small. Give groups='{shown}' for clustered intervals "
        "(--no-cluster-check at the shell turns this check off)."
    )


def _three_digits(number: float) -> float:
    """Rounded down, so that no more rows are named than there are."""
    unit = 10.0 ** max(0, math.floor(math.log10(max(1.0, number))) - 2)
    return math.floor(number / unit) * unit

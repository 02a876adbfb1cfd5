"""The excess cost of decisions based on scores that are not calibrated."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from calibdask.estimators.about import About, Description, Kind, PartInfo
from calibdask.estimators.checks import MOST_BINS, check_choice, check_whole
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.parts import Estimate, Number, calibration_error
from calibdask.statistics import exact
from calibdask.statistics.bins.binnings import BinEdges, EqualMass, Uniform, binned_sums
from calibdask.statistics.exact import Array
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.simplex.actions import ActedCells, FrequencyMap
from calibdask.statistics.simplex.cells import CellSums, CellSumsState

_SLAB_SCORES = 1 << 20
# With fewer rows per occupied cell fewer than half of the intervals of the cost after calibration covered it.
_FEWEST_IN_A_CELL = 10
_FEW = f"where rows are fewer than {_FEWEST_IN_A_CELL} for each occupied cell"


@dataclass(frozen=True, kw_only=True)
class ExcessCost(Estimator):
    """Expected excess cost of acting on the scores instead of calibrated ones.

    With c[a, y] the cost of action a if the class is y, the action is the first one with the least expected cost::

        a(p) = argmin_a sum_y c[a, y] p_y

        realised    (1/N) sum_i w_i c[a(p_i), y_i]           cost incurred by acting on the scores
        promised    (1/N) sum_i w_i sum_y c[a(p_i), y] p_iy  cost expected from the scores
        calibrated  cost of acting on calibrated scores
        excess      realised - calibrated

        multiclass  calibrated = (1/N) sum_A min_a sum_y c[a, y] n_Ay,  n_Ay the rows of class y in cell A: rows with
                    the same action and the same uniform bin in every class; in the limit of small cells with many
                    rows, E[min_a sum_y c[a, y] P(y | p)]
        classwise   calibrated = (1/N) sum_i w_i c[a(f(p_i)), y_i],  f_y(p_y) the frequency of class y in the bin of p_y

    Parameters
    ----------
    costs : array of shape (actions, K), optional
        Finite costs of actions by class; there may be more or fewer actions than classes, such as asking an expert.
        None: 0 for the class itself and 1 for any other.
    calibration : {"multiclass", "classwise"}, default "multiclass"
        Estimate of calibrated scores: frequencies in cells of the simplex, suitable for few classes only; or the
        frequencies of every class in bins of its own scores.
    bins : int, default 10
        Bins of each class, right-closed. With ``bins=1`` and multi-class cells the excess is the gain from the best
        substitution of one action for another.
    binning : {"uniform", "equal-mass"}, default "uniform"
        Binning of the class-wise bins.

    Raises
    ------
    ValueError
        If ``costs`` is not a matrix of finite numbers with a column for each class, or a parameter is invalid.

    Notes
    -----
    Parts: the excess itself, ``realised``, ``promised`` and ``calibrated``. Realised minus promised cost is the cost
    hidden by miscalibration, the excess the cost caused by it: with large calibration errors the excess can still be 0
    if no action changes.

    With multi-class cells the excess is never negative, and biased upward by chance, more so with fewer rows per
    cell; use few bins. ``calibrated`` is biased downward, and has no interval with fewer than 10 rows per occupied
    cell. Class-wise frequencies have little such bias, but correct each class separately: the excess can
    be negative. A vector of scores P(y = 1) = p counts as (1 - p, p). With 50 rows, 90 % intervals of ``promised``
    cover the true value in 86 to 92 % of data sets.

    Time O(n K actions). Multi-class: one pass; memory for each occupied cell as in `calibdask.MulticlassECE`.
    Class-wise: two passes, with equal-mass bins two to four.

    References
    ----------
    .. [1] Elkan, The foundations of cost-sensitive learning, 2001.
    .. [2] Zhao, Kim, Sahoo, Ma & Ermon, Calibrating predictions to decisions, 2021.
    .. [3] Posocco & Bonnefoy, Estimating Expected Calibration Errors, 2021, section 6, lists it as future work.

    Examples
    --------
    >>> import calibdask as cd
    >>> labels, scores = [0, 0, 0, 1], [0.6, 0.6, 0.6, 0.6]
    >>> result = cd.evaluate(labels, scores, cd.ExcessCost(costs=[[0, 1], [1, 0]]))
    >>> [round(float(result[f"excess_cost{part}"]), 2) for part in ("", "_realised", "_promised", "_calibrated")]
    [0.5, 0.75, 0.4, 0.25]
    """

    about = About(
        "Excess cost",
        "The mean cost of the actions chosen from the scores, minus that of the actions chosen from calibrated "
        "scores in the same cells.",
        "Zhao, Kim, Sahoo, Ma & Ermon, Calibrating predictions to decisions, 2021",
        "excess cost",
    )

    costs: Any = None
    calibration: Literal["multiclass", "classwise"] = "multiclass"
    bins: int = 10
    binning: Literal["uniform", "equal-mass"] = "uniform"

    def __post_init__(self) -> None:
        check_choice("calibration", self.calibration, ("multiclass", "classwise"))
        check_choice("binning", self.binning, ("uniform", "equal-mass"))
        check_whole("bins", self.bins, 1, MOST_BINS)
        if self.calibration == "multiclass" and self.binning != "uniform":
            raise ValueError("binning='equal-mass' divides the scores of a class; it expects calibration='classwise'.")
        if self.costs is not None and not isinstance(self.costs, FrozenArray):
            object.__setattr__(self, "costs", FrozenArray(_checked_costs(self.costs)))

    @override
    def describe(self, layout: Layout) -> Description:
        kind: Kind = "error" if self.calibration == "multiclass" else "difference"
        return {
            "": PartInfo("mean cost that calibrated scores would save", kind, bounds=(0.0, np.inf)),
            "realised": PartInfo("mean cost of acting on the scores", "score"),
            "promised": PartInfo("mean cost expected from the scores", "statistic"),
            "calibrated": PartInfo("mean cost of acting on calibrated scores", "score"),
        }

    @override
    def row_range(self, part: str, layout: Layout) -> tuple[float, float] | None:
        costs = self._costs(layout.classes).values
        return (float(costs.min()), float(costs.max())) if part in ("realised", "promised") else None

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        costs = self._costs(layout.classes)
        by_vectors = self.calibration == "multiclass"
        cells = ActedCells(costs, int(self.bins) if by_vectors else 1)
        acted = _Totals(layout, costs.values, (yield from CellSums(cells)))
        excess = acted.excess
        if not by_vectors:
            calibrated = ActedCells(costs, calibration=(yield from self._map(layout)))
            excess = acted.realised - _Totals(layout, costs.values, (yield from CellSums(calibrated))).realised
        parts = {
            "realised": Number(acted.realised),
            "promised": Number(acted.promised),
            # Frequencies of cells are fitted to the rows whose cost they lower.
            "calibrated": Number(acted.realised - excess, is_biased=True),
        }
        if by_vectors:
            parts["calibrated"] = parts["calibrated"].without_ends(acted.rows < _FEWEST_IN_A_CELL * acted.cells, _FEW)
            return {"": calibration_error(excess[..., None], most=np.inf), **parts}
        return {"": Number(excess), **parts}

    def _costs(self, classes: int) -> FrozenArray:
        if self.costs is None:
            return FrozenArray(1.0 - np.eye(classes))
        costs: FrozenArray = self.costs
        if costs.values.shape[1] != classes:
            raise ValueError(
                f"costs expects a column for each of the {classes} classes, got a matrix of shape {costs.values.shape}."
            )
        return costs

    def _map(self, layout: Layout) -> Requests[FrequencyMap]:
        """Class-wise calibration by the frequencies of bins."""
        setting = layout.setting("classwise")
        binning = EqualMass(self.bins) if self.binning == "equal-mass" else Uniform(self.bins)
        edges = yield from BinEdges(binning, setting)
        sums = yield from binned_sums(setting, edges)
        weight = exact.value(sums.weight)
        frequencies = np.divide(exact.value(sums.outcome), weight, out=np.zeros_like(weight), where=weight > 0)
        return FrequencyMap(edges, FrozenArray(frequencies))


class _Totals:
    """Mean costs by (batch, group), NaN where there are no rows."""

    def __init__(self, layout: Layout, costs: npt.NDArray[np.float64], sums: CellSumsState) -> None:
        shape = (layout.batch, layout.groups)
        total, realised, promised, excess, cells, rows = np.zeros((6, layout.batch * layout.groups))
        step = max(1, _SLAB_SCORES // max(costs.shape))
        for start in range(0, len(sums.key), step):
            part = sums.part(slice(start, start + step))
            place, action = part.key[:, 0], part.key[:, -1]
            # Cost of every action for the rows of each cell.
            by_action = np.asarray(part.outcome, np.float64) @ costs.T
            own = np.take_along_axis(by_action, action[:, None], 1)[:, 0]
            expected = (costs[action] * exact.value(part.score)).sum(axis=1)
            cells += np.bincount(place, minlength=total.size)
            rows += np.bincount(place, part.rows, total.size)
            total += np.bincount(place, exact.value(part.weight), total.size)
            realised += np.bincount(place, own, total.size)
            promised += np.bincount(place, expected, total.size)
            excess += np.bincount(place, own - by_action.min(axis=1), total.size)
        with np.errstate(invalid="ignore"):
            means: list[Array] = [(values / total).reshape(shape) for values in (realised, promised, excess)]
        self.realised, self.promised, self.excess = means
        self.cells, self.rows = cells.reshape(shape), rows.reshape(shape)


def _checked_costs(matrix: Any) -> npt.NDArray[np.float64]:
    try:
        costs = np.array(matrix, np.float64)
    except (TypeError, ValueError):
        costs = np.zeros(0)
    if costs.ndim != 2 or not costs.size or not np.isfinite(costs).all():
        raise ValueError(f"costs expects a matrix of finite numbers, a row for each action, got {matrix!r}.")
    return costs

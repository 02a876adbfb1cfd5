"""Refinement loss: the loss that remains after calibration by a map fitted to other rows."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from typing_extensions import override

from calibdask.calibrators.comparing.cross_fitting import CalibratorChoice, CrossFit, CrossFitted
from calibdask.calibrators.comparing.improvement import FEWEST_OUTCOMES, LossMeans, Mean, check_rule
from calibdask.calibrators.curves.platt import PlattScaling
from calibdask.calibrators.fitted import Marks
from calibdask.calibrators.softmax.temperature import TemperatureScaling
from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.checks import check_whole
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import KnownEnds
from calibdask.estimators.outcome_counts import MOST_UNEVEN, outcome_counts
from calibdask.estimators.parts import Estimate, Number
from calibdask.statistics import exact
from calibdask.statistics.column_sums import ColumnSums
from calibdask.statistics.derived import Derived
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.paired_losses import PairedLosses
from calibdask.statistics.prefetch import Prefetch
from calibdask.statistics.request import Requests
from calibdask.statistics.views.folds import Folds, RowFolds

MOST_FOLDS = 100


@dataclass(frozen=True)
class Refinement(Estimator):
    """Refinement loss: the loss of scores that are calibrated by maps fitted to other rows.

    ::

        loss = refinement loss + calibration loss

    Rows are divided into folds by a hash of their number; those of each fold are calibrated by the map that is fitted
    to all others. If the calibration loss is below 0, the map does harm: it adds more noise than it removes error.

    Parameters
    ----------
    calibrator : Calibrator, optional
        The calibrator; by default `PlattScaling`, with more than two classes `TemperatureScaling`.
        `compare_calibrators` recommends one.
    folds : int, default 5
        Number of folds.
    rule : {"log", "brier"}, default "log"
        The loss.
    seed : int, default 0
        The fold of a row depends only on the seed and the row number.

    Notes
    -----
    Parts: the refinement loss itself, ``calibration``, the loss removed by the map, and ``score``, the loss before. The
    passes of the calibrator (maps of one score: one), and one more: states of folds are merged, so one pass serves the
    maps of all folds. Each slice has its own map; if the rows outside a fold do not have both outcomes, numbers are
    NaN, and the attribute ``undefined`` says why.

    With ``ci``: Student's t, from the variance of the losses over the rows plus that of the maps, which share rows;
    ends are NaN with fewer than 5 rows of the rarer outcome (with several classes: of right or wrong predictions; with
    weights: effective rows). Log losses and their reduction have no interval if a score is exactly 0 or 1, as a single
    wrong one dominates them, and a limit on one is undecided. In simulations (``experiments/calibration/refinement.md``
    of the repository) intervals at 90 % covered the reduction by the map of all rows on fresh rows in 88 to 98 % of
    samples, but only in 85 % for a very overconfident model and 100 rows: the cost of a few confident errors is skewed,
    and samples with fewer of them have lower improvements and shorter intervals. In that case improvements were
    underestimated in 14 % and overestimated in 1 % of samples. Without weights the results do not depend on chunks. In
    replicates of rows, as for `compare`, the maps are not refitted.

    References
    ----------
    .. [1] Berta et al., Rethinking early stopping: refine, then calibrate, 2025.
    .. [2] Bayle et al., Cross-validation confidence intervals for test error, 2020.

    Examples
    --------
    >>> import calibdask as cd
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.random(20_000)
    >>> y_true = rng.random(20_000) < y_prob**2 / (y_prob**2 + (1 - y_prob) ** 2)
    >>> result = cd.evaluate(y_true, y_prob, cd.Refinement())
    >>> result.refinement.round(3).item(), result.refinement_calibration.round(3).item()
    (0.332, 0.049)
    """

    about = About(
        "Refinement loss",
        "The mean loss of scores calibrated by maps fitted to the other folds; the calibration loss is the reduction "
        "from the loss of the original scores.",
        "Berta et al., Rethinking early stopping: refine, then calibrate, 2025",
        "refinement",
    )
    bounded_form: ClassVar[str] = "refinement(rule=brier)"

    calibrator: Any = None
    folds: int = 5
    rule: Literal["log", "brier"] = "log"
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("folds", self.folds, 2, MOST_FOLDS)
        check_whole("seed", self.seed, 0)
        check_rule(self.rule)
        if self.calibrator is not None:
            object.__setattr__(self, "calibrator", CalibratorChoice.of(self.calibrator))

    @override
    def describe(self, layout: Layout) -> Description:
        loss = "log loss" if self.rule == "log" else "Brier score"
        return {
            "": PartInfo(f"{loss} of scores calibrated by maps of the other folds", "score"),
            "calibration": PartInfo(f"{loss} that calibration takes away", "term", "zero"),
            "score": PartInfo(f"{loss} of the scores as they are", "score"),
        }

    @override
    def interval(self, layout: Layout) -> KnownEnds:
        """From the losses of the rows."""
        return KnownEnds()

    @override
    def row_range(self, part: str, layout: Layout) -> tuple[float, float] | None:
        if self.rule != "log":
            return None
        # A steep map of few rows has confident errors on others that these rows do not show.
        return (-np.inf, np.inf) if part else (0.0, np.inf)

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        usual = PlattScaling() if layout.classes == 2 else TemperatureScaling()
        choice = self.calibrator or CalibratorChoice.of(usual)
        folds = RowFolds(self.folds, self.seed)
        yield from Prefetch(EnoughOutcomes())
        fit: CrossFitted = yield from CrossFit(choice, folds)
        state = yield from paired_losses((fit,), folds)
        varied = yield from EnoughOutcomes()
        fitted: Marks = np.resize(fit.fitted, state.rows.shape[:2])
        means = LossMeans(state, self.folds)
        notes = {"calibrator": repr(choice)} | ({"undefined": fit.reason} if not fitted.all() else {})
        least = {"limits": (0.0, np.inf)}
        return {
            "": _number(means.after(self.rule, 0), fitted, varied, notes=notes, **least),
            "calibration": _number(means.improvement(self.rule, 0), fitted, varied),
            "score": _number(means.before(self.rule), np.ones_like(fitted), varied, **least),
        }


def paired_losses(fits: tuple[CrossFitted, ...], folds: Folds, clusters: Any = None) -> PairedLosses:
    """The statistic of the losses under several cross-fitted maps."""
    return PairedLosses(fits, tuple(replace(fit, shift=1) for fit in fits), clusters)


@dataclass(frozen=True)
class EnoughOutcomes(Derived[Marks]):
    """Whether there are enough rows of either outcome for an interval, (batch, groups); with weights effective ones."""

    def derive(self) -> Requests[Marks]:
        """Count the rows of the rarer outcome."""
        layout = yield from Layout()
        setting = layout.setting(None)
        if layout.weighted:
            counts = yield from outcome_counts(setting)
            enough = counts["rarer"].values > FEWEST_OUTCOMES - 0.5
            return np.asarray(enough & ~(counts["unevenness"].values > MOST_UNEVEN), bool)
        sums = yield from ColumnSums(setting)
        rows, outcome = (np.asarray(exact.value(part)[..., 0]) for part in (sums.rows.astype(float), sums.outcome))
        return np.asarray(np.minimum(outcome, rows - outcome) > FEWEST_OUTCOMES - 0.5, bool)


def _number(mean: Mean, fitted: Marks, varied: Marks, **options: Any) -> Number:
    def known_ends(level: float) -> tuple[Array, Array]:
        low, high = (np.where(fitted & varied, end, np.nan) for end in mean.ends(level))
        return np.maximum(low, options.get("limits", (-np.inf,))[0]), high

    return Number(np.where(fitted, mean.value, np.nan), known_ends=known_ends, ends_method="t", **options)

"""The processes of slices, models and classes, and their numbers at the end of each period."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.analyses.monitoring.period_sums import PeriodSums
from calibdask.estimators.scores.mean_gap import GapMeans
from calibdask.inference.multiplicity import e_benjamini_hochberg
from calibdask.inference.outcome_counts import tails
from calibdask.inference.sequential.cells import Index, PeriodCells
from calibdask.inference.sequential.factors import null_scores
from calibdask.inference.sequential.processes import Monitor, ProcessState
from calibdask.inference.sequential.saved import SavedState
from calibdask.inference.sequential.sequences import error_ends, gap_ends
from calibdask.inference.sequential.single_look import rate_ends, rate_tail
from calibdask.statistics.exact import Array, Counts

Labels = npt.NDArray[Any]


class PeriodTotals(NamedTuple):
    """One period by process: sums of rows, outcomes, scores and (o - s)**2, the detector, and the null hypothesis.

    ``least`` and ``most`` are the numbers of outcomes that scores moved down and up by the tolerance expect, with their
    variances. Of clusters all are sums of exponents, but for ``counted``, the number of rows.
    """

    rows: Array
    events: Array
    scores: Array
    square: Array
    least: Array
    least_variance: Array
    most: Array
    most_variance: Array
    counted: Array
    log_detector: Array
    detected: npt.NDArray[np.bool_]
    run_length: Counts

    @classmethod
    def none(cls, state: ProcessState) -> "PeriodTotals":
        """Totals of no period, after this state."""
        size = state.largest.size
        return cls.of(np.zeros((9, size)), (state.log_detector, np.zeros(size, np.bool_), state.run_length))

    @classmethod
    def of(cls, sums: Array, detection: tuple[Array, npt.NDArray[np.bool_], Counts]) -> "PeriodTotals":
        """Of the nine sums in their order, and the detector."""
        rows, events, scores, square, least, least_variance, most, most_variance, counted = sums
        return cls(rows, events, scores, square, least, least_variance, most, most_variance, counted, *detection)


class SliceProcesses:
    """Processes of this summary and of an earlier state, and the positions of this summary's processes."""

    def __init__(self, sums: PeriodSums, past: SavedState) -> None:
        self.sums = sums
        self.slices = {name: _united(labels, past.slices[name]) for name, labels in sums.slices.items()}
        shape = [labels.size for labels in self.slices.values()]
        numbers = np.arange(int(np.prod(shape)) * sums.columns).reshape(*shape, sums.columns)
        self.shape = numbers.shape if sums.setting.per_class else numbers.shape[:-1]
        self.state = ProcessState.empty(numbers.size)
        self.state.put(self._among(numbers, past.slices), past.processes)
        self._here = self._among(numbers, sums.slices)

    def _among(self, numbers: npt.NDArray[np.intp], slices: Mapping[str, Labels]) -> npt.NDArray[np.intp]:
        at = [_positions(self.slices[name], labels) for name, labels in slices.items()]
        return numbers[np.ix_(*at, np.arange(self.sums.columns))].ravel()

    def advance(self, monitor: Monitor, blocks: Iterable[tuple[Index, PeriodCells]], number: int) -> PeriodTotals:
        """One more period, in blocks of processes of this summary."""
        size = self.state.largest.size
        sums = np.zeros((9, size))
        log_detector = self.state.log_detector
        detected, run_length = np.zeros(size, np.bool_), self.state.run_length.copy()
        for block, cells in blocks:
            here = self._here[block]
            after, detection = monitor.advanced(self.state.at(here), cells, number)
            self.state.put(here, after)
            sums[:, here] = _sums(cells, monitor.tolerance)
            log_detector[here], run_length[here], detected[here] = detection
        return PeriodTotals.of(sums, (log_detector, detected, run_length))


def _sums(cells: PeriodCells, tolerance: float) -> list[Array]:
    terms = [cells.rows, cells.events, cells.rows * cells.mean, cells.square]
    for null in null_scores(cells, tolerance):
        terms += [cells.rows * null, cells.rows * null * (1 - null)]
    terms.append(cells.counted)
    return [cells.by_process(term) for term in terms]


def period_numbers(
    processes: SliceProcesses, moment: PeriodTotals, monitor: Monitor, periods: Labels, number: int
) -> dict[str, npt.NDArray[Any]]:
    """The values of all variables at the end of a period, in the shape of the slices."""
    alpha = monitor.alpha
    frequency, mean_score = _over(moment.events, moment.rows), _over(moment.scores, moment.rows)
    period_gap = frequency - mean_score
    clustered = processes.sums.weight_periods is not None
    if clustered:
        period_low, period_high = (end - mean_score for end in rate_ends(frequency, moment.rows, alpha))
    else:
        spread = _over(moment.square, moment.rows) - period_gap**2
        period_low, period_high = GapMeans(mean_score, frequency, spread, moment.rows).ends(1 - alpha)
    values: dict[str, npt.NDArray[Any]] = {
        **numbers_so_far(processes.state, monitor, periods, number),
        "log_detector": moment.log_detector,
        "detected": moment.detected,
        "run_length": moment.run_length,
        "period_gap": period_gap,
        "period_gap_low": np.where(moment.rows > 0, period_low, np.nan),
        "period_gap_high": np.where(moment.rows > 0, period_high, np.nan),
        "period_pvalue": _clustered_pvalue(moment) if clustered else _period_pvalue(moment),
        "rows": moment.counted.astype(np.int64),
        "events": moment.events if clustered else moment.events.astype(np.int64),
        "mean_score": mean_score,
        "frequency": frequency,
    }
    if clustered:
        values["clusters"] = moment.rows
    shaped = {name: value.reshape(processes.shape) for name, value in values.items()}
    shaped["found"] = _discoveries(shaped["log_e"], len(processes.sums.summary.batch), alpha)
    return shaped


def numbers_so_far(state: ProcessState, monitor: Monitor, periods: Labels, number: int) -> dict[str, npt.NDArray[Any]]:
    """The values of the variables that are of all rows up to the end of a period, by process."""
    count, residual = state.rows.sum(-1), state.events - state.scores
    gap_low, gap_high = gap_ends(count, residual.sum(-1), state.square, monitor.alpha)
    error_low, error_high = error_ends(state.rows, residual, state.square, monitor.alpha)
    since = state.since
    return {
        "log_e": state.log_e,
        "pvalue": np.exp(-state.largest),
        "alarm": state.largest >= monitor.threshold,
        # Without any period there is none from which on.
        "since": periods[np.where(since < 0, number, since)] if periods.size else np.zeros(since.shape, periods.dtype),
        "gap": _over(residual.sum(-1), count),
        "gap_low": gap_low,
        "gap_high": gap_high,
        "error": _over(np.abs(residual).sum(-1), count),
        "error_low": error_low,
        "error_high": error_high,
    }


def _period_pvalue(moment: PeriodTotals) -> Array:
    """Twice the smaller tail of the number of outcomes, each at its end of the tolerance; NaN without rows."""
    more, _ = tails(moment.events, moment.rows, moment.most, moment.most_variance)
    _, fewer = tails(moment.events, moment.rows, moment.least, moment.least_variance)
    return np.where(moment.rows > 0, np.minimum(2 * np.minimum(more, fewer), 1.0), np.nan)


def _clustered_pvalue(moment: PeriodTotals) -> Array:
    """Twice the smaller bound of the tails of the number of outcomes of dependent rows; NaN without rows."""
    more, fewer = (
        rate_tail(excess, moment.rows, mean, variance)
        for excess, mean, variance in (
            (moment.events - moment.most, _over(moment.most, moment.rows), moment.most_variance),
            (moment.least - moment.events, 1 - _over(moment.least, moment.rows), moment.least_variance),
        )
    )
    return np.where(moment.rows > 0, np.minimum(2 * np.minimum(more, fewer), 1.0), np.nan)


def _discoveries(log_e: Array, models: int, alpha: float) -> npt.NDArray[np.bool_]:
    """Discoveries over slices and classes, for each model."""
    tests = log_e.reshape(*log_e.shape[:models], -1)
    return e_benjamini_hochberg(tests, alpha).reshape(log_e.shape)


def _united(labels: Labels, past: Labels) -> Labels:
    """Union of the labels, sorted unless they are equal."""
    same = labels.shape == past.shape and all(_equal(labels, past))
    return labels if same else np.unique(np.concatenate([labels, past]))


def _equal(a: Labels, b: Labels) -> npt.NDArray[np.bool_]:
    # A missing label, NaN, equals itself.
    return np.asarray((a == b) | ((a != a) & (b != b)))


def _positions(among: Labels, labels: Labels) -> npt.NDArray[np.intp]:
    if labels.shape == among.shape and all(_equal(labels, among)):
        return np.arange(labels.size)
    return np.searchsorted(among, labels).astype(np.intp)


def _over(sums: Array, count: Array) -> Array:
    return np.divide(sums, count, out=np.full(count.shape, np.nan), where=count > 0)

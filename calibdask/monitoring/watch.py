"""`watch`: calibration over time, with alarms that hold at whatever times one looks."""

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy import special

from calibdask.estimators.scores.mean_gap import Means
from calibdask.inference.choice import check_level
from calibdask.inference.multiplicity import e_benjamini_hochberg
from calibdask.inference.sequential.cells import PeriodCells
from calibdask.inference.sequential.processes import Monitor, ProcessState
from calibdask.inference.sequential.saved import SavedState, Watched
from calibdask.inference.sequential.sequences import error_ends, gap_ends
from calibdask.monitoring.period_sums import PeriodSums
from calibdask.results.watched import OVER_TIME, described
from calibdask.safe_text import listed
from calibdask.statistics.exact import Array, Counts

Labels = npt.NDArray[Any]


def watch(
    summary: xr.Dataset,
    period: str = "day",
    by: str | Sequence[str] | None = None,
    tolerance: float = 0.0,
    alpha: float = 0.05,
    *,
    setting: str | int | None = None,
    state: Mapping[str, Any] | str | None = None,
) -> xr.Dataset:
    r"""Watch calibration over time: evidence that grows with the periods, and alarms that keep their word.

    Of models that are calibrated within the tolerance at most a share of alpha ever raises an alarm, however long and
    however often one looks.

    Parameters
    ----------
    summary : xarray.Dataset
        Of `calibdask.summarize`, without weights; the period is one of its slices.
    period : str, default "day"
        The dimension of the periods, which are taken in the order of their labels.
    by : str or sequence of str, optional
        Other slices that are watched each for itself; all that are not named are added up.
    tolerance : float, default 0
        The null hypothesis is \|P(o = 1 | past, s) - s\| <= tolerance for every row with score s and outcome o.
    alpha : float, default 0.05
        Alarms are given at E >= 1 / alpha; intervals have the level 1 - alpha.
    setting : str or int, optional
        ``"binary"``, ``"confidence"``, ``"classwise"`` or the number of a class. None: as in `calibdask.evaluate`, or
        the first that the summary has.
    state : mapping or str, optional
        The attribute ``state`` of an earlier result: the periods of this summary are those that follow. Periods and
        slices of the result are then those of this summary, and slices of earlier ones.

    Returns
    -------
    xarray.Dataset
        By slice (and model, and class) and period, at the end of the period:

        ``log_e``, the logarithm of the e-process E; ``pvalue``, min(1, 1 / max E), valid at all periods together;
        ``alarm``, whether E has reached 1 / alpha by then; ``since``, the period from which on the evidence is largest
        (the period itself before any rows); ``found``, whether the slice is a discovery of e-BH over all slices and
        classes, whose share of false ones is alpha at most.

        ``gap``, the mean of o - s over all rows so far, with ``gap_low``, ``gap_high``, a confidence sequence of the
        mean offset P(o = 1 | past, s) - s: with probability 1 - alpha it holds at all periods. ``error``, the sum over
        20 groups of scores of their share times the absolute gap, with ``error_low``, ``error_high``: a tolerance below
        ``error_low`` is refuted.

        ``log_detector``, ``detected``, ``run_length``: a detector that forgets, and starts anew after each detection.

        ``period_gap``, ``period_gap_low``, ``period_gap_high``, ``period_pvalue``: of the period alone, for one look;
        by these a calibrated model raises false alarms again and again. Coordinates ``rows``, ``events``,
        ``mean_score`` and ``frequency`` of the period.

        The attribute ``state`` is a JSON text from which `watch` goes on, to the same bits as in one call.

    Raises
    ------
    TypeError
        If this is no summary.
    ValueError
        If the summary has weights, or no such slices or setting; if the state is of other choices, or a period is not
        later than all of the state.

    Notes
    -----
    A bet on outcomes that are more (or less) frequent than scores say, by the tilt t of the log-odds, multiplies its
    capital by e**(t o) / (1 + (e**t - 1) s') for each row, where s' is the score moved by the tolerance towards the
    tilt, within [0, 1]. Under the null hypothesis the expected capital never grows. From the N rows, Y outcomes
    and the mean score of each fine cell of a period follows

        log e = sum over cells of (t Y - N log(1 + (e**t - 1) s')),

    at most the logarithm of the product over rows, and less by at most 0.01 for 2 * 10**5 rows. E is half the capital
    of a bet whose tilts by 20 groups of scores are learnt from earlier periods (level, slope and groups, shrunk towards
    0), and half the mean capital of the fixed tilts +-0.02, +-0.05, +-0.1, +-0.25, +-0.5 and +-1. Within a period
    nothing is learnt: an offset beyond the tolerance of less than about 0.01 in the log-odds is caught from the second
    period on.

    The detector of each bet is M = e (M + 1), with its factor e of the period; their mean, by shares of capital, is at
    least 1 / alpha after 1 / alpha periods or more on average if the model is calibrated. Use it where a model that was
    calibrated for long may change: capital that was lost before has to be regained by E, but not by the detector. It
    counts periods, even without any bet, and does detect something in every 1 / alpha or 2 / alpha periods: with
    alpha = 0.05 / 365 at most 5 % of calibrated models are detected within 365 periods.

    The confidence sequence of the gap is one of the running mean of offsets, which may differ between rows and over
    time. Rows of one customer, or repeated ones, depend on each other and are more certain here than in truth.

    Labels that come late: watch periods whose labels are all due. Those that come early are no fair sample.

    References
    ----------
    .. [1] Arnold, Henzi & Ziegel, Sequentially valid tests for forecast calibration, 2021.
    .. [2] Henzi, Shen, Law & Bossuyt, sequential calibration, New England Journal of Statistics in Data Science, 2024.
    .. [3] Wang & Ramdas, False discovery rate control with e-values, 2022.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> scores, day = rng.random(20_000), np.repeat(np.arange(10), 2_000)
    >>> drifted = scores + np.where(day >= 6, 0.1, 0.0)
    >>> summary = cd.summarize(rng.random(20_000) < drifted, scores, by={"day": day}, settings=["binary"])
    >>> result = cd.watch(summary)
    >>> result.alarm.values.astype(int).tolist(), int(result.since[-1])
    ([0, 0, 0, 0, 0, 0, 1, 1, 1, 1], 6)

    Day by day it is the same:

    >>> first = cd.watch(summary.isel(day=slice(0, 7)))
    >>> later = cd.watch(summary.isel(day=slice(7, 10)), state=first.attrs["state"])
    >>> bool((later.log_e == result.log_e[7:]).all())
    True
    """
    check_level(alpha, "alpha")
    if isinstance(tolerance, bool) or not 0 <= tolerance < 1:
        raise ValueError(f"tolerance expects a number from 0 to below 1 such as 0.01, got {tolerance!r}.")
    sums = PeriodSums.of("watch", summary, period, by, setting)
    layout = sums.summary.source.layout
    cells = sums.summary.source.finest(sums.setting).grid.cells
    watched = Watched(str(sums.setting), period, float(tolerance), float(alpha), layout.classes, cells)
    past = _past(sums, watched, state)
    processes = _Processes(sums, past)
    monitor = Monitor(watched.tolerance, watched.alpha)
    order = np.argsort(sums.periods, kind="stable")
    labels = sums.periods[order]
    _check_later(labels, past.periods, period)
    periods = np.concatenate([past.periods, labels]) if past.periods.size else labels
    columns: list[dict[str, npt.NDArray[Any]]] = []
    for number, position in enumerate(order.tolist(), past.periods.size):
        moment = processes.advance(monitor, position, number)
        columns.append(_numbers(processes, moment, monitor, periods, number))
    values = {name: np.stack([column[name] for column in columns], -1) for name in columns[0]}
    saved = SavedState(watched, processes.slices, sums.columns, periods, processes.state)
    return _dataset(sums, processes, labels, values, saved)


class _Moment(NamedTuple):
    """One period by process: sums of rows, outcomes, scores, (o - s)**2 and s (1 - s), and the detector."""

    rows: Array
    events: Array
    scores: Array
    square: Array
    variance: Array
    log_detector: Array
    detected: npt.NDArray[np.bool_]
    run_length: Counts


class _Processes:
    """The processes of this summary and of an earlier state, and where those of this summary are among them."""

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

    def advance(self, monitor: Monitor, position: int, number: int) -> _Moment:
        """One more period."""
        size = self.state.largest.size
        sums = np.zeros((5, size))
        log_detector = self.state.log_detector
        detected, run_length = np.zeros(size, np.bool_), self.state.run_length.copy()
        for block, cells in self.sums.cells(position):
            here = self._here[block]
            after, detection = monitor.advanced(self.state.at(here), cells, number)
            self.state.put(here, after)
            sums[:, here] = _sums(cells)
            log_detector[here], run_length[here], detected[here] = detection
        rows, events, scores, square, variance = sums
        return _Moment(rows, events, scores, square, variance, log_detector, detected, run_length)


def _sums(cells: PeriodCells) -> list[Array]:
    scores = cells.rows * cells.mean
    terms = (cells.rows, cells.events, scores, cells.square, scores * (1 - cells.mean))
    return [cells.by_process(term) for term in terms]


def _numbers(
    processes: _Processes, moment: _Moment, monitor: Monitor, periods: Labels, number: int
) -> dict[str, npt.NDArray[Any]]:
    """The values of all variables at the end of a period, in the shape of the slices."""
    state, alpha, tolerance = processes.state, monitor.alpha, monitor.tolerance
    count, residual = state.rows.sum(-1), state.events - state.scores
    log_e, since = state.log_e, state.since
    gap = _over(residual.sum(-1), count)
    gap_low, gap_high = gap_ends(count, residual.sum(-1), state.square, alpha)
    error_low, error_high = error_ends(state.rows, residual, state.square, alpha)
    frequency, mean_score = _over(moment.events, moment.rows), _over(moment.scores, moment.rows)
    period_gap = frequency - mean_score
    spread = _over(moment.square, moment.rows) - period_gap**2
    period_low, period_high = Means(mean_score, frequency, spread, moment.rows).ends(1 - alpha)
    # Within the tolerance a residual says nothing against the model.
    beyond = np.abs(moment.events - moment.scores) - tolerance * moment.rows
    values = {
        "log_e": log_e,
        "pvalue": np.exp(-state.largest),
        "alarm": state.largest >= monitor.threshold,
        "since": periods[np.where(since < 0, number, since)],
        "gap": gap,
        "gap_low": gap_low,
        "gap_high": gap_high,
        "error": _over(np.abs(residual).sum(-1), count),
        "error_low": error_low,
        "error_high": error_high,
        "log_detector": moment.log_detector,
        "detected": moment.detected,
        "run_length": moment.run_length,
        "period_gap": period_gap,
        "period_gap_low": np.where(moment.rows > 0, period_low, np.nan),
        "period_gap_high": np.where(moment.rows > 0, period_high, np.nan),
        "period_pvalue": 2 * special.ndtr(-_over(np.maximum(beyond, 0.0), np.sqrt(moment.variance))),
        "rows": moment.rows.astype(np.int64),
        "events": moment.events.astype(np.int64),
        "mean_score": mean_score,
        "frequency": frequency,
    }
    shaped = {name: value.reshape(processes.shape) for name, value in values.items()}
    shaped["found"] = _found(shaped["log_e"], len(processes.sums.summary.batch), alpha)
    return shaped


def _found(log_e: Array, models: int, alpha: float) -> npt.NDArray[np.bool_]:
    """Discoveries over slices and classes, for each model."""
    tests = log_e.reshape(*log_e.shape[:models], -1)
    return e_benjamini_hochberg(tests, alpha).reshape(log_e.shape)


def _past(sums: PeriodSums, watched: Watched, given: Mapping[str, Any] | str | None) -> SavedState:
    """The state to go on from; without one, that before the first period."""
    if given is None:
        size = int(np.prod([labels.size for labels in sums.slices.values()])) * sums.columns
        return SavedState(watched, sums.slices, sums.columns, sums.periods[:0], ProcessState.empty(size))
    try:
        past = SavedState.from_dict(json.loads(given) if isinstance(given, str) else given)
    except json.JSONDecodeError as error:
        raise ValueError(f"state expects the JSON text that an earlier cd.watch returned; {error}.") from error
    if past.watched != watched:
        raise ValueError(
            f"state was made for {past.watched}, and this is {watched}; begin without it, or choose as then."
        )
    if [*past.slices] != [*sums.slices] or past.columns != sums.columns:
        raise ValueError(
            f"state has the slices {listed(past.slices) or 'none'}, and this call {listed(sums.slices) or 'none'}; "
            "give the same by."
        )
    return past


def _check_later(labels: Labels, past: Labels, period: str) -> None:
    if not labels.size:
        raise ValueError(f"watch expects at least one {period}, got none.")
    if past.size and not _later(labels[0], past[-1]):
        raise ValueError(
            f"state has seen every {period} up to {past[-1]}: expected later ones, got {labels[0]}. A period counts "
            "once; begin without the state to watch others."
        )


def _later(label: Any, last: Any) -> bool:
    try:
        return bool(label > last)
    except TypeError:
        return False


def _united(labels: Labels, past: Labels) -> Labels:
    """The labels of both, sorted unless they are the same."""
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


def _dataset(
    sums: PeriodSums,
    processes: _Processes,
    labels: Labels,
    values: Mapping[str, npt.NDArray[Any]],
    saved: SavedState,
) -> xr.Dataset:
    summary = sums.summary
    class_dim = summary.input.class_dim("class")
    coordinates: dict[Hashable, Any] = {
        name: (name, of_axis) for name, of_axis in (processes.slices | {sums.period: labels}).items()
    }
    classes = [class_dim] if sums.setting.per_class else []
    if classes:
        coordinates[class_dim] = (class_dim, summary.classes)
    watched = saved.watched
    attributes: dict[str, Any] = {"rows": summary.rows, "alpha": watched.alpha, "tolerance": watched.tolerance}
    attributes |= {"period": sums.period, "slices": [*summary.slices], "state": json.dumps(saved.to_dict())}
    if summary.batch:
        attributes["batch"] = [*summary.batch]
    dims = [*processes.slices, *classes, sums.period]
    return described(OVER_TIME, values, dims, coordinates, str(sums.setting), class_dim, **attributes)

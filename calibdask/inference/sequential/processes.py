"""E-processes, restarting detectors and the sums of confidence sequences, advanced period by period."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from calibdask.inference.sequential.cells import GROUPS, PeriodCells
from calibdask.inference.sequential.factors import TILTS, fixed_factors, learnt_tilts, plug_in_factors
from calibdask.statistics.exact import Array, Counts

# The plug-in bet has half of the capital, the fixed tilts share the other half.
LOG_SHARES = np.log(np.r_[0.5, np.full(TILTS.size, 0.5 / TILTS.size)])


class ProcessState(NamedTuple):
    """The past of each process, from which it goes on; all logarithms are finite.

    ``products``: logarithms of the capital of each bet (processes, bets). ``largest``: the largest log E, at least 0.
    ``excess`` and ``start``: the largest product of factors of each bet from some period on, and the number of that
    period, -1 before the first rows. ``detectors``: log(M + 1) of each bet; ``run_length``: periods with rows since the
    detector was restarted. ``rows``, ``events``, ``scores``: sums by group of scores (processes, groups). ``square``:
    sum of (o - s)**2. ``counted``: the number of rows, where others are sums of exponents.
    """

    products: Array
    largest: Array
    excess: Array
    start: Counts
    detectors: Array
    run_length: Counts
    rows: Array
    events: Array
    scores: Array
    square: Array
    counted: Array

    @classmethod
    def empty(cls, processes: int) -> "ProcessState":
        """Before the first period."""
        bets, groups = (processes, LOG_SHARES.size), (processes, GROUPS)
        return cls(
            products=np.zeros(bets),
            largest=np.zeros(processes),
            excess=np.zeros(bets),
            start=np.full(bets, -1),
            detectors=np.zeros(bets),
            run_length=np.zeros(processes, np.int64),
            rows=np.zeros(groups),
            events=np.zeros(groups),
            scores=np.zeros(groups),
            square=np.zeros(processes),
            counted=np.zeros(processes),
        )

    def at(self, processes: npt.NDArray[np.intp]) -> "ProcessState":
        """Some of the processes."""
        return ProcessState(**{name: part[processes] for name, part in self._asdict().items()})

    def put(self, processes: npt.NDArray[np.intp], state: "ProcessState") -> None:
        """Replace some of the processes."""
        for whole, part in zip(self, state, strict=True):
            whole[processes] = part

    @property
    def log_e(self) -> Array:
        """The logarithm of the e-process, (processes,)."""
        whole = scipy.special.logsumexp(self.products + LOG_SHARES, axis=-1)
        # Exactly 0 without any bet.
        return np.asarray(whole - scipy.special.logsumexp(LOG_SHARES))

    @property
    def since(self) -> Counts:
        """The number of the period from which on the product of factors is largest, (processes,); -1 before any row."""
        best = (self.excess + LOG_SHARES).argmax(-1)
        return self.start[np.arange(len(best)), best]

    @property
    def log_detector(self) -> Array:
        """The logarithm of the detector, (processes,): -inf where it has just been started."""
        with np.errstate(divide="ignore"):
            log_m = self.detectors + np.log(-np.expm1(-self.detectors))
        return np.asarray(scipy.special.logsumexp(log_m + LOG_SHARES, axis=-1))


@dataclass(frozen=True)
class Monitor:
    """E-processes of calibration within a tolerance, with alarms at the level alpha.

    Parameters
    ----------
    tolerance : float
        The largest |P(o = 1 | past, s) - s| of the null hypothesis.
    alpha : float
        Alarms are given at E >= 1 / alpha.

    Notes
    -----
    E is half the capital of a bet whose tilts are learnt from earlier periods, and half the mean capital of bets with
    fixed tilts. Under the null E reaches 1 / alpha ever with a probability of at most alpha [1]_. The detector of each
    bet is M = e (M + 1), with the factor e of a period; of their mean, restarted at 1 / alpha, the expected time
    to a false alarm is at least 1 / alpha periods [2]_.

    References
    ----------
    .. [1] Ville, Etude critique de la notion de collectif, 1939.
    .. [2] Shin, Ramdas & Rinaldo, E-detectors: a nonparametric framework for sequential change detection, 2024.

    Examples
    --------
    >>> monitor, state = Monitor(tolerance=0.0, alpha=0.05), ProcessState.empty(1)
    >>> for day in range(3):
    ...     state, detected = monitor.advanced(state, PeriodCells.of_table([[100]], [[70]], [0.5]), day)
    >>> state.log_e.round(1).tolist(), state.since.tolist(), detected.detected.tolist()
    ([20.8], [0], [True])
    """

    tolerance: float
    alpha: float

    @property
    def threshold(self) -> float:
        """The log E of an alarm."""
        return float(-np.log(self.alpha))

    def advanced(self, state: ProcessState, cells: PeriodCells, number: int) -> tuple[ProcessState, "Detection"]:
        """Advance the processes by period ``number``; processes without rows do not change."""
        earlier = state.rows, state.events, state.scores
        tilts = learnt_tilts(*earlier, self.tolerance)
        factors = np.column_stack([plug_in_factors(cells, tilts, self.tolerance), fixed_factors(cells, self.tolerance)])
        seen = cells.by_process(cells.rows) > 0
        goes_on = (state.excess > 0) | ~seen[:, None]
        rows, events, scores = (past + new for past, new in zip(earlier, cells.group_sums, strict=True))
        detectors = np.where(seen[:, None], np.logaddexp(factors + state.detectors, 0.0), state.detectors)
        after = ProcessState(
            products=state.products + factors,
            largest=state.largest,
            excess=np.where(goes_on, state.excess, 0.0) + factors,
            start=np.where(goes_on, state.start, number),
            detectors=detectors,
            run_length=state.run_length + seen,
            rows=rows,
            events=events,
            scores=scores,
            square=state.square + cells.by_process(cells.square),
            counted=state.counted + cells.by_process(cells.counted),
        )
        after = after._replace(largest=np.where(seen, np.maximum(state.largest, after.log_e), state.largest))
        detection = Detection(after.log_detector, after.run_length, after.log_detector >= self.threshold)
        restarted = detection.detected
        return after._replace(
            detectors=np.where(restarted[:, None], 0.0, after.detectors),
            run_length=np.where(restarted, 0, after.run_length),
        ), detection


class Detection(NamedTuple):
    """The restarting detector at the end of a period, before it is restarted: by process."""

    log_detector: Array
    run_length: Counts
    detected: npt.NDArray[np.bool_]

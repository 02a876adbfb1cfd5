"""`watch_power`: how soon a shift is caught, and which tolerance the traffic supports."""

import math

import numpy as np
import scipy
import xarray as xr

from calibdask.estimators.checks import check_whole
from calibdask.inference.choice import check_level
from calibdask.inference.sequential.cells import PeriodCells
from calibdask.inference.sequential.processes import Monitor, ProcessState

# Scores that stand for evenly spread ones.
_SCORES = (np.arange(20) + 0.5) / 20
# The tolerance that the traffic supports: the share of streams that are caught, the widest that is tried, and in how
# many steps it is found, to 1e-5.
_MOST, _WIDEST, _HALVINGS = 0.9, 0.25, 15
# The share is a lower confidence limit: of tolerances that catch 9 of 10 simulated streams, half catch fewer of others.
_DOUBT = 0.025


def watch_power(
    rows: int,
    shift: float,
    alpha: float = 0.05,
    tolerance: float = 0.0,
    *,
    calibrated: int = 0,
    periods: int = 60,
    streams: int = 500,
    seed: int = 0,
    scores: np.ndarray | list[float] | None = None,
) -> xr.Dataset:
    """Plan monitoring: after how many periods `calibdask.watch` detects a shift, by simulation.

    Parameters
    ----------
    rows : int
        Rows of a period, which are independent; of dependent rows the number of clusters of a period.
    shift : float
        How much more often (negative: less often) outcomes occur than the scores predict, P(o = 1 | s) - s within [0,
        1].
    alpha, tolerance : float
        As in `calibdask.watch`.
    calibrated : int, default 0
        Number of periods before the shift in which the model is calibrated.
    periods : int, default 60
        Number of simulated periods from the shift on.
    streams : int, default 500
        Number of simulated streams.
    seed : int, default 0
    scores : array, optional
        Scores of the rows, in equal shares; 20 values spread evenly over [0, 1] by default.

    Returns
    -------
    xarray.Dataset
        Along ``period``, from 1: ``caught``, the share of the streams that raise an alarm within that many periods
        after the shift (including those with an earlier false alarm), ``detected``, the same for the restarting
        detector, counted from the shift on. ``median_caught`` and ``median_detected``, the number of periods for half
        of the streams, NaN if fewer than half are caught; and ``supported_tolerance``, the smallest tolerance for which
        a new model that is off by twice as much, in the direction of the shift, is caught in its first period in at
        least nine of ten streams, with 97.5 % confidence; NaN if that is above 0.25 (and with fewer than 36 streams).
        With less traffic, choose a larger tolerance or wait longer.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    In the first period nothing has been learnt: of the bets of `calibdask.watch` only those with fixed tilts gain, and
    they hold half of the capital. The supported tolerance is found by bisection, with the same random numbers of
    ``streams`` streams at each step; the share that is caught counts by the lower limit of Clopper & Pearson, so that
    more streams give a smaller tolerance.

    Examples
    --------
    >>> import calibdask as cd
    >>> plan = cd.watch_power(1000, 0.05, streams=100)
    >>> int(plan.median_caught), round(float(plan.supported_tolerance), 3)
    (1, 0.071)
    """
    check_level(alpha, "alpha")
    for name, number, least in (
        ("rows", rows, 1),
        ("periods", periods, 1),
        ("streams", streams, 1),
        ("calibrated", calibrated, 0),
        ("seed", seed, 0),
    ):
        check_whole(name, number, least)
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance expects a number from 0 to below 1 such as 0.01, got {tolerance!r}.")
    if not -1 < shift < 1:
        raise ValueError(f"shift expects a difference of probabilities between -1 and 1, got {shift!r}.")
    values = np.sort(np.asarray(_SCORES if scores is None else scores, np.float64))
    if values.ndim != 1 or not values.size or not ((values >= 0) & (values <= 1)).all():
        raise ValueError("scores expects a list of numbers from 0 to 1.")
    rng, monitor = np.random.default_rng(seed), Monitor(float(tolerance), float(alpha))
    state = ProcessState.empty(streams)
    caught, detected = np.zeros((periods, streams), np.bool_), np.zeros((periods, streams), np.bool_)
    for number in range(calibrated + periods):
        since = number - calibrated
        period = _period(rng, rows, streams, values, shift if since >= 0 else 0.0)
        state, detection = monitor.advanced(state, period, number)
        if since >= 0:
            caught[since] = state.largest >= monitor.threshold
            detected[since] = detection.detected | (detected[since - 1] if since else False)
    shares = {"caught": caught.mean(-1), "detected": detected.mean(-1)}
    meanings = {"caught": "share with an alarm by then", "detected": "share with a detection by then"}
    variables = {name: ("period", share, {"meaning": meanings[name]}) for name, share in shares.items()}
    medians = {f"median_{name}": _median(share) for name, share in shares.items()}
    supported = {"supported_tolerance": _supported(values, rows, alpha, math.copysign(1.0, shift), streams, seed)}
    attributes = {"rows_per_period": rows, "shift": shift, "alpha": alpha, "tolerance": tolerance}
    attributes |= {"calibrated": calibrated, "streams": streams, "seed": seed}
    return xr.Dataset({**variables, **medians, **supported}, {"period": np.arange(1, periods + 1)}, attributes)


def _median(share: np.ndarray) -> float:
    """The number of periods within which half of the streams are caught."""
    enough = share >= 0.5
    return float(enough.argmax() + 1) if enough.any() else math.nan


def _supported(scores: np.ndarray, rows: int, alpha: float, sign: float, streams: int, seed: int) -> float:
    """The smallest tolerance whose double is caught by `_MOST` of all streams in one period; NaN if none is."""
    needed = _streams_needed(streams)

    def caught(tolerance: float) -> bool:
        monitor = Monitor(tolerance, alpha)
        period = _period(np.random.default_rng(seed), rows, streams, scores, 2 * sign * tolerance)
        state, _ = monitor.advanced(ProcessState.empty(streams), period, 0)
        return bool((state.largest >= monitor.threshold).sum() >= needed)

    # Scores are clipped at 0 and 1: beyond some tolerance nothing is caught any more.
    tried = _WIDEST * 2.0 ** -np.arange(_HALVINGS)[::-1]
    high = next((tolerance for tolerance in tried.tolist() if caught(tolerance)), math.nan)
    low = 0.0 if high == tried[0] else high / 2
    while high - low > _WIDEST * 2.0**-_HALVINGS:
        middle = (low + high) / 2
        low, high = (low, middle) if caught(middle) else (middle, high)
    return high


def _streams_needed(streams: int) -> float:
    """So many of the streams that are caught show that `_MOST` of all are; infinite where all are too few.

    Examples
    --------
    >>> [_streams_needed(streams) for streams in (35, 36, 400)]
    [inf, 36.0, 372.0]
    """
    caught = np.arange(1, streams + 1)
    least = scipy.special.betaincinv(caught, streams - caught + 1.0, _DOUBT)
    enough = caught[least >= _MOST]
    return float(enough[0]) if enough.size else math.inf


def _period(rng: np.random.Generator, rows: int, streams: int, scores: np.ndarray, shift: float) -> PeriodCells:
    """A period of each stream, with outcomes that are more frequent than scores say by the shift."""
    cells = rng.multinomial(rows, np.full(scores.size, 1 / scores.size), streams)
    return PeriodCells.of_table(cells, rng.binomial(cells, np.clip(scores + shift, 0.0, 1.0)), scores)

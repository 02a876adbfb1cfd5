"""Slow oracles of sequential monitoring, as plain loops over rows, written from the formulas and not from the package.

The null with tolerance t: |P(outcome | past, score) - score| <= t. Every row multiplies evidence by a factor with
expectation at most one under it, e^(d o) / (1 + (e^d - 1) s'), where s' is the end of [s - t, s + t] in [0, 1] that
makes the factor smallest. Never imported by the package.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

FIXED_TILTS = (-1.0, -0.5, -0.25, -0.1, -0.05, -0.02, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)

Row = tuple[float, int]
Period = Sequence[Row]


def row_log_factor(tilt: float, score: float, outcome: int, tolerance: float = 0.0) -> float:
    """Logarithm of one row's factor."""
    if tilt == 0.0:
        return 0.0
    worst = min(1.0, score + tolerance) if tilt > 0 else max(0.0, score - tolerance)
    return tilt * outcome - math.log1p(math.expm1(tilt) * worst)


def expected_factor(tilt: float, score: float, chance: float, tolerance: float) -> float:
    """Expectation of one row's factor where the outcome has this chance."""
    return sum(
        share * math.exp(row_log_factor(tilt, score, outcome, tolerance))
        for outcome, share in ((0, 1.0 - chance), (1, chance))
    )


def period_log_factor(rows: Period, tilt: Callable[[float], float], tolerance: float) -> float:
    """Sum over rows of their logarithms, where the tilt may depend on the score."""
    return math.fsum(row_log_factor(tilt(score), score, outcome, tolerance) for score, outcome in rows)


def log_mean_exp(values: Sequence[float]) -> float:
    """Logarithm of the mean of exponentials."""
    peak = max(values)
    return peak + math.log(math.fsum(math.exp(value - peak) for value in values) / len(values))


def fixed_tilts_log_e(periods: Iterable[Period], tolerance: float, tilts: Sequence[float] = FIXED_TILTS) -> list[float]:
    """After each period, log of the mean over tilts of the products so far."""
    products = [0.0] * len(tilts)
    path = []
    for rows in periods:
        for j, tilt in enumerate(tilts):
            products[j] += period_log_factor(rows, lambda score, tilt=tilt: tilt, tolerance)
        path.append(log_mean_exp(products))
    return path


def plug_in_log_e(
    periods: Iterable[Period], tilts: Iterable[Callable[[float], float]], tolerance: float
) -> list[float]:
    """After each period, log of the product so far; each period's tilt is settled before its rows are seen."""
    total, path = 0.0, []
    for rows, tilt in zip(periods, tilts, strict=True):
        total += period_log_factor(rows, tilt, tolerance)
        path.append(total)
    return path


def half_and_half(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Log of 1/2 e^a + 1/2 e^b, period by period."""
    return [log_mean_exp((a, b)) for a, b in zip(first, second, strict=True)]


def running_maximum(path: Sequence[float]) -> list[float]:
    """The largest value up to each period."""
    return [max(path[: t + 1]) for t in range(len(path))]


def always_valid_pvalue(path: Sequence[float]) -> float:
    """min(1, 1 / max E)."""
    return min(1.0, math.exp(-max(path)))


def restarting_detector(log_factors: Sequence[float]) -> list[float]:
    """Log M_t of M_t = e_t (M_{t-1} + 1), M_0 = 0."""
    statistic, path = -math.inf, []
    for log_factor in log_factors:
        grown = 0.0 if statistic == -math.inf else max(statistic, 0.0) + math.log1p(math.exp(-abs(statistic)))
        statistic = log_factor + grown
        path.append(statistic)
    return path


def sum_over_starts(log_factors: Sequence[float]) -> list[float]:
    """The same M_t as the sum over starting periods j <= t of e_j ... e_t."""
    return [
        math.log(math.fsum(math.exp(math.fsum(log_factors[j : t + 1])) for j in range(t + 1)))
        for t in range(len(log_factors))
    ]


def most_likely_start(log_factors: Sequence[float]) -> int:
    """The j that maximises e_j ... e_T: since when the last change lasts."""
    products = [math.fsum(log_factors[j:]) for j in range(len(log_factors))]
    return products.index(max(products))


def e_bh(e_values: Sequence[float], alpha: float) -> list[bool]:
    """e-BH: the k largest are found, k the largest with e_(k) >= m / (k alpha)."""
    m, found = len(e_values), 0
    ordered = sorted(e_values, reverse=True)
    for k in range(1, m + 1):
        if ordered[k - 1] >= m / (k * alpha):
            found = k
    if found == 0:
        return [False] * m
    return [value >= ordered[found - 1] for value in e_values]


def attribution(
    before: Sequence[tuple[int, Fraction]], after: Sequence[tuple[int, Fraction]]
) -> tuple[Fraction, Fraction]:
    """Mix and within of the change of the mean gap; cells are (rows, gap of means), none empty; in exact fractions."""
    rows_before, rows_after = sum(n for n, _ in before), sum(n for n, _ in after)
    mix = within = Fraction(0)
    for (n, gap), (n_after, gap_after) in zip(before, after, strict=True):
        share, share_after = Fraction(n, rows_before), Fraction(n_after, rows_after)
        mix += (share_after - share) * (gap_after + gap) / 2
        within += (gap_after - gap) * (share_after + share) / 2
    return mix, within

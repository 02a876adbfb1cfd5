"""Mending by loops over segments, written from the formulas; scores are few, and cells are the scores as given."""

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import binom

Array = NDArray[Any]


def tail(o: Array, s: Array) -> float:
    """A bound of the tail that the sum of outcomes lies in: Chernoff's, or that of the binomial distribution."""
    outcome, expected, rows = o.sum(), s.sum(), len(s)
    if not rows or outcome == expected:
        return 1.0

    def bound(tilt: float) -> float:
        return float(np.log1p(math.expm1(tilt) * s).sum() - tilt * outcome)

    log_chernoff = min(0.0, minimize_scalar(bound, bounds=(-20, 20), method="bounded", options={"xatol": 1e-9}).fun)
    mean = expected / rows
    binomial = 1.0
    if outcome >= expected + 1:
        binomial = float(binom.sf(outcome - 1, rows, mean))
    elif outcome <= expected - 1:
        binomial = float(binom.cdf(outcome, rows, mean))
    return min(math.exp(log_chernoff), binomial)


def pvalue(o: Array, q: Array, cell: Array, cells: int) -> float:
    """Of all scores, the lower and the upper half of the cells; scores of a cell are at their mean."""
    s = at_means(q, cell)
    halves = [np.full(len(o), True), cell < cells // 2, cell >= cells // 2]
    return min(1.0, 3 * min(min(1.0, 2 * tail(o[half], s[half])) for half in halves))


def at_means(q: Array, cell: Array) -> Array:
    """The mean score of the cell of each row."""
    means = {number: q[cell == number].mean() for number in np.unique(cell).tolist()}
    return np.array([means[number] for number in cell.tolist()])


def holm(pvalues: list[float]) -> list[float]:
    """Adjusted p-values."""
    order = np.argsort(pvalues, kind="stable")
    adjusted, most = [0.0] * len(pvalues), 0.0
    for rank, place in enumerate(order.tolist()):
        most = max(most, min(1.0, (len(pvalues) - rank) * pvalues[place]))
        adjusted[place] = most
    return adjusted


def moved(o: Array, q: Array, cell: Array, shrinkage: float) -> tuple[float, float, float]:
    """The mode of the posterior of offset and slope, and the gain of log-likelihood."""
    s = at_means(q, cell)
    z = np.log(s / (1 - s))

    def loss(c: Array, prior: float) -> float:
        logit = z + c[0] + c[1] * z
        return float((np.logaddexp(0, logit) - o * logit).sum() + prior / 2 * (c**2).sum())

    a, b = minimize(lambda c: loss(c, shrinkage), [0.0, 0.0], tol=1e-12).x
    return a, b, loss(np.zeros(2), 0.0) - loss(np.array([a, b]), 0.0)


def mended(
    y: Array, p: Array, conditions: dict[str, Array], rounds: int, min_rows: int, alpha: float, shrinkage: float
) -> list[dict[str, tuple[float, float]]]:
    """The segments that each round moves, with offset and slope; without a cross-fit that would stop it."""
    edges = np.unique(p)
    steps: list[dict[str, tuple[float, float]]] = []
    q = p.copy()
    named: set[str] = set()
    for _ in range(rounds):
        cell = (q[:, None] > edges).sum(1)
        segments: list[tuple[tuple[str, ...], str, Array]] = []
        for size in range(3):
            for names in itertools.combinations(conditions, size):
                chosen = [conditions[name].tolist() for name in names]
                joined = [", ".join(row) for row in zip(*chosen, strict=True)] if names else ["all rows"] * len(y)
                texts = np.array(joined)
                segments += [(names, text, texts == text) for text in np.unique(texts).tolist()]
        segments = [segment for segment in segments if segment[2].sum() >= min_rows]
        adjusted = holm([pvalue(y[here], q[here], cell[here], len(edges) + 1) for _, _, here in segments])
        gains: dict[tuple[str, ...], float] = {}
        fits: dict[tuple[str, ...], dict[str, tuple[float, float]]] = {}
        for (names, text, here), p_adjusted in zip(segments, adjusted, strict=True):
            if p_adjusted <= alpha or text in named:
                a, b, gain = moved(y[here], q[here], cell[here], shrinkage)
                net = gain - (2.0 if text in named else math.log(3 * len(segments) / alpha))
                if net > 0:
                    gains[names] = gains.get(names, 0.0) + net
                    fits.setdefault(names, {})[text] = (a, b)
        if not gains:
            break
        best = max(gains, key=lambda names: gains[names])
        steps.append(fits[best])
        named |= fits[best].keys()
        for text, (a, b) in fits[best].items():
            here = next(mask for names, name, mask in segments if names == best and name == text)
            z = np.log(q[here] / (1 - q[here]))
            q[here] = 1 / (1 + np.exp(-(z + a + b * z)))
    return steps

"""The numbers of an audit by loops over rows, written from the formulas."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[Any]
TILTS = [sign * size for sign in (-1, 1) for size in (0.01, 0.03, 0.1, 0.25, 0.5, 1.0, 2.0)]


def segment_rows(conditions: dict[str, Sequence[str]], depth: int) -> dict[str, list[int]]:
    """Rows of each segment, by its text; ``conditions`` has the text of the value of every row, by feature."""
    rows: dict[str, list[int]] = {}
    for i in range(len(next(iter(conditions.values())))):
        for size in range(depth + 1):
            for names in itertools.combinations(conditions, size):
                text = ", ".join(conditions[name][i] for name in names) or "all rows"
                rows.setdefault(text, []).append(i)
    return rows


def numbers(y: Sequence[int], p: Sequence[float], w: Sequence[float], cells: Sequence[int]) -> dict[str, Any]:
    """Numbers of the rows of one segment, by cells of scores in order."""
    weight = sum(w)
    by_cell: dict[int, float] = {}
    for o, s, v, cell in zip(y, p, w, cells, strict=True):
        by_cell[cell] = by_cell.get(cell, 0.0) + v * (o - s)
    path, total = [0.0], 0.0
    for cell in sorted(by_cell):
        total += by_cell[cell]
        path.append(total / weight)
    return {
        "rows": len(y),
        "events": sum(y),
        "mean_score": sum(v * s for s, v in zip(p, w, strict=True)) / weight,
        "frequency": sum(v * o for o, v in zip(y, w, strict=True)) / weight,
        "gap": sum(v * (o - s) for o, s, v in zip(y, p, w, strict=True)) / weight,
        "ece": sum(abs(gap) for gap in by_cell.values()) / weight,
        "ecce": max(path) - min(path),
        "sigma": math.sqrt(sum(v * v * s * (1 - s) for s, v in zip(p, w, strict=True))) / weight,
    }


def exact_tail(p: Sequence[float], y: int) -> float:
    """Twice the probability of so many outcomes or more extreme ones on that side, if scores are right."""
    chances = np.array([1.0])
    for s in p:
        chances = np.append(chances * (1 - s), 0.0) + np.append(0.0, chances * s)
    return float(min(1.0, 2 * (chances[y:].sum() if y > sum(p) else chances[: y + 1].sum())))


def evidence(y: Array, p: Array, w: Array, largest: float, *, weighted: bool) -> dict[str, float]:
    """What a segment says against scores, from its rows; ``largest`` weight of all rows."""
    v = w / largest
    total, expected = float(np.sum(w * y)), float(np.sum(w * p))

    def log_moment(tilt: float) -> float:
        return float(np.sum(v * np.log(1 + np.expm1(tilt) * p)))

    log_es = [tilt * total / largest - log_moment(tilt) for tilt in TILTS]

    def log_bound(tilt: float) -> float:
        return log_moment(tilt) - tilt * total / largest

    chernoff = scipy.optimize.minimize_scalar(
        lambda tilt: log_moment(tilt) - tilt * total / largest,
        bounds=(-40, 40),
        method="bounded",
        options={"xatol": 1e-9},
    ).fun
    if weighted:
        off = abs(total - expected)
        observed = sum(
            np.sum(w[y == k] ** 2) * np.average((k - p[y == k]) ** 2, weights=w[y == k])
            for k in (0, 1)
            if (y == k).any()
        )
        further = -(off**2) / 2 / (max(np.sum(w**2 * p * (1 - p)), observed) + largest * off / 3)
    else:
        # Hoeffding's inequality for binomial tails begins one outcome from the mean.
        binomial = scipy.stats.binom(len(y), p.mean())
        above, below = total >= expected + 1, total <= expected - 1
        further = binomial.logsf(total - 1) if above else binomial.logcdf(total) if below else 0.0
    return {
        "pvalue": 1.0 if total == expected else min(1.0, 2 * math.exp(min(chernoff, further, 0.0))),
        "log_e": float(np.log(np.mean(np.exp(log_es)))),
    }


def ece_of_chance(p: Array, w: Array, cells: Array) -> float:
    """The error that a calibrated model shows: in each cell that of a normal sum, or of rare outcomes."""
    errors = []
    for cell in np.unique(cells):
        here = cells == cell
        variance = np.sum(p[here] * (1 - p[here]))
        errors.append(w[here].mean() * min(math.sqrt(2 / math.pi * variance), 2 * variance))
    return float(sum(errors) / w.sum())


def slope(y: Array, p: Array, w: Array) -> float:
    """The slope of the log-odds by maximum likelihood."""
    odds = scipy.special.logit(np.clip(p, 1e-12, 1 - 1e-12))

    def loss(line: Array) -> float:
        z = line[0] + line[1] * odds
        return float(np.sum(w * (np.logaddexp(0, z) - y * z)))

    def gradient(line: Array) -> Array:
        off = w * (scipy.special.expit(line[0] + line[1] * odds) - y)
        return np.array([off.sum(), (off * odds).sum()])

    return float(scipy.optimize.minimize(loss, [0.0, 1.0], jac=gradient, tol=1e-9).x[1])


def adjusted(pvalues: dict[str, float]) -> dict[str, float]:
    """Holm's adjustment."""
    adjusted, largest = {}, 0.0
    for rank, text in enumerate(sorted(pvalues, key=pvalues.__getitem__)):
        largest = max(largest, min(1.0, (len(pvalues) - rank) * pvalues[text]))
        adjusted[text] = largest
    return adjusted


def discoveries(log_es: dict[str, float], alpha: float) -> set[str]:
    """Those of e-BH: the largest k of them with the k-th e-value at least segments / (k alpha)."""
    order = sorted(log_es, key=log_es.__getitem__, reverse=True)
    enough = [k for k, text in enumerate(order, 1) if log_es[text] >= math.log(len(order) / (k * alpha))]
    return set(order[: max(enough, default=0)])

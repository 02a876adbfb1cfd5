"""Slow oracles of section 2 (densities), written straight from the formulas: sums of kernels over rows and images.

Never imported by the package. Scores are converted to float64 once; weights are masses of rows.
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, xlog1py, xlogy

Array = NDArray[np.float64]
Column = tuple[Array, Array, float]
Kernel = Literal["triweight", "gaussian", "epanechnikov", "cosine", "beta"]
Form = Literal["ratio", "residual"]
Setting = Literal["binary", "classwise", "confidence", "top-k"] | int

# A multiple of the 3600 cells of the package, so that its nodes are among ours.
CELLS = 6 * 3600


# Settings: columns of (score, outcome, lower end of the support)


def columns(labels: ArrayLike, scores: ArrayLike, setting: Setting = "binary", k: int | None = None) -> list[Column]:
    """The table of section 0; a vector of scores is P(y = 1)."""
    y, p = np.asarray(labels), np.asarray(scores, dtype=np.float64)
    p = np.column_stack([1.0 - p, p]) if p.ndim == 1 else p
    classes = p.shape[1]
    if setting == "classwise":
        return [(p[:, c], (y == c).astype(np.float64), 0.0) for c in range(classes)]
    if setting in ("confidence", "top-k"):
        top = 1 if setting == "confidence" else int(k or 0)
        # A stable sort of -p: equal scores keep the order of their classes, the lowest first.
        best = np.argsort(-p, axis=1, kind="stable")[:, :top]
        low = top / classes
        s = np.take_along_axis(p, best, axis=1).sum(axis=1).clip(low, 1.0)
        return [(s, (best == y[:, None]).any(axis=1).astype(np.float64), low)]
    c = 1 if setting == "binary" else int(setting)
    return [(p[:, c], (y == c).astype(np.float64), 0.0)]


# Kernels of standard deviation 1: (half width of the support, function)


def triweight(u: Array) -> Array:
    return 35.0 / 96.0 * np.maximum(1.0 - (u / 3.0) ** 2, 0.0) ** 3


def gaussian(u: Array) -> Array:
    return np.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi)


def epanechnikov(u: Array) -> Array:
    return 0.75 / math.sqrt(5.0) * np.maximum(1.0 - u * u / 5.0, 0.0)


# cos(pi t / 2) pi / 4 on [-1, 1] has variance 1 - 8 / pi^2.
COSINE_WIDTH = 1.0 / math.sqrt(1.0 - 8.0 / math.pi**2)


def cosine(u: Array) -> Array:
    t = u / COSINE_WIDTH
    return np.where(np.abs(t) <= 1.0, math.pi / 4.0 / COSINE_WIDTH * np.cos(math.pi / 2.0 * t), 0.0)


MIRRORED = {
    "triweight": (3.0, triweight),
    "gaussian": (10.0, gaussian),  # beyond 10 standard deviations it is below 1e-22
    "epanechnikov": (math.sqrt(5.0), epanechnikov),
    "cosine": (COSINE_WIDTH, cosine),
}


def images(t: float, reach: float, low: float, high: float) -> list[float]:
    """The mirror images of t in both ends, and in the images of the ends, that reach into [low, high]."""
    length = high - low
    most = math.ceil(reach / (2.0 * length)) + 1
    mirrored = [low + 2.0 * m * length + sign * (t - low) for m in range(-most, most + 1) for sign in (1.0, -1.0)]
    return [z for z in mirrored if low - reach < z < high + reach]


def smooth_mirrored(t: Array, masses: Array, h: float, kernel: Kernel, low: float, x: Array) -> Array:
    """Sum over rows i and images z of masses[:, i] K((x - z) / h) / h at the nodes x."""
    width, function = MIRRORED[kernel]
    out = np.zeros((masses.shape[0], x.size))
    for i, score in enumerate(t.tolist()):
        # Two different reflections give the same image of an end; both count: half a kernel lies outside.
        for z in images(score, width * h, low, 1.0):
            a, b = np.searchsorted(x, [z - width * h, z + width * h])
            out[:, a:b] += masses[:, i, None] * (function((x[a:b] - z) / h) / h)
    return out


def chen_parameters(x: Array, b: float) -> tuple[Array, Array]:
    """The parameters of Chen's second beta kernel at x in [0, 1]; needs b <= 1/4."""

    def rho(v: Array) -> Array:
        v = np.minimum(v, 2.0 * b)  # only used below 2 b; avoids roots of negative numbers elsewhere
        # rho(0) = 1; a rounding error below 1 would give an infinite density at the ends.
        return np.maximum(2.0 * b**2 + 2.5 - np.sqrt(4.0 * b**4 + 6.0 * b**2 + 2.25 - v**2 - v / b), 1.0)

    return np.where(x < 2.0 * b, rho(x), x / b), np.where(x > 1.0 - 2.0 * b, rho(1.0 - x), (1.0 - x) / b)


def smooth_beta(t: Array, masses: Array, h: float, low: float, x: Array) -> Array:
    """Sum over rows i of masses[:, i] times the beta density at t_i with the parameters of x, on [low, 1]."""
    length = 1.0 - low
    p, q = chen_parameters(np.clip((x - low) / length, 0.0, 1.0), 4.0 * (h / length) ** 2)
    norm = betaln(p, q)
    out = np.zeros((masses.shape[0], x.size))
    for i, u in enumerate(((t - low) / length).clip(0.0, 1.0).tolist()):
        # xlogy(0, 0) = 0: a parameter of exactly 1 gives 0^0 = 1.
        out += masses[:, i, None] * (np.exp(xlogy(p - 1.0, u) + xlog1py(q - 1.0, -u) - norm) / length)
    return out


def nodes(low: float = 0.0, cells: int = CELLS) -> Array:
    return low + (1.0 - low) * np.arange(cells + 1) / cells


def smooth(t: Array, masses: Array, h: float, kernel: Kernel, low: float, x: Array) -> Array:
    """Kernel sums of each row of masses at x; equal scores are one score with the sum of their masses."""
    unique, where = np.unique(t, return_inverse=True)
    merged = np.stack([np.bincount(where, weights=row, minlength=unique.size) for row in masses])
    if kernel == "beta":
        return smooth_beta(unique, merged, h, low, x)
    return smooth_mirrored(unique, merged, h, kernel, low, x)


def shares(t: Array, weights: ArrayLike | None) -> Array:
    w = np.ones(t.size) if weights is None else np.asarray(weights, dtype=np.float64)
    return w / w.sum()


# Measures of one column


def trapezium(values: Array, x: Array) -> float:
    return float(np.sum((values[1:] + values[:-1]) * np.diff(x)) / 2.0)


def densities(
    column: Column, h: float, kernel: Kernel = "triweight", weights: ArrayLike | None = None, x: Array | None = None
) -> tuple[Array, Array, Array]:
    """Nodes, f and g = P(o = 1) f1."""
    s, o, low = column
    x = nodes(low) if x is None else x
    w = shares(s, weights)
    f, g = smooth(s, np.stack([w, w * o]), h, kernel, low, x)
    return x, f, g


def density_ece(
    column: Column,
    h: float,
    kernel: Kernel = "triweight",
    form: Form = "ratio",
    weights: ArrayLike | None = None,
    cells: int = CELLS,
) -> float:
    """Integral of |g - s f|, or of the absolute smoothed residual."""
    s, o, low = column
    x = nodes(low, cells)
    if form == "residual":
        w = shares(s, weights)
        (residual,) = smooth(s, (w * (o - s))[None], h, kernel, low, x)
        return trapezium(np.abs(residual), x)
    _, f, g = densities(column, h, kernel, weights, x)
    return trapezium(np.abs(g - x * f), x)


def lce(column: Column, h: float, kernel: Kernel, x: Array, weights: ArrayLike | None = None) -> tuple[Array, Array]:
    """LCE = g / f - s at x, and f; NaN where f is 0."""
    _, f, g = densities(column, h, kernel, weights, x)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(f > 0.0, g / f, np.nan) - x, f


def silverman(column: Column, weights: ArrayLike | None = None, cells: int = 3600) -> float:
    """Silverman's rule, at least one cell of the package's grid; weights only where quantiles do not decide."""
    s, _, low = column
    w = shares(s, weights)
    n = 1.0 / float(np.sum(w * w))  # Kish: (sum w)^2 / sum w^2
    if weights is None:
        q1, q25, q75, q99 = np.quantile(s, [0.01, 0.25, 0.75, 0.99])
        spread = min(float(np.std(s, ddof=1)), float(q75 - q25) / 1.34898) if s.size > 1 else 0.0
        spread = spread or float(q99 - q1) / 4.65265
    else:
        mean = float(np.sum(w * s))
        spread = math.sqrt(float(np.sum(w * (s - mean) ** 2)) * n / (n - 1.0))
    return max(spread * (0.75 * n) ** -0.2, (1.0 - low) / cells)


def smooth_ece(column: Column, weights: ArrayLike | None = None, cells: int = 3000) -> float:
    """The bandwidth h such that the integral of the absolute residual, smoothed by a Gaussian mirrored on [0, 1], is h.

    The integral does not grow with h, so there is one crossing, which bisection finds.
    """
    s, o, _ = column
    below, above = 0.0, 1.0
    while above - below > 1e-6:
        h = (below + above) / 2.0
        if density_ece((s, o, 0.0), h, "gaussian", "residual", weights, cells) > h:
            below = h
        else:
            above = h
    return (below + above) / 2.0


def density_ece_of(
    labels: ArrayLike,
    scores: ArrayLike,
    setting: Setting = "binary",
    k: int | None = None,
    bandwidth: float | Literal["silverman"] = "silverman",
    kernel: Kernel = "triweight",
    form: Form = "ratio",
    weights: ArrayLike | None = None,
) -> float:
    """The mean over the setting's columns, each with its own bandwidth."""
    values = []
    for column in columns(labels, scores, setting, k):
        h = silverman(column, weights) if bandwidth == "silverman" else bandwidth
        values.append(density_ece(column, h, kernel, form, weights))
    return float(np.mean(values))

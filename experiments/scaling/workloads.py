"""What is raced: the work of the package, a plain read of the same arrays, and other packages at the same work."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

import calibdask as cd
from experiments.scaling import peers
from experiments.scaling.data import binary, matrix, read
from experiments.scaling.peers import Calls
from experiments.scaling.race import Race

__all__ = ["WORKLOADS"]

TYPES = ("float32", "float64")
SHAPES = ((1_000_000, 10), (100_000, 1000))
PANEL = (cd.ECE(), cd.ECE(setting="classwise"), cd.BrierScore(), cd.LogLoss())


def _ours(metric: Any, labels: Any, scores: Any, **options: Any) -> Callable[[], Any]:
    return partial(cd.evaluate, labels, scores, metric, **options)


def binary_ece(shrink: int) -> Iterator[Race]:
    """Uniform bins, exact edges, the validity check included."""
    for dtype in TYPES:
        for skewed in (False, True):
            rows = 10_000_000 // shrink
            labels, scores = binary(rows, dtype, skewed=skewed)
            entrants: Calls = {"read": partial(read, labels, scores), "calibdask": _ours(cd.ECE(), labels, scores)}
            name = f"binary ECE, {'skewed' if skewed else 'uniform'} {dtype}"
            yield Race(name, entrants | peers.binary_peers(labels, scores), "read", rows, {"calibdask": 9.0})


def confidence_ece(shrink: int) -> Iterator[Race]:
    """The largest of many scores."""
    for rows, classes in SHAPES:
        for dtype in TYPES:
            labels, scores = matrix(rows // shrink, classes, dtype)
            entrants: Calls = {"read": partial(read, labels, scores), "calibdask": _ours(cd.ECE(), labels, scores)}
            name = f"confidence ECE, K={classes} {dtype}"
            goal = {"calibdask": 5.0 if classes == 10 else 2.5}
            yield Race(name, entrants | peers.confidence_peers(labels, scores), "read", scores.size, goal)


def classwise_ece(shrink: int) -> Iterator[Race]:
    """Every class."""
    for rows, classes in SHAPES:
        for dtype in TYPES:
            labels, scores = matrix(rows // shrink, classes, dtype)
            ours = _ours(cd.ECE(setting="classwise"), labels, scores)
            entrants: Calls = {"read": partial(read, labels, scores), "calibdask": ours}
            goal = {"calibdask": 12.0 if classes == 10 else 4.5}
            # A thousand calls of other tools take minutes.
            others = peers.classwise_peers(labels, scores) if classes == 10 else {}
            yield Race(f"class-wise ECE, K={classes} {dtype}", entrants | others, "read", scores.size, goal)


def one_pass(shrink: int) -> Iterator[Race]:
    """Four metrics together, against the dearest of them alone."""
    for dtype in TYPES:
        labels, scores = matrix(1_000_000 // shrink, 10, dtype)
        entrants: Calls = {
            "class-wise alone": _ours(cd.ECE(setting="classwise"), labels, scores),
            "four metrics": _ours(PANEL, labels, scores),
            "read": partial(read, labels, scores),
        }
        yield Race(f"four metrics, K=10 {dtype}", entrants, "class-wise alone", scores.size, {"four metrics": 1.25})


def equal_mass(shrink: int) -> Iterator[Race]:
    """Exact order statistics as edges, and sums between them."""
    for skewed in (False, True):
        labels, scores = binary(10_000_000 // shrink, "float32", skewed=skewed)
        entrants: Calls = {
            "read": partial(read, labels, scores),
            "calibdask": _ours(cd.ECE(binning="equal-mass"), labels, scores),
            "numpy sort": partial(np.sort, scores),
            "numpy quantile": partial(np.quantile, scores, np.linspace(0, 1, 16)),
        }
        name = f"equal-mass ECE, {'skewed' if skewed else 'uniform'} float32"
        yield Race(name, entrants, "read", scores.size, {"calibdask": 15.0})


def convex(shrink: int) -> Iterator[Race]:
    """Rows shared between two bins."""
    for dtype in TYPES:
        labels, scores = binary(10_000_000 // shrink, dtype)
        ours = _ours(cd.ECE(mapping="convex"), labels, scores)
        entrants: Calls = {"read": partial(read, labels, scores), "calibdask": ours}
        yield Race(f"convex ECE, {dtype}", entrants, "read", scores.size, {"calibdask": 12.0})


def density(shrink: int) -> Iterator[Race]:
    """The density estimator, few rows and many; what other tools smooth."""
    for rows in (10_000, 1_000_000 // shrink):
        labels, scores = binary(rows, "float64", skewed=True)
        entrants: Calls = {
            "read": partial(read, labels, scores),
            "calibdask": _ours(cd.DensityECE(bandwidth=0.033), labels, scores),
            "calibdask smECE": _ours(cd.SmoothECE(), labels, scores),
        }
        others = peers.density_peers(labels, scores, 0.033)
        yield Race(f"density ECE, {rows} rows", entrants | others, "calibdask", rows)


def pairs(shrink: int) -> Iterator[Race]:
    """The kernel calibration error of all pairs."""
    for classes, distance in ((10, "tv"), (100, "euclidean")):
        for dtype in TYPES:
            rows = int(10_000 / shrink**0.5)
            labels, scores = matrix(rows, classes, dtype)
            kernel: Any = {"distance": distance, "bandwidth": 0.5}
            entrants: Calls = {
                "calibdask": _ours(cd.SKCE(**kernel), labels, scores),
                "scipy and numpy": partial(_cdist, labels, scores, distance),
            }
            count = rows * (rows - 1) // 2
            yield Race(f"SKCE of pairs, K={classes} {distance} {dtype}", entrants, "calibdask", count)


def _cdist(labels: Any, scores: Any, distance: str) -> float:
    """As one would write it: all distances, the kernel, and a quadratic form of the residuals."""
    from scipy.spatial.distance import cdist

    residuals = np.eye(scores.shape[1], dtype=scores.dtype)[labels] - scores
    found = cdist(scores, scores, "cityblock" if distance == "tv" else "euclidean")
    kernel = np.exp(found * (-0.5 if distance == "tv" else -1.0) / 0.5)
    products = kernel * (residuals @ residuals.T)
    rows = len(labels)
    return float((products.sum() - np.trace(products)) / (rows * (rows - 1)))


def bootstrap(shrink: int) -> Iterator[Race]:
    """200 replicates from the histogram; the plain evaluation is the reference."""
    labels, scores = binary(1_000_000 // shrink, "float32")
    for name, metric in (("ECE", cd.ECE()), ("curve", cd.ReliabilityCurve())):
        entrants: Calls = {
            "no replicates": _ours(metric, labels, scores),
            "200 replicates": _ours(metric, labels, scores, ci=0.95),
        }
        yield Race(f"bootstrap of the {name}", entrants, "no replicates", len(labels))


WORKLOADS: Mapping[str, Callable[[int], Iterator[Race]]] = {
    "binary": binary_ece,
    "confidence": confidence_ece,
    "classwise": classwise_ece,
    "one-pass": one_pass,
    "equal-mass": equal_mass,
    "convex": convex,
    "density": density,
    "pairs": pairs,
    "bootstrap": bootstrap,
}

"""The benchmarks: calibdask, reading the same arrays, and other packages at the same work."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

import calibdask as cd
from calibdask.statistics.bins.grid import Grid, GridHistogram
from calibdask.statistics.block import Block
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from experiments.ece_benchmark.binned import binned_estimates
from experiments.ece_benchmark.columns import column_keys
from experiments.ece_benchmark.density import MOST_CELLS, density_estimates, silverman
from experiments.ece_benchmark.estimators import estimates
from experiments.scaling import peers
from experiments.scaling.data import binary, matrix, read
from experiments.scaling.peers import Calls
from experiments.scaling.race import Race

TYPES = ("float32", "float64")
SHAPES = ((1_000_000, 10), (100_000, 1000))
PAIR_GOALS = {(10, "float64"): 4.4, (10, "float32"): 2.1, (100, "float64"): 9.5, (100, "float32"): 5.3}
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


def skewed_binary(shrink: int) -> Iterator[Race]:
    """Scores that crowd in one bin against scores that do not."""
    rows = 10_000_000 // shrink
    for dtype in TYPES:
        entrants: Calls = {
            name: _ours(cd.ECE(), *binary(rows, dtype, skewed=name == "skewed")) for name in ("uniform", "skewed")
        }
        yield Race(f"skewed against uniform scores, {dtype}", entrants, "uniform", rows, {"skewed": 1.2})


def confidence_ece(shrink: int) -> Iterator[Race]:
    """The largest of many scores."""
    for rows, classes in SHAPES:
        for dtype in TYPES:
            labels, scores = matrix(rows // shrink, classes, dtype)
            entrants: Calls = {"read": partial(read, labels, scores), "calibdask": _ours(cd.ECE(), labels, scores)}
            name = f"confidence ECE, K={classes} {dtype}"
            goal = {"calibdask": 5.0 if classes == 10 else 2.5}
            yield Race(name, entrants | peers.confidence_peers(labels, scores), "read", scores.size, goal)


def vocabulary(shrink: int) -> Iterator[Race]:
    """As many classes as a language model has words."""
    rows, classes = max(20, 1000 // shrink), max(1000, 100_000 // shrink)
    labels, scores = matrix(rows, classes, "float32")
    metrics: dict[str, Any] = {
        "confidence ECE": cd.ECE(),
        "top-5 ECE": cd.ECE(setting="top-k", k=5),
        "log loss": cd.LogLoss(),
        "SmoothECE": cd.SmoothECE(),
        "Brier score": cd.BrierScore(),
        "class-wise ECE": cd.ECE(setting="classwise"),
    }
    entrants: Calls = {"read": partial(read, labels, scores)}
    entrants |= {name: _ours(metric, labels, scores) for name, metric in metrics.items()}
    goals = dict.fromkeys([*metrics][:4], 2.5)
    yield Race(f"metrics of K={classes} float32", entrants, "read", scores.size, goals)


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
        kind = "skewed" if skewed else "uniform"
        yield Race(f"equal-mass ECE, {kind} float32", entrants, "read", scores.size, {"calibdask": 15.0})
        both = {name: entrants[name] for name in ("numpy sort", "calibdask")}
        yield Race(f"equal-mass against a sort, {kind} float32", both, "numpy sort", scores.size, {"calibdask": 0.5})


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


def gridding(shrink: int) -> Iterator[Race]:
    """Linear binning onto the grid of densities, and each bandwidth after it."""
    rows = 10_000_000 // shrink
    for dtype in TYPES:
        labels, scores = binary(rows, dtype)
        block = Block(Layout(dtype=dtype), scores[None, :, None], labels[None])
        histogram = GridHistogram(Setting("class", 1), Grid())
        entrants: Calls = {
            "read": partial(read, labels, scores),
            "calibdask": partial(histogram.from_block, block),
            "numpy": partial(_gridded, labels, scores),
        }
        yield Race(f"density grid, {dtype}", entrants, "read", rows, {"calibdask": 7.0})
    labels, scores = binary(10_000, "float64", skewed=True)
    many = tuple(cd.DensityECE(bandwidth=b) for b in np.geomspace(0.01, 0.1, 20).tolist())
    entrants = {"20 bandwidths": _ours(many, labels, scores), "1 bandwidth": _ours(many[:1], labels, scores)}
    goal = {"20 bandwidths": 0.3e6}
    yield Race("each bandwidth", entrants, "1 bandwidth", len(many), goal, measure="nanoseconds")


def _gridded(labels: Any, scores: Any, cells: int = 3600) -> Any:
    """Scores shared between the two nodes next to them, for all rows and for those with label 1."""
    backend = scores.astype(float) * cells
    left = np.minimum(backend.astype(np.int64), cells - 1)
    share = backend - left
    return [
        np.bincount(left + side, weight * outcome, cells + 1)
        for side, weight in ((0, 1 - share), (1, share))
        for outcome in (1, labels)
    ]


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
            goal = {"calibdask": PAIR_GOALS[classes, dtype]}
            name = f"SKCE of pairs, K={classes} {distance} {dtype}"
            yield Race(name, entrants, "calibdask", count, goal, measure="nanoseconds")


def _cdist(labels: Any, scores: Any, distance: str) -> float:
    """As one would write it: all distances, the kernel, and a quadratic form of the residuals."""
    from scipy.spatial.distance import cdist

    residuals = np.eye(scores.shape[1], dtype=scores.dtype)[labels] - scores
    distances = cdist(scores, scores, "cityblock" if distance == "tv" else "euclidean")
    kernel = np.exp(distances * (-0.5 if distance == "tv" else -1.0) / 0.5)
    products = kernel * (residuals @ residuals.T)
    rows = len(labels)
    return float((products.sum() - np.trace(products)) / (rows * (rows - 1)))


def bootstrap(shrink: int) -> Iterator[Race]:
    """200 replicates from the histogram, without the pass over the data that makes it: of a stored summary."""
    labels, scores = binary(1_000_000 // shrink, "float32")
    summary = cd.summarize(labels, scores)
    for name, metric, most in (("ECE", cd.ECE(), 2e-3), ("curve", cd.ReliabilityCurve(), 0.1)):
        entrants: Calls = {
            "no replicates": partial(cd.evaluate, summary, metrics=metric),
            "200 replicates": partial(cd.evaluate, summary, metrics=metric, ci=0.95, ci_method="percentile"),
            "200 replicates, default interval": partial(cd.evaluate, summary, metrics=metric, ci=0.95),
        }
        goal = {who: most for who in entrants if "200" in who}
        yield Race(f"bootstrap of the {name}", entrants, "no replicates", 200, goal, measure="seconds")


def study(shrink: int) -> Iterator[Race]:
    """One distribution of scores in the study: 20 sizes, 200 samples each, 10 classes.

    All estimators of the study, and those of the paper: 12 with bins (28 more come with them) and 3 densities.
    """
    samples, sizes = max(1, 200 // shrink), max(2, 20 // shrink)
    labels, scores = matrix(200_000, 10, "float32")
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, len(labels), (samples, size)) for size in np.geomspace(30, 5000, sizes).astype(int)]
    entrants: Calls = {
        "all 50": lambda: [estimates(scores[chosen], labels[chosen], "classwise") for chosen in rows],
        "15 of the paper": lambda: [_fifteen(scores[chosen], labels[chosen]) for chosen in rows],
    }
    goal = {"15 of the paper": 7.0}
    yield Race("a distribution of the study", entrants, "all 50", sizes * samples * 10, goal, "seconds")


def _fifteen(scores: Any, labels: Any) -> list[Any]:
    """Estimates of each class: those with bins, and densities with three bandwidths."""
    values = []
    for keys in np.sort(column_keys(scores, labels, "classwise"), axis=-1):
        widths = silverman(keys, 0.0), np.full(len(keys), 0.033), np.full(len(keys), 0.1)
        values.append(
            [binned_estimates(keys, 0.0), *(density_estimates(keys, 0.0, width, MOST_CELLS) for width in widths)]
        )
    return values


WORKLOADS: Mapping[str, Callable[[int], Iterator[Race]]] = {
    "binary": binary_ece,
    "skewed": skewed_binary,
    "confidence": confidence_ece,
    "classwise": classwise_ece,
    "vocabulary": vocabulary,
    "one-pass": one_pass,
    "equal-mass": equal_mass,
    "convex": convex,
    "density": density,
    "gridding": gridding,
    "pairs": pairs,
    "bootstrap": bootstrap,
    "study": study,
}

"""The same numbers by other packages, where they are installed."""

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

# Package by the module that it installs.
PACKAGES = {
    "sklearn": "scikit-learn",
    "torchmetrics": "torchmetrics",
    "netcal": "netcal",
    "calibration": "uncertainty-calibration",
    "relplot": "relplot",
    "KDEpy": "KDEpy",
}
BINS = 15
_MOST_ROWS = 2_000_000
# Calls that take minutes.
LEFT_OUT = ("uncertainty-calibration with 10^7 rows", "scikit-learn with 1000 classes")

Calls = dict[str, Callable[[], Any]]


def missing() -> tuple[str, ...]:
    """Packages that are not installed."""
    return tuple(package for module, package in PACKAGES.items() if find_spec(module) is None)


def _present(calls: dict[str, Callable[[], Callable[[], Any]]]) -> Calls:
    """Calls of the installed packages; imports and preparation are not timed."""
    return {PACKAGES[module]: make() for module, make in calls.items() if find_spec(module) is not None}


def binary_peers(labels: Any, scores: Any) -> Calls:
    """ECE of two classes with bins of equal width."""
    # A quarter of a minute for one call on 10 million rows.
    patient = {"calibration": lambda: _uncertainty(labels, scores)} if len(labels) <= _MOST_ROWS else {}
    return {"numpy": lambda: _digitized(labels, scores)} | _present(
        {
            "sklearn": lambda: _sklearn(labels, scores),
            "torchmetrics": lambda: _torchmetrics(labels, scores, task="binary"),
            "netcal": lambda: _netcal(labels, scores),
            **patient,
        }
    )


def confidence_peers(labels: Any, scores: Any) -> Calls:
    """Confidence ECE."""
    return {"numpy": lambda: _confident(labels, scores)} | _present(
        {
            "torchmetrics": lambda: _torchmetrics(labels, scores, task="multiclass", num_classes=scores.shape[1]),
            "netcal": lambda: _netcal(labels, scores),
            "calibration": lambda: _uncertainty(labels, scores),
        }
    )


def classwise_peers(labels: Any, scores: Any) -> Calls:
    """ECE of each class."""
    return {"numpy": lambda: [_digitized(labels == c, scores[:, c]) for c in range(scores.shape[1])]} | _present(
        {"sklearn": lambda: _sklearn_by_class(labels, scores)}
    )


def density_peers(labels: Any, scores: Any, bandwidth: float) -> Calls:
    """Calibration errors by smoothing: as the code of Posocco & Bonnefoy does it, and smECE at this bandwidth."""
    return _present(
        {"KDEpy": lambda: _kdepy(labels, scores, bandwidth), "relplot": lambda: _relplot(labels, scores, bandwidth)}
    )


def _digitized(labels: Any, scores: Any) -> float:
    bins = np.digitize(scores, np.linspace(0, 1, BINS + 1)[1:-1], right=True)
    residual = np.bincount(bins, labels, BINS) - np.bincount(bins, scores, BINS)
    return float(np.abs(residual).sum() / len(scores))


def _confident(labels: Any, scores: Any) -> float:
    top = scores.argmax(1)
    return _digitized(top == labels, scores[np.arange(len(top)), top])


def _sklearn(labels: Any, scores: Any) -> Callable[[], Any]:
    from sklearn.calibration import calibration_curve

    return lambda: calibration_curve(labels, scores, n_bins=BINS)


def _sklearn_by_class(labels: Any, scores: Any) -> Callable[[], Any]:
    from sklearn.calibration import calibration_curve

    return lambda: [calibration_curve(labels == c, scores[:, c], n_bins=BINS) for c in range(scores.shape[1])]


def _torchmetrics(labels: Any, scores: Any, **task: Any) -> Callable[[], Any]:
    import torch
    from torchmetrics.functional.classification import calibration_error

    target, predicted = torch.from_numpy(labels.astype(np.int64)), torch.from_numpy(scores)
    return lambda: calibration_error(predicted, target, n_bins=BINS, **task)


def _netcal(labels: Any, scores: Any) -> Callable[[], Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from netcal.metrics import ECE

    return lambda: ECE(BINS).measure(scores, labels)


def _uncertainty(labels: Any, scores: Any) -> Callable[[], Any]:
    import calibration

    return lambda: calibration.get_ece(scores, labels, num_bins=BINS)


def _relplot(labels: Any, scores: Any, bandwidth: float) -> Callable[[], Any]:
    import relplot

    return lambda: relplot.smECE_sigma(f=scores, y=labels, sigma=bandwidth)


def _kdepy(labels: Any, scores: Any, bandwidth: float) -> Callable[[], Any]:
    """Two densities on 2**14 nodes, of the scores and their images at both ends; their local error, integrated."""
    from KDEpy import FFTKDE

    nodes = np.linspace(-2.5, 3.5, 2**14)
    inside = (nodes >= 0) & (nodes <= 1)

    def density(values: Any) -> Any:
        mirrored = np.concatenate([values, -values, 2 - values])
        return 3 * FFTKDE(kernel="tri", bw=bandwidth).fit(mirrored.astype(float)).evaluate(nodes)[inside]

    def call() -> float:
        both, ones = density(scores), density(scores[labels == 1]) * labels.mean()
        return float(np.abs(ones - nodes[inside] * both).sum() / both.sum())

    return call

"""The estimators that are compared, as estimators of calibdask and vectorized over many samples."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import calibdask as cd
from experiments.ece_benchmark import binned
from experiments.ece_benchmark.columns import Keys, column_keys, lowest_score
from experiments.ece_benchmark.density import (
    ISJ_CELLS,
    MOST_CELLS,
    density_estimates,
    sheather_jones,
    silverman,
    smooth_estimates,
)

_BINS: Mapping[str, Any] = {"10": 10, "15": 15, "30": 30, "sqrt": "sqrt"}
_FAMILIES: Mapping[str, Any] = {"l": cd.ece_l, "a": cd.ece_a, "c": cd.ece_c, "ac": cd.ece_ac}
_BANDWIDTHS: Mapping[str, Any] = {"silverman": "silverman", "0.033": 0.033, "0.1": 0.1, "isj": "isj"}


def _binned(name: str) -> cd.ECE:
    """The estimator of a name in `binned.ROWS`."""
    if name.startswith("euranova-"):
        _, family, bins = name.split("-")
        estimator: cd.ECE = _FAMILIES[family](bins=_BINS[bins], compat="euranova")
        return estimator
    if name.startswith("rms-"):
        binning: Any = "uniform" if "uniform" in name else "equal-mass"
        return cd.ECE(bins=10, binning=binning, norm="l2", debias=name.endswith("-debiased"))
    choices: Any = dict(zip(("binning", "mapping", "bins"), name.rsplit("-", 2), strict=True))
    return cd.ECE(**{**choices, "bins": _BINS[choices["bins"]]})


def _density(form: Any, bandwidth: str) -> cd.DensityECE:
    # The coarser grid makes this bandwidth ten times cheaper.
    step = 1 / ISJ_CELLS if bandwidth == "isj" else 0.0003
    return cd.DensityECE(form=form, bandwidth=_BANDWIDTHS[bandwidth], step=step)


# By name: l, a, c, ac and d are those of the paper, under the conventions of its authors' code. All estimate the mean
# absolute gap, but for the root mean squares.
ESTIMATORS: Mapping[str, Any] = {
    **{name: _binned(name) for name in binned.ROWS},
    **{f"density-{bandwidth}": _density("ratio", bandwidth) for bandwidth in _BANDWIDTHS},
    **{f"residual-{bandwidth}": _density("residual", bandwidth) for bandwidth in _BANDWIDTHS},
    "euranova-d-silverman": cd.DensityECE(compat="euranova"),
    "smooth": cd.SmoothECE(),
}

# The fifteen of the paper. A fixed bandwidth is the same under all conventions.
PAPER: tuple[str, ...] = (
    *(name for name in binned.ROWS if name.startswith("euranova-")),
    "euranova-d-silverman",
    "density-0.033",
    "density-0.1",
)


def estimates(scores: npt.NDArray[np.float32], labels: npt.NDArray[Any], setting: str) -> npt.NDArray[np.float64]:
    """All estimates of some samples: scores (samples, n, K) of single precision, labels (samples, n).

    Returns
    -------
    ndarray, shape (estimators, samples)
        In the order of `ESTIMATORS`; in the class-wise setting means over classes.
    """
    keys = np.sort(column_keys(scores, labels, setting), axis=-1)
    return estimates_of_columns(iter(keys), lowest_score(setting, scores.shape[-1]))


def estimates_of_columns(columns: Any, low: float) -> npt.NDArray[np.float64]:
    """Means over columns, each the sorted keys (samples, n) of scores on [low, 1]."""
    total: Any = 0.0
    count = 0
    first = None
    for keys in columns:
        first = silverman(keys, low) if first is None else first
        total = total + _of_column(keys, low, first)
        count += 1
    return np.asarray(total / count)


def _of_column(keys: Keys, low: float, first: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
    """Estimates of one column; ``first`` are the bandwidths of the first."""
    chosen = {"silverman": silverman, "isj": sheather_jones}
    bandwidths = [
        chosen[name](keys, low) if name in chosen else np.full(len(keys), value) for name, value in _BANDWIDTHS.items()
    ]
    smoothed = np.stack(
        [
            density_estimates(keys, low, bandwidth, ISJ_CELLS if name == "isj" else MOST_CELLS)
            for name, bandwidth in zip(_BANDWIDTHS, bandwidths, strict=True)
        ],
        axis=1,
    )
    of_first = smoothed[:1, 0]
    if not np.array_equal(first, bandwidths[0]):
        of_first = density_estimates(keys, low, first, MOST_CELLS)[:1]
    return np.concatenate(
        [binned.binned_estimates(keys, low), *smoothed, of_first, smooth_estimates(keys)[None]], axis=0
    )

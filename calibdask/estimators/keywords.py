"""Keyword arguments of functions that stand for estimators, told to editors and type checkers.

They are the fields of the estimators, which a test holds them against.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

from calibdask.estimators import bandwidths, kernel, smoothing
from calibdask.estimators.compat import Compat
from calibdask.statistics.edges import Closed
from calibdask.statistics.lenses import Lens
from calibdask.statistics.mappings import Mapping
from calibdask.statistics.settings import Setting

__all__ = [
    "BinnedKeywords",
    "CurveKeywords",
    "DensityKeywords",
    "DiagramKeywords",
    "ECEKeywords",
    "MCEKeywords",
    "PresetKeywords",
    "SKCEKeywords",
    "ScoreKeywords",
    "SmoothKeywords",
]

Norm = Literal["l1", "l2", "max"]


class BinnedKeywords(TypedDict, total=False):
    """What all estimators with bins take."""

    bins: int | Literal["sqrt"] | tuple[float, ...] | None
    setting: Setting | str | int | None
    k: int | None
    closed: Closed | None
    range: tuple[float, float] | None
    compat: Compat | None


class PresetKeywords(BinnedKeywords, total=False):
    """Of `ECE`, but for its binning and mapping."""

    norm: Norm
    debias: bool


class DiagramKeywords(BinnedKeywords, total=False):
    """Of `ReliabilityDiagram`."""

    binning: Literal["uniform", "equal-mass"]
    mapping: Mapping


class MCEKeywords(DiagramKeywords, total=False):
    """Of `ECE`, but for its norm."""

    debias: bool


class ECEKeywords(MCEKeywords, total=False):
    """Of `ECE`."""

    norm: Norm


class SmoothKeywords(TypedDict, total=False):
    """Of `SmoothECE`."""

    setting: Setting | str | int | None
    k: int | None
    step: float


class _DensityKeywords(SmoothKeywords, total=False):
    kernel: smoothing.Kernel
    bandwidth: bandwidths.Bandwidth


class DensityKeywords(_DensityKeywords, total=False):
    """Of `DensityECE`."""

    form: Literal["ratio", "residual"]
    compat: Compat | None


class CurveKeywords(_DensityKeywords, total=False):
    """Of `ReliabilityCurve`."""

    points: int
    band: Literal["corrected", "plain"]


class ScoreKeywords(TypedDict, total=False):
    """Of `BrierScore`."""

    reduction: Literal["sum", "mean"]


class SKCEKeywords(TypedDict, total=False):
    """Of `SKCE`, but for its seed, which `evaluate` has too."""

    kernel: Literal["exponential", "gaussian"] | kernel.Kernel | Sequence[kernel.Kernel]
    distance: Literal["tv", "euclidean"] | None
    bandwidth: kernel.Bandwidth | None
    matrix: Any
    setting: Lens | str | int
    estimator: Literal["unbiased", "biased", "linear", "block", "features", "features-biased"]
    block: int | None
    features: int
    max_pairs: float

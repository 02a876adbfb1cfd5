"""Typed keyword arguments of the functions that construct estimators, for editors and type checkers.

They repeat the fields of the estimators; a test checks that both agree.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

from calibdask.estimators.compat import Compat
from calibdask.estimators.kernel import base as kernel
from calibdask.estimators.multiclass_setting import VectorSetting
from calibdask.estimators.smooth import bandwidths, smoothing
from calibdask.statistics.bins.edges import Closed
from calibdask.statistics.bins.mappings import Mapping
from calibdask.statistics.settings import SettingChoice

Norm = Literal["l1", "l2", "max"]


class BinnedKeywords(TypedDict, total=False):
    """Parameters of all estimators with bins."""

    bins: int | Literal["sqrt"] | tuple[float, ...] | None
    setting: SettingChoice
    k: int | None
    closed: Closed | None
    range: tuple[float, float] | None
    compat: Compat | None


class PresetKeywords(BinnedKeywords, total=False):
    """Parameters of `ECE` except binning and mapping."""

    norm: Norm
    debias: bool


class DiagramKeywords(BinnedKeywords, total=False):
    """Parameters of `ReliabilityDiagram`."""

    binning: Literal["uniform", "equal-mass"]
    mapping: Mapping


class MCEKeywords(DiagramKeywords, total=False):
    """Parameters of `ECE` except the norm."""

    debias: bool


class ECEKeywords(MCEKeywords, total=False):
    """Parameters of `ECE`."""

    norm: Norm


class SmoothKeywords(TypedDict, total=False):
    """Parameters of `SmoothECE`."""

    setting: SettingChoice
    k: int | None
    step: float


class _DensityKeywords(SmoothKeywords, total=False):
    kernel: smoothing.Kernel
    bandwidth: bandwidths.Bandwidth


class DensityKeywords(_DensityKeywords, total=False):
    """Parameters of `DensityECE`."""

    form: Literal["ratio", "residual"]
    compat: Compat | None


class CurveKeywords(_DensityKeywords, total=False):
    """Parameters of `ReliabilityCurve`."""

    points: int
    band: Literal["corrected", "plain"]


class ScoreKeywords(TypedDict, total=False):
    """Parameters of `BrierScore`."""

    reduction: Literal["auto", "sum", "mean"]


class SKCEKeywords(TypedDict, total=False):
    """Parameters of `SKCE` except the seed, which is an argument of `evaluate`."""

    kernel: Literal["exponential", "gaussian"] | kernel.Kernel | Sequence[kernel.Kernel]
    distance: Literal["tv", "euclidean"] | None
    bandwidth: kernel.Bandwidth | None
    matrix: Any
    setting: VectorSetting
    estimator: Literal["unbiased", "biased", "linear", "block", "features", "features-biased"]
    block: int | None
    features: int
    max_pairs: float

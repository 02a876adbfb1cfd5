"""Calibration of classifiers, measured exactly on data of any size."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> module. Importing calibdask imports none of them; the first use does.
_MODULES = {
    "BrierDecomposition": "estimators.brier_decomposition",
    "BrierScore": "estimators.scores",
    "CMETest": "estimators.cme",
    "CORP": "estimators.corp",
    "ConsistencyTest": "estimators.consistency",
    "DensityECE": "estimators.density",
    "ECCE": "estimators.cumulative",
    "ECE": "estimators.ece",
    "ExcessCost": "estimators.excess_cost",
    "Kernel": "estimators.kernel",
    "KernelCanonicalECE": "estimators.canonical",
    "LCECalibrator": "calibrator",
    "Lens": "statistics.lenses",
    "LocalCalibrationError": "estimators.curves",
    "LogLoss": "estimators.scores",
    "LogLossDecomposition": "estimators.log_decomposition",
    "MCE": "estimators.ece",
    "MMCE": "estimators.mmce",
    "MeanGap": "estimators.mean_gap",
    "MulticlassECE": "estimators.multiclass",
    "ReliabilityCurve": "estimators.curves",
    "ReliabilityDiagram": "estimators.diagram",
    "ReliabilityDisplay": "display",
    "ResidualECE": "estimators.density",
    "SKCE": "estimators.skce",
    "SKCETest": "estimators.kernel_tests",
    "Saturation": "estimators.saturation",
    "SmoothECE": "estimators.smooth",
    "SpiegelhalterTest": "estimators.spiegelhalter",
    "Study": "study.study",
    "brier_score": "shorthands",
    "compare": "comparison",
    "default_metrics": "estimators.panel",
    "density_ece": "shorthands",
    "ece": "shorthands",
    "ece_a": "estimators.ece",
    "ece_ac": "estimators.ece",
    "ece_c": "estimators.ece",
    "ece_d": "estimators.density",
    "ece_l": "estimators.ece",
    "evaluate": "evaluation",
    "log_loss": "shorthands",
    "mce": "shorthands",
    "open_cube": "study.cube",
    "read_rows": "engine.readers",
    "reliability_curve": "shorthands",
    "reliability_diagram": "shorthands",
    "run": "study.running",
    "skce": "shorthands",
    "smooth_ece": "shorthands",
    "summarize": "summary",
    "worst_slices": "ranking",
}

__all__ = ["__version__", *_MODULES]  # noqa: PLE0604

if TYPE_CHECKING:
    from calibdask.calibrator import LCECalibrator as LCECalibrator
    from calibdask.comparison import compare as compare
    from calibdask.display import ReliabilityDisplay as ReliabilityDisplay
    from calibdask.engine.readers import read_rows as read_rows
    from calibdask.estimators.brier_decomposition import BrierDecomposition as BrierDecomposition
    from calibdask.estimators.canonical import KernelCanonicalECE as KernelCanonicalECE
    from calibdask.estimators.cme import CMETest as CMETest
    from calibdask.estimators.consistency import ConsistencyTest as ConsistencyTest
    from calibdask.estimators.corp import CORP as CORP
    from calibdask.estimators.cumulative import ECCE as ECCE
    from calibdask.estimators.curves import LocalCalibrationError as LocalCalibrationError
    from calibdask.estimators.curves import ReliabilityCurve as ReliabilityCurve
    from calibdask.estimators.density import DensityECE as DensityECE
    from calibdask.estimators.density import ResidualECE as ResidualECE
    from calibdask.estimators.density import ece_d as ece_d
    from calibdask.estimators.diagram import ReliabilityDiagram as ReliabilityDiagram
    from calibdask.estimators.ece import ECE as ECE
    from calibdask.estimators.ece import MCE as MCE
    from calibdask.estimators.ece import ece_a as ece_a
    from calibdask.estimators.ece import ece_ac as ece_ac
    from calibdask.estimators.ece import ece_c as ece_c
    from calibdask.estimators.ece import ece_l as ece_l
    from calibdask.estimators.excess_cost import ExcessCost as ExcessCost
    from calibdask.estimators.kernel import Kernel as Kernel
    from calibdask.estimators.kernel_tests import SKCETest as SKCETest
    from calibdask.estimators.log_decomposition import LogLossDecomposition as LogLossDecomposition
    from calibdask.estimators.mean_gap import MeanGap as MeanGap
    from calibdask.estimators.mmce import MMCE as MMCE
    from calibdask.estimators.multiclass import MulticlassECE as MulticlassECE
    from calibdask.estimators.panel import default_metrics as default_metrics
    from calibdask.estimators.saturation import Saturation as Saturation
    from calibdask.estimators.scores import BrierScore as BrierScore
    from calibdask.estimators.scores import LogLoss as LogLoss
    from calibdask.estimators.skce import SKCE as SKCE
    from calibdask.estimators.smooth import SmoothECE as SmoothECE
    from calibdask.estimators.spiegelhalter import SpiegelhalterTest as SpiegelhalterTest
    from calibdask.evaluation import evaluate as evaluate
    from calibdask.ranking import worst_slices as worst_slices
    from calibdask.shorthands import brier_score as brier_score
    from calibdask.shorthands import density_ece as density_ece
    from calibdask.shorthands import ece as ece
    from calibdask.shorthands import log_loss as log_loss
    from calibdask.shorthands import mce as mce
    from calibdask.shorthands import reliability_curve as reliability_curve
    from calibdask.shorthands import reliability_diagram as reliability_diagram
    from calibdask.shorthands import skce as skce
    from calibdask.shorthands import smooth_ece as smooth_ece
    from calibdask.statistics.lenses import Lens as Lens
    from calibdask.study.cube import open_cube as open_cube
    from calibdask.study.running import run as run
    from calibdask.study.study import Study as Study
    from calibdask.summary import summarize as summarize


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'calibdask' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"calibdask.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""Calibration of classifiers, measured exactly on data of any size."""

import importlib
import re
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# The public names, for type checkers and for what follows.
if TYPE_CHECKING:
    from calibdask.accumulator import Accumulator as Accumulator
    from calibdask.analyses.appending import append as append
    from calibdask.analyses.appending import drop_periods as drop_periods
    from calibdask.analyses.appending import expire as expire
    from calibdask.analyses.auditing.audit import audit as audit
    from calibdask.analyses.comparison import compare as compare
    from calibdask.analyses.evaluation import evaluate as evaluate
    from calibdask.analyses.gating.check import check as check
    from calibdask.analyses.merging import merge as merge
    from calibdask.analyses.monitoring.attribution import attribute as attribute
    from calibdask.analyses.monitoring.planning import watch_power as watch_power
    from calibdask.analyses.monitoring.watch import watch as watch
    from calibdask.analyses.multicalibration.scaling import MulticalibratedScaling as MulticalibratedScaling
    from calibdask.analyses.receipts.fingerprint import fingerprint as fingerprint
    from calibdask.analyses.receipts.receipt import receipt as receipt
    from calibdask.analyses.receipts.receipt import verify as verify
    from calibdask.analyses.shorthands import brier_score as brier_score
    from calibdask.analyses.shorthands import density_ece as density_ece
    from calibdask.analyses.shorthands import ece as ece
    from calibdask.analyses.shorthands import log_loss as log_loss
    from calibdask.analyses.shorthands import mce as mce
    from calibdask.analyses.shorthands import reliability_curve as reliability_curve
    from calibdask.analyses.shorthands import reliability_diagram as reliability_diagram
    from calibdask.analyses.shorthands import skce as skce
    from calibdask.analyses.shorthands import smooth_ece as smooth_ece
    from calibdask.analyses.summarizing import summarize as summarize
    from calibdask.analyses.threshold import threshold as threshold
    from calibdask.calibrators.base import Calibrator as Calibrator
    from calibdask.calibrators.comparing.comparison import compare_calibrators as compare_calibrators
    from calibdask.calibrators.comparing.refinement import Refinement as Refinement
    from calibdask.calibrators.curves.beta import BetaCalibration as BetaCalibration
    from calibdask.calibrators.curves.histogram_binning import HistogramBinning as HistogramBinning
    from calibdask.calibrators.curves.isotonic import IsotonicCalibration as IsotonicCalibration
    from calibdask.calibrators.curves.local import LCECalibrator as LCECalibrator
    from calibdask.calibrators.curves.platt import PlattScaling as PlattScaling
    from calibdask.calibrators.curves.quadratic import QuadraticScaling as QuadraticScaling
    from calibdask.calibrators.curves.spline import SplineCalibration as SplineCalibration
    from calibdask.calibrators.curves.venn_abers import VennAbers as VennAbers
    from calibdask.calibrators.softmax.structured import StructuredScaling as StructuredScaling
    from calibdask.calibrators.softmax.temperature import TemperatureScaling as TemperatureScaling
    from calibdask.calibrators.softmax.vector import VectorScaling as VectorScaling
    from calibdask.data.top_scores import TopScores as TopScores
    from calibdask.display import ReliabilityDisplay as ReliabilityDisplay
    from calibdask.estimators.binned.diagram import ReliabilityDiagram as ReliabilityDiagram
    from calibdask.estimators.binned.ece import ECE as ECE
    from calibdask.estimators.binned.ece import MCE as MCE
    from calibdask.estimators.binned.ece import ece_a as ece_a
    from calibdask.estimators.binned.ece import ece_ac as ece_ac
    from calibdask.estimators.binned.ece import ece_c as ece_c
    from calibdask.estimators.binned.ece import ece_l as ece_l
    from calibdask.estimators.binned.multiclass import MulticlassECE as MulticlassECE
    from calibdask.estimators.decisions.atb import ATB as ATB
    from calibdask.estimators.decisions.conformal import ConformalThreshold as ConformalThreshold
    from calibdask.estimators.decisions.excess_cost import ExcessCost as ExcessCost
    from calibdask.estimators.decisions.murphy import MurphyCurve as MurphyCurve
    from calibdask.estimators.decisions.net_benefit import NetBenefit as NetBenefit
    from calibdask.estimators.decisions.risk_coverage import RiskCoverage as RiskCoverage
    from calibdask.estimators.decisions.risk_coverage import RiskCoverageCurve as RiskCoverageCurve
    from calibdask.estimators.kernel.base import Kernel as Kernel
    from calibdask.estimators.kernel.canonical import KernelCanonicalECE as KernelCanonicalECE
    from calibdask.estimators.kernel.mmce import MMCE as MMCE
    from calibdask.estimators.kernel.skce import SKCE as SKCE
    from calibdask.estimators.ordered.corp import CORP as CORP
    from calibdask.estimators.ordered.cumulative import ECCE as ECCE
    from calibdask.estimators.panel import default_metrics as default_metrics
    from calibdask.estimators.scores.brier_decomposition import BrierDecomposition as BrierDecomposition
    from calibdask.estimators.scores.log_decomposition import LogLossDecomposition as LogLossDecomposition
    from calibdask.estimators.scores.mean_gap import MeanGap as MeanGap
    from calibdask.estimators.scores.proper import BrierScore as BrierScore
    from calibdask.estimators.scores.proper import LogLoss as LogLoss
    from calibdask.estimators.scores.saturation import Saturation as Saturation
    from calibdask.estimators.scores.sharpness import Sharpness as Sharpness
    from calibdask.estimators.smooth.curves import LocalCalibrationError as LocalCalibrationError
    from calibdask.estimators.smooth.curves import ReliabilityCurve as ReliabilityCurve
    from calibdask.estimators.smooth.density import DensityECE as DensityECE
    from calibdask.estimators.smooth.density import ResidualECE as ResidualECE
    from calibdask.estimators.smooth.density import ece_d as ece_d
    from calibdask.estimators.smooth.smooth_ece import SmoothECE as SmoothECE
    from calibdask.estimators.tests.cme_test import CMETest as CMETest
    from calibdask.estimators.tests.consistency_test import ConsistencyTest as ConsistencyTest
    from calibdask.estimators.tests.skce_test import SKCETest as SKCETest
    from calibdask.estimators.tests.spiegelhalter_test import SpiegelhalterTest as SpiegelhalterTest
    from calibdask.estimators.validation.c_statistic import CStatistic as CStatistic
    from calibdask.estimators.validation.calibration_belt import CalibrationBelt as CalibrationBelt
    from calibdask.estimators.validation.calibration_slope import CalibrationSlope as CalibrationSlope
    from calibdask.estimators.validation.consistency_bars import ConsistencyBars as ConsistencyBars
    from calibdask.estimators.validation.grade_tests import GradeTests as GradeTests
    from calibdask.estimators.validation.hosmer_lemeshow import HosmerLemeshow as HosmerLemeshow
    from calibdask.estimators.validation.ici import ICI as ICI
    from calibdask.estimators.validation.observed_expected import ObservedExpected as ObservedExpected
    from calibdask.results.ranking import worst_slices as worst_slices
    from calibdask.statistics.views.lens import Lens as Lens
    from calibdask.storage.open_store import open_summary as open_summary
    from calibdask.storage.open_store import read_rows as read_rows
    from calibdask.study.opening import open_cube as open_cube
    from calibdask.study.running import run as run
    from calibdask.study.study import Study as Study

# Public name -> module. Importing calibdask imports none of them; the first use does.
with open(__file__, encoding="utf-8") as _source:
    _MODULES = {
        name: module for module, name in re.findall(r"    from calibdask\.(\S+) import (\w+) as ", _source.read())
    }

__all__ = ["__version__", *_MODULES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name == "testing":
        return importlib.import_module("calibdask.testing")
    if name not in _MODULES:
        raise AttributeError(f"module 'calibdask' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"calibdask.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

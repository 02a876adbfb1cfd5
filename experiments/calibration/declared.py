"""The promises that are measured: intervals, tests, gates and guarantees, with what each of them promises."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import calibdask as cd

Kind = Literal["interval", "test", "gate", "guarantee"]
# Of intervals that they hold; of tests that they reject, of gates that they decide wrongly.
LEVEL, SIGNIFICANCE, WRONG = 0.9, 0.05, 0.025
_BANDWIDTH = 0.2
# Ten times the usual step: values are the same to six digits, at a fraction of the time.
_STEP = 0.003


@dataclass(frozen=True)
class Promise:
    """How often something happens at most, or at least."""

    kind: Kind
    share: float
    at_least: bool = False


@dataclass(frozen=True)
class Interval:
    """A metric whose parts have intervals: their titles by the name of the part.

    Parameters
    ----------
    metric : Estimator
    parts : mapping from part to str
    replicates : bool
        Whether ends come from replicates, which take time: of fewer data sets.
    rows : int
        Computed for up to so many rows.
    """

    metric: Any
    parts: Mapping[str, str]
    replicates: bool = False
    rows: int = 10**9


def _parts(title: str, *names: str) -> dict[str, str]:
    return {name: f"{title}, {name.replace('_', ' ')}" for name in names}


INTERVALS = {
    "mean_gap": Interval(cd.MeanGap(), {"": "MeanGap"}),
    "ratio": Interval(cd.ObservedExpected(), {"": "ObservedExpected"}),
    "slope": Interval(cd.CalibrationSlope(), _parts("CalibrationSlope", "slope", "intercept")),
    "c": Interval(cd.CStatistic(), {"": "CStatistic"}),
    "benefit": Interval(cd.NetBenefit(thresholds=(0.02, 0.2)), {"model": "NetBenefit"}),
    "murphy": Interval(cd.MurphyCurve(thresholds=(0.02, 0.2)), {"": "MurphyCurve"}),
    "coverage": Interval(cd.RiskCoverage(), {"aurc": "RiskCoverage", "augrc": "RiskCoverage, AUGRC"}),
    "diagram": Interval(cd.ReliabilityDiagram(bins=5), {"outcome": "ReliabilityDiagram, bins"}),
    "brier": Interval(cd.BrierScore(), {"": "BrierScore"}, True),
    "log": Interval(cd.LogLoss(), {"": "LogLoss"}, True),
    "brier_terms": Interval(
        cd.BrierDecomposition(), _parts("BrierDecomposition", "reliability", "resolution", "uncertainty"), True
    ),
    "log_terms": Interval(
        cd.LogLossDecomposition(), _parts("LogLossDecomposition", "reliability", "resolution", "uncertainty"), True
    ),
    "ece": Interval(cd.ECE(), {"": "ECE"}, True),
    "ece_mass": Interval(cd.ECE(binning="equal-mass"), {"": "ECE, equal mass"}, True),
    "ece_l2": Interval(cd.ECE(norm="l2", debias=True), {"": "ECE, l2, debiased"}, True),
    "smooth": Interval(cd.SmoothECE(step=_STEP), {"": "SmoothECE"}, True),
    "density": Interval(cd.DensityECE(step=_STEP), {"": "DensityECE"}, True),
    "curve": Interval(cd.ReliabilityCurve(points=21), {"reliability_band": "ReliabilityCurve, whole band"}, True),
    "ecce": Interval(cd.ECCE(), {"": "ECCE"}, True),
    "corp": Interval(cd.CORP(), _parts("CORP", "miscalibration", "discrimination", "uncertainty"), True),
    "ici": Interval(cd.ICI(step=_STEP), {"ici": "ICI", "e90": "ICI, E90"}, True),
    "cost": Interval(cd.ExcessCost(), {"": "ExcessCost", "realised": "ExcessCost, realised"}, True),
    "skce": Interval(cd.SKCE(bandwidth=_BANDWIDTH), {"": "SKCE"}, True, 100),
    "skce_linear": Interval(cd.SKCE(estimator="linear", bandwidth=_BANDWIDTH), {"": "SKCE, linear"}),
}

# Tests that take their time: of fewer data sets.
SLOW = (
    "CalibrationBelt",
    "ConsistencyTest",
    "CMETest",
    "CMETest, observed",
    "SKCETest",
    "SKCETest, linear",
    "SKCETest, blocks of 10",
    "SKCETest, features",
)
# The part of the p-value, and up to how many rows.
TESTS: dict[str, tuple[Any, str, int]] = {
    "SpiegelhalterTest": (cd.SpiegelhalterTest(), "pvalue", 10**9),
    "ECCE": (cd.ECCE(), "pvalue", 10**9),
    "CalibrationSlope": (cd.CalibrationSlope(), "pvalue", 10**9),
    # No score has a logit of -10 or 10: the belt itself is not computed.
    "CalibrationBelt": (cd.CalibrationBelt(points=2), "pvalue", 10**9),
    "HosmerLemeshow": (cd.HosmerLemeshow(), "pvalue", 10**9),
    "HosmerLemeshow(groups=5)": (cd.HosmerLemeshow(groups=5), "pvalue", 10**9),
    "GradeTests": (cd.GradeTests(edges=(0, 0.01, 0.1, 1)), "pvalue", 10**9),
    "GradeTests, binomial": (cd.GradeTests(), "binomial", 10**9),
    "GradeTests, Jeffreys": (cd.GradeTests(), "jeffreys", 10**9),
    "ConsistencyTest": (cd.ConsistencyTest(resamples=99), "pvalue", 10**9),
    "CMETest": (cd.CMETest(draws=199, bandwidth=_BANDWIDTH), "pvalue", 10**9),
    "CMETest, observed": (cd.CMETest(covariance="observed", draws=199, bandwidth=_BANDWIDTH), "pvalue", 10**9),
    "SKCETest": (cd.SKCETest(bandwidth=_BANDWIDTH, draws=199), "pvalue", 100),
    "SKCETest, linear": (cd.SKCETest(estimator="linear", bandwidth=_BANDWIDTH), "pvalue", 10**9),
    "SKCETest, blocks of 10": (cd.SKCETest(estimator="block", block=10, bandwidth=_BANDWIDTH), "pvalue", 10**9),
    "SKCETest, features": (
        cd.SKCETest(estimator="features", features=64, bandwidth=_BANDWIDTH, draws=199),
        "pvalue",
        10**9,
    ),
}

# Limits by the name of the metric at the command line: the largest or the smallest value that keeps them.
GATES = {
    "mean-gap": "size",
    "ece": "size",
    "brier-score": "most",
    "log-loss": "most",
    "observed-expected": "most",
    "calibration-slope.slope": "least",
    "c-statistic": "least",
}

OTHERS = {
    "GradeTests, Jeffreys: at the level that it states": Promise("guarantee", SIGNIFICANCE),
    "compare, difference of Brier scores": Promise("interval", LEVEL, at_least=True),
    "MulticalibratedScaling, improvement (95 %)": Promise("interval", 0.95, at_least=True),
    "threshold, risk above the limit": Promise("guarantee", SIGNIFICANCE),
    "ConformalThreshold, sets that hold the outcome": Promise("guarantee", 0.9, at_least=True),
    "watch, period_pvalue": Promise("test", SIGNIFICANCE),
    "watch, period_pvalue with a tolerance": Promise("test", SIGNIFICANCE),
    "watch, any alarm in 10 periods": Promise("guarantee", SIGNIFICANCE),
    "watch_power, caught within twice the supported tolerance": Promise("guarantee", 0.9, at_least=True),
    "audit, a segment found": Promise("guarantee", SIGNIFICANCE),
    "audit, a discovery": Promise("guarantee", SIGNIFICANCE),
}

PROMISES: dict[str, Promise] = {
    **{title: Promise("interval", LEVEL, at_least=True) for of in INTERVALS.values() for title in of.parts.values()},
    **{
        f"{title}, test" if title in ("ECCE", "CalibrationSlope") else title: Promise("test", SIGNIFICANCE)
        for title in TESTS
    },
    **{f"{limit}: {outcome}": Promise("gate", WRONG) for limit in GATES for outcome in ("met", "broken")},
    **OTHERS,
}

"""The promises that are measured: intervals, tests, gates and guarantees, with what each of them promises."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import calibdask as cd
from experiments.calibration.cases import Floats, Population

Kind = Literal["interval", "test", "gate", "guarantee"]
# Groups of promises that are measured together, each in cells of its own.
FAMILIES = ("formulas", "tests", "gates", "guarantees", "replicates")
# Of intervals that they hold; of tests that they reject, of gates that they decide wrongly.
LEVEL, SIGNIFICANCE, WRONG = 0.9, 0.05, 0.025
_BANDWIDTH = 0.2
# Scores within rounding of a threshold are in the set.
_EPSILON = 1e-12
# Ten times the usual step: values are the same to six digits, at a fraction of the time.
_STEP = 0.003


@dataclass(frozen=True)
class Promise:
    """How often something happens at most, or at least."""

    kind: Kind
    share: float
    at_least: bool = False


# The true values of the parts of a metric, from the population and the results of all data sets by name.
Truth = Callable[[Population, Mapping[str, Floats], str], Floats]


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
    truth : callable, optional
        The true values where they are not the results of the whole population.
    calibrated_only : bool
        Whether the promise is about calibrated models.
    """

    metric: Any
    parts: Mapping[str, str]
    replicates: bool = False
    rows: int = 10**9
    truth: Truth | None = None
    calibrated_only: bool = False


def _parts(title: str, *names: str) -> dict[str, str]:
    return {name: f"{title}, {name.replace('_', ' ')}" if name else title for name in names}


def _kernel_error(bandwidth: float, factor: float, power: float) -> Truth:
    """Of pairs of rows: (factor E exp(-|s - s'| / bandwidth) (c - s) (c' - s'))**power, of 2000 of the scores."""

    def truth(population: Population, _: Mapping[str, Floats], __: str) -> Floats:
        scores, chances = (values[1::2] for values in population)
        gaps = chances - scores
        pairs = gaps @ np.exp(-np.abs(scores[:, None] - scores) / bandwidth) @ gaps / scores.size**2
        return np.asarray(np.maximum(factor * pairs, 0.0) ** power)

    return truth


def _mean_distance(population: Population, _: Mapping[str, Floats], __: str) -> Floats:
    return np.asarray(np.abs(population.chances - population.scores).mean())


def _curve(offset: bool) -> Truth:
    """The calibration function at the points of a curve, less the score for local errors."""

    def truth(population: Population, found: Mapping[str, Floats], _: str) -> Floats:
        points = found["x_score"]
        return np.interp(points, population.scores, population.chances) - (points if offset else 0.0)

    return truth


def _risk_at_thresholds(population: Population, found: Mapping[str, Floats], _: str) -> Floats:
    """The error rate of the population from the threshold of each data set on."""
    confidence = np.maximum(population.scores, 1 - population.scores)
    wrong = np.where(population.scores > 0.5, 1 - population.chances, population.chances)
    order = np.argsort(-confidence, kind="stable")
    risks = np.cumsum(wrong[order]) / np.arange(1, order.size + 1)
    covered = np.searchsorted(-confidence[order], -found["x_threshold"] + 1e-12, side="right")
    return np.where(covered > 0, risks[np.maximum(covered, 1) - 1], np.nan)


def _outcomes_of_bins(_: Population, found: Mapping[str, Floats], __: str) -> Floats:
    return found["x_outcome"]


def _sets_by_label(population: Population, found: Mapping[str, Floats], name: str) -> Floats:
    """Of each label, the share of the conformal sets of the population that hold it, or their mean size."""
    cut = found["x_threshold"][:, None]
    distances = population.scores, 1 - population.scores
    holds = [np.asarray(of <= cut + _EPSILON, np.float64) for of in distances]
    values = holds if name.endswith("coverage") else [holds[0] + holds[1]] * 2
    shares = 1 - population.chances, population.chances
    return np.stack([of @ share / share.sum() for of, share in zip(values, shares, strict=True)], axis=-1)


INTERVALS = {
    "mean_gap": Interval(cd.MeanGap(), {"": "MeanGap"}),
    "ratio": Interval(cd.ObservedExpected(), {"": "ObservedExpected"}),
    "slope": Interval(cd.CalibrationSlope(), _parts("CalibrationSlope", "slope", "intercept")),
    "c": Interval(cd.CStatistic(), {"": "CStatistic"}),
    "benefit": Interval(
        cd.NetBenefit(thresholds=(0.02, 0.2)),
        {
            "model": "NetBenefit",
            "treat_all": "NetBenefit, treat all",
            "avoided": "NetBenefit, treatments avoided",
        },
    ),
    "standardized": Interval(
        cd.NetBenefit(thresholds=(0.02, 0.2), standardized=True), {"model": "NetBenefit(standardized=True)"}
    ),
    "murphy": Interval(cd.MurphyCurve(thresholds=(0.02, 0.2)), {"": "MurphyCurve"}),
    "coverage": Interval(
        cd.RiskCoverage(),
        {
            "aurc": "RiskCoverage",
            "augrc": "RiskCoverage, AUGRC",
            "best": "RiskCoverage, best",
            "excess": "RiskCoverage, excess",
        },
    ),
    "coverage_curve": Interval(
        cd.RiskCoverageCurve(points=5), {"risk": "RiskCoverageCurve"}, truth=_risk_at_thresholds
    ),
    "diagram": Interval(
        cd.ReliabilityDiagram(bins=5),
        {"outcome": "ReliabilityDiagram, bins", "score": "ReliabilityDiagram, scores of bins"},
    ),
    "bars": Interval(
        cd.ConsistencyBars(bins=5),
        {"expected": "ConsistencyBars, frequency of a calibrated model"},
        truth=_outcomes_of_bins,
        calibrated_only=True,
    ),
    "cutoff": Interval(cd.CutoffError(), {"": "CutoffError"}),
    "sets": Interval(
        cd.ConformalThreshold(alpha=0.1),
        {
            "class_coverage": "ConformalThreshold, coverage by label",
            "class_size": "ConformalThreshold, size by label",
        },
        truth=_sets_by_label,
    ),
    "brier": Interval(cd.BrierScore(), {"": "BrierScore"}, True),
    "log": Interval(cd.LogLoss(), {"": "LogLoss"}, True),
    "brier_skill": Interval(cd.BrierSkillScore(), {"": "BrierSkillScore"}, True),
    "log_skill": Interval(cd.LogSkillScore(), {"": "LogSkillScore"}, True),
    "entropy": Interval(cd.NormalizedEntropy(), {"": "NormalizedEntropy"}, True),
    "sharpness": Interval(cd.Sharpness(), {"": "Sharpness"}, True),
    "brier_terms": Interval(
        cd.BrierDecomposition(),
        _parts(
            "BrierDecomposition",
            *("score", "reliability", "resolution", "uncertainty", "refinement_loss"),
            *("within_variance", "within_covariance"),
        ),
        True,
    ),
    "log_terms": Interval(
        cd.LogLossDecomposition(),
        _parts("LogLossDecomposition", "score", "reliability", "resolution", "uncertainty", "within"),
        True,
    ),
    "ece": Interval(cd.ECE(), {"": "ECE"}, True),
    "ece_mass": Interval(cd.ECE(binning="equal-mass"), {"": "ECE, equal mass"}, True),
    "ece_l2": Interval(cd.ECE(norm="l2", debias=True), {"": "ECE, l2, debiased"}, True),
    "mce": Interval(cd.ECE(bins=5, norm="max"), {"": "MCE, 5 bins"}, True),
    "smooth": Interval(cd.SmoothECE(step=_STEP), {"": "SmoothECE"}, True),
    "density": Interval(cd.DensityECE(step=_STEP), {"": "DensityECE"}, True),
    "curve": Interval(
        cd.ReliabilityCurve(points=21, step=_STEP),
        {"reliability": "ReliabilityCurve, points", "reliability_band": "ReliabilityCurve, whole band"},
        True,
        truth=_curve(offset=False),
    ),
    "local": Interval(
        cd.LocalCalibrationError(points=21, step=_STEP),
        {"": "LocalCalibrationError, points", "band": "LocalCalibrationError, whole band"},
        True,
        truth=_curve(offset=True),
    ),
    "ecce": Interval(cd.ECCE(), {"": "ECCE"}, True),
    "atb": Interval(cd.ATB(), {"": "ATB"}, True),
    "corp": Interval(cd.CORP(), _parts("CORP", "score", "miscalibration", "discrimination", "uncertainty"), True),
    "ici": Interval(cd.ICI(step=_STEP), {"ici": "ICI", "e90": "ICI, E90"}, True),
    "cost": Interval(
        cd.ExcessCost(),
        {
            "": "ExcessCost",
            "realised": "ExcessCost, realised",
            "promised": "ExcessCost, promised",
            "calibrated": "ExcessCost, calibrated",
        },
        True,
    ),
    "cells": Interval(cd.MulticlassECE(bins=5), {"": "MulticlassECE, 5 bins"}, True),
    "skce": Interval(cd.SKCE(bandwidth=_BANDWIDTH), {"": "SKCE"}, True, 100, truth=_kernel_error(_BANDWIDTH, 2.0, 1.0)),
    "mmce": Interval(cd.MMCE(), {"": "MMCE"}, True, 100, truth=_kernel_error(0.4, 1.0, 0.5)),
    "canonical": Interval(
        cd.KernelCanonicalECE(bandwidth=0.05), {"": "KernelCanonicalECE"}, True, 100, truth=_mean_distance
    ),
    "skce_linear": Interval(
        cd.SKCE(estimator="linear", bandwidth=_BANDWIDTH),
        {"": "SKCE, linear"},
        truth=_kernel_error(_BANDWIDTH, 2.0, 1.0),
    ),
}

# Numbers that describe the data, without intervals.
DESCRIPTIONS = ("Saturation",)

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


@dataclass(frozen=True)
class Gated:
    """A limit at the true value.

    Parameters
    ----------
    rule : {"size", "most", "least"}
        The limit is the largest size, the largest or the smallest value.
    rows : int
        Decided for up to so many rows.
    truth : callable, optional
        The true value where it is not the result of the whole population.
    """

    rule: Literal["size", "most", "least"]
    rows: int = 10**9
    truth: Truth | None = None


_MOST, _LEAST, _SIZE = Gated("most"), Gated("least"), Gated("size")
# By the name of the metric and its part at the command line.
GATES = {
    "mean-gap": _SIZE,
    "ece": _SIZE,
    "smooth-ece": _SIZE,
    f"density-ece(step={_STEP})": _SIZE,
    "ecce": _SIZE,
    "cutoff-error": _SIZE,
    "atb": _SIZE,
    f"ici(step={_STEP}).ici": _SIZE,
    f"ici(step={_STEP}).e90": _SIZE,
    "multiclass-ece(bins=5)": _SIZE,
    f"skce(bandwidth={_BANDWIDTH})": Gated("size", 100, _kernel_error(_BANDWIDTH, 2.0, 1.0)),
    "mmce": Gated("size", 100, _kernel_error(0.4, 1.0, 0.5)),
    "kernel-canonical-ece(bandwidth=0.05)": Gated("size", 100, _mean_distance),
    "brier-score": _MOST,
    "log-loss": _MOST,
    "log-loss(clip=0.001)": _MOST,
    "brier-skill-score": _LEAST,
    "log-skill-score": _LEAST,
    "normalized-entropy": _MOST,
    "sharpness": _LEAST,
    **{f"brier-decomposition.{part}": _MOST for part in ("score", "reliability", "uncertainty", "refinement_loss")},
    **{f"brier-decomposition.{part}": _MOST for part in ("within_variance", "within_covariance")},
    "brier-decomposition.resolution": _LEAST,
    **{f"log-loss-decomposition.{part}": _MOST for part in ("score", "reliability", "uncertainty", "within")},
    "log-loss-decomposition.resolution": _LEAST,
    **{f"corp.{part}": _MOST for part in ("score", "miscalibration", "uncertainty")},
    "corp.discrimination": _LEAST,
    **{f"excess-cost{part}": _MOST for part in ("", ".realised", ".promised", ".calibrated")},
    "observed-expected": _MOST,
    "calibration-slope.slope": _LEAST,
    "calibration-slope.intercept": _MOST,
    "c-statistic": _LEAST,
    **{f"risk-coverage.{part}": _MOST for part in ("aurc", "augrc", "best", "excess")},
}
# Limits whose true value depends on what was fitted to the data set.
FITTED_GATES = {
    "conformal-threshold.coverage": _LEAST,
    "conformal-threshold.size": _MOST,
    "refinement": _MOST,
}

OTHERS = {
    "GradeTests, Jeffreys: at the level that it states": Promise("guarantee", SIGNIFICANCE),
    "compare, difference of Brier scores": Promise("interval", LEVEL, at_least=True),
    "MulticalibratedScaling, improvement (95 %)": Promise("interval", 0.95, at_least=True),
    "threshold, risk above the limit": Promise("guarantee", SIGNIFICANCE),
    "ConformalThreshold, sets that hold the outcome": Promise("guarantee", 0.9, at_least=True),
    "ConformalThreshold, coverage": Promise("interval", LEVEL, at_least=True),
    "ConformalThreshold, size": Promise("interval", LEVEL, at_least=True),
    "NoiseFloor, errors of calibrated models above it": Promise("guarantee", SIGNIFICANCE),
    "Refinement, calibration": Promise("interval", LEVEL, at_least=True),
    "compare, gate on a worse Brier score: not worse": Promise("gate", WRONG),
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
    **{
        f"{limit}: {outcome}": Promise("gate", WRONG)
        for limit in (*GATES, *FITTED_GATES)
        for outcome in ("met", "broken")
    },
    **OTHERS,
}

"""What the measures of a report are, in words, and where they come from."""

import re
from collections.abc import Iterable

__all__ = ["definitions", "title_of"]

# How the description of an estimator begins (or what it holds), what it is called, what it is, and its source.
_KNOWN = (
    (
        r"BrierScore\(",
        "Brier score",
        "The mean of (score less outcome)², outcome 1 or 0; with several classes summed over these. Calibration and "
        "the power to tell cases apart share in it: 0 is perfect. No calibration error, but what every use pays.",
        "Brier, Verification of forecasts expressed in terms of probability, 1950",
    ),
    (
        r"BrierDecomposition\(",
        "Decomposition of the Brier score",
        "Reliability (what miscalibration adds) less resolution (what telling cases apart takes off) plus uncertainty "
        "(the score of always saying the overall frequency), and what is left within bins.",
        "Murphy, A new vector partition of the probability score, 1973; Stephenson et al., 2008",
    ),
    (
        r"LogLoss\(",
        "Log loss",
        "The mean of −log(score that the label was given). Confident mistakes weigh most.",
        "Good, Rational decisions, 1952",
    ),
    (
        r"ECE\(.*norm='l2'",
        "Root mean square calibration error (RMSCE)",
        "As the ECE, but the root of the mean of the squared gaps, less what chance adds to these.",
        "Kumar, Liang & Ma, Verified uncertainty calibration, 2019",
    ),
    (
        r"ECE\(.*norm='max'",
        "Maximum calibration error (MCE)",
        "The largest gap between mean score and frequency of the outcome in any bin, however few rows it holds.",
        "Naeini, Cooper & Hauskrecht, Obtaining well calibrated probabilities using Bayesian binning, 2015",
    ),
    (
        r"ECE\(",
        "Expected calibration error (ECE)",
        "Rows are put in bins by their score. In each bin: how far the mean score is from the frequency of the "
        "outcome; of these gaps the mean, weighted by rows. In the class-wise setting the mean over classes.",
        "Naeini, Cooper & Hauskrecht, 2015; Guo et al., On calibration of modern neural networks, 2017",
    ),
    (
        r"DensityECE\(",
        "Density ECE",
        "The same mean gap without bins: the distance of the reliability curve from the diagonal, weighted by the "
        "density of the scores, both smoothed by a kernel.",
        "Posocco & Bonnefoy, Estimating expected calibration errors, 2021",
    ),
    (
        r"SmoothECE\(",
        "Smooth ECE",
        "The same mean gap, smoothed over a width that is equal to the error itself, so that nobody has to choose it.",
        "Błasiok & Nakkiran, Smooth ECE, 2024",
    ),
    (
        r"SpiegelhalterTest\(",
        "Spiegelhalter's test",
        "Whether the Brier score is what scores that are right lead to expect. It sees scores that are too bold or too "
        "timid; other errors it may miss.",
        "Spiegelhalter, Probabilistic prediction in patient management and clinical trials, 1986",
    ),
    (
        r"SKCE\(",
        "Squared kernel calibration error",
        "An average over pairs of rows of how alike their residuals are where their scores are alike; 0 for a "
        "calibrated model, of whole score vectors too.",
        "Widmann, Lindsten & Zachariah, Calibration tests in multi-class classification, 2019",
    ),
    (
        r"MeanGap\(",
        "Calibration in the large",
        "The frequency of the outcome less the mean score. Below 0 the scores promise too much on average; errors of "
        "opposite sign cancel.",
        "Van Calster et al., Calibration: the Achilles heel of predictive analytics, 2019",
    ),
    (
        r"ReliabilityDiagram\(",
        "Reliability diagram",
        "The frequency of the outcome in each bin of scores against the mean score there. On the diagonal both agree.",
        "Murphy & Winkler, 1977; Silva Filho et al., Classifier calibration, 2023",
    ),
    (
        r"ReliabilityCurve\(",
        "Reliability curve",
        "The frequency of the outcome given the score, by kernel densities. The dark band is for one score, the light "
        "one for the whole curve; both are corrected for the bias of smoothing.",
        "Posocco & Bonnefoy, 2021",
    ),
)


def definitions(estimators: Iterable[str]) -> list[tuple[str, str, str]]:
    """Term, definition and source of these descriptions of estimators, each once.

    Examples
    --------
    >>> [term for term, _, _ in definitions(["ECE(bins=15, norm='l1')", "ECE(bins=10, norm='l1')", "Own()"])]
    ['Expected calibration error (ECE)']
    """
    found = {}
    for each in estimators:
        for pattern, term, words, source in _KNOWN:
            if re.match(pattern, each):
                found[term] = (term, words, source)
                break
    return list(found.values())


def title_of(estimator: str) -> str:
    """What people call the measure; empty if that is not known.

    Examples
    --------
    >>> title_of("DensityECE(bandwidth='silverman')")
    'Density ECE'
    """
    return next((term for pattern, term, _, _ in _KNOWN if re.match(pattern, estimator)), "")

"""What intervals, bands, tests and bounds promise and hold, from 30 to 20 000 rows, with rare outcomes too."""

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import calibdask as cd
from experiments.calibration.coverage import brier_score, kernel_error, log_loss, root_square, true_error

# Data sets by their number of rows.
SETS = {30: 400, 100: 400, 500: 400, 3000: 200, 20_000: 60}
ALL = max(SETS)
AT_ONCE = 20
LEVEL, SIGNIFICANCE = 0.9, 0.05
BANDWIDTH = 0.2
PAGE = Path(__file__).with_name("small.md")
MARKER = "<!-- written by small.py -->\n"


@dataclass(frozen=True)
class Outcomes:
    """A beta distribution of scores, whose mean is about the rate of the outcome."""

    label: str
    density: tuple[int, int]
    off: Callable[[Any], Any]

    def population(self, calibrated: bool, points: int = 200_000) -> tuple[Any, Any]:
        """Scores that stand for equal shares of the distribution, in order, and their probabilities."""
        scores = stats.beta(*self.density).ppf((np.arange(points) + 0.5) / points)
        return scores, self.probabilities(scores, calibrated)

    def probabilities(self, scores: Any, calibrated: bool) -> Any:
        """Of the outcome: the scores, or others."""
        return scores if calibrated else self.off(scores)

    def drawn(self, calibrated: bool, rows: int, sets: int) -> tuple[Any, Any]:
        """Labels and scores, (sets, rows)."""
        rng = np.random.default_rng([*self.density, calibrated, rows])
        scores = rng.beta(*self.density, (sets, rows))
        return (rng.random(scores.shape) < self.probabilities(scores, calibrated)).astype(np.int32), scores


OUTCOMES = (
    Outcomes("Balanced outcomes, uniform scores", (1, 1), np.sqrt),
    Outcomes("Outcomes of 5 %, scores of beta(1, 19)", (1, 19), lambda s: np.minimum(2 * s, 1)),
    Outcomes("Outcomes of 0.5 %, scores of beta(1, 199)", (1, 199), lambda s: np.minimum(2 * s, 1)),
)


def mean_gap(s: Any, c: Any) -> float:
    """E c - s."""
    return float((c - s).mean())


def cumulative_gap(s: Any, c: Any) -> float:
    """The largest |sum c - s| up to some score, over the rows."""
    return float(np.abs(np.cumsum(c - s)).max() / s.size)


def squared_error(s: Any, c: Any) -> float:
    """E (c - s)**2."""
    return float(((c - s) ** 2).mean())


@dataclass(frozen=True)
class Promise:
    """A metric, and up to how many rows it is computed here; intervals have a true value."""

    metric: Any
    truth: Callable[[Any, Any], float] = true_error
    part: str = ""
    rows: int = ALL


INTERVALS = {
    "MeanGap": Promise(cd.MeanGap(), mean_gap),
    "BrierScore": Promise(cd.BrierScore(), brier_score),
    "LogLoss": Promise(cd.LogLoss(), log_loss),
    "ECE": Promise(cd.ECE()),
    "ECE, equal mass": Promise(cd.ECE(binning="equal-mass")),
    "ECE, l2, debiased": Promise(cd.ECE(norm="l2", debias=True), root_square),
    # Ten times the usual step: values are the same to six digits, at a sixth of the time.
    "SmoothECE": Promise(cd.SmoothECE(step=0.003)),
    "DensityECE": Promise(cd.DensityECE(step=0.003)),
    "CORP, miscalibration": Promise(cd.CORP(), squared_error, "_miscalibration"),
    "ECCE": Promise(cd.ECCE(), cumulative_gap),
    "SKCE": Promise(cd.SKCE(bandwidth=BANDWIDTH), kernel_error, rows=500),
    "SKCE, linear": Promise(cd.SKCE(estimator="linear", bandwidth=BANDWIDTH), kernel_error),
}

TESTS = {
    "SpiegelhalterTest": Promise(cd.SpiegelhalterTest()),
    "ECCE": Promise(cd.ECCE()),
    "ConsistencyTest": Promise(cd.ConsistencyTest(resamples=200), rows=3000),
    "CMETest": Promise(cd.CMETest()),
    "SKCETest": Promise(cd.SKCETest(bandwidth=BANDWIDTH, draws=400), rows=500),
    "SKCETest, linear": Promise(cd.SKCETest(estimator="linear", bandwidth=BANDWIDTH)),
    "SKCETest, blocks of 10": Promise(cd.SKCETest(estimator="block", block=10, bandwidth=BANDWIDTH)),
    "SKCETest, features": Promise(cd.SKCETest(estimator="features", features=128, bandwidth=BANDWIDTH), rows=3000),
}

BOUNDS = {
    "SKCETest, linear": Promise(cd.SKCETest(estimator="linear", bandwidth=BANDWIDTH, delta=0.01), kernel_error),
    "SKCETest, blocks of 10": Promise(
        cd.SKCETest(estimator="block", block=10, bandwidth=BANDWIDTH, delta=0.01), kernel_error
    ),
}


def main() -> None:
    """Write the tables of the page anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the data sets")
    parser.add_argument("--n-boot", type=int, default=100)
    parser.add_argument("--out", type=Path, default=PAGE)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    sets = {rows: max(round(count * chosen.share), 1) for rows, count in SETS.items()}
    prose = PAGE.read_text(encoding="utf-8").partition(MARKER)[0]
    tables = [line for outcomes in OUTCOMES for line in section(outcomes, sets, chosen.n_boot)]
    chosen.out.write_text(prose + MARKER + "\n".join(tables) + "\n", encoding="utf-8")


def section(outcomes: Outcomes, sets: dict[int, int], n_boot: int) -> Iterator[str]:
    """Lines of the page about one distribution."""
    yield f"\n## {outcomes.label}\n"
    for calibrated, model in ((True, "calibrated"), (False, "scores too low")):
        data = {rows: outcomes.drawn(calibrated, rows, count) for rows, count in sets.items()}
        population = outcomes.population(calibrated)
        covering = {
            name: [covered(it, *data[rows], population, n_boot) for rows in sets] for name, it in INTERVALS.items()
        }
        yield from table(f"Intervals that cover, {model}", LEVEL, sets, covering)
        bands = {"ReliabilityCurve, whole band": [band(*data[rows], outcomes, calibrated, n_boot) for rows in sets]}
        bands["ReliabilityDiagram, bins with rows"] = [bins(*data[rows], outcomes, calibrated) for rows in sets]
        yield from table(f"Bands and bins that cover, {model}", LEVEL, sets, bands)
        if calibrated:
            rejected = {name: [rejecting(it, *data[rows]) for rows in sets] for name, it in TESTS.items()}
            yield from table("Tests that reject calibrated models", SIGNIFICANCE, sets, rejected)
        else:
            below = {name: [claimed(it, *data[rows], population) for rows in sets] for name, it in BOUNDS.items()}
            yield from table("Bounds below the true error", SIGNIFICANCE, sets, below)


def parts(labels: Any, scores: Any) -> Iterator[tuple[int, Any, Any]]:
    """A few data sets at a time, whose replicates are held together, and the place of the first."""
    for start in range(0, len(labels), AT_ONCE):
        yield start, labels[start : start + AT_ONCE], scores[start : start + AT_ONCE]


def covered(it: Promise, labels: Any, scores: Any, population: tuple[Any, Any], n_boot: int) -> float:
    """The share of intervals that hold the true value, of those that are given: some are refused (NaN)."""
    if labels.shape[1] > it.rows:
        return np.nan
    truth, within = it.truth(*population), []
    for start, y_true, y_prob in parts(labels, scores):
        options: dict[str, Any] = {"task": "binary", "ci": LEVEL, "n_boot": n_boot, "seed": start}
        result = cd.evaluate(y_true, y_prob, {"it": it.metric}, **options)
        low, high = (result[f"it{it.part}_{end}"].values for end in ("low", "high"))
        within.append(((low <= truth + 1e-9) & (truth - 1e-9 <= high))[~np.isnan(low)])
    return share_of(np.concatenate(within))


def share_of(within: Any) -> float:
    """The share, NaN of none."""
    return float(within.mean()) if within.size else np.nan


def band(labels: Any, scores: Any, outcomes: Outcomes, calibrated: bool, n_boot: int) -> float:
    """The share of simultaneous bands that hold the whole curve where it is defined."""
    within = []
    for start, y_true, y_prob in parts(labels, scores):
        options: dict[str, Any] = {"task": "binary", "ci": LEVEL, "n_boot": n_boot, "seed": start}
        result = cd.reliability_curve(y_true, y_prob, points=101, **options)
        truth = outcomes.probabilities(result.score.values, calibrated)
        low, high = (result[f"reliability_band_{end}"].values for end in ("low", "high"))
        outside = (low > truth + 1e-9) | (truth - 1e-9 > high)
        within.append(~outside.any(-1))
    return float(np.concatenate(within).mean())


def bins(labels: Any, scores: Any, outcomes: Outcomes, calibrated: bool) -> float:
    """The share of bins with rows whose interval holds the mean probability of the rows in it."""
    within: list[Any] = []
    place = np.minimum((scores * 10).astype(int), 9)
    probabilities = outcomes.probabilities(scores, calibrated)
    for start, y_true, y_prob in parts(labels, scores):
        options: dict[str, Any] = {"task": "binary", "ci": LEVEL, "n_boot": 100, "seed": start}
        result = cd.evaluate(y_true, y_prob, {"it": cd.ReliabilityDiagram(bins=10)}, **options)
        for index, (here, truth) in enumerate(
            zip(place[start : start + AT_ONCE], probabilities[start : start + AT_ONCE], strict=True)
        ):
            counts = np.bincount(here, minlength=10)
            mean = np.bincount(here, truth, 10)[counts > 0] / counts[counts > 0]
            low, high = (result[f"it_outcome_{end}"].values[index][counts > 0] for end in ("low", "high"))
            within.append((low <= mean + 1e-9) & (mean - 1e-9 <= high))
    return float(np.concatenate(within).mean())


def rejecting(it: Promise, labels: Any, scores: Any) -> float:
    """The share of p-values of at most the significance; those that are refused reject nothing."""
    if labels.shape[1] > it.rows:
        return np.nan
    pvalues = [
        cd.evaluate(y_true, y_prob, {"it": it.metric}, task="binary").it_pvalue.values
        for _, y_true, y_prob in parts(labels, scores)
    ]
    return float((np.concatenate(pvalues) <= SIGNIFICANCE).mean())


def claimed(it: Promise, labels: Any, scores: Any, population: tuple[Any, Any]) -> float:
    """The share of upper bounds of the error that lie below it."""
    truth = it.truth(*population)
    bounds = [
        cd.evaluate(y_true, y_prob, {"it": it.metric}, task="binary").it_bound.values
        for _, y_true, y_prob in parts(labels, scores)
    ]
    return float((np.concatenate(bounds) < truth).mean())


def table(title: str, nominal: float, sets: dict[int, int], rows: dict[str, list[float]]) -> Iterator[str]:
    """Lines of a Markdown table, with the standard errors where the promise is kept."""
    yield f"| {title}, {nominal:.0%} | " + " | ".join(f"{count:,} rows" for count in sets) + " |"
    yield "| --- |" + " --- |" * len(sets)
    for label, values in rows.items():
        yield f"| {label} | " + " | ".join("-" if value != value else f"{value:.3f}" for value in values) + " |"
    errors = [np.sqrt(nominal * (1 - nominal) / count) for count in sets.values()]
    yield "| *standard error* | " + " | ".join(f"*{error:.3f}*" for error in errors) + " |\n"


if __name__ == "__main__":
    main()

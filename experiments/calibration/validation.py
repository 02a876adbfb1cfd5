"""What the intervals and tests of a validator hold, from 30 to 1000 rows, with rare outcomes too."""

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import calibdask as cd
from experiments.calibration.small import OUTCOMES, Outcomes

SETS = {30: 2000, 100: 2000, 1000: 1000}
# Replicates of histograms take their time: of so many of the sets.
OF_REPLICATES = 200
LEVEL, SIGNIFICANCE = 0.9, 0.05
PAGE = Path(__file__).with_name("validation.md")
MARKER = "<!-- written by validation.py -->\n"
# Ten times the usual step: values are the same to six digits, at a fraction of the time.
ICI = cd.ICI(step=0.003)
FORMULAS = {"slope": cd.CalibrationSlope(), "ratio": cd.ObservedExpected()}
TESTS = {
    "slope": cd.CalibrationSlope(),
    # No score has a logit of -10 or 10: the belt itself is not computed.
    "belt": cd.CalibrationBelt(points=2),
    "tenths": cd.HosmerLemeshow(),
    "fifths": cd.HosmerLemeshow(groups=5),
    "portfolio": cd.GradeTests(),
}


def main() -> None:
    """Write the tables of the page anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the data sets")
    parser.add_argument("--only", type=int, choices=range(len(OUTCOMES)), help="one distribution, to the terminal")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    sets = {rows: max(round(count * chosen.share), 1) for rows, count in SETS.items()}
    if chosen.only is not None:
        for line in section(OUTCOMES[chosen.only], sets):
            print(line, flush=True)
        return
    prose = PAGE.read_text(encoding="utf-8").partition(MARKER)[0]
    lines = [line for outcomes in OUTCOMES for line in section(outcomes, sets)]
    PAGE.write_text(prose + MARKER + "\n".join(lines) + "\n", encoding="utf-8")


def section(outcomes: Outcomes, sets: dict[int, int]) -> Iterator[str]:
    """Lines of the page about one distribution."""
    yield f"\n## {outcomes.label}\n"
    for calibrated, model in ((True, "calibrated"), (False, "scores too low")):
        data = {rows: outcomes.drawn(calibrated, rows, count) for rows, count in sets.items()}
        truth = true_numbers(outcomes, calibrated)
        columns = [covered(*data[rows], truth) for rows in sets]
        yield from table(f"Intervals that cover, {model}, {LEVEL:.0%}", sets, columns)
        if calibrated:
            columns = [rejecting(*data[rows]) for rows in sets]
            yield from table(f"Tests that reject, {SIGNIFICANCE:.0%}", sets, columns)


def true_numbers(outcomes: Outcomes, calibrated: bool) -> dict[str, float]:
    """The numbers of the whole population."""
    scores, chances = outcomes.population(calibrated)
    labels = np.repeat([1, 0], scores.size)
    weights = np.concatenate([chances, 1 - chances])
    found = cd.evaluate(labels, np.tile(scores, 2), FORMULAS, sample_weight=weights)
    distances = np.abs(chances - scores)
    return {
        "slope_slope": float(found.slope_slope),
        "slope_intercept": float(found.slope_intercept),
        "ratio": float(found.ratio),
        "ici_ici": float(distances.mean()),
        "ici_e90": float(np.quantile(distances, 0.9)),
    }


def covered(labels: Any, scores: Any, truth: dict[str, float]) -> dict[str, str]:
    """Of each number the share of intervals that hold the true one, and that of data sets that have none."""
    results = [cd.evaluate(labels, scores, FORMULAS, task="binary", ci=LEVEL)]
    few = slice(0, OF_REPLICATES)
    results.append(cd.evaluate(labels[few], scores[few], {"ici": ICI}, task="binary", ci=LEVEL, n_boot=100))
    cells = {}
    for name, value in truth.items():
        result = next(result for result in results if f"{name}_low" in result)
        cells[LABELS[name]] = share(result[f"{name}_low"].values, result[f"{name}_high"].values, value)
    return cells


def share(low: Any, high: Any, value: Any) -> str:
    """The share of data sets whose interval does not miss the value, its standard error, and how many have none."""
    given = np.isfinite(low) & np.isfinite(high)
    holds = ~given | ((low <= value + 1e-9) & (value - 1e-9 <= high))
    # That of no misses is that of one.
    rate = min(holds.mean(), 1 - 1 / holds.size)
    missing = "" if given.all() else f", {1 - given.mean():.0%} none"
    return f"{holds.mean():.3f} ({np.sqrt(rate * (1 - rate) / holds.size):.3f}{missing})"


LABELS = {
    "slope_slope": "CalibrationSlope, slope",
    "slope_intercept": "CalibrationSlope, intercept",
    "ratio": "ObservedExpected",
    "ici_ici": "ICI",
    "ici_e90": "ICI, E90",
}


def rejecting(labels: Any, scores: Any) -> dict[str, str]:
    """The share of data sets with p-values of at most the significance; refused ones reject nothing."""
    result = cd.evaluate(labels, scores, TESTS, task="binary")
    naive = stats.chi2.sf(result.belt_statistic.values, result.belt_degree.values + 1)
    pvalues = {
        "CalibrationSlope": result.slope_pvalue.values,
        "CalibrationBelt": result.belt_pvalue.values,
        "CalibrationBelt, p of chi-square": naive,
        "HosmerLemeshow": result.tenths_pvalue.values,
        "HosmerLemeshow(groups=5)": result.fifths_pvalue.values,
        "HosmerLemeshow(groups=5), chi-square": stats.chi2.sf(
            result.fifths_statistic.values, result.fifths_groups.values
        ),
        "GradeTests, binomial": result.portfolio_binomial.values,
        "GradeTests, Jeffreys": result.portfolio_jeffreys.values,
        "GradeTests, Jeffreys, not refused": stats.beta.cdf(
            result.portfolio_pd.values,
            result.portfolio_defaults.values + 0.5,
            result.portfolio_count.values - result.portfolio_defaults.values + 0.5,
        ),
    }
    return {name: rejections(values) for name, values in pvalues.items()}


def rejections(pvalues: Any) -> str:
    """The share of p-values that reject, its standard error, and how many data sets have none."""
    rate = (pvalues <= SIGNIFICANCE).mean()
    least = max(rate, 1 / pvalues.size)
    missing = f", {np.isnan(pvalues).mean():.0%} none" if np.isnan(pvalues).any() else ""
    return f"{rate:.3f} ({np.sqrt(least * (1 - least) / pvalues.size):.3f}{missing})"


def table(title: str, sets: dict[int, int], columns: list[dict[str, str]]) -> Iterator[str]:
    """Lines of a Markdown table."""
    yield f"| {title} | " + " | ".join(f"{rows:,} rows" for rows in sets) + " |"
    yield "| --- |" + " --- |" * len(sets)
    for name in columns[0]:
        yield f"| {name} | " + " | ".join(column[name] for column in columns) + " |"
    yield ""


if __name__ == "__main__":
    main()

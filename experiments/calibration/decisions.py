"""What the intervals of decisions hold from 30 to 1000 rows, and the promise of `threshold` in 10**4 data sets."""

import argparse
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import psi
from scipy.stats import binom

import calibdask as cd
from experiments.calibration.decisions_gates import gates
from experiments.calibration.small import OUTCOMES, Outcomes
from experiments.calibration.validation import share, table

SETS = {30: 1000, 100: 1000, 1000: 1000}
# Replicates of histograms take their time: of so many of the sets.
OF_REPLICATES = 100
LEVEL = 0.9
RISK, CONFIDENCE = 0.05, 0.95
PAGE = Path(__file__).with_name("decisions.md")
MARKER = "<!-- written by decisions.py -->\n"
THRESHOLDS = (0.02, 0.1, 0.5)
FORMULAS = {
    "risk": cd.RiskCoverage(),
    "curve": cd.RiskCoverageCurve(points=2),
    "benefit": cd.NetBenefit(thresholds=THRESHOLDS),
    "murphy": cd.MurphyCurve(thresholds=THRESHOLDS),
}
CONFORMAL = cd.ConformalThreshold()
AREAS = {"aurc": "AURC", "best": "best AURC", "excess": "E-AURC", "augrc": "AUGRC"}

# Probability of an error by coverage, from the most confident answers on.
RISKS: dict[str, Callable[[Any], Any]] = {
    "just above 5 % everywhere": lambda c: np.full_like(c, 0.0501),
    "0.5 c^3": lambda c: 0.5 * c**3,
    "0.5 c": lambda c: 0.5 * c,
    "10 %, then 3 %, then 20 %": lambda c: np.where(c < 0.1, 0.1, np.where(c < 0.5, 0.03, 0.2)),
}
PROMISES = {200: 1250, 2000: 1250}
AT_ONCE = 250
# Data sets of 10**4 rows for the coverage.
LARGE, LARGE_SETS = 10_000, 200


def main() -> None:
    """Write the tables of the page anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the data sets")
    parser.add_argument("--only", choices=["0", "1", "2", "threshold", "gates"], help="one part, to the terminal")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    parts = {str(place): section(outcomes, chosen.share) for place, outcomes in enumerate(OUTCOMES)}
    parts["threshold"] = promises(chosen.share)
    parts["gates"] = gates(chosen.share)
    if chosen.only is not None:
        for line in parts[chosen.only]:
            print(line, flush=True)
        return
    prose = PAGE.read_text(encoding="utf-8").partition(MARKER)[0]
    lines = [line for part in parts.values() for line in part]
    PAGE.write_text(prose + MARKER + "\n".join(lines).rstrip("\n") + "\n", encoding="utf-8")


def some(count: int, of: float) -> int:
    """A share of data sets, at least one."""
    return max(round(count * of), 1)


def section(outcomes: Outcomes, of: float) -> Iterator[str]:
    """Lines of the page about one distribution."""
    yield f"\n## {outcomes.label}\n"
    sets = {rows: some(count, of) for rows, count in SETS.items()}
    for calibrated, model in ((True, "calibrated"), (False, "scores too low")):
        population = outcomes.population(calibrated)
        columns = [covered(*outcomes.drawn(calibrated, rows, count), population) for rows, count in sets.items()]
        yield from table(f"Intervals that cover, {model}, {LEVEL:.0%}", sets, columns)


def true_numbers(scores: Any, chances: Any, rows: int) -> dict[str, Any]:
    """The numbers of the whole population, by their labels; the best AURC is that of so many rows."""
    labels, weights = np.repeat([1, 0], scores.size), np.concatenate([chances, 1 - chances])
    found = named(cd.evaluate(labels, np.tile(scores, 2), FORMULAS, sample_weight=weights))
    errors = rows * float(np.where(scores > 0.5, 1 - chances, chances).mean())
    found["best AURC"] = (errors - (rows - errors) * (psi(rows + 1) - psi(rows - errors + 1))) / rows
    return found


def named(result: Any, end: str = "") -> dict[str, Any]:
    """Numbers, or ends of their intervals, by the labels of the page."""
    found = {label: result[f"risk_{part}{end}"] for part, label in AREAS.items()}
    found["risk at half of the rows"] = result[f"curve_risk{end}"].isel(curve_coverage=0)
    for place, threshold in enumerate(THRESHOLDS):
        found[f"NetBenefit at {threshold}"] = result[f"benefit_model{end}"].isel(benefit_threshold=place)
    found["treating all at 0.5"] = result[f"benefit_treat_all{end}"].isel(benefit_threshold=-1)
    for place, threshold in enumerate(THRESHOLDS):
        found[f"MurphyCurve at {threshold}"] = result[f"murphy{end}"].isel(murphy_threshold=place)
    return found


def covered(labels: Any, scores: Any, population: tuple[Any, Any]) -> dict[str, str]:
    """Of each number the share of intervals that hold the true one, and of data sets that have none."""
    truth = true_numbers(*population, scores.shape[-1])
    result = cd.evaluate(labels, scores, FORMULAS, task="binary", ci=LEVEL)
    low, high = named(result, "_low"), named(result, "_high")
    cells = {name: share(low[name].values, high[name].values, float(of)) for name, of in truth.items()}
    sets = cd.evaluate(labels, scores, {"c": CONFORMAL}, task="binary", ci=LEVEL)
    limits = sets.c_threshold.values
    for part, of in of_sets(*population, limits).items():
        cells[f"ConformalThreshold, {part.replace('_', ' ')}"] = share(
            sets[f"c_{part}_low"].values, sets[f"c_{part}_high"].values, of
        )
    few = slice(0, OF_REPLICATES)
    found = cd.evaluate(labels[few], scores[few], {"atb": cd.ATB()}, task="binary", ci=LEVEL, n_boot=100)
    cells["ATB"] = share(found.atb_low.values, found.atb_high.values, averaged_gap(*population))
    return cells


def of_sets(scores: Any, chances: Any, limits: Any) -> dict[str, Any]:
    """Coverage and size of the sets of further rows, by threshold of 1 - score; scores are in order."""
    one = np.r_[0.0, np.cumsum(chances)] / scores.size
    none = np.r_[0.0, np.cumsum(1 - chances)] / scores.size
    from_here = np.searchsorted(scores, 1 - limits, side="left")
    up_to = np.searchsorted(scores, limits, side="right")
    size = 1 - from_here / scores.size + up_to / scores.size
    return {"coverage": one[-1] - one[from_here] + none[up_to], "size": size}


def averaged_gap(scores: Any, chances: Any) -> float:
    """The integral of the squared gaps below and above a border."""
    below = np.r_[0.0, np.cumsum(scores - chances)] / scores.size
    widths = np.diff(np.r_[0.0, scores, 1.0])
    return float((widths * (below**2 + (below[-1] - below) ** 2)).sum())


def promises(of: float) -> Iterator[str]:
    """How often the risk above the threshold is larger than allowed, and how much the thresholds automate."""
    yield "\n## Thresholds with a guarantee\n"
    yield f"At most {1 - CONFIDENCE:.0%} of data sets may have a true risk above {RISK:.0%} beyond their threshold.\n"
    yield "| Risk at coverage c | rows | data sets | with a threshold | above the risk allowed | standard error |"
    yield "| --- | --- | --- | --- | --- | --- |"
    broken = every = 0
    for kind in RISKS:
        for rows, count in PROMISES.items():
            thresholds, coverage = chosen_thresholds(kind, rows, some(count, of))
            wrong = int((true_risk(kind, coverage) > RISK).sum())
            given = np.isfinite(thresholds).mean()
            broken, every = broken + wrong, every + len(thresholds)
            rate = wrong / len(thresholds)
            error = np.sqrt(max(rate, 1 / len(thresholds)) * (1 - rate) / len(thresholds))
            yield f"| {kind} | {rows} | {len(thresholds)} | {given:.3f} | {rate:.4f} | {error:.4f} |"
    yield f"| together | | {every} | | {broken / every:.4f} | {np.sqrt(broken / every / every):.4f} |"
    yield f"\nCoverage with {LARGE:,} rows, beside that of a single test, of the lowest threshold that half of the data"
    yield f"sets would confirm, and that of the population, where the risk is {RISK:.0%}: no test shows that of it.\n"
    yield "| Risk at coverage c | threshold | single test | by the population |"
    yield "| --- | --- | --- | --- |"
    for kind in list(RISKS)[1:3]:
        _, coverage = chosen_thresholds(kind, LARGE, some(LARGE_SETS, of))
        single, best = best_coverages(kind)
        spread = coverage.std() / np.sqrt(len(coverage))
        yield f"| {kind} | {coverage.mean():.3f} +- {spread:.3f} | {single:.3f} | {best:.3f} |"


def chosen_thresholds(kind: str, rows: int, sets: int) -> tuple[Any, Any]:
    """Of each data set the threshold, NaN for none, and the share of the population above it."""
    rng = np.random.default_rng([list(RISKS).index(kind), rows])
    found = []
    for start in range(0, sets, AT_ONCE):
        scores = rng.random((min(AT_ONCE, sets - start), rows))
        # Claims of class 1: the most confident have the largest scores.
        right = rng.random(scores.shape) >= RISKS[kind](1 - scores)
        result = cd.threshold(right.astype(int), scores, RISK, CONFIDENCE, task="binary", setting="binary")
        found.append(result.threshold.values)
    thresholds = np.concatenate(found)
    return thresholds, np.where(np.isfinite(thresholds), 1 - thresholds, 0.0)


def true_risk(kind: str, coverage: Any) -> Any:
    """The share of errors among the most confident answers of the population."""
    grid = (np.arange(100_000) + 0.5) / 100_000
    errors = np.r_[0.0, np.cumsum(RISKS[kind](grid))] / grid.size
    place = np.round(coverage * grid.size).astype(int)
    return errors[place] / np.maximum(coverage, 1 / grid.size)


def best_coverages(kind: str) -> tuple[float, float]:
    """The largest coverage whose own test rejects in half of the data sets, and that which has the risk allowed."""
    coverage = np.arange(1, LARGE + 1) / LARGE
    risk = true_risk(kind, coverage)
    rows = np.arange(1, LARGE + 1)
    allowed = binom.ppf(1 - CONFIDENCE, rows, RISK) - 1
    shown = binom.cdf(allowed, rows, risk) >= 0.5
    return float(coverage[shown].max()), float(coverage[risk <= RISK].max())


if __name__ == "__main__":
    main()

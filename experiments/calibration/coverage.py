"""Coverage of intervals and bands, for data with a known calibration function."""

import argparse
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

import calibdask as cd

CURVES: dict[str, Callable[[Any], Any]] = {
    "identity": lambda s: s,
    "square": np.square,
    "square root": np.sqrt,
    "steep logistic": lambda s: 1 / (1 + np.exp(-12 * (s - 0.5))),
}
DENSITIES = {"uniform": (1, 1), "beta(2, 5)": (2, 5), "U-shaped": (0.4, 0.4)}
ERRORS = {"DensityECE": cd.DensityECE(), "SmoothECE": cd.SmoothECE(), "ECE": cd.ECE()}
# Data sets that are evaluated together: their replicates are held at the same time.
AT_ONCE = 20
BANDWIDTH = 0.2
COSTS = np.array([[0.0, 1.0], [4.0, 0.0]])
COMPARED = {
    "brier": cd.BrierScore(),
    "log": cd.LogLoss(),
    "ece": cd.ECE(),
    "l2": cd.ECE(norm="l2", debias=True),
    "skce": cd.SKCE(bandwidth=BANDWIDTH),
}


def main() -> None:
    """Print a line for each curve and density, or for each metric."""
    commands = {
        "predictions": predictions,
        "bands": bands,
        "errors": errors,
        "metrics": metrics,
        "comparisons": comparisons,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=list(commands))
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--sets", type=int, default=40, help="data sets for each curve and density")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="for metrics and comparisons, names as in the code")
    parser.add_argument("--n-boot", type=int, default=60, help="replicates of all but predictions")
    parser.add_argument("--band", choices=["corrected", "plain"], default="corrected")
    parser.add_argument("--method", choices=["corrected", "percentile", "bca"], help="None: the default of each number")
    parser.add_argument("--density", choices=list(DENSITIES), default="uniform", help="of the scores, for metrics")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    for line in commands[chosen.what](chosen):
        print(line, flush=True)


def drawn(chosen: argparse.Namespace, curve: str, density: str) -> tuple[Any, Any]:
    """Labels and scores, (sets, rows)."""
    rng = np.random.default_rng([list(CURVES).index(curve), list(DENSITIES).index(density), chosen.rows])
    scores = rng.beta(*DENSITIES[density], (chosen.sets, chosen.rows))
    return (rng.random(scores.shape) < CURVES[curve](scores)).astype(np.int32), scores


def zones(scores: Any) -> dict[str, Any]:
    """Within 0.05 of the ends, and the rest."""
    return {"low end": scores < 0.05, "middle": (scores >= 0.05) & (scores <= 0.95), "high end": scores > 0.95}


def predictions(chosen: argparse.Namespace) -> Iterator[str]:
    """95 % intervals of `LCECalibrator`, at as many new scores as rows it was fitted with."""
    for curve, true in CURVES.items():
        for density in DENSITIES:
            labels, scores = drawn(chosen, curve, density)
            within = np.empty(scores.shape, bool)
            for k in range(chosen.sets):
                new = scores[(k + 1) % chosen.sets]
                ends = cd.LCECalibrator().fit(labels[k], scores[k]).predict_interval(new, 0.95)
                within[k] = (ends.low[:, 1] <= true(new)) & (true(new) <= ends.high[:, 1])
            asked = np.roll(scores, -1, axis=0)
            shares = {name: within[zone].mean() for name, zone in zones(asked).items() if zone.sum() >= 200}
            yield f"{curve}, {density}: " + ", ".join(f"{name} {share:.3f}" for name, share in shares.items())


def bands(chosen: argparse.Namespace) -> Iterator[str]:
    """95 % bands of `ReliabilityCurve`: pointwise by zone, and simultaneous for the whole curve."""
    for curve, true in CURVES.items():
        for density in DENSITIES:
            labels, scores = drawn(chosen, curve, density)
            options: dict[str, Any] = {"task": "binary", "ci": 0.95, "n_boot": chosen.n_boot}
            result = cd.reliability_curve(labels, scores, points=101, band=chosen.band, **options)
            truth = true(result.score.values)
            low, high = result.reliability_low.values - 1e-12, result.reliability_high.values + 1e-12
            within = (low <= truth) & (truth <= high)
            low, high = result.reliability_band_low.values - 1e-12, result.reliability_band_high.values + 1e-12
            whole = ((low <= truth) & (truth <= high)).all(-1).mean()
            shares = [f"{name} {within[:, zone].mean():.3f}" for name, zone in zones(result.score.values).items()]
            yield f"{curve}, {density}: {', '.join(shares)}, whole curve in the band {whole:.3f}"


def errors(chosen: argparse.Namespace) -> Iterator[str]:
    """90 % intervals of calibration errors, scores uniform."""
    uniform = np.linspace(0, 1, 100_001)
    for curve, true in CURVES.items():
        truth = np.abs(true(uniform) - uniform).mean()
        labels, scores = drawn(chosen, curve, "uniform")
        result = cd.evaluate(labels, scores, ERRORS, task="binary", ci=0.9, n_boot=chosen.n_boot)
        shares = {
            name: ((result[f"{name}_low"] <= truth + 1e-9) & (truth <= result[f"{name}_high"])).mean().item()
            for name in ERRORS
        }
        yield f"{curve}: " + ", ".join(f"{name} {share:.3f}" for name, share in shares.items())


@dataclass(frozen=True)
class Number:
    """A number of a metric: its variable in a result, ``<metric><part>``, and the quantity that it estimates."""

    label: str
    metric: str
    truth: Callable[[Any, Any], float]
    part: str = ""


# Bins that are closed on the left are resampled by rows, those on the right from a histogram.
METRICS = {
    "brier": cd.BrierScore(),
    "log": cd.LogLoss(),
    "ece": cd.ECE(),
    "ece-left": cd.ECE(closed="left"),
    "mass": cd.ECE(binning="equal-mass"),
    "mass-left": cd.ECE(binning="equal-mass", closed="left"),
    "l2": cd.ECE(norm="l2", debias=True),
    "l2-left": cd.ECE(norm="l2", debias=True, closed="left"),
    # Ten times the usual step: values are the same to six digits, at a sixth of the time.
    "density": cd.DensityECE(step=0.003),
    "smooth": cd.SmoothECE(step=0.003),
    "corp": cd.CORP(),
    "ecce": cd.ECCE(),
    "skce": cd.SKCE(bandwidth=BANDWIDTH),
    "cost": cd.ExcessCost(costs=COSTS),
}


def population(curve: str, density: str, points: int = 200_000) -> tuple[Any, Any]:
    """Scores that stand for equal shares of the density, in order, and their probabilities."""
    scores = stats.beta(*DENSITIES[density]).ppf((np.arange(points) + 0.5) / points)
    return scores, CURVES[curve](scores)


def brier_score(s: Any, c: Any) -> float:
    """E (s - c)**2 + c (1 - c)."""
    return float(((s - c) ** 2 + c * (1 - c)).mean())


def log_loss(s: Any, c: Any) -> float:
    """E -c log s - (1 - c) log(1 - s)."""
    return float(-(c * np.log(s) + (1 - c) * np.log1p(-s)).mean())


def binned_error(s: Any, c: Any, mass: bool = False, square: bool = False) -> float:
    """The error of 15 bins, of equal width or mass: sum_j |E (c - s) 1_j|, or sqrt sum_j (E (c - s) 1_j)**2 / P_j."""
    index = np.arange(s.size) * 15 // s.size if mass else np.minimum((s * 15).astype(int), 14)
    gaps, shares = np.bincount(index, c - s, 15) / s.size, np.bincount(index, minlength=15) / s.size
    return float(np.sqrt((gaps**2 / shares).sum())) if square else float(np.abs(gaps).sum())


def kernel_error(s: Any, c: Any) -> float:
    """E 2 exp(-|s - s'| / bandwidth) (c - s) (c' - s'), of 2000 of the points."""
    few = slice(s.size // 4000, None, s.size // 2000)
    s, gaps = s[few], (c - s)[few]
    return float(2 * gaps @ np.exp(-np.abs(s[:, None] - s) / BANDWIDTH) @ gaps / s.size**2)


def cost(actions: Any, c: Any) -> Any:
    """Expected cost of actions at each score."""
    return COSTS[actions, 0] * (1 - c) + COSTS[actions, 1] * c


def realised(s: Any, c: Any) -> float:
    """Expected cost of acting on the scores."""
    return float(cost((cost(1, s) < cost(0, s)).astype(int), c).mean())


def excess(s: Any, c: Any) -> float:
    """Less that of acting on the probabilities."""
    return realised(s, c) - float(np.minimum(cost(0, c), cost(1, c)).mean())


def binned_excess(s: Any, c: Any) -> float:
    """Less that of the best action in each of ten bins, of which the threshold of 0.8 is an edge."""
    index = np.minimum((s * 10).astype(int), 9)
    both = [np.bincount(index, cost(action, c)) / s.size for action in (0, 1)]
    return realised(s, c) - float(np.minimum(*both).sum())


def true_error(s: Any, c: Any) -> float:
    """E |c - s|."""
    return float(np.abs(c - s).mean())


def root_square(s: Any, c: Any) -> float:
    """The root of E (c - s)**2."""
    return float(np.sqrt(((c - s) ** 2).mean()))


binned_mass, binned_square = partial(binned_error, mass=True), partial(binned_error, square=True)
NUMBERS = [
    Number("BrierScore", "brier", brier_score),
    Number("LogLoss", "log", log_loss),
    Number("ECE, true error", "ece", true_error),
    Number("ECE, error of bins", "ece", binned_error),
    Number("ECE closed left, true error", "ece-left", true_error),
    Number("ECE closed left, error of bins", "ece-left", binned_error),
    Number("ECE equal mass, true error", "mass", true_error),
    Number("ECE equal mass, error of bins", "mass", binned_mass),
    Number("ECE equal mass closed left, true error", "mass-left", true_error),
    Number("ECE equal mass closed left, error of bins", "mass-left", binned_mass),
    Number("ECE l2 debiased, true error", "l2", root_square),
    Number("ECE l2 debiased, error of bins", "l2", binned_square),
    Number("ECE l2 debiased closed left, true error", "l2-left", root_square),
    Number("ECE l2 debiased closed left, error of bins", "l2-left", binned_square),
    Number("DensityECE, true error", "density", true_error),
    Number("SmoothECE, true error", "smooth", true_error),
    Number("CORP miscalibration", "corp", lambda s, c: float(((c - s) ** 2).mean()), "_miscalibration"),
    Number("CORP discrimination", "corp", lambda s, c: float(c.var()), "_discrimination"),
    Number("CORP uncertainty", "corp", lambda s, c: float(c.mean() * (1 - c.mean())), "_uncertainty"),
    Number("ECCE", "ecce", lambda s, c: float(np.abs(np.cumsum(c - s)).max() / s.size)),
    Number("SKCE", "skce", kernel_error),
    Number("ExcessCost, true excess", "cost", excess),
    Number("ExcessCost, excess of ten bins", "cost", binned_excess),
    Number("ExcessCost realised", "cost", realised, "_realised"),
]


def ends(labels: Any, scores: Any, asked: Mapping[str, Any], chosen: argparse.Namespace) -> dict[str, Any]:
    """Ends of 90 % intervals by variable, (sets,); other replicates for every ``AT_ONCE`` sets."""
    by_variable: dict[str, list[Any]] = {}
    for start in range(0, len(labels), AT_ONCE):
        here = slice(start, start + AT_ONCE)
        options: dict[str, Any] = {"ci": 0.9, "ci_method": chosen.method, "n_boot": chosen.n_boot, "seed": start}
        result = cd.evaluate(labels[here], scores[here], asked, task="binary", **options)
        for name in result:
            if str(name).endswith(("_low", "_high")):
                by_variable.setdefault(str(name), []).append(result[name].values)
    return {name: np.concatenate(values) for name, values in by_variable.items()}


def metrics(chosen: argparse.Namespace) -> Iterator[str]:
    """90 % intervals of numbers: how many cover the truth, and how many lie above it."""
    asked = {name: METRICS[name] for name in chosen.only or METRICS}
    numbers = [number for number in NUMBERS if number.metric in asked]
    covering: dict[str, list[float]] = {number.label: [] for number in numbers}
    above: dict[str, list[float]] = {number.label: [] for number in numbers}
    for curve in CURVES:
        interval_ends = ends(*drawn(chosen, curve, chosen.density), asked, chosen)
        scores, probabilities = population(curve, chosen.density)
        for number in numbers:
            truth = number.truth(scores, probabilities)
            low, high = (interval_ends[f"{number.metric}{number.part}_{end}"] for end in ("low", "high"))
            covering[number.label].append(float(((low <= truth + 1e-9) & (truth - 1e-9 <= high)).mean()))
            above[number.label].append(float((low > truth + 1e-9).mean()))
    yield from table("Intervals that cover", list(CURVES), covering)
    yield from table("Intervals above the truth", list(CURVES), above)
    yield f"Method: {chosen.method or 'the default of each number'}. Scores: {chosen.density}. {sized(chosen)}"


def sized(chosen: argparse.Namespace) -> str:
    """What the tables were made of."""
    return (
        f"{chosen.rows} rows, {chosen.n_boot} replicates, {chosen.sets} sets: standard error "
        f"{np.sqrt(0.09 / chosen.sets):.3f} at 0.9, {np.sqrt(0.25 / chosen.sets):.3f} at most. Seeds of data: the "
        f"places of curve and density (or case) and the rows; of replicates: the first of each {AT_ONCE} sets."
    )


def table(title: str, columns: list[str], rows: Mapping[str, list[float]]) -> Iterator[str]:
    """Lines of a Markdown table."""
    yield f"| {title} | " + " | ".join(columns) + " |"
    yield "| --- |" + " --- |" * len(columns)
    for label, values in rows.items():
        yield f"| {label} | " + " | ".join(f"{value:.2f}" for value in values) + " |"
    yield ""


def pairs(case: str, sets: int, rows: int) -> tuple[Any, Any, Any]:
    """Labels and the scores of two models, (sets, rows); each model knows one of two causes."""
    rng = np.random.default_rng([list(CASES).index(case), rows])
    u, v = rng.random((2, sets, rows))
    labels = (rng.random(u.shape) < (u + v) / 2).astype(np.int32)
    first, second = CASES[case]
    return labels, first(u), second(v)


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "both calibrated": (lambda u: (u + 0.5) / 2, lambda v: (v + 0.5) / 2),
    "equally miscalibrated": (lambda u: u, lambda v: v),
    "one off by 0.05": (lambda u: (u + 0.5) / 2, lambda v: (v + 0.5) / 2 + 0.05),
}
COMPARED_TRUTHS: dict[str, Callable[[Any, Any], float]] = {
    "brier": brier_score,
    "log": log_loss,
    "ece": true_error,
    "l2": root_square,
    "skce": kernel_error,
}


def comparisons(chosen: argparse.Namespace) -> Iterator[str]:
    """90 % intervals of differences of two models: how many cover the true one, and how often p < 0.1."""
    cause = (np.arange(200_000) + 0.5) / 200_000
    asked = {name: COMPARED[name] for name in chosen.only or COMPARED}
    covering: dict[str, list[float]] = {name: [] for name in asked}
    small: dict[str, list[float]] = {name: [] for name in asked}
    for case, models in CASES.items():
        labels, first, second = pairs(case, chosen.sets, chosen.rows)
        results = []
        for start in range(0, chosen.sets, AT_ONCE):
            here = slice(start, start + AT_ONCE)
            options: dict[str, Any] = {"ci": 0.9, "ci_method": chosen.method, "n_boot": chosen.n_boot, "seed": start}
            results.append(cd.compare(labels[here], first[here], second[here], asked, task="binary", **options))
        for name in asked:
            errors_of_models = [COMPARED_TRUTHS[name](model(cause), (cause + 0.5) / 2) for model in models]
            truth = errors_of_models[1] - errors_of_models[0]
            low, high, pvalue = (
                np.concatenate([result[f"{name}_difference_{end}"].values for result in results])
                for end in ("low", "high", "pvalue")
            )
            covering[name].append(float(((low <= truth + 1e-9) & (truth - 1e-9 <= high)).mean()))
            small[name].append(float((pvalue < 0.1).mean()))
    yield from table("Intervals of differences that cover", list(CASES), covering)
    yield from table("p-values below 0.1", list(CASES), small)
    yield f"Method: {chosen.method or 'percentile'}. {sized(chosen)}"


if __name__ == "__main__":
    main()

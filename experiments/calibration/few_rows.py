"""Promises where rows, or those of an outcome, are few: equivalence tests, intervals of bins, levels of tests."""

import argparse
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import calibdask as cd

BANDWIDTH = 0.2
# Data sets that are evaluated together.
ROWS_AT_ONCE = 200_000
BINS = 15


@dataclass(frozen=True)
class Model:
    """The scores of a model, parameters of a beta distribution or one value, and the probability of the outcome."""

    scores: tuple[float, float] | float
    truth: Callable[[Any], Any]

    def drawn(self, sets: int, rows: int, *key: int) -> tuple[Any, Any]:
        """Labels and scores, (sets, rows)."""
        rng = np.random.default_rng([sets, rows, *key])
        shape = (sets, rows)
        scores = rng.beta(*self.scores, shape) if isinstance(self.scores, tuple) else np.full(shape, self.scores)
        return (rng.random(shape) < self.truth(scores)).astype(np.int32), scores

    @property
    def kernel_error(self) -> float:
        """E 2 exp(-|s - s'| / bandwidth) (c - s) (c' - s'), of 4000 scores of equal shares."""
        scores = np.sort(self.drawn(1, 4_000_000, 1)[1][0])[500::1000]
        gaps = self.truth(scores) - scores
        return float(2 * gaps @ np.exp(-np.abs(scores[:, None] - scores) / BANDWIDTH) @ gaps / scores.size**2)


MODELS = {
    "rate 0.03, score 0.001": Model(0.001, lambda s: 0.03 + 0 * s),
    "rate 0.04, score 0.01": Model(0.01, lambda s: 0.04 + 0 * s),
    "rate 0.005, score 0.001": Model(0.001, lambda s: 0.005 + 0 * s),
    "Beta(0.5, 50), rate 4 s": Model((0.5, 50), lambda s: np.minimum(4 * s, 1)),
    "uniform, rate s**2": Model((1, 1), np.square),
    "uniform, rate 0.5": Model((1, 1), lambda s: 0.5 + 0 * s),
}
CALIBRATED = {
    "Beta(0.5, 200)": Model((0.5, 200), lambda s: s),
    "Beta(0.5, 50)": Model((0.5, 50), lambda s: s),
    "Beta(1, 20)": Model((1, 20), lambda s: s),
    "uniform": Model((1, 1), lambda s: s),
}
BLOCKS: dict[str, dict[str, Any]] = {
    "linear": {"estimator": "linear"},
    "block 10": {"estimator": "block", "block": 10},
    "block 100": {"estimator": "block", "block": 100},
}


def main() -> None:
    """Print tables."""
    commands = {"equivalence": equivalence, "bins": bins, "levels": levels}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=list(commands))
    parser.add_argument("--rows", type=int, nargs="+", default=[30, 100, 500, 3000])
    parser.add_argument("--sets", type=int, default=1000, help="data sets of each model")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    for line in commands[chosen.what](chosen.rows, chosen.sets):
        print(line, flush=True)


def evaluated(model: Model, sets: int, rows: int, metrics: Mapping[str, Any], ci: float | None) -> Iterator[Any]:
    """Results of some data sets at a time."""
    labels, scores = model.drawn(sets, rows)
    step = max(1, ROWS_AT_ONCE // rows)
    for start in range(0, sets, step):
        here = slice(start, start + step)
        yield cd.evaluate(labels[here], scores[here], metrics, task="binary", ci=ci, n_boot=100, seed=start)


def equivalence(sizes: list[int], sets: int) -> Iterator[str]:
    """How often the true error is claimed to be larger than the error, at 5 %; and coverage of 90 % intervals."""
    yield f"p <= 0.05 for delta the true error / intervals of 90 % that cover / mean bound at 95 %. {sized(sets)}"
    yield from head("model and estimator", sizes)
    for name, model in MODELS.items():
        truth = model.kernel_error
        for label, choices in BLOCKS.items():
            metrics = {
                "test": cd.SKCETest(delta=truth, bandwidth=BANDWIDTH, **choices),
                "error": cd.SKCE(bandwidth=BANDWIDTH, **choices),
            }
            cells = []
            for rows in sizes:
                if rows < 2 * choices.get("block", 2):
                    cells.append("-")
                    continue
                numbers = [
                    (
                        (result.test_pvalue <= 0.05).values,
                        ((result.error_low <= truth) & (truth <= result.error_high)).values,
                        result.test_bound.values,
                    )
                    for result in evaluated(model, sets, rows, metrics, ci=0.9)
                ]
                claimed, covering, bound = (np.concatenate(values) for values in zip(*numbers, strict=True))
                cells.append(f"{claimed.mean():.3f} / {covering.mean():.3f} / {bound.mean():.4f}")
            yield f"| {name}: SKCE {truth:.5f}, {label} | " + " | ".join(cells) + " |"


def bin_truths(model: Model) -> tuple[Any, Any, float, float]:
    """Frequency and mean score of each bin, and the variance and twice the covariance within bins."""
    scores = model.drawn(1, 4_000_000, 2)[1][0]
    chances = model.truth(scores)
    index = np.clip(np.ceil(scores * BINS).astype(int) - 1, 0, BINS - 1)
    count = np.maximum(np.bincount(index, minlength=BINS), 1)
    outcome, score, square, product = (
        np.bincount(index, values, BINS) / count for values in (chances, scores, scores**2, scores * chances)
    )
    share = count / scores.size
    return outcome, score, float(share @ (square - score**2)), 2 * float(share @ (product - score * outcome))


def bins(sizes: list[int], sets: int) -> Iterator[str]:
    """Intervals of 90 %: of nonempty bins, and of the terms within bins of the decomposition of the Brier score."""
    yield f"Intervals of 90 % that cover; in brackets the share that have an interval. {sized(sets)}"
    metrics = {"bins": cd.ReliabilityDiagram(bins=BINS), "parts": cd.BrierDecomposition(bins=BINS)}
    yield from head("scores, number", sizes)
    for name in ("Beta(0.5, 200)", "Beta(0.5, 50)", "Beta(1, 20)", "uniform"):
        model = CALIBRATED[name]
        truths = dict(zip(("outcome", "score", "within_variance", "within_covariance"), bin_truths(model), strict=True))
        counted: dict[str, list[str]] = {part: [] for part in truths}
        for rows in sizes:
            results = list(evaluated(model, sets, rows, metrics, ci=0.9))
            filled = np.concatenate([result.bins_count.values > 0 for result in results])
            for part, truth in truths.items():
                prefix = "parts" if part.startswith("within") else "bins"
                low, high = (
                    np.concatenate([result[f"{prefix}_{part}_{end}"].values for result in results])
                    for end in ("low", "high")
                )
                judged = np.isfinite(low) & (filled if prefix == "bins" else True)
                covering = ((low <= truth) & (truth <= high))[judged]
                known = judged.sum() / (filled.sum() if prefix == "bins" else sets)
                counted[part].append(f"{covering.mean():.3f} ({known:.2f})" if covering.size else "- (0)")
        for part, cells in counted.items():
            yield f"| {name}, {part} | " + " | ".join(cells) + " |"


def levels(sizes: list[int], sets: int) -> Iterator[str]:
    """How often tests reject calibrated models at 5 and at 1 %."""
    yield f"Rejected at 5 / at 1 %. {sized(sets)}"
    tests = {
        "CME": cd.CMETest(draws=399),
        "features": cd.SKCETest(estimator="features", features=128, draws=399),
    }
    yield from head("scores, test", sizes)
    for (name, model), test in itertools.product(CALIBRATED.items(), tests):
        cells = []
        for rows in sizes:
            results = evaluated(model, sets, rows, {"x": tests[test]}, ci=None)
            pvalues = np.concatenate([result.x_pvalue.values for result in results])
            cells.append(f"{(pvalues <= 0.05).mean():.3f} / {(pvalues <= 0.01).mean():.3f}")
        yield f"| {name}, {test} | " + " | ".join(cells) + " |"


def head(first: str, sizes: list[int]) -> Iterator[str]:
    """The head of a Markdown table."""
    yield f"| {first} | " + " | ".join(f"{rows:,} rows" for rows in sizes) + " |"
    yield "| --- |" + " --- |" * len(sizes)


def sized(sets: int) -> str:
    """Standard errors of the shares."""
    errors = ", ".join(f"{np.sqrt(share * (1 - share) / sets):.4f} at {share}" for share in (0.01, 0.05, 0.1))
    return f"{sets} data sets, standard errors {errors}."


if __name__ == "__main__":
    main()

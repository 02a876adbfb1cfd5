"""Errors and intervals of many small slices: raw gaps, gaps shrunk by empirical Bayes, and ratios."""

import argparse
import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import calibdask as cd

SLICES = 1000
KINDS = ("normal", "skewed", "two points")
HEAD = "| effects | outcomes | rows of a slice | error / raw | error / pooled | gaps covered | ratios covered |"


@dataclass(frozen=True)
class Portfolio:
    """Slices of ``rows`` rows whose effects have a distribution of this kind, of mean 0."""

    kind: str
    rows: int
    is_rare: bool

    def drawn(self, seed: int) -> tuple[dict[str, Any], Any]:
        """Columns of rows, and the true gaps."""
        rng = np.random.default_rng([seed, self.rows, self.is_rare])
        low, high, scale = (0.005, 0.035, 0.005) if self.is_rare else (0.2, 0.6, 0.03)
        place = np.repeat(np.arange(SLICES), self.rows)
        score = rng.uniform(low, high, place.size)
        effect = np.maximum(scale * self._effects(rng), -low)
        label = (rng.random(place.size) < score + effect[place]).astype(int)
        return {"label": label, "score": score, "slice": place}, effect

    def _effects(self, rng: np.random.Generator) -> Any:
        if self.kind == "normal":
            return rng.normal(size=SLICES)
        if self.kind == "skewed":
            return rng.exponential(size=SLICES) - 1
        return np.where(rng.random(SLICES) < 0.1, 3.0, -1 / 3)

    def measured(self, seed: int) -> tuple[float, float, float, float]:
        """Error relative to that of raw and of pooled gaps, and shares of gaps and of ratios that are covered."""
        columns, effect = self.drawn(seed)
        gaps = cd.shrink_slices(columns, by="slice")
        error = np.sqrt(np.mean((gaps.shrunken.values - effect) ** 2))
        raw = np.sqrt(np.mean((gaps.raw.values - effect) ** 2))
        pooled = np.sqrt(np.mean((columns["label"].mean() - columns["score"].mean() - effect) ** 2))
        ratios = cd.shrink_slices(columns, by="slice", measure="observed-expected")
        mean = np.bincount(columns["slice"], columns["score"]) / self.rows
        truth = (mean + effect) / mean
        return (
            error / raw,
            error / pooled,
            float(((gaps.low <= effect) & (effect <= gaps.high)).mean()),
            float(((ratios.low <= truth) & (truth <= ratios.high)).mean()),
        )


def table(sizes: list[int], sets: int) -> Iterator[str]:
    """A line for each kind of effects, frequency of outcomes and number of rows."""
    yield HEAD
    yield "| --- " * 7 + "|"
    for is_rare, kind, rows in itertools.product((False, True), KINDS, sizes):
        portfolio = Portfolio(kind, rows, is_rare)
        means = np.mean([portfolio.measured(seed) for seed in range(sets)], axis=0)
        numbers = " | ".join(f"{mean:.3f}" for mean in means)
        yield f"| {kind} | {'rare' if is_rare else 'balanced'} | {rows} | {numbers} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[30, 100, 300])
    parser.add_argument("--sets", type=int, default=4, help="portfolios of each kind")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    for line in table(chosen.rows, chosen.sets):
        print(line, flush=True)


if __name__ == "__main__":
    main()

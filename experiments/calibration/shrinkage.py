"""Errors and intervals of many small slices: gaps shrunk by empirical Bayes, ratios, and intercepts of maps."""

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


def intercepts(rows: int, deviation: float, seed: int, slices: int = 100) -> tuple[float, float]:
    """Share of intercepts that are within 1.96 standard errors, and root mean square error over standard error."""
    rng = np.random.default_rng([seed, rows, int(1000 * deviation)])
    place = np.repeat(np.arange(slices), rows)
    logit = rng.normal(-1, 1, place.size)
    effect = deviation * rng.normal(size=slices)
    label = (rng.random(place.size) < 1 / (1 + np.exp(-logit - effect[place]))).astype(int)
    score = 1 / (1 + np.exp(-logit))
    fitted = cd.PlattScaling(shrink=True).fit(label, score, by={"slice": place})
    error = np.asarray(fitted.intercept_)[:slices].ravel() - effect
    claimed = np.asarray(fitted.intercept_se_)[:slices].ravel()
    return float((np.abs(error) <= 1.96 * claimed).mean()), float(np.sqrt((error**2).mean() / (claimed**2).mean()))


def table_of_intercepts(sizes: list[int], sets: int) -> Iterator[str]:
    """A line for each number of rows and standard deviation of intercepts."""
    yield "| rows of a slice | deviation | covered | 5 % of data sets cover less than | error / standard error |"
    yield "| --- " * 5 + "|"
    for rows, deviation in itertools.product(sizes, (0.0, 0.1, 0.25, 0.5)):
        shares, ratios = np.transpose([intercepts(rows, deviation, seed) for seed in range(sets)])
        means = f"{shares.mean():.3f} | {np.quantile(shares, 0.05):.2f} | {ratios.mean():.2f}"
        yield f"| {rows} | {deviation:g} | {means} |"


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
    parser.add_argument("--maps", type=int, default=0, help="measure intercepts of maps, with this many data sets")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    maps = table_of_intercepts(chosen.rows, chosen.maps)
    for line in maps if chosen.maps else table(chosen.rows, chosen.sets):
        print(line, flush=True)


if __name__ == "__main__":
    main()

"""Coverage of clustered intervals, by intracluster correlation and number of clusters.

The logits of the outcomes of a cluster share a normal effect; its variance is chosen so that the intracluster
correlation of the latent logistic variable is that of the case. The true number of each metric is that of very many
clusters.
"""

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import calibdask as cd

CORRELATIONS = (0.0, 0.05, 0.2, 0.5)
CLUSTERS = (10, 20, 40, 100, 400, 2000)
# Mean rows of a cluster where sizes are alike, and where they are drawn from 1 to 100.
ROWS = 20
METRICS: dict[str, Any] = {
    "mean_gap": cd.MeanGap(),
    "brier_score": cd.BrierScore(),
    "log_loss": cd.LogLoss(),
    "ece": cd.ECE(bins=10),
    "smooth_ece": cd.SmoothECE(),
    "cutoff_error": cd.CutoffError(),
    "observed_expected": cd.ObservedExpected(),
}
# The variance of a standard logistic variable.
_LOGISTIC = np.pi**2 / 3


@dataclass(frozen=True)
class Case:
    """Clusters of rows.

    Attributes
    ----------
    correlation : float
        Intracluster correlation of the latent variable.
    clusters : int
    equal : bool
        Whether all clusters have 20 rows; otherwise sizes are geometric, from 1 to 100.
    rare : bool
        Whether about 5 % of the outcomes are positive, in place of half.
    """

    correlation: float
    clusters: int
    equal: bool = True
    rare: bool = False

    def drawn(self, seed: Any, clusters: int | None = None) -> tuple[Any, Any, Any]:
        """Labels, scores and clusters."""
        rng = np.random.default_rng(seed)
        count = clusters or self.clusters
        sizes = np.full(count, ROWS) if self.equal else np.minimum(rng.geometric(1 / ROWS, count), 100)
        groups = np.repeat(np.arange(count), sizes)
        effect = np.sqrt(_LOGISTIC * self.correlation / (1 - self.correlation))
        base = -3.4 if self.rare else 0.0
        logits = base + 0.7 * rng.normal(size=count)[groups] + 0.7 * rng.normal(size=groups.size)
        latent = logits + effect * rng.normal(size=count)[groups]
        labels = rng.random(groups.size) < 1 / (1 + np.exp(-latent))
        return labels.astype(np.int8), 1 / (1 + np.exp(-logits)), groups

    @cached_property
    def truth(self) -> dict[str, float]:
        """The numbers of 100,000 clusters."""
        labels, scores, _ = self.drawn((99, round(100 * self.correlation), self.equal, self.rare), 100_000)
        result = cd.evaluate(labels, scores, METRICS)
        return {name: float(result[name]) for name in METRICS}


def coverage(case: Case, metrics: list[str], sets: int, n_boot: int) -> dict[str, tuple[float, float]]:
    """The share of intervals at 95 % that contain the truth, with groups and without."""
    inside = {name: np.zeros((sets, 2)) for name in metrics}
    chosen = {name: METRICS[name] for name in metrics}
    for number in range(sets):
        labels, scores, groups = case.drawn((number, case.clusters, round(100 * case.correlation), case.rare))
        given: tuple[dict[str, Any], ...] = ({"groups": groups}, {})
        for at, options in enumerate(given):
            result = cd.evaluate(labels, scores, chosen, ci=0.95, n_boot=n_boot, seed=number, **options)
            for name in metrics:
                true = case.truth[name]
                inside[name][number, at] = result[f"{name}_low"] <= true <= result[f"{name}_high"]
    return {name: (float(of[:, 0].mean()), float(of[:, 1].mean())) for name, of in inside.items()}


def lines(chosen: argparse.Namespace) -> Iterator[str]:
    """A table in Markdown: a line for each case."""
    yield "| ICC | clusters | sizes | outcome | " + " | ".join(chosen.only) + " |"
    yield "|" + "---|" * (4 + len(chosen.only))
    for rare in (False, True):
        for equal in (True, False):
            for correlation in chosen.correlations:
                for clusters in chosen.clusters:
                    case = Case(correlation, clusters, equal, rare)
                    shares = coverage(case, chosen.only, chosen.sets, chosen.n_boot)
                    words = "20" if equal else "1 to 100", "rare" if rare else "balanced"
                    cells = [f"{with_groups:.3f} ({without:.2f})" for with_groups, without in shares.values()]
                    yield f"| {correlation:g} | {clusters} | {words[0]} | {words[1]} | " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table; the standard error of a share p of n data sets is sqrt(p (1 - p) / n)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=400, help="data sets of each case")
    parser.add_argument("--n-boot", type=int, default=200)
    parser.add_argument("--clusters", type=int, nargs="+", default=CLUSTERS)
    parser.add_argument("--correlations", type=float, nargs="+", default=CORRELATIONS)
    parser.add_argument("--only", nargs="+", choices=list(METRICS), default=list(METRICS), metavar="METRIC")
    warnings.simplefilter("ignore", UserWarning)
    for line in lines(parser.parse_args()):
        print(line, flush=True)


if __name__ == "__main__":
    main()

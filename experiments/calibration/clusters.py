"""Coverage of clustered intervals and gates at their limit, by intracluster correlation and number of clusters.

The logits of the outcomes of a cluster share a normal effect; its variance is chosen so that the intracluster
correlation of the latent logistic variable is that of the case. The true number of each metric is that of 100,000
clusters. Each data set is a line of a file: a run that was stopped resumes there.
"""

import argparse
import itertools
import json
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import calibdask as cd

CORRELATIONS = (0.0, 0.05, 0.2, 0.5)
CLUSTERS = (10, 40, 200)
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
# Metrics with limits at their true number, for data whose logits are too low by this.
GATES = {"ece": "ece", "mean_gap": "mean-gap", "brier_score": "brier-score", "cutoff_error": "cutoff-error"}
TOO_LOW = 0.5
# Sizes equal or not, outcomes rare or not.
KINDS = ((True, False), (False, False), (True, True), (False, True))
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
    too_low : float
        How much the logits of scores are too low.
    """

    correlation: float
    clusters: int
    equal: bool = True
    rare: bool = False
    too_low: float = 0.0

    def __str__(self) -> str:
        return f"{self.correlation:g} {self.clusters} {self.equal:d} {self.rare:d}"

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
        return labels.astype(np.int8), 1 / (1 + np.exp(self.too_low - logits)), groups


class Measurements:
    """Data sets of a file of JSON lines: whether the interval of a metric holds the true number, null without one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.truth: dict[str, float] = {}
        self.inside: dict[str, dict[str, bool | None]] = defaultdict(dict)
        self.outcomes: dict[str, dict[str, str]] = defaultdict(dict)
        for line in path.read_text().splitlines() if path.exists() else ():
            self._add(json.loads(line))

    def _add(self, record: dict[str, Any]) -> None:
        self.truth |= record.get("truth", {})
        for key, inside in record.get("inside", {}).items():
            self.inside[key] |= inside
        for key, outcomes in record.get("outcomes", {}).items():
            self.outcomes[key] |= outcomes

    def _write(self, record: dict[str, Any]) -> None:
        self._add(record)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def true_values(self, case: Case, metrics: list[str]) -> dict[str, float]:
        """The numbers of 100,000 clusters."""
        kind = f"{case.correlation:g} {case.equal:d} {case.rare:d}{' gate' if case.too_low else ''}"
        keys = {name: f"{kind} {name}" for name in metrics}
        if missing := [name for name in metrics if keys[name] not in self.truth]:
            labels, scores, _ = case.drawn((99, round(100 * case.correlation), case.equal, case.rare), 100_000)
            result = cd.evaluate(labels, scores, {name: METRICS[name] for name in missing})
            self._write({"truth": {keys[name]: float(result[name]) for name in missing}})
        return {name: self.truth[key] for name, key in keys.items()}

    def measure(self, case: Case, metrics: list[str], sets: int, n_boot: int) -> None:
        """Measure the missing ones of the first ``sets`` data sets of a case."""
        truth = self.true_values(case, metrics)
        for number, key, missing in _missing(case, metrics, sets, self.inside):
            labels, scores, groups = case.drawn((number, case.clusters, round(100 * case.correlation), case.rare))
            chosen = {name: METRICS[name] for name in missing}
            result = cd.evaluate(labels, scores, chosen, ci=0.95, n_boot=n_boot, seed=number, groups=groups)
            ends = {name: (float(result[f"{name}_low"]), float(result[f"{name}_high"])) for name in missing}
            inside = {name: low <= truth[name] <= high if low == low else None for name, (low, high) in ends.items()}
            self._write({"inside": {key: inside}})

    def measure_gates(self, case: Case, metrics: list[str], sets: int, n_boot: int) -> None:
        """Decide limits at the true numbers in the first ``sets`` data sets of a case."""
        truth = self.true_values(case, metrics)
        for number, key, missing in _missing(case, metrics, sets, self.outcomes):
            labels, scores, groups = case.drawn((number, case.clusters, round(100 * case.correlation), case.rare))
            limits = {GATES[name]: abs(truth[name]) for name in missing}
            gate = cd.check(labels, scores, limits, n_boot=n_boot, seed=number, groups=groups)
            outcomes = [judgement.outcome for judgement in gate.judgements]
            self._write({"outcomes": {key: dict(zip(missing, outcomes, strict=True))}})

    def of(self, case: Case, metric: str) -> list[bool | None]:
        """Data sets of a case."""
        prefix = f"{case} "
        return [of[metric] for key, of in self.inside.items() if key.startswith(prefix) and metric in of]


def _missing(
    case: Case, metrics: list[str], sets: int, measured: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[int, str, list[str]]]:
    """Numbers and keys of the data sets of a case, and the metrics that have not been measured in them."""
    for number in range(sets):
        key = f"{case} {number}"
        if missing := [name for name in metrics if name not in measured.get(key, {})]:
            yield number, key, missing


def table(measurements: Measurements, metrics: list[str]) -> Iterator[str]:
    """Coverage in all four kinds of data, with its standard error, and the least of them; in Markdown."""
    yield "| clusters | ICC | " + " | ".join(metrics) + " |"
    yield "|" + "---|" * (2 + len(metrics))
    for clusters, correlation in itertools.product((10, 20, 40, 100, 200, 2000), CORRELATIONS):
        cells = []
        for metric in metrics:
            kinds = [measurements.of(Case(correlation, clusters, *kind), metric) for kind in KINDS]
            shares = [(sum(map(bool, kind)), len(kind) - kind.count(None)) for kind in kinds if kind]
            inside, count = (sum(of) for of in zip(*shares, strict=True)) if shares else (0, 0)
            if not count:
                cells.append("–")
                continue
            share = inside / count
            error = max(share * (1 - share), 1 / count) ** 0.5 / count**0.5
            given = count / sum(map(len, kinds))
            cell = f"{share:.3f} ± {error:.3f} ({min(hits / of for hits, of in shares if of):.2f})"
            cells.append(cell if given == 1 else f"{cell}, {100 * given:.0f} % given")
        if set(cells) != {"–"}:
            yield f"| {clusters} | {correlation:g} | " + " | ".join(cells) + " |"


def gate_table(measurements: Measurements) -> Iterator[str]:
    """Share of limits at the true number that are met, and broken, of each kind of data; in Markdown."""
    yield "| clusters | sizes | outcomes | " + " | ".join(GATES.values()) + " |"
    yield "|" + "---|" * (3 + len(GATES))
    kinds = sorted({key.rpartition(" ")[0] for key in measurements.outcomes}, key=lambda kind: int(kind.split()[1]))
    for kind in kinds:
        of_kind = [outcomes for key, outcomes in measurements.outcomes.items() if key.rpartition(" ")[0] == kind]
        _, clusters, equal, rare = kind.split()
        cells = []
        for metric in GATES:
            outcomes = [of[metric] for of in of_kind if metric in of]
            met, broken = outcomes.count("met"), outcomes.count("broken")
            cells.append(f"{met} / {broken} of {len(outcomes)}" if outcomes else "–")
        words = f"{'equal' if equal == '1' else 'unequal'} | {'rare' if rare == '1' else 'balanced'}"
        yield f"| {clusters} | {words} | " + " | ".join(cells) + " |"


def main() -> None:
    """Measure what is missing in the file, and print the table of all that it has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="JSON lines, a data set each; begun if it is missing")
    parser.add_argument("--sets", type=int, default=200, help="data sets of each case; 0 prints the table alone")
    parser.add_argument("--n-boot", type=int, default=200)
    parser.add_argument("--clusters", type=int, nargs="+", default=CLUSTERS)
    parser.add_argument("--correlations", type=float, nargs="+", default=CORRELATIONS)
    parser.add_argument("--gates", action="store_true", help="decide limits at the true numbers")
    parser.add_argument("--only", nargs="+", choices=list(METRICS), default=list(METRICS), metavar="METRIC")
    warnings.simplefilter("ignore", UserWarning)
    choice = parser.parse_args()
    measurements = Measurements(choice.file)
    for clusters, correlation, kind in itertools.product(choice.clusters, choice.correlations, KINDS):
        if choice.gates:
            gates = [name for name in choice.only if name in GATES]
            measurements.measure_gates(Case(correlation, clusters, *kind, TOO_LOW), gates, choice.sets, choice.n_boot)
        else:
            measurements.measure(Case(correlation, clusters, *kind), choice.only, choice.sets, choice.n_boot)
    for line in gate_table(measurements) if choice.gates else table(measurements, list(METRICS)):
        print(line)


if __name__ == "__main__":
    main()

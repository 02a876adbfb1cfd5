"""Estimates of the kernel calibration error, and rejection rates of tests, on many data sets of known calibration."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import calibdask as cd
from calibdask.storage.atomic_replace import write_text
from experiments.skce_tests.data import MODELS, drawn

LEVELS = (0.01, 0.05, 0.1, 0.2)
# Data sets evaluated at once, as a batch axis; they share the random numbers of tests. Resampling holds a thousand
# replicates of each.
BATCH, RESAMPLING_BATCH = 50, 10

ESTIMATES: dict[str, dict[str, Any]] = {
    "SKCE_b": {"estimator": "biased"},
    "SKCE_uq": {"estimator": "unbiased"},
    "SKCE_ul": {"estimator": "linear"},
    "SKCE features": {"estimator": "features"},
}
UNBIASED = ("SKCE_uq", "SKCE_ul", "SKCE features")
PARTITIONS: dict[str, Any] = {"ECE uniform": "uniform", "ECE median-variance": "median-variance"}
TESTS: dict[str, dict[str, Any]] = {
    "D_b": {"method": "distribution-free", "estimator": "biased"},
    "D_uq": {"method": "distribution-free", "estimator": "unbiased"},
    "D_ul": {"method": "distribution-free", "estimator": "linear"},
    "A_l": {"estimator": "linear"},
    "A_block(10)": {"estimator": "block", "block": 10},
    "A_uq": {"estimator": "unbiased"},
    "A_features": {"estimator": "features"},
}


def estimators(seed: int) -> dict[str, Any]:
    """Estimators, and tests that are cheap."""
    return {
        **{name: cd.SKCE(seed=seed, **options) for name, options in ESTIMATES.items()},
        **{name: cd.MulticlassECE(partition=partition) for name, partition in PARTITIONS.items()},
        **{name: cd.SKCETest(seed=seed, **options) for name, options in TESTS.items()},
        "CME": cd.CMETest(seed=seed),
        "Spiegelhalter": cd.SpiegelhalterTest(setting="confidence"),
    }


def resampling_tests(seed: int) -> dict[str, Any]:
    """Consistency resampling: each label a thousand times."""
    return {
        "C ECE uniform, fixed": cd.ConsistencyTest(statistic=cd.MulticlassECE(), seed=seed),
        "C ECE uniform, resampled": cd.ConsistencyTest(
            statistic=cd.MulticlassECE(), predictions="resampled", seed=seed
        ),
        "C confidence ECE, fixed": cd.ConsistencyTest(statistic=cd.ECE(setting="confidence"), seed=seed),
    }


def values(model: str, chosen: argparse.Namespace, sets: int, batch: int, which: Any) -> dict[str, Any]:
    """Estimates and p-values by name, each of as many data sets."""
    by_name: dict[str, list[Any]] = {}
    for start in range(0, sets, batch):
        data_sets = [
            drawn(model, chosen.rows, chosen.classes, chosen.seed, k) for k in range(start, min(start + batch, sets))
        ]
        labels, scores = (np.stack(parts) for parts in zip(*data_sets, strict=True))
        metrics = which(chosen.seed + start)
        result = cd.evaluate(labels, scores, metrics)
        for name in metrics:
            variable = name if name in result else f"{name}_pvalue"
            by_name.setdefault(name, []).append(result[variable].values)
    return {name: np.concatenate(parts) for name, parts in by_name.items()}


def estimate_table(model: str, estimates: dict[str, Any]) -> tuple[Table, dict[str, Any]]:
    """Mean, its standard error, standard deviation and, for a calibrated model, mean / standard error."""
    headers = ("estimate", "mean", "standard error", "sd", "5 %", "95 %", "z of the mean")
    table = Table(*headers, title=f"{model} estimates")
    facts: dict[str, Any] = {}
    for name in (*ESTIMATES, *PARTITIONS):
        sample = estimates[name]
        mean, sd = sample.mean(), sample.std(ddof=1)
        error = sd / np.sqrt(sample.size)
        low, high = np.quantile(sample, [0.05, 0.95])
        z = mean / error
        facts[name] = {"mean": mean, "error": error, "sd": sd, "low": low, "high": high, "z": z}
        shown = f"{z:.2f}" if model == "M1" and name in UNBIASED else ""
        table.add_row(name, *(f"{x:.5f}" for x in (mean, error, sd, low, high)), shown)
    return table, facts


def test_table(model: str, tests: dict[str, Any]) -> tuple[Table, dict[str, Any]]:
    """Share of data sets that each test rejects at some levels."""
    columns = (f"at {level:g}" for level in LEVELS)
    table = Table("test", "sets", *columns, "standard error at 0.05", title=f"{model} rejected: {MODELS[model]}")
    facts: dict[str, Any] = {}
    for name, pvalues in tests.items():
        shares = {level: float((pvalues <= level).mean()) for level in LEVELS}
        error = np.sqrt(shares[0.05] * (1 - shares[0.05]) / pvalues.size)
        facts[name] = {"sets": pvalues.size, "rejected": shares, "error": error, "undefined": np.isnan(pvalues).sum()}
        table.add_row(name, str(pvalues.size), *(f"{share:.3f}" for share in shares.values()), f"{error:.3f}")
    return table, facts


def main() -> None:
    """Print two tables for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=1000, help="data sets of each model")
    parser.add_argument("--rows", type=int, default=250)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resampling-sets", type=int, default=100, help="data sets for consistency resampling")
    parser.add_argument("--out", type=Path, help="JSON file for all figures")
    chosen = parser.parse_args()
    console, everything = Console(width=110), {}
    for model in MODELS:
        begun = time.perf_counter()
        results = values(model, chosen, chosen.sets, BATCH, estimators)
        tests = {name: pvalues for name, pvalues in results.items() if name not in (*ESTIMATES, *PARTITIONS)}
        tests |= values(model, chosen, chosen.resampling_sets, RESAMPLING_BATCH, resampling_tests)
        tables, facts = zip(estimate_table(model, results), test_table(model, tests), strict=True)
        everything[model] = dict(zip(("estimates", "tests"), facts, strict=True))
        console.print(*tables, f"{time.perf_counter() - begun:.0f} s", sep="\n")
    if chosen.out:
        write_text(chosen.out, json.dumps({"settings": {**vars(chosen), "out": None}, **everything}, default=float))


if __name__ == "__main__":
    main()

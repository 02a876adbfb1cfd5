"""Size of the tests for difficult calibrated binary models: few rows, rare outcomes, close locations."""

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import calibdask as cd

# Name, rows, the scores of many rows, and the bandwidth.
CASES = (
    ("uniform scores, 5 rows", 5, "uniform", 0.3),
    ("uniform scores, 10 rows", 10, "uniform", 0.3),
    ("uniform scores, 50 rows", 50, "uniform", 0.3),
    ("uniform scores, 1000 rows", 1000, "uniform", 0.3),
    ("Beta(0.1, 0.1), 1000 rows", 1000, "extreme", 0.3),
    ("Beta(0.5, 50), 5000 rows: 1 % positive", 5000, "rare", 0.01),
    ("Beta(1, 999), 10000 rows: 10 positive rows", 10_000, "rarest", 0.001),
)
BETAS = {"uniform": (1, 1), "extreme": (0.1, 0.1), "rare": (0.5, 50), "rarest": (1, 999)}
LEVEL = 0.05
# The bootstrap of all pairs is for thousands of rows, not for tens of thousands.
MOST_ROWS_OF_PAIRS = 1000


def tests(rows: int, bandwidth: float, seed: int) -> dict[str, Any]:
    """Tests of one data set."""
    options: dict[str, Any] = {"bandwidth": bandwidth, "seed": seed}
    made: dict[str, Any] = {
        "linear": cd.SKCETest(estimator="linear", **options),
        "features": cd.SKCETest(estimator="features", features=128, draws=400, **options),
        "CME": cd.CMETest(**options),
        "CME observed": cd.CMETest(covariance="observed", **options),
        "Spiegelhalter": cd.SpiegelhalterTest(),
    }
    if rows <= MOST_ROWS_OF_PAIRS:
        made["unbiased"] = cd.SKCETest(draws=400, **options)
    return made


def drawn(rng: np.random.Generator, rows: int, kind: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Labels of a calibrated model and its scores."""
    scores = rng.beta(*BETAS[kind], rows)
    return (rng.random(rows) < scores).astype(np.int64), scores


def main() -> None:
    """Print the share of data sets that each test rejects."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=400, help="data sets of each case")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    columns = ("linear", "unbiased", "features", "CME", "CME observed", "Spiegelhalter")
    table = Table("calibrated model", *columns, title=f"Rejected at {LEVEL:g}, of {given.sets} data sets")
    for name, rows, kind, bandwidth in CASES:
        rng = np.random.default_rng([given.seed, rows])
        rejected = dict.fromkeys(columns, 0)
        for seed in range(given.sets):
            chosen = tests(rows, bandwidth, seed)
            result = cd.evaluate(*drawn(rng, rows, kind), chosen)
            for test in chosen:
                rejected[test] += float(result[f"{test}_pvalue"]) <= LEVEL
        cells = [f"{rejected[test] / given.sets:.3f}" if test in chosen else "-" for test in columns]
        table.add_row(name, *cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

"""Deviation of random features from the estimate that they approximate, in units of their estimated error."""

import argparse
from typing import Any

from rich.console import Console
from rich.table import Table

import calibdask as cd
from experiments.skce_tests.data import drawn

TV = {"kernel": "exponential", "distance": "tv"}
EUCLIDEAN = {"kernel": "exponential", "distance": "euclidean"}
GAUSSIAN = {"kernel": "gaussian", "distance": "euclidean"}

# Model, rows, classes, kernel.
INPUTS = (
    ("M1", 250, 10, TV),
    ("M1", 2000, 3, EUCLIDEAN),
    ("M1", 5000, 10, GAUSSIAN),
    ("M1", 1000, 100, TV),
    ("M2", 250, 10, EUCLIDEAN),
    ("M2", 5000, 2, TV),
    ("M2", 2000, 100, GAUSSIAN),
    ("M3", 1000, 10, TV),
    ("M3", 5000, 3, EUCLIDEAN),
    ("M3", 250, 2, GAUSSIAN),
)


def main() -> None:
    """Print one line for each input; each has other random frequencies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    headers = ("model", "rows", "classes", "kernel", "SKCE_b", "SKCE_uq", "features", "error", "difference / error")
    table, largest = Table(*headers), 0.0
    for number, (model, rows, classes, kernel) in enumerate(INPUTS):
        labels, scores = drawn(model, rows, classes, chosen.seed)
        options = {**kernel, "seed": chosen.seed + number, "features": chosen.features}
        names: dict[str, Any] = {
            "biased": "biased",
            "unbiased": "unbiased",
            "features": "features",
            "both": "features-biased",
        }
        metrics = {name: cd.SKCE(estimator=estimator, **options) for name, estimator in names.items()}
        result = cd.evaluate(labels, scores, metrics)
        pairs = (("unbiased", "features"), ("biased", "both"))
        ratios = [
            float(result[near] - result[exact]) / result[near].attrs["approximation_error"] for exact, near in pairs
        ]
        largest = max(largest, *map(abs, ratios))
        numbers = (result.biased, result.unbiased, result.features, result.features.attrs["approximation_error"])
        words = [model, str(rows), str(classes), " ".join(kernel.values())]
        table.add_row(*words, *(f"{float(x):.6f}" for x in numbers), f"{ratios[0]:+.2f}")
    console = Console(width=130)
    console.print(table, f"Largest difference, of the biased estimate too: {largest:.2f} errors.", sep="\n")


if __name__ == "__main__":
    main()

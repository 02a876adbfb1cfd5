"""Comparison of calibrators on held-out rows: LCECalibrator, isotonic regression, Platt's sigmoid, and none."""

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import calibdask as cd

DATA = {"digits": load_digits, "breast-cancer": load_breast_cancer}
# As in `calibdask demo`.
MODELS = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "naive Bayes": GaussianNB(),
    "nearest neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier()),
    "random forest": RandomForestClassifier(random_state=0),
}
METRICS = {
    "class-wise ECE": cd.ECE(bins=15, binning="equal-mass", setting="classwise"),
    "confidence ECE": cd.ECE(bins=15, binning="equal-mass", setting="confidence"),
    "class-wise density ECE": cd.DensityECE(setting="classwise"),
    "Brier score": cd.BrierScore(),
    "log-loss": cd.LogLoss(),
}
FIRST = "none"


def calibrated(model: Any, features: np.ndarray, labels: np.ndarray, test: np.ndarray) -> Iterator[tuple[str, Any]]:
    """Scores for the rows ``test`` from each way to calibrate a fitted model on ``features`` and ``labels``."""
    scores, held_out = model.predict_proba(features), model.predict_proba(test)
    yield FIRST, held_out
    yield "LCECalibrator()", cd.LCECalibrator().fit(labels, scores).predict_proba(held_out)
    yield "LCECalibrator(monotone=True)", cd.LCECalibrator(monotone=True).fit(labels, scores).predict_proba(held_out)
    for method in ("isotonic", "sigmoid"):
        other = CalibratedClassifierCV(FrozenEstimator(model), method=method).fit(features, labels)
        yield f"scikit-learn, {method}", other.predict_proba(test)


def measured(data: str, model: str, splits: int) -> dict[str, np.ndarray]:
    """Metrics of each way to calibrate, (splits, metrics), each on the test third of a random split into thirds."""
    features, labels = DATA[data](return_X_y=True)
    values: dict[str, list[list[float]]] = {}
    for split in range(splits):
        options = {"stratify": labels, "random_state": split}
        train, rest, train_labels, rest_labels = train_test_split(features, labels, test_size=2 / 3, **options)
        options["stratify"] = rest_labels
        middle, test, middle_labels, test_labels = train_test_split(rest, rest_labels, test_size=1 / 2, **options)
        fitted = clone(MODELS[model]).fit(train, train_labels)
        for way, scores in calibrated(fitted, middle, middle_labels, test):
            result = cd.evaluate(test_labels, scores, METRICS)
            values.setdefault(way, []).append([float(result[name]) for name in METRICS])
    return {way: np.array(rows) for way, rows in values.items()}


def table(data: str, splits: int) -> str:
    """Means and standard errors over the splits, as Markdown."""
    header = ["model", "calibration", *METRICS, "class-wise ECE lowered"]
    lines = [header, ["---"] * len(header)]
    for model in MODELS:
        results = measured(data, model, splits)
        for way, values in results.items():
            means, errors = values.mean(0), values.std(0, ddof=1) / np.sqrt(splits)
            cells = [f"{mean:.4f} ± {error:.4f}" for mean, error in zip(means, errors, strict=True)]
            lower = "" if way == FIRST else f"{(values[:, 0] < results[FIRST][:, 0]).sum()} of {splits}"
            lines.append([model, way, *cells, lower])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Print the table of a data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10, help="random splits into thirds, at least 2")
    parser.add_argument("--data", choices=DATA, default="digits")
    given = parser.parse_args()
    # Scores of naive Bayes and of isotonic regression are mostly 0 or 1; density estimates say so for every class.
    warnings.filterwarnings("ignore", "The bandwidth 'silverman' is below the step", UserWarning)
    print(f"{given.data}, {given.splits} splits\n\n{table(given.data, given.splits)}")


if __name__ == "__main__":
    main()

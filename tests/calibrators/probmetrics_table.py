"""Record what probmetrics fits: ``pip install probmetrics numba && python tests/calibrators/probmetrics_table.py``.

Written to probmetrics.json beside this file, by probmetrics 1.3.0 with torch on float64.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TABLE = Path(__file__).with_name("probmetrics.json")
CASES = ((3, 300, 0), (5, 2000, 1), (10, 1000, 2))


def rows(classes: int, n: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Labels, and scores whose logits are too large, and off by a factor and a number for each class."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, classes))
    weights, shifts = 1 + 0.3 * rng.normal(size=classes), 0.5 * rng.normal(size=classes)
    labels = (weights * logits + shifts + rng.gumbel(size=(n, classes))).argmax(1)
    scores = np.exp(1.5 * logits)
    return labels, scores / scores.sum(1, keepdims=True)


def main() -> None:
    """Fit all cases and write the table."""
    import torch
    from probmetrics.calibrators import SMSCalibrator, SVSCalibrator

    torch.set_default_dtype(torch.float64)
    table: list[dict[str, Any]] = []
    for form, kind in (("vector", SVSCalibrator), ("matrix", SMSCalibrator)):
        for classes, n, seed in CASES:
            labels, scores = rows(classes, n, seed)
            calibrator = kind()
            calibrator.fit(scores, labels)
            coefficients = calibrator.v_ if form == "vector" else calibrator.W_[:, :-1]
            intercepts = calibrator.b_ if form == "vector" else calibrator.W_[:, -1]
            table.append(
                {
                    "form": form,
                    "case": [classes, n, seed],
                    "beta": float(calibrator.ts_.cal_.invtemp_),
                    "coef": np.asarray(coefficients, float).tolist(),
                    "intercept": np.asarray(intercepts, float).tolist(),
                    "first": np.asarray(calibrator.predict_proba(scores[:5]), float).tolist(),
                }
            )
    TABLE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()

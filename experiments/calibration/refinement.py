"""Coverage of the intervals of the calibration loss: ``python -m experiments.calibration.refinement``.

The truth is what the map fitted to all rows takes away from the expected loss on fresh rows, of models whose true
calibration curve is known. Prints a table in Markdown; some minutes.
"""

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import special

import calibdask as cd

LEVEL = 0.9
SIZES = (100, 300, 1000, 5000)
Array = Any


@dataclass(frozen=True)
class Model:
    """Scores are sigmoid(z) with z ~ N(centre, spread**2); the frequency of the outcome is sigmoid(true(z))."""

    name: str
    centre: float
    spread: float
    true: Callable[[Array], Array]


MODELS = (
    Model("calibrated", 0.0, 1.5, lambda z: z),
    Model("nearly calibrated", 0.0, 1.5, lambda z: 0.9 * z),
    Model("overconfident", 0.0, 3.0, lambda z: 0.5 * z),
    Model("bent", 0.0, 1.5, lambda z: z + 0.3 * z**2 - 0.5),
    Model("rare, calibrated", -4.5, 1.0, lambda z: z),
    Model("rare, too high", -3.0, 1.0, lambda z: z - 1.5),
)
MAPS: dict[str, tuple[Any, Literal["log", "brier"]]] = {
    "Platt": (cd.PlattScaling(), "log"),
    "Platt, Brier": (cd.PlattScaling(), "brier"),
    "LCE, Brier": (cd.LCECalibrator(monotone=True), "brier"),
}


def loss(q: Array, share: Array, rule: str) -> Array:
    """The expected loss of scores q where the frequency of the outcome is ``share``."""
    if rule == "brier":
        return share * (1 - q) ** 2 + (1 - share) * q**2
    q = q.clip(5e-324, 1.0)
    return -(special.xlogy(share, q) + special.xlogy(1 - share, np.maximum(1 - q, 5e-324)))


def measured(model: Model, name: str, rows: int, sets: int, seed: int) -> tuple[float, float, float, float, float]:
    """Coverage, shares of intervals below and above the truth, share that has an interval, and the mean truth."""
    rng = np.random.default_rng([seed, rows])
    calibrator, rule = MAPS[name]
    z = rng.normal(model.centre, model.spread, (sets, rows))
    scores = special.expit(z)
    labels = (rng.random(z.shape) < special.expit(model.true(z))).astype(np.int64)
    keep = (labels.sum(1) > 1) & (labels.sum(1) < rows - 1)
    labels, scores = labels[keep], scores[keep]
    estimator = cd.Refinement(calibrator, rule=rule)
    result = cd.evaluate(labels, scores, {"r": estimator}, ci=LEVEL, task="binary")
    nodes = model.centre + model.spread * special.ndtri((np.arange(4000) + 0.5) / 4000)
    fresh, share = special.expit(nodes), special.expit(model.true(nodes))
    truth = np.empty(len(labels))
    for number, (of_set, at) in enumerate(zip(labels, scores, strict=True)):
        fitted = cd.Calibrator.from_dict(calibrator.fit(of_set, at).to_dict())
        calibrated = fitted.predict_proba(fresh)[:, 1]
        truth[number] = (loss(fresh, share, rule) - loss(calibrated, share, rule)).mean()
    low, high = result.r_calibration_low.values, result.r_calibration_high.values
    known = np.isfinite(low)
    if not known.any():
        return np.nan, np.nan, np.nan, 0.0, float(truth.mean())
    low, high, true = low[known], high[known], truth[known]
    inside = (low <= true) & (true <= high)
    return inside.mean(), (high < true).mean(), (low > true).mean(), known.mean(), float(true.mean())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=400)
    parser.add_argument("--maps", nargs="*", default=list(MAPS))
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES))
    options = parser.parse_args()
    print(f"Coverage of {LEVEL:.0%} intervals of {options.sets} sets (below / above the truth / have one; truth)")
    print("| model | map | " + " | ".join(f"{size} rows" for size in options.sizes) + " |")
    print("|---|---|" + "---|" * len(options.sizes))
    for model in MODELS:
        for name in options.maps:
            cells = []
            for size in options.sizes:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    coverage, below, above, known, true = measured(model, name, size, options.sets, 1)
                cells.append(f"{coverage:.0%} ({below:.0%} / {above:.0%} / {known:.0%}; {true:.2g})")
            print(f"| {model.name} | {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()

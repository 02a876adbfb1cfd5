"""How often intervals and bands hold what they are for, on data with a known calibration function."""

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import calibdask as cd

CURVES: dict[str, Callable[[Any], Any]] = {
    "identity": lambda s: s,
    "square": np.square,
    "square root": np.sqrt,
    "steep logistic": lambda s: 1 / (1 + np.exp(-12 * (s - 0.5))),
}
DENSITIES = {"uniform": (1, 1), "beta(2, 5)": (2, 5), "U-shaped": (0.4, 0.4)}
ERRORS = {"DensityECE": cd.DensityECE(), "SmoothECE": cd.SmoothECE(), "ECE": cd.ECE()}


def main() -> None:
    """Print one line for each curve and density."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["predictions", "bands", "errors"])
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--sets", type=int, default=40, help="data sets for each curve and density")
    parser.add_argument("--n-boot", type=int, default=60, help="replicates of bands and errors")
    parser.add_argument("--band", choices=["corrected", "plain"], default="corrected")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    for line in {"predictions": predictions, "bands": bands, "errors": errors}[chosen.what](chosen):
        print(line, flush=True)


def drawn(chosen: argparse.Namespace, curve: str, density: str) -> tuple[Any, Any]:
    """Labels and scores, (sets, rows)."""
    rng = np.random.default_rng([list(CURVES).index(curve), list(DENSITIES).index(density), chosen.rows])
    scores = rng.beta(*DENSITIES[density], (chosen.sets, chosen.rows))
    return (rng.random(scores.shape) < CURVES[curve](scores)).astype(np.int32), scores


def zones(scores: Any) -> dict[str, Any]:
    """Within 0.05 of the ends, and the rest."""
    return {"low end": scores < 0.05, "middle": (scores >= 0.05) & (scores <= 0.95), "high end": scores > 0.95}


def predictions(chosen: argparse.Namespace) -> Iterator[str]:
    """95 % intervals of `LCECalibrator`, at as many new scores as rows it was fitted with."""
    for curve, true in CURVES.items():
        for density in DENSITIES:
            labels, scores = drawn(chosen, curve, density)
            within = np.empty(scores.shape, bool)
            for k in range(chosen.sets):
                new = scores[(k + 1) % chosen.sets]
                ends = cd.LCECalibrator().fit(labels[k], scores[k]).predict_interval(new, 0.95)
                within[k] = (ends.low[:, 1] <= true(new)) & (true(new) <= ends.high[:, 1])
            asked = np.roll(scores, -1, axis=0)
            shares = {name: within[zone].mean() for name, zone in zones(asked).items() if zone.sum() >= 200}
            yield f"{curve}, {density}: " + ", ".join(f"{name} {share:.3f}" for name, share in shares.items())


def bands(chosen: argparse.Namespace) -> Iterator[str]:
    """95 % bands of `ReliabilityCurve`: pointwise by zone, and simultaneous for the whole curve."""
    for curve, true in CURVES.items():
        for density in DENSITIES:
            labels, scores = drawn(chosen, curve, density)
            found = cd.reliability_curve(labels, scores, ci=0.95, n_boot=chosen.n_boot, points=101, band=chosen.band)
            truth = true(found.score.values)
            low, high = found.reliability_low.values - 1e-12, found.reliability_high.values + 1e-12
            within = (low <= truth) & (truth <= high)
            low, high = found.reliability_band_low.values - 1e-12, found.reliability_band_high.values + 1e-12
            whole = ((low <= truth) & (truth <= high)).all(-1).mean()
            shares = [f"{name} {within[:, zone].mean():.3f}" for name, zone in zones(found.score.values).items()]
            yield f"{curve}, {density}: {', '.join(shares)}, whole curve in the band {whole:.3f}"


def errors(chosen: argparse.Namespace) -> Iterator[str]:
    """90 % intervals of calibration errors, scores uniform."""
    uniform = np.linspace(0, 1, 100_001)
    for curve, true in CURVES.items():
        truth = np.abs(true(uniform) - uniform).mean()
        labels, scores = drawn(chosen, curve, "uniform")
        found = cd.evaluate(labels, scores, ERRORS, ci=0.9, n_boot=chosen.n_boot)
        shares = {
            name: ((found[f"{name}_low"] <= truth + 1e-9) & (truth <= found[f"{name}_high"])).mean().item()
            for name in ERRORS
        }
        yield f"{curve}: " + ", ".join(f"{name} {share:.3f}" for name, share in shares.items())


if __name__ == "__main__":
    main()

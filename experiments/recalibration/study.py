"""Which calibrator to trust, by number of rows: distributions whose truth is known."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import calibdask as cd
from experiments.recalibration.calibrators import BINARY, fitted
from experiments.recalibration.distributions import CURVES, DENSITIES, Distribution

LOSSES = ("log loss", "brier")


@dataclass(frozen=True, kw_only=True)
class Recalibration(cd.Study):
    """Losses of all calibrators, fitted to samples of distributions, in excess of those of the true frequencies.

    A cell is a density of scores and a curve of frequencies. The excess is an integral over the density, so that no
    rows are needed for it. All calibrators see the same samples.

    Parameters
    ----------
    densities, curves : tuple of str
        Names in `DENSITIES` and `CURVES`.
    sizes : tuple of int
        Rows of a sample.
    replicates : int
        Samples of each size.
    rows : int
        The most rows in all samples of one size: of larger sizes there are fewer samples, two or more.
    """

    densities: tuple[str, ...] = tuple(DENSITIES)
    curves: tuple[str, ...] = tuple(CURVES)
    sizes: tuple[int, ...] = (30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
    replicates: int = 12
    rows: int = 60_000

    outputs: ClassVar = {
        "excess": ("size", "replicate", "calibrator", "loss"),
        "infinite": ("size", "replicate", "calibrator"),
        "refused": ("size", "replicate", "calibrator"),
    }
    types: ClassVar = {"excess": "float32", "infinite": "float32", "refused": "float32"}
    presets: ClassVar = {"quick": {"sizes": (30, 300, 3000), "replicates": 4}}

    def problems(self) -> Iterator[str]:
        """Values that cells could not compute."""
        for name, chosen, known in (("densities", self.densities, DENSITIES), ("curves", self.curves, CURVES)):
            if unknown := sorted({*chosen} - {*known}):
                yield f"{name} expects some of {', '.join(known)}, got {', '.join(unknown)}."
        if not self.sizes or min(*self.sizes, self.replicates) < 2:
            yield "sizes and replicates expect numbers from 2 on."

    def cells(self) -> dict[str, Any]:
        """A cell for each distribution."""
        return {"density": self.densities, "curve": self.curves}

    def inside(self) -> dict[str, Any]:
        """All samples of a distribution, calibrators and losses."""
        axes = {"size": self.sizes, "replicate": range(self.replicates)}
        return {**axes, "calibrator": BINARY, "loss": LOSSES}

    def cell(self, at: Mapping[str, Any], seeds: Any) -> dict[str, Any]:
        """Fit every calibrator to every sample; NaN for samples that larger sizes do not have."""
        distribution = Distribution(at["density"], at["curve"])
        truth = distribution.truth
        axes = self.inside()
        results = {name: np.full([len(axes[axis]) for axis in dims], np.nan) for name, dims in self.outputs.items()}
        for i, size in enumerate(self.sizes):
            for replicate in range(min(self.replicates, max(2, self.rows // size))):
                rng = seeds.generator(size=size, replicate=replicate)
                labels, scores = distribution.sample(rng, size)
                for j, name in enumerate(BINARY):
                    fit = fitted(name, labels, scores)
                    calibrated = fit.apply(truth.score)
                    place = i, replicate, j
                    results["excess"][place] = truth.excess_log_loss(calibrated), truth.excess_brier(calibrated)
                    results["infinite"][place] = truth.infinite(calibrated)
                    results["refused"][place] = fit.refused
        return results

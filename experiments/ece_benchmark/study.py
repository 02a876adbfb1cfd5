"""Which estimator of the expected calibration error to trust: the experiment of Posocco & Bonnefoy as a study."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import calibdask as cd
from experiments.ece_benchmark import truth
from experiments.ece_benchmark.columns import SETTINGS, column_keys, lowest_score, sorted_keys
from experiments.ece_benchmark.estimators import ESTIMATORS, estimates_of_columns
from experiments.ece_benchmark.mixtures import MEANS, Mixture, Sample
from experiments.ece_benchmark.models import MODELS, fitted, scores

# Rows that are drawn at a time: half of the holdout is a whole number of these, so that its halves are alike.
_DRAWS = 20


@dataclass(frozen=True, kw_only=True)
class EceBenchmark(cd.Study):
    """Errors of all estimators on samples of score distributions whose calibration error is known.

    A cell is a mixture and a training set: four models are fitted to it and score the holdout, from which the true
    error and all samples come. All models, settings and estimators see the same samples.

    Parameters
    ----------
    means : {"code", "text"}
        Where the modes of the mixtures lie: in [-1, 1] as in the code of the authors, which made their figure, or in
        [0, 1] as in their text.
    classes, features : tuple of int
        Of the mixtures.
    draws : int
        Mixtures for each number of classes and features.
    splits : int
        Training sets for each mixture.
    train, holdout : int
        Rows to fit models to, and to draw samples from.
    sizes : tuple of int
        Rows of a sample.
    replicates : int
        Samples of each size.
    interval_sizes : tuple of int
        Sizes at which the first sample is resampled, as a user would do it, for intervals.
    level : float
        Of these intervals.
    """

    means: str = "code"
    classes: tuple[int, ...] = (2, 5, 7)
    features: tuple[int, ...] = (2, 5, 7)
    draws: int = 5
    splits: int = 3
    train: int = 300
    holdout: int = 2_000_000
    sizes: tuple[int, ...] = (
        *(30, 39, 51, 67, 88, 115, 151, 198, 259, 339, 443),
        *(580, 759, 994, 1301, 1703, 2229, 2918, 3820, 5000),
    )
    replicates: int = 200
    interval_sizes: tuple[int, ...] = (51, 198, 759)
    level: float = 0.9

    outputs: ClassVar = {
        "estimate": ("model", "setting", "estimator", "size", "replicate"),
        "truth": ("model", "setting", "norm", "outcome", "bins", "kind"),
        "interval": ("model", "setting", "estimator", "interval_size", "end"),
        "accuracy": ("model",),
        "reliability": ("model", "column", "score"),
        "density": ("model", "column", "score"),
    }
    types: ClassVar = {"estimate": "float32", "reliability": "float32", "density": "float32"}
    version: ClassVar = 2
    # The paper's four families with 10 bins and its density, and two of ours.
    views: ClassVar = {
        "estimate": {
            "estimator": (
                "euranova-l-10",
                "euranova-a-10",
                "euranova-c-10",
                "euranova-ac-10",
                "euranova-d-silverman",
                "residual-silverman",
                "smooth",
            )
        }
    }
    presets: ClassVar = {
        "quick": {
            "draws": 2,
            "splits": 1,
            "holdout": 400_000,
            "sizes": (30, 67, 151, 339, 759),
            "replicates": 60,
            "interval_sizes": (198,),
        }
    }

    def problems(self) -> Iterator[str]:
        """Values that cells could not compute."""
        if self.means not in MEANS:
            yield f"means expects one of {', '.join(MEANS)}, got {self.means!r}."
        if self.holdout <= 0 or self.holdout % _DRAWS:
            yield f"holdout expects a multiple of {_DRAWS}, got {self.holdout}."
        if not self.sizes or min(*self.sizes, *self.interval_sizes, self.replicates) < 2:
            yield "sizes, interval_sizes and replicates expect numbers from 2 on."
        if not self.classes or min(self.classes) < 2 or not self.features or min(self.features) < 1:
            yield "classes expects numbers from 2 on, features from 1 on."
        if self.train < 10 * max(self.classes):
            yield f"train expects ten rows for each class, {10 * max(self.classes)} or more, got {self.train}."
        if not 0 < self.level < 1:
            yield f"level expects a number between 0 and 1 such as 0.9, got {self.level}."

    def cells(self) -> dict[str, Any]:
        """A cell for each mixture and training set."""
        return {
            "classes": self.classes,
            "features": self.features,
            "draw": range(self.draws),
            "split": range(self.splits),
        }

    def inside(self) -> dict[str, Any]:
        """All results computed from one holdout set."""
        return {
            "model": MODELS,
            "setting": SETTINGS,
            "estimator": tuple(ESTIMATORS),
            "size": self.sizes,
            "replicate": range(self.replicates),
            "norm": truth.NORMS,
            "outcome": truth.OUTCOMES,
            "bins": truth.BINS,
            "kind": truth.KINDS,
            "interval_size": self.interval_sizes,
            "end": ("estimate", "low", "high"),
            # Columns of scores with a curve: the largest score, and that of each class.
            "column": ("confidence", *(f"class {number}" for number in range(max(self.classes)))),
            "score": ((np.arange(truth.CURVE) + 0.5) / truth.CURVE).tolist(),
        }

    def cell(self, at: Mapping[str, Any], seeds: Any) -> dict[str, Any]:
        """Fit and score the models one after the other; only numbers are kept."""
        mixture = Mixture(at["classes"], at["features"], at["draw"], self.means)
        train = mixture.shuffled(seeds.generator(part="train"), self.train)
        holdout = self._holdout(mixture, seeds)
        posterior = mixture.posterior(holdout.features)
        results: dict[str, list[Any]] = {name: [] for name in self.outputs}
        for name in MODELS:
            model = fitted(name, train.features, train.labels, mixture.classes)
            predicted = scores(model, holdout.features)
            sums = truth.histograms(predicted, holdout.labels, posterior)
            results["truth"].append(truth.brackets(sums))
            for kind, curve in zip(("reliability", "density"), truth.curves(sums), strict=True):
                results[kind].append(self._of_all_columns(curve))
            results["accuracy"].append((predicted.argmax(1) == holdout.labels).mean())
            for setting in SETTINGS:
                keys = column_keys(predicted, holdout.labels, setting)
                estimate, interval = self._of_setting(keys, lowest_score(setting, mixture.classes), seeds)
                results["estimate"].append(estimate)
                results["interval"].append(interval)
        axes = self.inside()
        shapes = {name: [len(axes[axis]) for axis in self.outputs[name]] for name in results}
        return {name: np.array(values).reshape(shapes[name]) for name, values in results.items()}

    def _of_all_columns(self, curve: Any) -> Any:
        """NaN for classes that only other mixtures have."""
        missing = 1 + max(self.classes) - len(curve)
        return np.pad(curve, ((0, missing), (0, 0)), constant_values=np.nan)

    def _holdout(self, mixture: Mixture, seeds: Any) -> Sample:
        """Drawn in parts, each of which is ordered by mode."""
        parts = [
            mixture.sample(seeds.generator(part="holdout", number=number), self.holdout // _DRAWS)
            for number in range(_DRAWS)
        ]
        features = np.concatenate([part.features for part in parts])
        return Sample(features, np.concatenate([part.labels for part in parts]))

    def _of_setting(self, keys: Any, low: float, seeds: Any) -> tuple[Any, Any]:
        """Estimates (estimators, sizes, replicates), and intervals (estimators, sizes of intervals, ends)."""
        every = [_estimated(keys, low, self._rows(keys, size, seeds)) for size in self.sizes]
        ends = []
        for size in self.interval_sizes:
            first = self._rows(keys, size, seeds)[0]
            again = seeds.generator(part="resamples", size=size).integers(0, size, (self.replicates, size))
            resampled = _estimated(keys, low, first[again])
            tails = np.quantile(resampled, [(1 - self.level) / 2, (1 + self.level) / 2], axis=1)
            ends.append(np.stack([_estimated(keys, low, first[None])[:, 0], *tails], axis=-1))
        return np.stack(every, axis=1), np.stack(ends, axis=1)

    def _rows(self, keys: Any, size: int, seeds: Any) -> npt.NDArray[np.int32]:
        """Rows of each sample, drawn with replacement."""
        generator: np.random.Generator = seeds.generator(part="samples", size=size)
        return generator.integers(0, keys.shape[-1], (self.replicates, size), np.int32)


def _estimated(keys: Any, low: float, rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float64]:
    """All estimators on the chosen rows, (estimators, samples)."""
    return estimates_of_columns((sorted_keys(column, rows) for column in keys), low)

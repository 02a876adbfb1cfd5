"""Estimates and tests of calibration on very many data sets, after Widmann, Lindsten & Zachariah (2019), section 7."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import calibdask as cd
from experiments.skce_tests import resampling
from experiments.skce_tests.data import MODELS, drawn_labels, drawn_scores

# Estimates and tests of the library, by the names that they have in the paper.
ESTIMATES: dict[str, Any] = {"skce_b": "biased", "skce_uq": "unbiased", "skce_ul": "linear"}
TESTS: dict[str, tuple[Any, Any]] = {
    "D_b": ("distribution-free", "biased"),
    "D_uq": ("distribution-free", "unbiased"),
    "D_ul": ("distribution-free", "linear"),
    "A_uq": ("asymptotic", "unbiased"),
    "A_l": ("asymptotic", "linear"),
}
_BOOTSTRAPPED = "A_uq"
# The ECE of proper cells, and of the cells that the authors' code made; C tests with either.
PARTITIONS: dict[str, Any] = {"": resampling.uniform_cells, "_product": resampling.product_cells}

# Data sets that are evaluated together, for each model; they share the draws of the bootstrap.
_TOGETHER = 10
# So many classes are expensive: single precision is enough, and fewer data sets are resampled.
_MANY = 1000


@dataclass(frozen=True, kw_only=True)
class CalibrationTests(cd.Study):
    """Estimates and p-values of all data sets.

    The models share their predictions, and with them the replicates of consistency resampling, which do not look at
    labels; labels are drawn anew for each model. Random numbers of a data set depend on the number of classes and on
    its own number: more data sets leave the first ones as they are. Only the draws of the bootstrap (A_uq) are shared,
    by ten data sets of a cell, as those of one call of `calibdask.evaluate` are. From 1000 classes on predictions are
    float32, which takes less time; values of the kernel then have relative errors of 1e-6.

    Parameters
    ----------
    classes : tuple of int
        Numbers of classes.
    sets : int
        Data sets of each model and number of classes, a multiple of ``sets_per_cell``.
    sets_per_cell : int
        Data sets of a cell.
    rows : int
        Rows of a data set.
    resamples : int
        Draws of the bootstrap (A_uq) and replicates of consistency resampling (C).
    resampled_sets : int
        With 1000 classes or more the tests that resample, A_uq and C, take the first so many data sets, and are NaN for
        the others.
    bandwidth : str
        Of the kernel, as in `calibdask.SKCE`; ``"median-full"`` is that of the authors' code.
    """

    classes: tuple[int, ...] = (2, 10, 100, 1000)
    sets: int = 10_000
    sets_per_cell: int = 100
    rows: int = 250
    resamples: int = 1000
    resampled_sets: int = 1000
    bandwidth: str = "median-full"

    outputs: ClassVar = {"estimate": ("model", "set", "estimator"), "pvalue": ("model", "set", "test")}
    presets: ClassVar = {"quick": {"sets": 200}}

    def cells(self) -> dict[str, Any]:
        """A cell for each number of classes and each batch of data sets."""
        if self.sets_per_cell < 1 or self.sets < 1 or self.sets % self.sets_per_cell:
            raise ValueError(f"sets expects a multiple of sets_per_cell={self.sets_per_cell}, got {self.sets}.")
        if not self.classes or min(self.classes) < 2:
            raise ValueError(f"classes expects numbers from 2 on, got {self.classes}.")
        return {"classes": self.classes, "batch": range(self.sets // self.sets_per_cell)}

    def inside(self) -> dict[str, Any]:
        """Models, data sets, and the results computed for each."""
        return {
            "model": tuple(MODELS),
            "set": range(self.sets_per_cell),
            "estimator": (*(f"ece{cells}" for cells in PARTITIONS), *ESTIMATES),
            "test": (*TESTS, *(f"C{cells}" for cells in PARTITIONS)),
        }

    def cell(self, at: Mapping[str, Any], seeds: Any) -> dict[str, Any]:
        """Estimates and p-values of the data sets of a batch."""
        first = at["batch"] * self.sets_per_cell
        numbers = range(first, first + self.sets_per_cell)
        parts = [self._together(numbers[k : k + _TOGETHER], seeds) for k in range(0, len(numbers), _TOGETHER)]
        return {name: np.concatenate([part[name] for part in parts], axis=1) for name in self.outputs}

    def _together(self, numbers: range, seeds: Any) -> dict[str, Any]:
        """Arrays (model, set, ...) of some data sets."""
        labels, scores = zip(*(self._drawn(number, seeds) for number in numbers), strict=True)
        by_name = self._by_library(np.stack(labels, axis=1), np.stack(scores), numbers, seeds)
        by_cells = [self._by_cells(*data_set, seeds) for data_set in zip(labels, scores, numbers, strict=True)]
        by_name |= {name: np.stack([values[name] for values in by_cells], axis=1) for name in by_cells[0]}
        inside = self.inside()
        return {
            "estimate": np.stack([by_name[name] for name in inside["estimator"]], axis=-1),
            "pvalue": np.stack([by_name[name] for name in inside["test"]], axis=-1),
        }

    def _resampled(self, number: int, classes: int) -> bool:
        """Whether a data set has the tests that resample."""
        return classes < _MANY or number < self.resampled_sets

    def _drawn(self, number: int, seeds: Any) -> tuple[Any, Any]:
        """Labels (model, rows) and scores (rows, classes) of a data set."""
        classes = dict(seeds.at)["classes"]
        scores = drawn_scores(self.rows, classes, seeds.generator("classes", set=number, draws="scores"))
        labels = [
            drawn_labels(model, scores, seeds.generator("classes", set=number, draws="labels", model=model))
            for model in MODELS
        ]
        return np.stack(labels), scores.astype(np.float32 if classes >= _MANY else np.float64)

    def _by_library(self, labels: Any, scores: Any, numbers: range, seeds: Any) -> dict[str, Any]:
        """Results of calibdask, each (model, set)."""
        resampled = np.array([self._resampled(number, scores.shape[-1]) for number in numbers])
        kernel: dict[str, Any] = {"bandwidth": self.bandwidth}
        metrics: dict[str, Any] = {"ece": cd.MulticlassECE(bins=resampling.BINS)}
        metrics |= {name: cd.SKCE(estimator=estimator, **kernel) for name, estimator in ESTIMATES.items()}
        seed = int(seeds.generator("classes", set=numbers[0], draws="bootstrap").integers(2**31))
        for name, (method, estimator) in TESTS.items():
            if name != _BOOTSTRAPPED or resampled.any():
                options: dict[str, Any] = {"draws": self.resamples, "seed": seed, **kernel}
                metrics[name] = cd.SKCETest(method=method, estimator=estimator, **options)
        result = cd.evaluate(labels, np.broadcast_to(scores, (len(labels), *scores.shape)), metrics)
        by_name = {name: result[f"{name}_pvalue" if name in TESTS else name].values for name in metrics}
        bootstrapped = by_name.get(_BOOTSTRAPPED, np.full(labels.shape[:2], np.nan))
        return {**by_name, _BOOTSTRAPPED: np.where(resampled, bootstrapped, np.nan)}

    def _by_cells(self, labels: Any, scores: Any, number: int, seeds: Any) -> dict[str, Any]:
        """Errors by cells and their tests, each (model,); but for the error that the library has."""
        scores, replicates = scores.astype(np.float64), None
        if self._resampled(number, scores.shape[-1]):
            rng = seeds.generator("classes", set=number, draws="replicates")
            replicates = resampling.replicates(scores, self.resamples, rng)
        by_name: dict[str, Any] = {}
        for name, partition in PARTITIONS.items():
            cells = partition(scores)
            errors = np.array([resampling.cell_error(scores, drawn_labels, cells) for drawn_labels in labels])
            if name:
                by_name[f"ece{name}"] = errors
            by_name[f"C{name}"] = np.full(len(labels), np.nan)
            if replicates is not None:
                drawn = resampling.cell_errors(scores, cells, *replicates)
                by_name[f"C{name}"] = np.array([resampling.pvalue(error, drawn) for error in errors])
        return by_name

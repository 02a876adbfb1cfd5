"""Gaussian mixtures whose posterior is known: the 45 of Posocco & Bonnefoy, drawn as their code draws them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]

MODES_PER_CLASS = 4
SPREAD = 0.3
# Where the means of modes lie: what the authors' code does, and what the paper's text says.
MEANS = {"code": (-1.0, 1.0), "text": (0.0, 1.0)}
# Rows whose posterior is computed at once: what is made of them stays in the cache.
_ROWS = 1 << 13


@dataclass(frozen=True)
class Sample:
    """Features (rows, d) float32, labels (rows,) uint8; in no particular order, or by mode."""

    features: Floats
    labels: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Mixture:
    """Four normal modes of equal weight for each class; mode m belongs to class m mod K.

    Parameters
    ----------
    classes, features : int
    draw : int
        Seed of NumPy's RandomState, from which means and covariances A^T A are drawn in the order of the authors' code.
    means : {"code", "text"}
        Means uniform on [-1, 1] in each dimension, or on [0, 1].
    """

    classes: int
    features: int
    draw: int
    means: str = "code"

    @property
    def modes(self) -> int:
        """Number of modes."""
        return self.classes * MODES_PER_CLASS

    @cached_property
    def _drawn(self) -> tuple[Floats, Floats]:
        """Means (modes, d) and factors A (modes, d, d)."""
        random = np.random.RandomState(self.draw)
        low, high = MEANS[self.means]
        centres = random.uniform(low, high, (self.modes, self.features))
        return centres, random.uniform(-SPREAD, SPREAD, (self.modes, self.features, self.features))

    def sample(self, generator: np.random.Generator, rows: int) -> Sample:
        """Rows in the order of their modes."""
        centres, factors = self._drawn
        counts = generator.multinomial(rows, np.full(self.modes, 1 / self.modes))
        normal = generator.standard_normal((rows, self.features), np.float32)
        features = np.empty((rows, self.features), np.float32)
        stop = np.cumsum(counts)
        for mode, (last, count) in enumerate(zip(stop.tolist(), counts.tolist(), strict=True)):
            here = slice(last - count, last)
            features[here] = normal[here] @ factors[mode] + centres[mode]
        labels = np.repeat(np.arange(self.modes) % self.classes, counts)
        return Sample(features, labels.astype(np.uint8))

    def shuffled(self, generator: np.random.Generator, rows: int) -> Sample:
        """Rows in random order, as a learner expects them."""
        sample = self.sample(generator, rows)
        order = generator.permutation(rows)
        return Sample(sample.features[order], sample.labels[order])

    def posterior(self, features: Floats) -> Floats:
        """P(label | features), (rows, K) float32."""
        probabilities = np.empty((len(features), self.classes), np.float32)
        for start in range(0, len(features), _ROWS):
            rows = slice(start, start + _ROWS)
            probabilities[rows] = self._posterior(features[rows].astype(np.float64))
        return probabilities

    def _posterior(self, x: Floats) -> Floats:
        """A product of matrices gives the log densities of all modes: they are quadratic in the features."""
        first, second = self._pairs
        log = (x[:, first] * x[:, second]) @ self._quadratic + x @ self._linear + self._constant
        log -= log.max(1, keepdims=True)
        density = np.exp(log, out=log).reshape(-1, MODES_PER_CLASS, self.classes).sum(1)
        return np.asarray(density / density.sum(1, keepdims=True))

    @cached_property
    def _pairs(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        return np.triu_indices(self.features)

    @cached_property
    def _precision(self) -> Floats:
        inverse = np.linalg.inv(self._drawn[1])
        return np.asarray(inverse @ inverse.transpose(0, 2, 1))

    @cached_property
    def _quadratic(self) -> Floats:
        """(pairs of features, modes)."""
        first, second = self._pairs
        twice = np.where(first == second, 1.0, 2.0)
        return -0.5 * (self._precision[:, first, second] * twice).T

    @cached_property
    def _linear(self) -> Floats:
        """(d, modes)."""
        return np.einsum("mde,me->dm", self._precision, self._drawn[0])

    @cached_property
    def _constant(self) -> Floats:
        """(modes,)."""
        centres, factors = self._drawn
        square = np.einsum("md,mde,me->m", centres, self._precision, centres)
        return np.asarray(-0.5 * square - np.linalg.slogdet(factors)[1])

"""Null distributions of tests: outcomes drawn from the predictions of a sample of rows."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibdask.statistics.exact import Array

# Rows of the sample; fewer with many draws or classes, to limit the time to seconds.
MOST_SAMPLED, _FEWEST_SAMPLED = 2000, 100
_DRAWN_NUMBERS = 1 << 26
# Numbers of outcomes that are held at a time.
_NUMBERS = 1 << 22


@dataclass(frozen=True)
class DrawnOutcomes:
    """Outcomes of ``rows`` rows of a calibrated model, drawn ``draws`` times from sampled predictions (m, K).

    Where all rows are sampled, these are draws of the labels given the predictions, and a test that compares its
    statistic with them is exact. Otherwise each prediction stands for rows / m rows.
    """

    scores: Array
    rows: int
    draws: int
    seed: int

    @property
    def repeats(self) -> npt.NDArray[np.int64]:
        """For how many rows each prediction stands."""
        sampled = len(self.scores)
        return self.rows // sampled + (np.arange(sampled) < self.rows % sampled)

    @property
    def chances(self) -> Array:
        """Probabilities of the outcomes, which add up to 1."""
        return self.scores / self.scores.sum(axis=1, keepdims=True)

    def __iter__(self) -> Iterator[Array]:
        """Some draws at a time, (draws, m, K): how often each outcome of each prediction is drawn."""
        generator = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=self.scores.shape))
        chances, repeats = self.chances, self.repeats
        step = max(1, _NUMBERS // self.scores.size)
        for start in range(0, self.draws, step):
            size = (min(step, self.draws - start), len(repeats))
            if self.rows == len(repeats):
                yield _labels(generator.random(size), chances)
            else:
                yield generator.multinomial(repeats, chances, size).astype(np.float64)


def _labels(uniform: Array, chances: Array) -> Array:
    """One outcome of each prediction (m, K), as 0 and 1, (draws, m, K): by far faster than multinomial counts."""
    cumulative = np.cumsum(chances, axis=1)
    # Rounding must leave no row without an outcome.
    cumulative[:, -1] = np.inf
    below = (uniform[..., None] < cumulative).astype(np.float64)
    below[..., 1:] -= below[..., :-1].copy()
    return below


def sample_size(draws: int, classes: int, affordable: int = MOST_SAMPLED) -> int:
    """Rows to sample, up to an affordable number."""
    return max(_FEWEST_SAMPLED, min(MOST_SAMPLED, affordable, _DRAWN_NUMBERS // (draws * classes)))


def share_reaching(statistic: float, drawn: Array, rounding: float) -> float:
    """p-value: the share of the draws that reach a statistic up to its rounding, the statistic counted among them."""
    return float((1 + (drawn >= statistic - rounding).sum()) / (1 + drawn.size))

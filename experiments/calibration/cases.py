"""Cases in which promises are measured: populations of scores and outcomes, and samples of them with weights."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]

CALIBRATED, OFF = "calibrated", "off"
# Points of equal share that stand for a distribution of scores.
_POINTS = 4000


class Sample(NamedTuple):
    """Labels and scores of data sets, (sets, rows), with weights or None."""

    labels: Any
    scores: Floats
    weights: Floats | None


class Population(NamedTuple):
    """Scores of equal share, and P(outcome | score)."""

    scores: Floats
    chances: Floats

    @property
    def rows(self) -> tuple[Any, Floats, Floats]:
        """Labels, scores and weights of the whole population."""
        labels = np.repeat([1, 0], self.scores.size)
        return labels, np.tile(self.scores, 2), np.concatenate([self.chances, 1 - self.chances])


@dataclass(frozen=True)
class Case:
    """A distribution of scores, and how rows are sampled.

    Parameters
    ----------
    label : str
    quantiles : callable
        Scores from shares in (0, 1).
    off : callable
        P(outcome | score) of the model that is off.
    kept : pair of float
        The shares of rows with and without the outcome that are sampled; weights are their inverse.
    balanced : bool
        Whether half of the sampled rows have the outcome, as in a case-control study; weights restore its rate.
    spread : float
        Standard deviation of the logarithm of weights that do not depend on anything.
    """

    label: str
    quantiles: Callable[[Floats], Floats]
    off: Callable[[Floats], Floats]
    kept: tuple[float, float] = (1.0, 1.0)
    balanced: bool = False
    spread: float = 0.0

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return self.balanced or self.spread > 0 or self.kept != (1.0, 1.0)

    def population(self, model: str) -> Population:
        """The population under a model, `CALIBRATED` or `OFF`."""
        return self._populations[model]

    def sample(self, model: str, sets: int, rows: int, rng: np.random.Generator) -> Sample:
        """Data sets that are drawn independently."""
        scores, chances = self.population(model)
        joint = np.stack([chances, 1 - chances]) / scores.size
        rates = joint.sum(1)
        kept = np.array(self.kept) if not self.balanced else 0.5 / rates
        weights = 1 / kept
        probabilities = joint * kept[:, None]
        cumulative = np.cumsum(probabilities / probabilities.sum())
        uniform = rng.random((sets, rows))
        if self.balanced:
            # As many rows with the outcome as without it.
            first = np.arange(rows) < rows // 2
            uniform = np.where(
                first, uniform * cumulative[scores.size - 1], 1 - uniform * (1 - cumulative[scores.size - 1])
            )
        drawn = np.minimum(np.searchsorted(cumulative, uniform), cumulative.size - 1)
        without, place = np.divmod(drawn, scores.size)
        given = None
        if self.weighted:
            given = weights[without] * np.exp(self.spread * rng.normal(size=without.shape))
        return Sample(1 - without, scores[place], given)

    @cached_property
    def _populations(self) -> dict[str, Population]:
        scores = self.quantiles((np.arange(_POINTS) + 0.5) / _POINTS)
        return {CALIBRATED: Population(scores, scores), OFF: Population(scores, self.off(scores))}


def _twice(scores: Floats) -> Floats:
    return np.minimum(2 * scores, 1.0)


def _saturated(share: Floats) -> Floats:
    """Of 15 % of the rows each the scores are 0 and 1."""
    return np.clip((share - 0.15) / 0.7, 0.0, 1.0)


def _beta(a: float, b: float) -> Callable[[Floats], Floats]:
    return lambda share: np.asarray(stats.beta(a, b).ppf(share), np.float64)


def _one_bin(scores: Floats) -> Floats:
    """Scores of one of 15 bins are 0.3 too high, all others are calibrated."""
    return np.where((scores > 12 / 15) & (scores <= 13 / 15), scores - 0.3, scores)


CASES = {
    "balanced": Case("Balanced outcomes", _beta(1, 1), np.sqrt),
    "one bin": Case("One bin of 15 off", _beta(1, 1), _one_bin),
    "rare": Case("Outcomes of 1 %", _beta(1, 99), _twice),
    "saturated": Case("30 % of the scores 0 or 1", _saturated, lambda scores: 0.02 + 0.96 * scores),
    "independent weights": Case("Independent weights", _beta(1, 19), _twice, spread=0.7),
    "outcome weights": Case("Weights by outcome", _beta(1, 19), _twice, kept=(0.25, 1.0)),
    "case-control": Case("Case-control", _beta(1, 19), _twice, balanced=True),
}

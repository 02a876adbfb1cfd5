"""Distributions of scores and outcomes with known truth: a density of scores, and the frequency at each score."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import special, stats

Floats = npt.NDArray[np.float64]

# Twenty trees vote: the scores of a small forest, without 0 and 1.
_VOTES = 20


_VOTE_LOGITS = special.logit((np.arange(_VOTES + 1) + 0.5) / (_VOTES + 1))
_VOTE_WEIGHTS = np.asarray(stats.betabinom.pmf(np.arange(_VOTES + 1), _VOTES, 1.2, 1.8), np.float64)


def _beta(u: Floats) -> Floats:
    """Of the beta distribution with parameters 1 and 3."""
    return np.asarray(special.logit(-special.powm1(1 - u, 1 / 3)), np.float64)


def _discrete(u: Floats) -> Floats:
    votes = np.searchsorted(np.cumsum(_VOTE_WEIGHTS)[:-1], u)
    return np.asarray(_VOTE_LOGITS[votes], np.float64)


# Logits of scores by quantile.
DENSITIES: Mapping[str, Callable[[Floats], Floats]] = {
    "normal": lambda u: 1.5 * special.ndtri(u),
    "beta": _beta,
    "rare": lambda u: -5.2 + 1.2 * special.ndtri(u),
    "saturated": lambda u: 6 * special.ndtri(u),
    "discrete": _discrete,
}

# How far logits of the frequency are from the centre of the scores, given how far logits z of scores are: t = z / sd.
CURVES: Mapping[str, Callable[[Floats, float], Floats]] = {
    "calibrated": lambda z, sd: z,
    "overconfident": lambda z, sd: 0.6 * z,
    "underconfident": lambda z, sd: 1.6 * z,
    "shifted": lambda z, sd: z - 0.7,
    "quadratic": lambda z, sd: z + 0.4 * ((z / sd) ** 2 - 1),
    # Frequencies that follow powers of s and 1 - s: a slope on the left and another on the right.
    "beta-type": lambda z, sd: 0.5 * z + 1.1 * np.logaddexp(0, z) - 1.1 * np.log(2),
    "s-shaped": lambda z, sd: 1.2 * sd * np.tanh(1.5 * z / sd),
    "non-monotone": lambda z, sd: z + 0.8 * sd * np.sin(2.5 * z / sd),
    "step": lambda z, sd: sd * np.select([z < -0.67 * sd, z < 0, z < 0.67 * sd], [-1.3, -0.4, 0.4], 1.3),
}

# Cells of the quadrature by quantile: even ones in the middle, ever smaller ones in the tails.
_CELLS, _TAIL_CELLS, _TAIL, _OUTERMOST = 4000, 60, 5e-4, 1e-6


@dataclass(frozen=True)
class Truth:
    """Scores with their probabilities, which sum to 1, and the frequencies of both outcomes at each of them."""

    score: Floats
    weight: Floats
    positive: Floats
    negative: Floats

    def excess_log_loss(self, calibrated: Floats) -> float:
        """E KL(c(s) || q(s)) in nats; q is clipped at the precision of its type, as scikit-learn's log_loss does."""
        precision = float(np.finfo(np.float64).eps)
        q = np.clip(calibrated, precision, 1 - precision)
        return float(self.weight @ (special.kl_div(self.positive, q) + special.kl_div(self.negative, 1 - q)))

    def excess_brier(self, calibrated: Floats) -> float:
        """E (c(s) - q(s))^2."""
        return float(self.weight @ (self.positive - calibrated) ** 2)

    def infinite(self, calibrated: Floats) -> float:
        """Share of the rows whose log loss is infinite: the score is 0 and the outcome 1, or the reverse."""
        return float(self.weight @ (self.positive * (calibrated <= 0) + self.negative * (calibrated >= 1)))


@dataclass(frozen=True)
class Distribution:
    """A density of scores and a curve of frequencies, both by name."""

    density: str
    curve: str

    def sample(self, rng: np.random.Generator, rows: int) -> tuple[npt.NDArray[np.bool_], Floats]:
        """Outcomes and scores of random rows."""
        z = DENSITIES[self.density](rng.random(rows))
        return rng.random(rows) < special.expit(self._frequency_logit(z)), special.expit(z)

    @cached_property
    def truth(self) -> Truth:
        """The scores at the middle of each cell by quantile; of discrete scores every score."""
        z, weight = self._cells
        frequency = self._frequency_logit(z)
        return Truth(special.expit(z), weight, special.expit(frequency), special.expit(-frequency))

    def _frequency_logit(self, z: Floats) -> Floats:
        centre, sd = self._centre_and_sd
        return centre + CURVES[self.curve](z - centre, sd)

    @cached_property
    def _cells(self) -> tuple[Floats, Floats]:
        tail = np.geomspace(_OUTERMOST, _TAIL, _TAIL_CELLS)
        edges = np.r_[0, tail[:-1], np.linspace(_TAIL, 1 - _TAIL, _CELLS), 1 - tail[-2::-1], 1]
        logits = DENSITIES[self.density]((edges[1:] + edges[:-1]) / 2)
        if self.density == "discrete":
            return np.asarray(_VOTE_LOGITS, np.float64), _VOTE_WEIGHTS / _VOTE_WEIGHTS.sum()
        return logits, np.diff(edges)

    @cached_property
    def _centre_and_sd(self) -> tuple[float, float]:
        z, weight = self._cells
        centre = float(DENSITIES[self.density](np.array([0.5]))[0])
        mean = weight @ z
        return centre, float(np.sqrt(weight @ (z - mean) ** 2))

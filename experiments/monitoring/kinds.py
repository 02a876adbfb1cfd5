"""Kinds of streams: what happens to a model, or to the people it scores, from some day on."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special, stats

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

# Scores that rows have: twenty spread evenly, and five of rare outcomes.
_EVEN = (np.arange(20) + 0.5) / 20
_RARE = np.array([0.002, 0.005, 0.01, 0.015, 0.02])
SCORES: Floats = np.sort(np.r_[_RARE, _EVEN])


def _spread(a: float, b: float) -> Floats:
    """Shares of the even scores close to a beta distribution."""
    density = np.where(np.isin(SCORES, _EVEN), stats.beta(a, b).pdf(SCORES), 0.0)
    return density / density.sum()


USUAL, OTHER = _spread(1.2, 2.0), _spread(2.5, 1.5)
RARE: Floats = np.isin(SCORES, _RARE) / _RARE.size

# P(outcome | score) from scores and the days since the change, (days, 1), negative before it.
Chance = Callable[[Floats, Floats], Floats]


def calibrated(scores: Floats, since: Floats) -> Floats:
    """Scores are the probabilities."""
    return np.broadcast_to(scores, (since.size, scores.size))


def off_from_the_start(scores: Floats, since: Floats) -> Floats:
    """Outcomes are more frequent than scores say, but by less than the tolerance."""
    return np.broadcast_to(scores + 0.005, (since.size, scores.size))


def shift(size: float) -> Chance:
    """Outcomes are more frequent than scores say."""
    return lambda scores, since: np.clip(scores + size * (since >= 0), 0, 1)


def _slope(scores: Floats, since: Floats) -> Floats:
    return np.where(since >= 0, special.expit(0.8 * special.logit(scores)), scores)


def _one_group(scores: Floats, since: Floats) -> Floats:
    return scores - 0.1 * ((since >= 0) & (scores > 0.6) & (scores < 0.7))


def _gradual(scores: Floats, since: Floats) -> Floats:
    return np.clip(scores + 0.0005 * np.clip(since, 0, 100), 0, 1)


def _bad_day(scores: Floats, since: Floats) -> Floats:
    return np.clip(scores + 0.2 * (since == 0), 0, 1)


def _doubled(scores: Floats, since: Floats) -> Floats:
    return np.where(since >= 0, np.minimum(2 * scores, 1), scores)


class Kind(NamedTuple):
    """Streams of one kind.

    Parameters
    ----------
    chance : callable
        P(outcome | score) by day.
    changes : bool
        Whether a perfect monitor signals, from the day of the change on.
    before, after : array
        Shares of the scores before and after that day.
    copies : int
        Rows that share one outcome: repeated rows of one customer.
    """

    chance: Chance = calibrated
    changes: bool = True
    before: Floats = USUAL
    after: Floats = USUAL
    copies: int = 1

    def chances(self, since: Counts) -> Floats:
        """P(outcome | score), (days, scores)."""
        return np.asarray(self.chance(SCORES, since[:, None].astype(np.float64)), np.float64)

    def draw(self, rows: int, since: Counts, rng: np.random.Generator) -> Counts:
        """Rows by day, score and outcome, (days, scores, 2), of about so many rows a day."""
        shares = np.where(since[:, None] < 0, self.before, self.after)
        count = rng.multinomial(max(rows // self.copies, 1), shares)
        events = rng.binomial(count, self.chances(since))
        return self.copies * np.stack([count - events, events], -1)


KINDS = {
    "calibrated": Kind(changes=False),
    "other people": Kind(changes=False, after=OTHER),
    "rare": Kind(changes=False, before=RARE, after=RARE),
    "repeated rows": Kind(changes=False, copies=5),
    # From the first day on.
    "within tolerance": Kind(off_from_the_start, changes=False),
    "shift 0.005": Kind(shift(0.005)),
    "shift 0.01": Kind(shift(0.01)),
    "shift 0.02": Kind(shift(0.02)),
    "shift 0.05": Kind(shift(0.05)),
    "slope": Kind(_slope),
    "one group": Kind(_one_group),
    "gradual": Kind(_gradual),
    "bad day": Kind(_bad_day),
    "rare, doubled": Kind(_doubled, before=RARE, after=RARE),
}

"""Proper scores relative to that of a forecast which always states the base rate."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import FromRows, NoInterval
from calibdask.estimators.parts import Estimate, FixedPart, Number
from calibdask.estimators.scores.proper import checked_clip
from calibdask.statistics import exact
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.outcome_sums import OutcomeSums
from calibdask.statistics.request import Requests
from calibdask.statistics.score_sums import ScoreSums
from calibdask.statistics.settings import Setting


@dataclass(frozen=True)
class RelativeScore(Estimator):
    """The base class: the score of the rows, and that of their base rates, both means over rows."""

    @override
    def interval(self, layout: Layout) -> FromRows:
        # Replicates of sums over bins and of scores are not paired.
        return FromRows(by_rows_only=True)

    @abstractmethod
    def score(self) -> Requests[tuple[Array, dict[str, Any]]]:
        """The mean score of the rows, and notes on it."""

    @abstractmethod
    def of_base_rates(self, rates: Array, *, is_vector: bool) -> Array:
        """The score of the base rates, (..., classes)."""

    def constant(self) -> Requests[Array]:
        """The score of always predicting the base rates."""
        layout = yield from Layout()
        outcomes = yield from OutcomeSums(Setting("class", 1) if layout.vector else Setting("classwise"))
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = exact.value(outcomes.outcome) / exact.value(outcomes.weight)
            rates = np.stack([1 - rates[..., 0], rates[..., 0]], -1) if layout.vector else rates
            # Weighted sums may differ by rounding.
            return self.of_base_rates(rates.clip(0.0, 1.0), is_vector=layout.vector)

    def ratio(self) -> Requests[tuple[Array, dict[str, Any]]]:
        """The score over that of the base rates, NaN if all outcomes are equal, and notes on it."""
        score, notes = yield from self.score()
        constant = yield from self.constant()
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(constant > 0, score / constant, np.nan), notes


@dataclass(frozen=True)
class LogarithmicScore(RelativeScore):
    """The base class of relative logarithmic scores."""

    clip: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", checked_clip(self.clip))

    @override
    def row_range(self, part: str, layout: Layout) -> tuple[float, float] | None:
        # A single row may have any logarithmic score; the largest one relative to the base rates depends on these.
        return None if self.clip else (0.0, np.inf)

    @abstractmethod
    def range_of_losses(self, base_rate_score: float) -> tuple[float, float]:
        """The smallest and the largest relative loss of a single row, if ``clip`` is above 0."""

    @override
    def score(self) -> Requests[tuple[Array, dict[str, Any]]]:
        sums = yield from ScoreSums(brier=not self.clip, clip=self.clip)
        notes = {"clip": self.clip, "clipped_rows": int(sums.clipped.sum())} if self.clip else {}
        with np.errstate(divide="ignore", invalid="ignore"):
            return exact.value(sums.log) / exact.value(sums.weight), notes

    @override
    def of_base_rates(self, rates: Array, *, is_vector: bool) -> Array:
        return np.asarray(scipy.special.entr(rates).sum(-1))


@dataclass(frozen=True)
class BaseRateScore(Estimator):
    """The score of always predicting the base rates, by which a relative score is divided."""

    relative: RelativeScore

    @override
    def interval(self, layout: Layout) -> NoInterval:
        return NoInterval()

    @override
    def estimate(self) -> Requests[Estimate]:
        return {"": FixedPart((yield from self.relative.constant()))}


@dataclass(frozen=True)
class NormalizedEntropy(LogarithmicScore):
    """Normalized entropy: the log loss over the entropy of the base rates.

    ::

        NE = mean of -log(score of the label) / -sum_k f_k log f_k,     f_k the frequency of class k

    Below 1: better than always predicting the base rates; 0 is perfect. The log loss of rare outcomes is small for any
    model, while normalized entropies are comparable between samples with different base rates.

    Parameters
    ----------
    clip : float, default 0
        As for `LogLoss`: smaller scores of the label are raised to this value. Choose one far below the base rate.

    Notes
    -----
    NaN if all outcomes are equal. With a `calibdask.Population` the base rates of the population are used. One
    pass; from a summary for a vector of scores, and for several classes if it holds their histograms. With ``ci`` from
    replicates of the rows, in which base rates vary too; not from a summary. The base
    rates of the same rows, and those of a replicate, fit these rows too well: percentiles would exclude the skill 0 of
    scores that always state the true base rate. The ends are the value plus and minus the larger distance to them.
    As for `LogLoss`, a limit is never decided without ``clip``, while one on ``normalized-entropy(clip=1e-6)`` can be.

    References
    ----------
    .. [1] He et al., Practical lessons from predicting clicks on ads at Facebook, 2014, section 3.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 0, 0, 1], [0.2, 0.1, 0.3, 0.7], cd.NormalizedEntropy())
    >>> round(float(result.normalized_entropy), 6)
    0.463182
    """

    about = About(
        "Normalized entropy",
        "The log loss over the entropy of the base rates, -sum_k f_k log f_k. Below 1 is better than always stating "
        "the base rates; 0 is perfect.",
        "He et al., Practical lessons from predicting clicks on ads at Facebook, 2014",
        "normalized entropy",
    )
    bounded_form: ClassVar[str] = "normalized-entropy(clip=1e-6)"

    @override
    def range_of_losses(self, base_rate_score: float) -> tuple[float, float]:
        return 0.0, -float(np.log(self.clip)) / base_rate_score

    @override
    def describe(self, layout: Layout) -> Description:
        return {"": PartInfo("log loss over that of the base rates", "score")}

    @override
    def estimate(self) -> Requests[Estimate]:
        values, notes = yield from self.ratio()
        return {"": Number(values, notes=notes, limits=(0.0, np.inf), is_biased=True)}


@dataclass(frozen=True)
class SkillScore(RelativeScore):
    """The base class of skill scores: 1 - score / score of the base rates."""

    score_name: ClassVar[str]

    @override
    def describe(self, layout: Layout) -> Description:
        info = PartInfo(f"1 - {self.score_name} over that of the base rates", "number", "higher", bounds=(-np.inf, 1.0))
        return {"": info}

    @override
    def estimate(self) -> Requests[Estimate]:
        values, notes = yield from self.ratio()
        return {"": Number(1 - values, notes=notes, limits=(-np.inf, 1.0), is_biased=True)}


@dataclass(frozen=True)
class BrierSkillScore(SkillScore):
    """Brier skill score: 1 - Brier score / Brier score of the base rates.

    ::

        BSS = 1 - mean of sum_k (p_k - 1[y = k])**2 / sum_k f_k (1 - f_k),     f_k the frequency of class k

    1 is perfect, 0 as good as always predicting the base rates, below 0 worse. In clinical papers it is the scaled
    Brier score, or the index of prediction accuracy.

    Notes
    -----
    As for `NormalizedEntropy`. If samples with different base rates are pooled, part of the skill comes from knowing
    which sample a row belongs to.

    References
    ----------
    .. [1] Murphy, Hedging and skill scores for probability forecasts, 1973.
    .. [2] Kattan & Gerds, The index of prediction accuracy, 2018.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 0, 0, 1], [0.2, 0.1, 0.3, 0.7], cd.BrierSkillScore())
    >>> round(float(result.brier_skill_score), 6)
    0.693333
    """

    about = About(
        "Brier skill score",
        "1 - Brier score / Brier score of the base rates. 1 is perfect, 0 as good as always stating the base rates.",
        "Murphy, Hedging and skill scores for probability forecasts, 1973",
        "Brier skill score",
    )
    score_name: ClassVar[str] = "Brier score"

    @override
    def score(self) -> Requests[tuple[Array, dict[str, Any]]]:
        sums = yield from ScoreSums()
        with np.errstate(divide="ignore", invalid="ignore"):
            return exact.value(sums.brier) / exact.value(sums.weight), {}

    @override
    def of_base_rates(self, rates: Array, *, is_vector: bool) -> Array:
        # (p - y)**2 of a vector is half of the sum over both classes.
        return np.asarray((rates * (1 - rates)).sum(-1) / (2 if is_vector else 1))


@dataclass(frozen=True)
class LogSkillScore(SkillScore, LogarithmicScore):
    """Logarithmic skill score: 1 - log loss / entropy of the base rates, 1 - `NormalizedEntropy`.

    1 is perfect, 0 as good as always predicting the base rates, below 0 worse.

    Parameters
    ----------
    clip : float, default 0
        As for `NormalizedEntropy`.

    Notes
    -----
    As for `NormalizedEntropy`.

    References
    ----------
    .. [1] Benedetti, Scoring rules for forecast verification, 2010.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 0, 0, 1], [0.2, 0.1, 0.3, 0.7], cd.LogSkillScore())
    >>> round(float(result.log_skill_score), 6)
    0.536818
    """

    about = About(
        "Logarithmic skill score",
        "1 - log loss / entropy of the base rates. 1 is perfect, 0 as good as always stating the base rates.",
        "Benedetti, Scoring rules for forecast verification, 2010",
        "log skill score",
    )
    score_name: ClassVar[str] = "log loss"
    bounded_form: ClassVar[str] = "log-skill-score(clip=1e-6)"

    @override
    def range_of_losses(self, base_rate_score: float) -> tuple[float, float]:
        return 1 + float(np.log(self.clip)) / base_rate_score, 1.0

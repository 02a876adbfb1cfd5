"""Tests of calibration by the squared kernel calibration error (SKCE)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy
from typing_extensions import override

from calibdask.estimators.about import PVALUE, About, Description, PartInfo
from calibdask.estimators.checks import MOST_DRAWS, check_choice, check_whole
from calibdask.estimators.kernel.base import KernelTest, note_values
from calibdask.estimators.kernel.drawn_estimates import FEW_ROWS, drawn_estimates, effective_rows
from calibdask.estimators.kernel.drawn_outcomes import MOST_SAMPLED, DrawnOutcomes, sample_size, share_reaching
from calibdask.estimators.kernel.estimates import (
    block_moments,
    check_block,
    check_features,
    features_estimate,
    pair_estimates,
)
from calibdask.estimators.parts import Estimate, Number
from calibdask.statistics import exact
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.pairs.bootstrap import PairDraws
from calibdask.statistics.pairs.features import feature_vectors
from calibdask.statistics.pairs.pair_kernel import PairKernel
from calibdask.statistics.prefetch import Prefetch
from calibdask.statistics.request import Requests
from calibdask.statistics.sample import RowSampleState

# Of the features of drawn outcomes, to limit their time to seconds.
_MULTIPLICATIONS = 1 << 35

_BOUND = "rows are independent; holds for any number of rows, and is conservative"
_NORMAL = "rows are independent and blocks many: the mean of their estimates is approximately normal"
_INDEPENDENT = "rows are independent; the largest value of the kernel is allowed for where such pairs of rows are rare"
_DEGENERATE = "rows are independent and many: the distribution is that of bootstrap draws of a degenerate U-statistic"
_FEW = f"; with fewer than {FEW_ROWS} effective rows outcomes are drawn from the predictions"
_DRAWN = f"rows are independent; outcomes are drawn from the predictions, at most {MOST_SAMPLED} that are sampled"


@dataclass(frozen=True, kw_only=True)
class SKCETest(KernelTest):
    """Test of calibration by the squared kernel calibration error (SKCE).

    The null hypothesis is that the model is calibrated; with ``delta`` it is SKCE >= delta, so that small p-values show
    that the error is smaller than delta. With n rows, kernel bound ``B = 2 sup |k|`` and the estimate t::

        distribution-free  biased            p = exp( -max(0, sqrt(n t / B) - 1)**2 / 2 )
                           unbiased, linear  p = exp( -floor(n / 2) t**2 / (2 B**2) ) for t > 0, else 1
                           block             the same with floor(n / block)
        asymptotic         linear, block     p = 1 - Phi( t / (s / sqrt(blocks)) ), s their standard deviation;
                                             with delta see the notes
                           unbiased          p = share of bootstrap draws of n / (n - 1) SKCE_unbiased - SKCE_biased
                                             that reach its value, itself counted
                           features          p = share of values with outcomes drawn from the predictions that reach
                                             the estimate, itself counted; likewise for unbiased, linear and block
                                             where fewer than 20 rows are effective, without delta

    Parameters
    ----------
    method : {"asymptotic", "distribution-free"}
        An asymptotic p-value, or a bound that is valid for any number of rows.
    estimator : {"unbiased", "biased", "linear", "block", "features"}
        As in `SKCE`. "biased" is distribution-free only, "features" asymptotic only.
    draws : int, default 1000
        Number of draws of the bootstrap or of outcomes.
    ddof : int, default 1
        The variance of the estimates of blocks has the divisor blocks - ddof; the tables of [1]_ use 0.
    delta : float, optional
        Test SKCE >= delta instead: by bounds for unbiased, linear and block; from the variance for linear and block.
        At significance 1 - ``level`` exactly the values of delta above the part ``bound`` are rejected.
    level : float, default 0.95
        Level of the ``bound``, an upper limit of SKCE.
    kernel, distance, bandwidth, matrix, setting, block, features, seed, max_pairs
        As in `SKCE`.

    Raises
    ------
    ValueError
        If parameters are invalid, incompatible or do not fit the data; if there are weights; if there are more pairs
        than ``max_pairs``.

    Notes
    -----
    Parts: ``estimate``, ``statistic``, ``pvalue``, and ``bound`` where ``delta`` is supported. The attribute
    ``assumes`` states the assumptions of the p-value. Weights are not supported.

    With 10**6 rows or more, practically every model is rejected. In this case test the size of the error with
    ``delta``.

    With delta, and for ``bound``, the mean of blocks is treated as the mean of N = blocks * floor(block / 2) pairs of
    rows, each within +-B, of variance v = floor(block / 2) s**2. Among all distributions with this mean and variance,
    the most skewed takes the value B with the share q = v / (v + (B - t)**2), and a = t - v / (B - t). As in the method
    of Clopper & Pearson for a share, p0 = P(a + (B - a) X > delta), X of the beta distribution with the parameters N q
    + 1 and N (1 - q); as s is estimated, p is the probability of Student's distribution with blocks - 1 degrees of
    freedom below the normal quantile of p0. Few rows cannot show that an error is small: with no pair in error the
    bound is 3 B / N at 95 %. Unlike for the distribution-free bound, it is not proven that p <= 0.05 occurs in at most
    5 % of data sets whose true error is delta, but it held in simulations with outcome rates from 0.5 to 50 % and 30 to
    20,000 rows. NaN with a single block.

    Cost in addition to that of `SKCE`: for the bootstrap n**2 / 2 times ``draws`` multiplications, as products of
    matrices; its draws depend only on the seed and the position of a row in its slice. For random features, outcomes
    are drawn from the predictions of a sample of 2000 rows (fewer with many classes): with at most that many rows the
    p-value is exact; with more, each sampled prediction represents several rows.

    The bootstrap and the normal distribution reject too often with few rows, or few rows of an outcome: at a level of
    5 % they rejected up to 86 % of calibrated models with 30 rows and outcomes of rate 0.5 %. The effective number of
    rows is ``(sum_i E |r_i|**2)**2 / sum_i E |r_i|**4`` with residuals r_i = e_yi - p_i and the expectation given the
    predictions of the sample; with rare outcomes it is close to the number of events. If it is below 20, outcomes are
    drawn for unbiased, linear and block as well, and compared with the estimate; pairs and blocks of sampled rows
    follow their order. The attribute ``effective_rows`` is this number.

    References
    ----------
    .. [1] Widmann, Lindsten & Zachariah, Calibration tests in multi-class classification, 2019, section 6, Lemmas 2, 3.
    .. [2] Arcones & Gine, On the bootstrap of U and V statistics, 1992.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.dirichlet([1, 1, 1], 200)
    >>> result = cd.evaluate(rng.integers(0, 3, 200), scores, cd.SKCETest())
    >>> float(result.skce_test_pvalue) < 0.05
    True
    """

    about = About(
        "Test of calibration by the kernel calibration error",
        "Tests whether the squared kernel calibration error is larger than that of a calibrated model; with delta, "
        "whether it is smaller than delta.",
        "Widmann, Lindsten & Zachariah, Calibration tests in multi-class classification, 2019",
        "SKCE test",
    )

    compares_pairs = True

    method: Literal["asymptotic", "distribution-free"] = "asymptotic"
    estimator: Literal["unbiased", "biased", "linear", "block", "features"] = "unbiased"
    block: int | None = None
    features: int = 512
    draws: int = 1000
    ddof: int = 1
    delta: float | None = None
    level: float = 0.95
    max_pairs: float = 10**10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("method", self.method, ("asymptotic", "distribution-free"))
        check_choice("estimator", self.estimator, ("unbiased", "biased", "linear", "block", "features"))
        check_block(self.estimator, self.block)
        check_features(self.estimator, self.features, self.kernels)
        check_whole("draws", self.draws, 1, MOST_DRAWS)
        check_whole("ddof", self.ddof, 0)
        if (self.method, self.estimator) in (("asymptotic", "biased"), ("distribution-free", "features")):
            other = "distribution-free" if self.method == "asymptotic" else "asymptotic"
            raise ValueError(f"estimator={self.estimator!r} has no {self.method} test; use method={other!r}.")
        self._check_delta()

    def _check_delta(self) -> None:
        delta: Any = self.delta
        level: Any = self.level
        if not isinstance(level, float) or not 0 < level < 1:
            raise ValueError(f"level expects a number between 0 and 1 such as 0.95, got {self.level!r}.")
        if self.delta is None:
            return
        if isinstance(delta, bool) or not isinstance(delta, int | float | np.number) or not 0 < delta < np.inf:
            raise ValueError(f"delta expects a positive number, got {self.delta!r}.")
        blocks = self.estimator in ("linear", "block")
        if not (blocks or (self.method == "distribution-free" and self.estimator == "unbiased")):
            raise ValueError(
                "delta expects estimator='linear' or 'block', or method='distribution-free' with 'unbiased': the other "
                f"tests are only valid for calibrated models; got {self.estimator!r}, {self.method!r}."
            )

    @override
    def describe(self, layout: Layout) -> Description:
        tested = (
            PVALUE if self.delta is None else f"p-value for the null hypothesis of an error of at least {self.delta:g}"
        )
        return {
            "estimate": PartInfo("squared kernel calibration error: 0 if calibrated", "statistic", "zero"),
            "statistic": PartInfo("test statistic", "statistic"),
            # A small p-value for a delta supports the model.
            "pvalue": PartInfo(tested, "pvalue", "none" if self.delta is None else "lower"),
            "bound": PartInfo(f"upper confidence limit of the error, level {self.level:g}", "statistic"),
        }

    def _estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        if layout.weighted:
            raise ValueError(
                "SKCETest does not support sample_weight: its null distributions are valid only for unweighted rows."
            )
        if self.estimator in ("linear", "block"):
            return (yield from self._of_blocks(layout))
        if self.estimator == "features":
            return (yield from self._of_features(layout))
        return (yield from self._of_pairs(layout))

    def _of_blocks(self, layout: Layout) -> Requests[Estimate]:
        length = self.block or 2
        size = max(sample_size(self.draws, layout.classes), length)
        if self.method == "asymptotic" and self.delta is None:
            yield from Prefetch(self.sample(layout, size))
        moments = yield from block_moments(self, layout, length, self.max_pairs)
        if self.method == "distribution-free":
            return self._bounded(moments.mean, moments.blocks, moments.kernel, moments.notes)
        error, bounded = moments.standard_error(self.ddof), moments.bounded(self.ddof)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (moments.mean - (self.delta or 0.0)) / error
        bound = bounded.upper(1 - self.level)
        if self.delta is not None:
            notes = {**moments.notes, "assumes": _INDEPENDENT}
            return self._parts(moments.mean, z, bounded.pvalue(self.delta), bound, notes)
        sample = yield from self.sampled(size)
        drawn, effective = self._drawn_pvalues(moments.kernel, sample, size, moments.mean)
        pvalue = np.where(effective < FEW_ROWS, drawn, scipy.special.ndtr(-z))
        notes = {**moments.notes, "effective_rows": note_values(effective), "assumes": _NORMAL + _FEW}
        return self._parts(moments.mean, z, pvalue, bound, notes)

    def _bounded(self, values: Array, terms: Counts, kernel: PairKernel, notes: dict[str, Any]) -> Estimate:
        """The test by the bound for means of ``terms`` independent values within +-B."""
        largest = 2 * kernel.bound
        missing = np.isnan(values)
        far = np.maximum(values if self.delta is None else self.delta - values, 0.0)
        pvalue = np.exp(-terms * far**2 / (2 * largest**2))
        with np.errstate(divide="ignore"):
            bound = values + largest * np.sqrt(-2 * np.log(1 - self.level) / terms)
        pvalue[missing] = np.nan
        return self._parts(values, values, pvalue, bound, {**notes, "assumes": _BOUND})

    def _of_pairs(self, layout: Layout) -> Requests[Estimate]:
        size = sample_size(self.draws, layout.classes)
        if self.method == "asymptotic":
            yield from Prefetch(self.sample(layout, size))
        pairs = yield from pair_estimates(self, layout, self.max_pairs)
        kernel, rows, notes = pairs.kernel, pairs.rows, pairs.notes
        if self.method == "distribution-free" and self.estimator == "unbiased":
            return self._bounded(pairs.unbiased, rows // 2, kernel, notes)
        if self.method == "distribution-free":
            root = np.sqrt(rows * np.maximum(pairs.biased, 0.0) / (2 * kernel.bound))
            pvalue = np.where(np.isnan(pairs.biased), np.nan, np.exp(-(np.maximum(root - 1, 0.0) ** 2) / 2))
            return self._parts(pairs.biased, pairs.biased, pvalue, None, {**notes, "assumes": _BOUND})
        sample = yield from self.sampled(size)
        pvalue, effective = self._drawn_pvalues(kernel, sample, size, pairs.unbiased)
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = rows / (rows - 1) * pairs.unbiased - pairs.biased
        many = effective >= FEW_ROWS
        if many.any():
            drawn = yield from self._bootstrapped(kernel, rows)
            reached = (1 + (drawn >= statistic[..., None]).sum(axis=-1)) / (1 + self.draws)
            pvalue = np.where(many, reached, pvalue)
        notes = {**notes, "effective_rows": note_values(effective), "assumes": _DEGENERATE + _FEW}
        return self._parts(pairs.unbiased, statistic, pvalue, None, notes)

    def _bootstrapped(self, kernel: PairKernel, rows: Counts) -> Requests[Array]:
        """Draws of the degenerate U-statistic, (batch, groups, draws)."""
        state = yield from PairDraws(kernel, FrozenArray(rows[0]), self.draws, self.seed)
        both, own, either = (kernel.bound * exact.value(words) for words in state)
        n = rows[..., None].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((n / (n - 1) * (both - own) - 2 * either) / n**2)

    def _of_features(self, layout: Layout) -> Requests[Estimate]:
        affordable = _MULTIPLICATIONS // (2 * self.features * self.draws * layout.classes)
        size = sample_size(self.draws, layout.classes, affordable)
        yield from Prefetch(self.sample(layout, size))
        features = yield from features_estimate(self, self.features)
        values, error = features.unbiased
        sample = yield from self.sampled(size)
        statistic = features.rows * values
        pvalue = np.full(values.shape, np.nan)
        for b, g, outcomes in self._outcomes(sample, size, statistic):
            drawn, own = self._drawn(features.kernel, outcomes, b, g)
            rounding = np.finfo(sample.scores.dtype).eps ** 0.5 * own.mean()
            pvalue[b, g] = share_reaching(statistic[b, g], drawn, rounding)
        notes = {**features.notes, "approximation_error": note_values(error), "assumes": _DRAWN}
        return self._parts(values, statistic, pvalue, None, notes)

    def _outcomes(
        self, sample: RowSampleState, size: int, estimates: Array
    ) -> Iterator[tuple[int, int, DrawnOutcomes]]:
        """Outcomes to be drawn for each (batch, group) that has an estimate."""
        for b, g in np.argwhere(np.isfinite(estimates)).tolist():
            scores = sample.of(b, g, size).scores.astype(np.float64)
            yield b, g, DrawnOutcomes(scores, int(sample.rows[b, g]), self.draws, self.seed)

    def _drawn_pvalues(
        self, kernel: PairKernel, sample: RowSampleState, size: int, estimates: Array
    ) -> tuple[Array, Array]:
        """p-values from drawn outcomes where few rows are effective, NaN elsewhere; and the effective rows."""
        pvalue, effective = np.full((2, *estimates.shape), np.nan)
        length = None if self.estimator == "unbiased" else self.block or 2
        for b, g, outcomes in self._outcomes(sample, size, estimates):
            effective[b, g] = effective_rows(outcomes)
            if effective[b, g] < FEW_ROWS:
                drawn = drawn_estimates(kernel, outcomes, b, g, length)
                # That of sums of h_ij, and of h_ij themselves, whose size is that of h_ii / n.
                own = kernel.bound * (1 - (outcomes.scores**2).sum(axis=1)).mean() / outcomes.rows
                rounding = 2.0**-44 * kernel.bound + np.finfo(sample.scores.dtype).eps ** 0.5 * own
                pvalue[b, g] = share_reaching(estimates[b, g], drawn, rounding)
        return pvalue, effective

    def _drawn(self, kernel: PairKernel, outcomes: DrawnOutcomes, b: int, g: int) -> tuple[Array, Array]:
        """Draws of n SKCE_unbiased for a calibrated model and the kernel approximated by the features.

        And the part of each that rows have with themselves, which is subtracted.
        """
        scores = outcomes.scores
        rows, classes = scores.shape
        vectors = feature_vectors(kernel, scores, b, g, self.features, self.seed)
        residuals = np.eye(classes) - scores[:, None]
        expected = outcomes.repeats[:, None] * scores
        totals, withins = [], []
        for counts in outcomes:
            # Rows are the first axis, so that one product serves all draws.
            drawn = np.ascontiguousarray((counts - expected).swapaxes(0, 1))
            total, within = np.zeros((2, len(counts)))
            for term, waves in zip(kernel.terms, vectors, strict=True):
                matrix = np.eye(classes) if term.matrix is None else term.matrix.values
                sums = (waves.T @ drawn.reshape(rows, -1)).reshape(-1, *drawn.shape[1:])
                total += ((sums @ matrix) * sums).sum(axis=(0, 2))
                within += counts.reshape(len(counts), -1) @ ((residuals @ matrix) * residuals).sum(-1).ravel()
            totals.append(total / (outcomes.rows - 1))
            withins.append(within / (outcomes.rows - 1))
        own = np.concatenate(withins)
        return np.concatenate(totals) - own, own

    def _parts(
        self, estimate: Array, statistic: Array, pvalue: Array, bound: Array | None, notes: dict[str, Any]
    ) -> Estimate:
        tested = "the model is calibrated" if self.delta is None else f"SKCE >= {self.delta:g}"
        notes = {**notes, "null_hypothesis": tested}
        parts = {"estimate": estimate, "statistic": statistic, "pvalue": pvalue}
        if bound is not None:
            parts["bound"] = bound
        return {name: Number(values, notes=notes) for name, values in parts.items()}

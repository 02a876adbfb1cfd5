"""Tests of calibration by the kernel calibration error."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import special

from calibdask.estimators.checks import check_choice, check_whole
from calibdask.estimators.estimator import PVALUE, Estimate, Estimation, Meanings, Part
from calibdask.estimators.kernel import KernelTest, said
from calibdask.estimators.kernel_estimates import (
    RunMoments,
    check_block,
    check_features,
    features_estimate,
    pair_estimates,
    run_moments,
)
from calibdask.statistics import exact
from calibdask.statistics.bootstrap import PairDraws
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.features import feature_kernels
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.pair_kernel import PairKernel

__all__ = ["SKCETest"]

# Rows whose pairs stand for those of all: fewer where draws or classes are many, for some seconds of multiplications.
_SAMPLE_ROWS = 2000
_FEWEST_SAMPLE_ROWS = 100
_MULTIPLICATIONS = 1 << 35
# Normal variables that are held at a time.
_NORMALS = 1 << 22

_BOUND = "rows are independent; holds for any number of rows, and is conservative"
_NORMAL = "rows are independent and blocks many: the mean of their estimates is about normal"
_DEGENERATE = "rows are independent and many: the distribution is that of bootstrap draws of a degenerate U-statistic"
_CHI_SQUARE = "rows are independent and many: the distribution is a weighted sum of chi-square variables"


@dataclass(frozen=True, kw_only=True)
class SKCETest(KernelTest):
    """Test of calibration by the squared kernel calibration error (SKCE).

    The null hypothesis is that the model is calibrated; with ``delta`` it is SKCE >= delta, so that small p-values show
    that the error is smaller than delta. With n rows, kernel bound ``B = 2 sup |k|`` and the estimate t::

        distribution-free  biased            p = exp( -max(0, sqrt(n t / B) - 1)**2 / 2 )
                           unbiased, linear  p = exp( -floor(n / 2) t**2 / (2 B**2) ) for t > 0, else 1
                           block             the same with floor(n / block)
        asymptotic         linear, block     p = 1 - Phi( t / (s / sqrt(blocks)) ), s their standard deviation
                           unbiased          p = share of bootstrap draws of n / (n - 1) SKCE_unbiased - SKCE_biased
                                             that reach its value, itself counted
                           features          p from draws of the limit of n SKCE_unbiased on a sample of rows

    Parameters
    ----------
    method : {"asymptotic", "distribution-free"}
        A p-value that is right for many rows, or a bound that holds for any number of them.
    estimator : {"unbiased", "biased", "linear", "block", "features"}
        As in `SKCE`. "biased" has the bound only, "features" the asymptotic p-value only.
    draws : int, default 1000
        Draws of the bootstrap or of the limit.
    ddof : int, default 1
        The variance of the estimates of blocks has the divisor blocks - ddof; the tables of [1]_ have 0.
    delta : float, optional
        Test SKCE >= delta instead: with bounds for unbiased, linear and block, asymptotically for linear and block.
        Every larger delta than the part ``bound`` is rejected at 1 - ``level``, and no smaller one.
    level : float, default 0.95
        Level of the ``bound``, an upper limit of SKCE.
    kernel, distance, bandwidth, matrix, setting, block, features, seed, max_pairs
        As in `SKCE`.

    Raises
    ------
    ValueError
        If choices are unknown or do not fit each other or the data; if there are weights; if there are more pairs than
        ``max_pairs``.

    Notes
    -----
    Parts: ``estimate``, ``statistic``, ``pvalue``, and ``bound`` where ``delta`` is possible. The attribute ``assumes``
    says what the p-value rests on. No test takes weights.

    With 10**6 rows and more every model is found not to be calibrated. Then ask how large the error is: ``delta``.

    Cost beyond that of `SKCE`: for the bootstrap n**2 / 2 times ``draws`` multiplications, as products of matrices; its
    draws are keyed by the seed and the place of a row in its slice. For the features the predictions of a sample of
    2000 rows (with many classes fewer): residuals are drawn from the normal distribution with the covariance
    diag(p) - p p^T that labels drawn from p have, and their sum over pairs is a weighted sum of chi-square variables.

    Asymptotic p-values are too small where rows, or rows of an outcome, are few. In simulations a level of 5 % rejected
    10 to 13 % of calibrated models with 5 or 10 binary rows of uniform scores, 5 to 9 % with 50, and with the features
    12 % with 5000 rows of which 50 are positive. `ConsistencyTest` holds for any number of rows.

    References
    ----------
    .. [1] Widmann, Lindsten & Zachariah, Calibration tests in multi-class classification, 2019, section 6, Lemmas 2, 3.
    .. [2] Arcones & Gine, On the bootstrap of U and V statistics, 1992.
    .. [3] Gretton et al., A fast, consistent kernel two-sample test, 2009, for the sum of chi-square variables.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.dirichlet([1, 1, 1], 200)
    >>> result = cd.evaluate(rng.integers(0, 3, 200), scores, cd.SKCETest())
    >>> float(result.skce_test_pvalue) < 0.05
    True
    """

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
        check_whole("draws", self.draws, 1)
        check_whole("ddof", self.ddof, 0)
        if (self.method, self.estimator) in (("asymptotic", "biased"), ("distribution-free", "features")):
            other = "distribution-free" if self.method == "asymptotic" else "asymptotic"
            raise ValueError(f"estimator={self.estimator!r} has no {self.method} test; take method={other!r}.")
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
                "delta expects estimator='linear' or 'block', or method='distribution-free' with 'unbiased': other "
                f"tests know the distribution of calibrated models only; got {self.estimator!r}, {self.method!r}."
            )

    @property
    def name(self) -> str:
        """``skce_test``."""
        return "skce_test"

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        tested = (
            PVALUE if self.delta is None else f"chance of an estimate as small if the error is {self.delta:g} or more"
        )
        return {
            "estimate": "squared kernel calibration error: 0 if calibrated",
            "statistic": "what the p-value is computed from",
            "pvalue": tested,
            "bound": f"upper limit of the error at {self.level:g}",
        }

    def _estimate(self) -> Estimation:
        layout = yield Layout()
        if layout.weighted:
            raise ValueError("SKCETest takes no sample_weight: the distributions it rests on are those of equal rows.")
        if self.estimator in ("linear", "block"):
            return (yield from self._of_blocks(layout))
        if self.estimator == "features":
            return (yield from self._of_features(layout))
        return (yield from self._of_pairs(layout))

    def _of_blocks(self, layout: Layout) -> Estimation:
        moments = yield from run_moments(self, layout, self.block or 2, self.max_pairs)
        if self.method == "distribution-free":
            return self._bounded(moments.mean, moments.runs, moments.kernel, moments.notes)
        return self._normal(moments)

    def _normal(self, moments: RunMoments) -> Estimate:
        error = moments.standard_error(self.ddof)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (moments.mean - (self.delta or 0.0)) / error
        pvalue = special.ndtr(-z if self.delta is None else z)
        bound = moments.mean + special.ndtri(self.level) * error
        return self._told(moments.mean, z, pvalue, bound, {**moments.notes, "assumes": _NORMAL})

    def _bounded(self, values: Array, terms: Counts, kernel: PairKernel, notes: dict[str, Any]) -> Estimate:
        """The bound for means of ``terms`` independent values within +-B."""
        largest = 2 * kernel.bound
        missing = np.isnan(values)
        far = np.maximum(values if self.delta is None else self.delta - values, 0.0)
        pvalue = np.exp(-terms * far**2 / (2 * largest**2))
        with np.errstate(divide="ignore"):
            bound = values + largest * np.sqrt(-2 * np.log(1 - self.level) / terms)
        pvalue[missing] = np.nan
        return self._told(values, values, pvalue, bound, {**notes, "assumes": _BOUND})

    def _of_pairs(self, layout: Layout) -> Estimation:
        found = yield from pair_estimates(self, layout, self.max_pairs)
        kernel, rows, notes = found.kernel, found.rows, found.notes
        if self.method == "distribution-free" and self.estimator == "unbiased":
            return self._bounded(found.unbiased, rows // 2, kernel, notes)
        if self.method == "distribution-free":
            root = np.sqrt(rows * np.maximum(found.biased, 0.0) / (2 * kernel.bound))
            pvalue = np.where(np.isnan(found.biased), np.nan, np.exp(-(np.maximum(root - 1, 0.0) ** 2) / 2))
            return self._told(found.biased, found.biased, pvalue, None, {**notes, "assumes": _BOUND})
        drawn = yield from self._bootstrapped(kernel, rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = rows / (rows - 1) * found.unbiased - found.biased
            reached = (1 + (drawn >= statistic[..., None]).sum(axis=-1)) / (1 + self.draws)
            pvalue = np.where(np.isnan(statistic), np.nan, reached)
        return self._told(found.unbiased, statistic, pvalue, None, {**notes, "assumes": _DEGENERATE})

    def _bootstrapped(self, kernel: PairKernel, rows: Counts) -> Generator[Any, Any, Array]:
        """Draws of the degenerate U-statistic, (batch, groups, draws)."""
        state = yield PairDraws(kernel, FrozenArray(rows[0]), self.draws, self.seed)
        both, own, either = (kernel.bound * exact.value(words) for words in state)
        n = rows[..., None].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((n / (n - 1) * (both - own) - 2 * either) / n**2)

    def _of_features(self, layout: Layout) -> Estimation:
        found = yield from features_estimate(self, self.features)
        values, error = found.unbiased
        affordable = int((_MULTIPLICATIONS / (self.draws * layout.classes)) ** 0.5)
        size = min(_SAMPLE_ROWS, max(_FEWEST_SAMPLE_ROWS, affordable))
        sample = yield from self.sampled(size)
        statistic = found.rows * values
        pvalue = np.full(values.shape, np.nan)
        for b, g in zip(*np.nonzero(found.rows > 1), strict=True):
            if np.isfinite(statistic[b, g]):
                drawn = self._limit(found.kernel, sample.of(b, g, size).scores.astype(np.float64), b, g)
                pvalue[b, g] = (1 + (drawn >= statistic[b, g]).sum()) / (1 + self.draws)
        notes = {**found.notes, "approximation_error": said(error), "assumes": _CHI_SQUARE}
        return self._told(values, statistic, pvalue, None, notes)

    def _limit(self, kernel: PairKernel, scores: Array, b: int, g: int) -> Array:
        """Draws of (1 / m) sum over i != j of x_i^T k_ij x_j, with normal x_i that vary like calibrated residuals.

        For m sampled rows and the kernel that the features make.
        """
        rows, classes = scores.shape
        generator = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(rows, classes)))
        values = feature_kernels(kernel, scores, b, g, self.features, self.seed)
        values[:, np.arange(rows), np.arange(rows)] = 0.0
        root = np.sqrt(scores.clip(0.0))
        step = max(1, _NORMALS // scores.size)
        sums = []
        for start in range(0, self.draws, step):
            # Rows first, so that all draws are multiplied at once.
            normal = generator.standard_normal((rows, min(step, self.draws - start), classes)) * root[:, None]
            drawn = normal - scores[:, None] * (normal * root[:, None]).sum(axis=2, keepdims=True)
            total = np.zeros(drawn.shape[1])
            for term, between in zip(kernel.terms, values, strict=True):
                other = drawn if term.matrix is None else drawn @ term.matrix.values
                products = (between @ drawn.reshape(rows, -1)).reshape(drawn.shape)
                total += (products * other).sum(axis=(0, 2))
            sums.append(total / rows)
        return np.concatenate(sums)

    def _told(
        self, estimate: Array, statistic: Array, pvalue: Array, bound: Array | None, notes: dict[str, Any]
    ) -> Estimate:
        tested = "the model is calibrated" if self.delta is None else f"SKCE >= {self.delta:g}"
        notes = {**notes, "null_hypothesis": tested}
        parts = {"estimate": estimate, "statistic": statistic, "pvalue": pvalue}
        if bound is not None:
            parts["bound"] = bound
        return {name: Part(values, notes=notes) for name, values in parts.items()}

"""Tests of calibration by the squared kernel calibration error (SKCE)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import special
from typing_extensions import override

from calibdask.estimators.about import PVALUE, About, Description, PartInfo
from calibdask.estimators.checks import MOST_DRAWS, check_choice, check_whole
from calibdask.estimators.kernel.base import KernelTest, note_values
from calibdask.estimators.kernel.estimates import (
    BlockMoments,
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
from calibdask.statistics.pairs.features import feature_kernels
from calibdask.statistics.pairs.pair_kernel import PairKernel
from calibdask.statistics.request import Requests

__all__ = ["SKCETest"]

# Rows of the sample for the limit distribution; fewer with many draws or classes, to limit the time to seconds.
_SAMPLE_ROWS = 2000
_FEWEST_SAMPLE_ROWS = 100
_MULTIPLICATIONS = 1 << 35
# Normal variables that are stored at a time.
_NORMALS = 1 << 22

_BOUND = "rows are independent; holds for any number of rows, and is conservative"
_NORMAL = "rows are independent and blocks many: the mean of their estimates is approximately normal"
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
        An asymptotic p-value, or a bound that holds for any number of rows.
    estimator : {"unbiased", "biased", "linear", "block", "features"}
        As in `SKCE`. "biased" is distribution-free only, "features" asymptotic only.
    draws : int, default 1000
        Draws of the bootstrap or of the limit.
    ddof : int, default 1
        The variance of the estimates of blocks has the divisor blocks - ddof; the tables of [1]_ use 0.
    delta : float, optional
        Test SKCE >= delta instead: with bounds for unbiased, linear and block, asymptotically for linear and block.
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

    With 10**6 rows or more practically every model is rejected. Then test how large the error is, with ``delta``.

    Cost in addition to that of `SKCE`: for the bootstrap n**2 / 2 times ``draws`` multiplications, as products of
    matrices; its draws are keyed by the seed and the position of a row in its slice. For the features the predictions
    of a sample of 2000 rows (with many classes fewer): residuals are drawn from the normal distribution with the
    covariance diag(p) - p p^T of labels drawn from p, and their sum over pairs is a weighted sum of chi-square
    variables.

    Asymptotic p-values are too small where rows, or rows of an outcome, are few. In simulations a level of 5 % rejected
    10 to 13 % of calibrated models with 5 or 10 binary rows of uniform scores, 5 to 9 % with 50, and with the features
    12 % with 5000 rows of which 50 are positive. `ConsistencyTest` is valid for any number of rows.

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
                "delta expects estimator='linear' or 'block', or method='distribution-free' with 'unbiased': other "
                f"tests only have a distribution for calibrated models; got {self.estimator!r}, {self.method!r}."
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
                "SKCETest does not support sample_weight: its null distributions hold for unweighted rows."
            )
        if self.estimator in ("linear", "block"):
            return (yield from self._of_blocks(layout))
        if self.estimator == "features":
            return (yield from self._of_features(layout))
        return (yield from self._of_pairs(layout))

    def _of_blocks(self, layout: Layout) -> Requests[Estimate]:
        moments = yield from block_moments(self, layout, self.block or 2, self.max_pairs)
        if self.method == "distribution-free":
            return self._bounded(moments.mean, moments.blocks, moments.kernel, moments.notes)
        return self._normal(moments)

    def _normal(self, moments: BlockMoments) -> Estimate:
        error = moments.standard_error(self.ddof)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (moments.mean - (self.delta or 0.0)) / error
        pvalue = special.ndtr(-z if self.delta is None else z)
        bound = moments.mean + special.ndtri(self.level) * error
        return self._parts(moments.mean, z, pvalue, bound, {**moments.notes, "assumes": _NORMAL})

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
        pairs = yield from pair_estimates(self, layout, self.max_pairs)
        kernel, rows, notes = pairs.kernel, pairs.rows, pairs.notes
        if self.method == "distribution-free" and self.estimator == "unbiased":
            return self._bounded(pairs.unbiased, rows // 2, kernel, notes)
        if self.method == "distribution-free":
            root = np.sqrt(rows * np.maximum(pairs.biased, 0.0) / (2 * kernel.bound))
            pvalue = np.where(np.isnan(pairs.biased), np.nan, np.exp(-(np.maximum(root - 1, 0.0) ** 2) / 2))
            return self._parts(pairs.biased, pairs.biased, pvalue, None, {**notes, "assumes": _BOUND})
        drawn = yield from self._bootstrapped(kernel, rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = rows / (rows - 1) * pairs.unbiased - pairs.biased
            reached = (1 + (drawn >= statistic[..., None]).sum(axis=-1)) / (1 + self.draws)
            pvalue = np.where(np.isnan(statistic), np.nan, reached)
        return self._parts(pairs.unbiased, statistic, pvalue, None, {**notes, "assumes": _DEGENERATE})

    def _bootstrapped(self, kernel: PairKernel, rows: Counts) -> Requests[Array]:
        """Draws of the degenerate U-statistic, (batch, groups, draws)."""
        state = yield from PairDraws(kernel, FrozenArray(rows[0]), self.draws, self.seed)
        both, own, either = (kernel.bound * exact.value(words) for words in state)
        n = rows[..., None].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((n / (n - 1) * (both - own) - 2 * either) / n**2)

    def _of_features(self, layout: Layout) -> Requests[Estimate]:
        features = yield from features_estimate(self, self.features)
        values, error = features.unbiased
        affordable = int((_MULTIPLICATIONS / (self.draws * layout.classes)) ** 0.5)
        size = min(_SAMPLE_ROWS, max(_FEWEST_SAMPLE_ROWS, affordable))
        sample = yield from self.sampled(size)
        statistic = features.rows * values
        pvalue = np.full(values.shape, np.nan)
        for b, g in zip(*np.nonzero(features.rows > 1), strict=True):
            if np.isfinite(statistic[b, g]):
                drawn = self._limit(features.kernel, sample.of(b, g, size).scores.astype(np.float64), b, g)
                pvalue[b, g] = (1 + (drawn >= statistic[b, g]).sum()) / (1 + self.draws)
        notes = {**features.notes, "approximation_error": note_values(error), "assumes": _CHI_SQUARE}
        return self._parts(values, statistic, pvalue, None, notes)

    def _limit(self, kernel: PairKernel, scores: Array, b: int, g: int) -> Array:
        """Draws of (1 / m) sum over i != j of x_i^T k_ij x_j, x_i normal with the covariance of calibrated residuals.

        For m sampled rows and the kernel approximated by the features.
        """
        rows, classes = scores.shape
        generator = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(rows, classes)))
        values = feature_kernels(kernel, scores, b, g, self.features, self.seed)
        values[:, np.arange(rows), np.arange(rows)] = 0.0
        root = np.sqrt(scores.clip(0.0))
        step = max(1, _NORMALS // scores.size)
        sums = []
        for start in range(0, self.draws, step):
            # Rows are the first axis, so that one product serves all draws.
            normal = generator.standard_normal((rows, min(step, self.draws - start), classes)) * root[:, None]
            drawn = normal - scores[:, None] * (normal * root[:, None]).sum(axis=2, keepdims=True)
            total = np.zeros(drawn.shape[1])
            for term, between in zip(kernel.terms, values, strict=True):
                other = drawn if term.matrix is None else drawn @ term.matrix.values
                products = (between @ drawn.reshape(rows, -1)).reshape(drawn.shape)
                total += (products * other).sum(axis=(0, 2))
            sums.append(total / rows)
        return np.concatenate(sums)

    def _parts(
        self, estimate: Array, statistic: Array, pvalue: Array, bound: Array | None, notes: dict[str, Any]
    ) -> Estimate:
        tested = "the model is calibrated" if self.delta is None else f"SKCE >= {self.delta:g}"
        notes = {**notes, "null_hypothesis": tested}
        parts = {"estimate": estimate, "statistic": statistic, "pvalue": pvalue}
        if bound is not None:
            parts["bound"] = bound
        return {name: Number(values, notes=notes) for name, values in parts.items()}

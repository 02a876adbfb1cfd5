"""Vector scaling."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from calibdask.calibrators.base import Calibrator
from calibdask.calibrators.fitted import Numbers, Sliced
from calibdask.calibrators.mapping import BlockMap
from calibdask.calibrators.softmax.inverse_temperature import inverse_temperature
from calibdask.calibrators.softmax.softmax_fit import MOST_PAIRS, SoftmaxProblem
from calibdask.calibrators.softmax.softmax_map import SoftmaxMap
from calibdask.safe_text import listed
from calibdask.statistics import exact
from calibdask.statistics.exact import Array
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.outcome_sums import OutcomeSums
from calibdask.statistics.prefetch import Prefetch
from calibdask.statistics.request import Requests
from calibdask.statistics.temperature import TemperatureSums


class VectorScaling(Calibrator):
    """Vector scaling: q = softmax(coef * z + intercept), z the logarithms of the scores, by maximum likelihood.

    A coefficient and an intercept for each class. The logarithms are those of normalised scores: adding a constant to
    all logits of a row changes nothing, unlike in the original method on raw logits [1]_. For two classes (a vector of
    P(y = 1) or a matrix) it is beta calibration: sigmoid(a log p - b log(1 - p) + c).

    Parameters
    ----------
    tolerance : float, default 1e-4
        Maximum distance of the parameters from the maximum of the likelihood, in standard errors.
    max_passes : int, default 200
        Maximum number of passes over the data.
    logits : bool, default False
        Whether ``y_prob`` are logits.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (K,) or (slices, K)
        The parameters; intercepts sum to 0.
    coef_se_, intercept_se_ : of the same shape
        Their standard errors from the inverse of the Hessian (intercepts relative to their mean); with weights, for
        the effective number of rows. Up to 32 classes; NaN for more.
    converged_ : float, or ndarray of shape (slices,)
        Whether the tolerance was met.
    separated_ : of the same shape
        Whether the classes are separated, so that the likelihood has no maximum.
    absent_ : ndarray of shape (K,) or (slices, K)
        Classes without rows: their coefficients remain 1 / temperature, and their intercepts the mean of the others.
    passes_ : float
        Passes over the data, the first of them for the temperature.
    classes_ : ndarray of shape (K,)
    n_features_in_ : int

    Raises
    ------
    ValueError
        If labels or scores are invalid, or there is only one class.

    Warns
    -----
    UserWarning
        If the tolerance was not met, classes are separated, or some are absent. `StructuredScaling` always has a
        maximum.

    Notes
    -----
    The fit starts at temperature scaling. For up to 32 classes it uses Newton steps of one pass each, five or six in
    all; for more classes L-BFGS, preconditioned by the Hessian of each class, which takes some tens of passes. Slices
    are fitted in the same passes. The sums of a pass are exact, so without weights the parameters do not depend on
    chunks or workers. Memory: 32 K (K + 1) bytes for up to 32 classes, otherwise 80 K, for each slice and each block
    that is merged.

    References
    ----------
    .. [1] Guo, Pleiss, Sun & Weinberger, On calibration of modern neural networks, 2017, section 4.2.
    .. [2] Kull, Silva Filho & Flach, Beta calibration, 2017.

    Examples
    --------
    >>> import calibdask as cd
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(20_000, 3)) + [0.6, 0.0, 0.0]
    >>> gumbel = rng.gumbel(size=logits.shape)
    >>> scaling = cd.VectorScaling(logits=True).fit((logits - [0.6, 0, 0] + gumbel).argmax(1), logits)
    >>> scaling.intercept_.round(1)
    array([-0.3,  0.2,  0.1])
    """

    def __init__(self, *, tolerance: float = 1e-4, max_passes: int = 200, logits: bool = False) -> None:
        self.tolerance = tolerance
        self.max_passes = max_passes
        self.logits = logits

    def _requests(self) -> Requests[Numbers]:
        check_search(self.tolerance, self.max_passes)
        layout = yield from Layout()
        setting = layout.setting(1 if layout.classes == 2 else "classwise")
        yield from Prefetch(OutcomeSums(setting))
        state = yield from TemperatureSums()
        beta, _, bounded = inverse_temperature(state, layout.classes)
        sums = yield from OutcomeSums(setting)
        weights, outcomes = exact.value(sums.weight)[0], exact.value(sums.outcome)[0]
        absent = (outcomes if outcomes.shape[1] > 1 else np.concatenate([weights - outcomes, outcomes], -1)) <= 0
        # Where temperature scaling ends at its bound probabilities may be 0 and 1 for all rows, and steps with them.
        coefficients = np.where((bounded < 0)[:, None] & ~absent, 0.0, beta[:, None])
        start = np.concatenate([coefficients, np.zeros((len(beta), layout.classes))], 1)
        problem = SoftmaxProblem(
            layout,
            start,
            offset=np.zeros(layout.classes),
            penalty=np.zeros(start.shape),
            held=np.tile(absent, 2),
            tolerance=float(self.tolerance),
            max_passes=int(self.max_passes),
        )
        fit = yield from problem.solved()
        error = np.full(fit.coefficients.shape, np.nan)
        errors = [error, error]
        if layout.classes <= MOST_PAIRS:
            errors = [np.sqrt(fit.coefficient_variances), np.sqrt(fit.intercept_variances)]
        return {
            "coef": fit.coefficients,
            "intercept": fit.intercepts - fit.intercepts.mean(1, keepdims=True),
            "coef_se": np.where(absent, np.nan, errors[0]),
            "intercept_se": np.where(absent, np.nan, errors[1]),
            "converged": fit.converged,
            "separated": fit.separated,
            "absent": absent.astype(np.float64),
            "passes": np.full(beta.shape, 1.0 + fit.passes),
            "clip": np.full(beta.shape, layout.smallest_normal),
        }

    def _cautions(self, sliced: Sliced) -> Iterable[str]:
        numbers = sliced.numbers
        absent = np.flatnonzero((numbers["absent"] == 1).any(0)).tolist()
        if absent:
            shown = listed(absent[:10]) + (" and others" if len(absent) > 10 else "")
            yield f"classes {shown} have no rows; they keep the coefficient of temperature scaling (attribute absent_)."
        if (numbers["separated"] == 1).any():
            yield (
                "the scores separate the classes, so that the likelihood has no maximum; the parameters are where it "
                "is as good as 1 (attribute separated_). StructuredScaling has a penalty."
            )
        yield from not_converged(numbers["converged"], self.max_passes)

    def _map(self, numbers: Numbers) -> BlockMap:
        parameters = FrozenArray(numbers["coef"]), FrozenArray(numbers["intercept"])
        return SoftmaxMap(*parameters, float(numbers["clip"]))


def check_search(tolerance: Any, max_passes: Any) -> None:
    """Raise ValueError unless the limits of a search are positive numbers."""
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float | np.number) or not 0 < tolerance <= 1:
        raise ValueError(f"tolerance expects a number of standard errors above 0 and up to 1, got {tolerance!r}.")
    if isinstance(max_passes, bool) or not isinstance(max_passes, int | np.integer) or max_passes < 1:
        raise ValueError(f"max_passes expects a positive whole number, got {max_passes!r}.")


def not_converged(converged: Array, max_passes: int) -> Iterable[str]:
    """The caution where the tolerance was not met."""
    if (converged == 0).any():
        yield (
            f"the parameters did not come within the tolerance in {max_passes} passes or as far as rounding allows "
            "(attribute converged_); increase max_passes or tolerance."
        )

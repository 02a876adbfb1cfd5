"""Structured scaling: vector and matrix scaling with penalties that fade with the number of rows."""

from collections.abc import Iterable
from typing import Literal

import numpy as np

from calibdask.calibrators.base import Calibrator
from calibdask.calibrators.fitted import Numbers, Sliced
from calibdask.calibrators.mapping import BlockMap
from calibdask.calibrators.softmax.inverse_temperature import inverse_temperature
from calibdask.calibrators.softmax.softmax_fit import SoftmaxProblem
from calibdask.calibrators.softmax.softmax_map import SoftmaxMap
from calibdask.calibrators.softmax.vector import check_search, not_converged
from calibdask.statistics import exact
from calibdask.statistics.exact import Array
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.temperature import TemperatureSums

# More classes have too many sums of a matrix: 16 K**2 bytes for each slice, and 128 K**2 for each block.
MOST_CLASSES = 128


class StructuredScaling(Calibrator):
    """Structured scaling: q = softmax(W z + b) near the identity, after temperature scaling.

    ::

        z = log((1 - m) softmax(log(p) / temperature) + m / K),    m = 1 / (n + 1)
        minimise  mean(-log q_y) + (K |diag(W) - 1|**2 + K |b|**2 + K (K - 1) |off-diagonal W|**2) / n

    With ``form="vector"`` (SVS) W has only a diagonal, with ``"matrix"`` (SMS) all entries. The penalty keeps
    parameters that n rows do not determine close to temperature scaling, so a maximum always exists; it fades as n
    grows.

    Parameters
    ----------
    form : {"vector", "matrix"}, default "vector"
        ``"matrix"`` for up to 128 classes.
    tolerance : float, default 1e-4
        Maximum distance of the parameters from the minimum, in standard errors.
    max_passes : int, default 200
        Maximum number of passes over the data.
    logits : bool, default False
        Whether ``y_prob`` are logits.

    Attributes
    ----------
    temperature_ : float, or ndarray of shape (slices,)
        The temperature of the first step.
    coef_ : ndarray of shape (K,), (K, K), (slices, K) or (slices, K, K)
        The diagonal of W, or W.
    intercept_ : ndarray of shape (K,) or (slices, K)
        b; sums to 0.
    mixed_ : float, or ndarray of shape (slices,)
        m. With weights n is their sum.
    converged_ : of the same shape
        Whether the tolerance was met.
    passes_ : float
        Passes over the data, the first of them for the temperature.
    classes_ : ndarray of shape (K,)
    n_features_in_ : int

    Raises
    ------
    ValueError
        If labels or scores are invalid, there is only one class, or a matrix would have more than 128 classes.

    Warns
    -----
    UserWarning
        If the tolerance was not met.

    Notes
    -----
    The fit uses Newton steps for a diagonal of up to 32 classes, and L-BFGS otherwise; each step is one pass for all
    slices. Sums are exact: without weights the parameters do not depend on chunks or workers. Memory for each slice and
    each block that is merged: 32 K (K + 1) bytes for up to 32 classes, otherwise 80 K; for a matrix 16 K**2. There are
    no standard errors: the penalty biases parameters by as much as they scatter.

    References
    ----------
    .. [1] Berta, Holzmüller, Jordan & Bach, Structured matrix scaling for multi-class calibration, 2025.

    Examples
    --------
    >>> import calibdask as cd
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(20_000, 3)) + [0.6, 0.0, 0.0]
    >>> gumbel = rng.gumbel(size=logits.shape)
    >>> scaling = cd.StructuredScaling(logits=True).fit((logits - [0.6, 0, 0] + gumbel).argmax(1), logits)
    >>> scaling.intercept_.round(1)
    array([-0.3,  0.2,  0.1])
    """

    def __init__(
        self,
        *,
        form: Literal["vector", "matrix"] = "vector",
        tolerance: float = 1e-4,
        max_passes: int = 200,
        logits: bool = False,
    ) -> None:
        self.form = form
        self.tolerance = tolerance
        self.max_passes = max_passes
        self.logits = logits

    def _requests(self) -> Requests[Numbers]:
        check_search(self.tolerance, self.max_passes)
        if self.form not in ("vector", "matrix"):
            raise ValueError(f"form expects 'vector' or 'matrix', got {self.form!r}.")
        layout = yield from Layout()
        classes = layout.classes
        if self.form == "matrix" and classes > MOST_CLASSES:
            raise ValueError(
                f"form='matrix' expects up to {MOST_CLASSES} classes, got {classes}; use form='vector', which has "
                "two parameters for each class."
            )
        state = yield from TemperatureSums()
        beta = inverse_temperature(state, classes).beta
        weight = exact.value(state.weight)[0]
        mixed = 1 / (weight + 1)
        penalty, identity = _structure(classes, self.form)
        with np.errstate(divide="ignore"):
            penalties = penalty / weight[:, None]
        start = np.where(np.isnan(beta)[:, None], np.nan, np.zeros(penalties.shape))
        problem = SoftmaxProblem(
            layout,
            start,
            offset=identity,
            penalty=penalties,
            held=np.zeros(start.shape, np.bool_),
            tempering=FrozenArray(np.stack([np.nan_to_num(beta, nan=1.0), mixed], 1)),
            tolerance=float(self.tolerance),
            max_passes=int(self.max_passes),
        )
        fit = yield from problem.solved()
        shape = (-1, classes, classes) if self.form == "matrix" else (-1, classes)
        return {
            "temperature": 1 / beta,
            "coef": fit.coefficients.reshape(shape),
            "intercept": fit.intercepts,
            "mixed": mixed,
            "converged": fit.converged,
            "passes": np.full(beta.shape, 1.0 + fit.passes),
            "clip": np.full(beta.shape, layout.smallest_normal),
        }

    def _cautions(self, sliced: Sliced) -> Iterable[str]:
        return not_converged(sliced.numbers["converged"], self.max_passes)

    def _map(self, numbers: Numbers) -> BlockMap:
        parameters = FrozenArray(numbers["coef"]), FrozenArray(numbers["intercept"])
        tempering = float(1 / numbers["temperature"]), float(numbers["mixed"])
        return SoftmaxMap(*parameters, float(numbers["clip"]), tempering)


def _structure(classes: int, form: str) -> tuple[Array, Array]:
    """Weights of the squares of all parameters, times n, and the identity."""
    if form == "vector":
        return np.full(2 * classes, float(classes)), np.ones(classes)
    identity = np.eye(classes)
    of_matrix = classes * np.where(identity == 1, 1.0, classes - 1.0)
    return np.append(of_matrix.ravel(), np.full(classes, float(classes))), identity.ravel()

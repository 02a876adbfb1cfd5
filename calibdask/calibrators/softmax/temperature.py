"""Temperature scaling."""

from collections.abc import Iterable

import numpy as np

from calibdask.calibrators.base import Calibrator
from calibdask.calibrators.fitted import Numbers, Sliced
from calibdask.calibrators.mapping import BlockMap
from calibdask.calibrators.softmax.inverse_temperature import inverse_temperature
from calibdask.calibrators.softmax.softmax_map import SoftmaxMap
from calibdask.statistics import exact
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.temperature import NODES, TemperatureSums


class TemperatureScaling(Calibrator):
    """Temperature scaling: q = softmax(z / temperature), z the logarithms of the scores, by maximum likelihood.

    Logits and the logarithms of their softmax differ by a constant in each row, which cancels in the softmax, so the
    temperature is the same for both. A vector of P(y = 1) is treated as the two columns 1 - p and p.

    Parameters
    ----------
    logits : bool, default False
        Whether ``y_prob`` are logits.

    Attributes
    ----------
    temperature_ : float, or ndarray of shape (slices,)
        Above 1 if scores are overconfident.
    temperature_se_ : float, or ndarray of shape (slices,)
        Its standard error, from the second derivative of the likelihood; with weights, for the effective number of
        rows. NaN if there is no maximum.
    bounded_ : of the same shape
        1 if the likelihood has no maximum for temperatures between 1/8 and 8 and grows towards 8, -1 if it grows
        towards 1/8, and 0 otherwise.
    clipped_rows_ : of the same shape
        Number of rows with a score below the smallest normal number of its type; these scores are clipped at that
        number before taking the logarithm.
    classes_ : ndarray of shape (K,)
    n_features_in_ : int

    Raises
    ------
    ValueError
        If labels or scores are invalid, or there is only one class.

    Warns
    -----
    UserWarning
        If the likelihood has no maximum between 1/8 and 8, for instance because all predictions are right: the
        temperature is set to that end of the range. If all scores of each row are equal: the temperature is 1.

    Notes
    -----
    One pass, 1 kB for each slice: the derivative of the logarithmic score in log beta = -log(temperature), and its own
    derivative, are summed over rows at 25 values of beta; the root is found on the polynomial through ten of them. The
    sums are exact, so without weights the temperature does not depend on chunks or workers. Compared with minimisation
    on the rows, the relative error of the temperature is 1e-12 for ten classes and 1e-10 for a thousand; at worst 4e-8,
    if a thousand classes share one score and all rows are identical.

    References
    ----------
    .. [1] Guo, Pleiss, Sun & Weinberger, On calibration of modern neural networks, 2017, section 4.2.

    Examples
    --------
    >>> import calibdask as cd
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(20_000, 3))
    >>> gumbel = rng.gumbel(size=logits.shape)
    >>> scaling = cd.TemperatureScaling(logits=True).fit((logits + gumbel).argmax(1), 2 * logits)
    >>> round(float(scaling.temperature_), 1)
    2.0
    """

    def __init__(self, *, logits: bool = False) -> None:
        self.logits = logits

    def _requests(self) -> Requests[Numbers]:
        layout = yield from Layout()
        state = yield from TemperatureSums()
        beta, curvature, bounded = inverse_temperature(state, layout.classes)
        # What the weights are worth in rows.
        with np.errstate(invalid="ignore", divide="ignore"):
            rows = exact.value(state.weight)[0] ** 2 / exact.value(state.square)[0]
            error = 1 / (np.sqrt(rows * curvature) * beta**2)
        return {
            "temperature": 1 / beta,
            "temperature_se": error,
            # Of temperatures: the other end than of beta.
            "bounded": -bounded + 0.0,
            "clipped_rows": state.clipped[0].astype(np.float64),
            "clip": np.full(beta.shape, layout.smallest_normal),
        }

    def _cautions(self, sliced: Sliced) -> Iterable[str]:
        temperature, bounded = sliced.numbers["temperature"], sliced.numbers["bounded"]
        if (bounded != 0).any():
            end = f"{NODES[0]:g}" if (bounded < 0).any() else f"{1 / NODES[0]:g}"
            yield (
                "the likelihood has no maximum for temperatures between 1/8 and 8, as where all predictions are right "
                f"or worse than chance; the temperature is the end of the range, {end} (attribute bounded_)."
            )
        if ((temperature == 1) & np.isnan(sliced.numbers["temperature_se"])).any():
            yield "the scores of every row are equal, so that no temperature changes them; it is 1."

    def _map(self, numbers: Numbers) -> BlockMap:
        # A temperature is as good for any number of classes: the one coefficient stands for all.
        coefficients, intercepts = FrozenArray(1 / numbers["temperature"].reshape(1)), FrozenArray(np.zeros(1))
        return SoftmaxMap(coefficients, intercepts, float(numbers["clip"]))

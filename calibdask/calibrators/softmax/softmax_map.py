"""The map softmax(W z + b) of log scores."""

from dataclasses import dataclass

import numpy as np

from calibdask.statistics.exact import Array
from calibdask.statistics.frozen import FrozenArray


@dataclass(frozen=True)
class SoftmaxMap:
    """softmax(W z + b); z = log p, with p clipped at ``clip``, or log((1 - m) softmax(beta log p) + m / K).

    Parameters
    ----------
    coefficients : FrozenArray of shape (K,) or (K, K)
        The diagonal of W, or W.
    intercepts : FrozenArray of shape (K,)
    clip : float
    tempering : (beta, m), optional
    """

    coefficients: FrozenArray
    intercepts: FrozenArray
    clip: float
    tempering: tuple[float, float] | None = None

    def __call__(self, scores: Array) -> Array:
        """Calibrated scores of the shape of the scores."""
        matrix = scores if scores.ndim == 2 else np.stack([1 - scores, scores], -1)
        z = np.log(np.maximum(matrix, self.clip))
        if self.tempering is not None:
            beta, mixed = self.tempering
            z = np.log((1 - mixed) * _softmax(beta * z) + mixed / z.shape[1])
        w = self.coefficients.values
        # Not by BLAS, whose rounding of a row depends on how many there are.
        scaled = np.einsum("nd,cd->nc", z, w) if w.ndim == 2 else z * w
        values = _softmax(scaled + self.intercepts.values)
        return values if scores.ndim == 2 else values[:, 1]


def _softmax(values: Array) -> Array:
    powers = np.exp(values - values.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True), np.float64)

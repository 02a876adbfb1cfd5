"""The true expected calibration error of the models of `experiments.skce_tests.data`."""

import numpy as np
from scipy import special

from experiments.skce_tests.data import CONCENTRATION, MODELS


def true_ece(model: str, classes: int) -> float:
    """Expected total variation distance of prediction p and distribution r(p) of the labels.

    M1: r(p) = p, so 0. M2: r(p) - p = (e_1 - p) / 2, so E[1 - p_1] / 2 = (m - 1) / (2 m) with m classes. M3: every
    r(p)_c = 1/m, so m E[max(p_1 - 1/m, 0)]; with p_1 from Beta(a, (m - 1) a), a the concentration, this is
    I(a) - I(a + 1) for the regularised incomplete beta functions I(b) = I_{1/m}(b, (m - 1) a), or

        (1/m)^a (1 - 1/m)^((m - 1) a) / (a B(a, (m - 1) a)).
    """
    if model not in MODELS:
        raise ValueError(f"model expects one of {', '.join(MODELS)}, got {model!r}.")
    if model == "M1":
        return 0.0
    if model == "M2":
        return (classes - 1) / (2 * classes)
    rest = (classes - 1) * CONCENTRATION
    powers = -CONCENTRATION * np.log(classes) + rest * np.log1p(-1 / classes)
    return float(np.exp(powers - np.log(CONCENTRATION) - special.betaln(CONCENTRATION, rest)))

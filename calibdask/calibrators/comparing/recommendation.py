"""The recommended calibrator and the reason, in a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibdask.calibrators.comparing.improvement import LossMeans
from calibdask.inference.multiplicity import holm
from calibdask.safe_text import listed
from calibdask.statistics.exact import Array

_MOST_NAMES = 3


@dataclass(frozen=True)
class Recommendation:
    """The calibrator to take, or "none", and the reason."""

    best: str
    reason: str

    @classmethod
    def of(cls, names: Sequence[str], means: LossMeans, adjusted: Array, level: float) -> "Recommendation":
        """The first that helps and is not significantly worse than the largest improvement.

        ``adjusted``: p-values of no improvement, adjusted for all calibrators; NaN where there are none.
        """
        gains = [means.improvement("log", model) for model in range(len(names))]
        value = np.array([gain.value[0, 0] for gain in gains])
        order = np.argsort(-value, kind="stable").tolist()
        if not np.isfinite(adjusted).any():
            return cls("none", "There are too few rows of one outcome to decide whether a calibrator helps.")
        helps = [model for model in range(len(names)) if value[model] > 0 and adjusted[model] < 1 - level]
        loss = float(means.before("log").value[0, 0])
        if not helps:
            top = order[0]
            low, high = (float(end[0, 0]) for end in gains[top].ends(level))
            digits = _digits(low, high)
            return cls(
                "none",
                f"No single map for all rows is significantly better: the best, {names[top]}, improves the log loss of "
                f"{loss:{digits}} by {value[top]:{digits}} ({low:{digits}} to {high:{digits}}).",
            )
        top = max(helps, key=lambda model: (value[model], -model))
        others = [model for model in range(len(names)) if model != top]
        worse = holm(np.array([means.advantage("log", top, model).pvalue[0, 0] for model in others]))
        equal = {top, *(model for model, p in zip(others, worse.tolist(), strict=True) if not p < 1 - level)}
        taken = next(model for model in helps if model in equal)
        low, high = (float(end[0, 0]) for end in gains[taken].ends(level))
        digits = _digits(low, high)
        reason = (
            f"{names[taken]} lowers the log loss by {value[taken]:{digits}} ({low:{digits}} to {high:{digits}}), from "
            f"{loss:{digits}} to {loss - value[taken]:{digits}}"
        )
        no_better = [names[model] for model in order if model in equal and model != taken and value[model] > 0]
        inferior = [names[model] for model in order if model not in equal]
        if no_better:
            reason += f"; {_counted(no_better)} not significantly better"
        if inferior:
            reason += f"; {_counted(inferior)} worse than {names[top]}"
        return cls(names[taken], f"{reason}.")


def _counted(names: Sequence[str]) -> str:
    """Names, a few of them, with the verb that follows."""
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{listed(names)} are" if len(names) <= _MOST_NAMES else f"{len(names)} others are"


def _digits(low: float, high: float) -> str:
    """The format that shows two digits of the width of an interval."""
    width = max(high - low, 1e-12)
    return f".{int(np.clip(1 - np.floor(np.log10(width)), 1, 12))}f"

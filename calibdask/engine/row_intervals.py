"""Intervals from replicates of the rows, for numbers that no histogram of the scores tells."""

from dataclasses import dataclass

import numpy as np

from calibdask.engine.intervals import percentiles
from calibdask.estimators.estimator import Estimate, Estimation, Estimator, Part
from calibdask.statistics.poisson_weights import PoissonWeights
from calibdask.statistics.views import seen_through

__all__ = ["Replicated", "row_ends"]


@dataclass(frozen=True)
class Replicated(Estimator):
    """An estimator of bootstrap replicates of the rows, in the pass of the metrics.

    Raises
    ------
    ValueError
        If the estimator takes no weights.
    """

    estimator: Estimator
    n_boot: int
    seed: int

    def __post_init__(self) -> None:
        if not self.estimator.weighs:
            raise ValueError(
                f"ci resamples rows by weights, and {self.estimator!r} takes none; evaluate it without ci."
            )

    def estimate(self) -> Estimation:
        """The values of all replicates, along the batch axis."""
        return seen_through(PoissonWeights(self.n_boot, self.seed), self.estimator.replicated().estimate())


def row_ends(estimate: Estimate, replicates: Estimate, level: float, n_boot: int) -> dict[str, Part]:
    """Percentiles of replicates at a level, as parts ``low`` and ``high`` after the name of the part they belong to."""
    found = {}
    for name, part in estimate.items():
        if part.role != "number":
            continue
        values = np.reshape(replicates[name].values, (n_boot, *part.values.shape))
        low, _, high = percentiles(values, level)
        for end, limit in (("low", low), ("high", high)):
            found[f"{name}_{end}".removeprefix("_")] = Part(limit, part.dims)
    return found

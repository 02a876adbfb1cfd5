"""Clustered rows with known dependence, and oracles that resample whole clusters in a loop."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Statistic = Callable[[NDArray[Any], NDArray[Any]], float]


@dataclass(frozen=True)
class ClusteredRows:
    """Labels, scores and the cluster of each row."""

    y: NDArray[np.int64]
    p: NDArray[np.float64]
    g: NDArray[np.int64]

    def bootstrap(self, statistic: Statistic, replicates: int = 1000, seed: int = 0) -> NDArray[np.float64]:
        """Values of a statistic of (y, p) in resamples of the clusters."""
        rng = np.random.default_rng(seed)
        members = [np.flatnonzero(self.g == value) for value in np.unique(self.g)]
        values = []
        for _ in range(replicates):
            rows = np.concatenate([members[i] for i in rng.integers(0, len(members), len(members))])
            values.append(statistic(self.y[rows], self.p[rows]))
        return np.array(values)

    def sandwich(self, contributions: NDArray[np.float64]) -> float:
        """Standard error of the mean of contributions from sums by cluster, with the factor G / (G - 1)."""
        centred = contributions - contributions.mean()
        sums = np.array([centred[self.g == value].sum() for value in np.unique(self.g)])
        count = len(sums)
        return float(np.sqrt(count / (count - 1) * (sums**2).sum()) / contributions.size)

    @property
    def equivalent(self) -> float:
        """Equal clusters whose residuals determine a variance as well, 2 G / (kurtosis - 1), or worth as much."""
        residual = self.y - self.p - (self.y - self.p).mean()
        members = [self.g == value for value in np.unique(self.g)]
        sums, sizes = np.array([residual[rows].sum() for rows in members]), np.array([rows.sum() for rows in members])
        kurtosis = len(sums) * (sums**4).sum() / (sums**2).sum() ** 2
        return float(min(2 * len(sums) / (kurtosis - 1), sizes.sum() ** 2 / (sizes**2).sum()))


def clustered_rows(clusters: int = 60, size: int = 30, spread: float = 1.0, seed: int = 0) -> ClusteredRows:
    """Rows whose logits share a normal effect within each cluster."""
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(clusters), rng.integers(1, 2 * size, clusters))
    logit = rng.normal(size=clusters)[g] + rng.normal(size=g.size)
    p = 1 / (1 + np.exp(-logit))
    y = rng.random(g.size) < 1 / (1 + np.exp(-(logit + spread * rng.normal(size=clusters)[g])))
    return ClusteredRows(y.astype(int), p, g)

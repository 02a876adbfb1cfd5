"""Rows of a source before they become a block: arrays whose last axis is the samples, except for scores."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.kernels.logits import sigmoid, softmax
from calibdask.statistics.block import NO_GROUPS, Block
from calibdask.statistics.layout import Layout


@dataclass(frozen=True)
class Rows:
    """Scores (batch, n, K), for a vector of P(y = 1) (batch, n, 1); labels, weights (1 or batch, n); groups (n,).

    ``features``: further columns of any type, (n,) each. ``clusters``: numbers of the clusters, (n,).
    ``excluded``: counts of rows that were left out here.
    """

    scores: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    weights: npt.NDArray[Any] | None = None
    group: npt.NDArray[Any] | None = None
    features: tuple[npt.NDArray[Any], ...] = ()
    excluded: npt.NDArray[np.int64] | None = None
    clusters: npt.NDArray[np.int64] | None = None

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.scores.shape[1]

    @property
    def width(self) -> int:
        """Number of scores in a row."""
        return self.scores.shape[2]

    def part(self, start: int, stop: int) -> "Rows":
        """Rows from start to before stop."""
        return Rows(
            self.scores[:, start:stop],
            self.labels[:, start:stop],
            None if self.weights is None else self.weights[:, start:stop],
            None if self.group is None else self.group[start:stop],
            tuple(feature[start:stop] for feature in self.features),
            None if start else self.excluded,
            None if self.clusters is None else self.clusters[start:stop],
        )

    def where(self, keep: npt.NDArray[np.bool_]) -> "Rows":
        """The rows that ``keep`` (n,) marks."""
        return Rows(
            self.scores[:, keep],
            self.labels[:, keep],
            None if self.weights is None else self.weights[:, keep],
            None if self.group is None else self.group[keep],
            tuple(feature[keep] for feature in self.features),
            clusters=None if self.clusters is None else self.clusters[keep],
        )


def make_block(rows: Rows, layout: Layout, start: int, before: npt.NDArray[np.int64] | None = None) -> Block:
    """Rows in the types and the memory order that kernels expect; copied only where these differ.

    ``start`` and ``before`` are those of the block.

    Raises
    ------
    ValueError
        If the arrays have different numbers of rows.
    """
    n = rows.count
    lengths = {"y_true": rows.labels.shape[-1]}
    if rows.weights is not None:
        lengths["sample_weight"] = rows.weights.shape[-1]
    if rows.group is not None:
        lengths["by"] = rows.group.shape[-1]
    if rows.clusters is not None:
        lengths["groups"] = rows.clusters.shape[-1]
    if rows.features:
        lengths["features"] = next((len(column) for column in rows.features if len(column) != n), n)
    for name, length in lengths.items():
        if length != n:
            raise ValueError(
                f"y_prob and {name} expect equally many rows; in one block "
                f"y_prob has {n} and {name} {length}. Give them the same chunks along the sample axis."
            )
    like_probabilities = None
    if layout.logits:
        scores, like_probabilities = _probabilities(rows.scores, layout)
    else:
        scores = np.ascontiguousarray(rows.scores, layout.dtype)
    weights = None if rows.weights is None else np.ascontiguousarray(rows.weights, np.float64)
    group = NO_GROUPS if rows.group is None else np.ascontiguousarray(rows.group, np.int32)
    if group.size and (group.min() < 0 or group.max() >= layout.groups):
        raise ValueError("by expects the same values in every pass over the data; they changed between two passes.")
    return Block(
        layout,
        scores,
        rows.labels,
        weights,
        group,
        start,
        before,
        features=rows.features,
        clusters=None if rows.clusters is None else np.ascontiguousarray(rows.clusters, np.int64),
        excluded=rows.excluded,
        like_probabilities=like_probabilities,
    )


def _probabilities(logits: npt.NDArray[Any], layout: Layout) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Scores from logits, the softmax of each row or the sigmoid of P(y = 1); and how many look like probabilities."""
    scores = np.array(logits, np.float64, order="C", copy=True)
    counts = [sigmoid(element.reshape(-1)) if layout.vector else softmax(element) for element in scores]
    return scores, np.array(counts, np.int64)

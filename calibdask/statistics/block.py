"""One block of rows in the form that all statistics take."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.kernels import label_sets, top
from calibdask.kernels.labels import Labels
from calibdask.statistics.frozen import read_only
from calibdask.statistics.layout import Layout
from calibdask.statistics.observed_labels import ObservedLabels
from calibdask.statistics.settings import Setting

NO_GROUPS = read_only(np.zeros(0, np.int32))
_NO_WEIGHTS = read_only(np.zeros(0))


@dataclass(frozen=True)
class Columns:
    """Scores (1 or batch, n, columns); column c has outcome 1 where the label (1 or batch, n) is first_class + c."""

    scores: npt.NDArray[np.floating]
    labels: ObservedLabels
    first_class: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", read_only(self.scores))

    def of(self, b: int) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.int64]]:
        """Scores (n, columns) and labels (n,) of batch element b."""
        return self.scores[b % len(self.scores)], self.labels.of(b)

    def packed_of(self, b: int) -> tuple[npt.NDArray[np.floating], Labels]:
        """Scores and packed labels of batch element b; kernels read the labels in place."""
        return self.scores[b % len(self.scores)], self.labels.packed_of(b)

    def column(
        self, b: int, c: int, index: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Scores, clipped to [0, 1], and outcomes of some rows in column c of batch element b."""
        scores, labels = self.of(b)
        clipped = np.nan_to_num(scores[index, c].astype(np.float64)).clip(0.0, 1.0)
        return clipped, labels[index] == self.first_class + c


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows, normalised: the only form of data that statistics see, who cannot write to the arrays.

    Attributes
    ----------
    layout : Layout
        Shape of the whole data.
    scores : ndarray of float32 or float64, shape (1 or batch, n, K)
        C-contiguous; (1 or batch, n, 1) for a vector of P(y = 1).
    labels : ndarray, shape (1 or batch, n)
        As given: integers, booleans, or floats that should be whole numbers.
    weights : ndarray of float64, shape (1 or batch, n), or None
        Sample weights; a row of weight 0 does not count.
    group : ndarray of int32, shape (n,)
        Slice of each row, or an empty array where there is one slice.
    start : int
        Global number of the first row; where the source does not know it yet, a position that it can turn into one.
        For ``ordered`` statistics sources know it.
    before : ndarray of int64, shape (groups,), or None
        For ``ordered`` statistics: rows of each slice in earlier blocks.
    numbers : ndarray of int64, shape (n,), or None
        Key of the random numbers of each row, where it is not its global number.
    features : tuple of ndarray, shape (n,) each
        Further columns of any type, which audits describe segments by.
    clusters : ndarray of int64, shape (n,), or None
        Number of the cluster of each row: a hash, the same wherever a row of the cluster is.
    excluded : ndarray of int64 or None
        Counts of rows that the source left out here, by `calibdask.statistics.validity.EXCLUDED`.
    like_probabilities : ndarray of int64, shape (1 or batch,), or None
        Of logits: the rows that lie in [0, 1] and sum to 1.
    """

    layout: Layout
    scores: npt.NDArray[np.floating]
    labels: npt.NDArray[np.generic]
    weights: npt.NDArray[np.float64] | None = None
    group: npt.NDArray[np.int32] = field(default_factory=lambda: NO_GROUPS)
    start: int = 0
    before: npt.NDArray[np.int64] | None = None
    numbers: npt.NDArray[np.int64] | None = None
    features: tuple[npt.NDArray[Any], ...] = ()
    clusters: npt.NDArray[np.int64] | None = None
    excluded: npt.NDArray[np.int64] | None = None
    like_probabilities: npt.NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for name in ("scores", "labels", "weights", "group"):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, read_only(array))

    def part(self, start: int, stop: int) -> "Block":
        """Rows from start to before stop."""
        here = slice(start, stop)
        before = self.before
        if before is not None:
            earlier = self.group[:start] if self.group.size else np.zeros(min(start, self.rows), np.int32)
            before = before + np.bincount(earlier, minlength=self.layout.groups)
        return replace(
            self,
            scores=self.scores[:, here],
            labels=self.labels[:, here],
            weights=None if self.weights is None else self.weights[:, here],
            group=self.group[here] if self.group.size else self.group,
            start=self.start + start,
            before=before,
            numbers=None if self.numbers is None else self.numbers[here],
            features=tuple(feature[here] for feature in self.features),
            clusters=None if self.clusters is None else self.clusters[here],
            excluded=None,
            like_probabilities=None,
        )

    @cached_property
    def row_numbers(self) -> npt.NDArray[np.int64]:
        """Key of the random numbers of each row."""
        return self.start + np.arange(self.rows) if self.numbers is None else self.numbers

    @cached_property
    def ranks(self) -> npt.NDArray[np.int64]:
        """Rank of each row within its slice, counted from the first block; for ordered statistics."""
        if self.before is None:
            raise ValueError("Ranks of rows are available only to statistics whose property `ordered` is True.")
        if not self.group.size:
            return np.arange(self.rows) + int(self.before[0])
        ranks = np.empty(self.rows, np.int64)
        order = np.argsort(self.group, kind="stable")
        counts = np.bincount(self.group, minlength=self.layout.groups)
        ranks[order] = np.arange(self.rows) - np.repeat(np.cumsum(counts) - counts, counts)
        return ranks + self.before[self.group]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.scores.shape[1]

    @cached_property
    def observed(self) -> ObservedLabels:
        """Labels in the forms that kernels take them in."""
        return ObservedLabels(self.labels)

    @property
    def codes(self) -> npt.NDArray[np.int64]:
        """Labels as int64, (1 or batch, n)."""
        return self.observed.codes

    @cached_property
    def matrix(self) -> npt.NDArray[np.floating]:
        """Scores with all their classes: a vector of P(y = 1) becomes (1 - p, p)."""
        if not self.layout.vector:
            return self.scores
        # In float64: 1 - p of a float32 p would be rounded.
        positive = self.scores.astype(np.float64)
        return read_only(np.concatenate([1.0 - positive, positive], axis=-1))

    @cached_property
    def strata(self) -> list[tuple[int, int, npt.NDArray[np.int64]]]:
        """Batch element, slice and numbers of the rows of positive weight, of every stratum that has any.

        A stratum is a slice of one batch element.
        """
        strata = []
        order = np.argsort(self.group, kind="stable") if self.group.size else np.arange(self.rows)
        group = self.group[order] if self.group.size else np.zeros(self.rows, np.int32)
        for b in range(self.layout.batch):
            counts = self.weights_of(b)[order] > 0 if self.weights is not None else slice(None)
            rows, groups = order[counts], group[counts]
            ends = np.flatnonzero(np.diff(groups)) + 1
            parts = zip(np.split(rows, ends), groups[np.r_[0, ends]], strict=True) if rows.size else ()
            strata += [(b, int(g), part) for part, g in parts]
        return strata

    @cached_property
    def _strata_of(self) -> dict[int, list[tuple[int, npt.NDArray[np.int64]]]]:
        strata: dict[int, list[tuple[int, npt.NDArray[np.int64]]]] = {}
        for b, g, index in self.strata:
            strata.setdefault(b, []).append((g, index))
        return strata

    @property
    def stratum_rows(self) -> npt.NDArray[np.int64]:
        """Rows of positive weight of every stratum, (batch, groups)."""
        if self.weights is None:
            of_groups = np.bincount(self.group, minlength=self.layout.groups) if self.group.size else self.rows
            return np.full((self.layout.batch, self.layout.groups), of_groups, np.int64)
        rows = np.zeros((self.layout.batch, self.layout.groups), np.int64)
        for b, g, index in self.strata:
            rows[b, g] = index.size
        return rows

    def strata_of(self, b: int) -> list[tuple[int, npt.NDArray[np.int64]]]:
        """Slice and numbers of the rows of positive weight, of every stratum of batch element b."""
        return self._strata_of.get(b, [])

    def strata_shared_with(
        self, other: "Block"
    ) -> Iterator[tuple[int, int, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Batch element, slice and numbers of the rows in either block, of every stratum that both have."""
        there = {(b, g): index for b, g, index in other.strata}
        return ((b, g, index, there[b, g]) for b, g, index in self.strata if (b, g) in there)

    @cached_property
    def prepared(self) -> dict[Any, Any]:
        """Results that statistics keep for their further calls on this block."""
        return {}

    @cached_property
    def viewed(self) -> "dict[Any, Block]":
        """The block as seen through lenses."""
        return {}

    @cached_property
    def _columns(self) -> dict[Setting, Columns]:
        return {}

    def columns(self, setting: Setting) -> Columns:
        """The (score, outcome) columns of a setting; computed once a block."""
        if setting not in self._columns:
            self._columns[setting] = self._make_columns(setting)
        return self._columns[setting]

    def _make_columns(self, setting: Setting) -> Columns:
        if setting.kind == "classwise":
            return Columns(self.matrix, self.observed, 0)
        if setting.kind == "class":
            if self.layout.vector and setting.index == 1:
                return Columns(self.scores, self.observed, 1)
            chosen = self.matrix[..., setting.index : setting.index + 1]
            return Columns(np.ascontiguousarray(chosen), self.observed, setting.index)
        if setting.kind in ("confidence", "top-k"):
            return self._largest(setting)
        if setting.kind == "label":
            return self._of_labels()
        raise ValueError(f"The setting {setting} has no columns of scores; this estimator expects one that has.")

    def _largest(self, setting: Setting) -> Columns:
        batch, n, _ = self.matrix.shape
        largest = np.empty((batch, n, 1), self.matrix.dtype if setting.kind == "confidence" else np.float64)
        hits = np.empty((max(batch, len(self.observed)), n), np.uint8)
        for b in range(len(hits)):
            scores, labels, into = self.matrix_of(b), self.observed.packed_of(b), largest[b % batch, :, 0]
            if setting.kind == "confidence":
                classes = np.empty(n if scores.shape[1] < top.MANY else 0, np.uint8)
                self._extremes.append(top.top_class(scores, labels, into, hits[b], classes))
                self._predicted.append(classes)
            else:
                top.top_k(scores, labels, setting.index, into, hits[b])
        return Columns(largest, ObservedLabels(hits), 1)

    def _of_labels(self) -> Columns:
        batch = max(len(self.scores), len(self.observed))
        # 1 - p of a float32 p would be rounded.
        of_labels = np.empty((batch, self.rows, 1), np.float64 if self.layout.vector else self.scores.dtype)
        for b in range(batch):
            label_sets.label_scores(self.scores_of(b), self.labels_of(b), of_labels[b, :, 0])
        return Columns(of_labels, self.observed, 0)

    @cached_property
    def _extremes(self) -> list[top.Extremes]:
        return []

    @cached_property
    def _predicted(self) -> list[npt.NDArray[np.uint8]]:
        return []

    def predicted_of(self, b: int) -> npt.NDArray[np.uint8]:
        """Predicted classes of batch element b where there are few, else empty; after the columns of the confidence."""
        return self._predicted[b % len(self._predicted)]

    @property
    def extremes(self) -> top.Extremes | None:
        """Of all scores and label codes, if they were collected while the largest scores were found."""
        return reduce(top.Extremes.joined, self._extremes) if self._extremes else None

    def scores_of(self, b: int) -> npt.NDArray[np.floating]:
        """Scores of batch element b as given, (n, K) or (n, 1)."""
        return self.scores[b % len(self.scores)]

    def matrix_of(self, b: int) -> npt.NDArray[np.floating]:
        """Scores of batch element b with all their classes, (n, K)."""
        return self.matrix[b % len(self.matrix)]

    def labels_of(self, b: int) -> npt.NDArray[np.integer]:
        """Label codes of batch element b."""
        return self.observed.of(b)

    def weights_of(self, b: int) -> npt.NDArray[np.float64]:
        """Weights of batch element b; empty without weights."""
        if self.weights is None:
            return _NO_WEIGHTS
        return self.weights[b % len(self.weights)]

"""Soft labels: shares of classes in place of a class, as judges, several raters and ties give them."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.data.clusters import key_numbers
from calibdask.data.frames import aligned
from calibdask.data.rater_votes import Votes
from calibdask.data.slices import SliceCodes, coded
from calibdask.engine.arrays import in_memory, is_pandas, matrix_of_mappings, rows_of_lists
from calibdask.engine.axes import Axis
from calibdask.safe_text import listed
from calibdask.statistics.exact import Array
from calibdask.statistics.views.drawn_shares import LEAST

if TYPE_CHECKING:
    from calibdask.data.data import Data

_WHERE = "soft_labels expects y_true between 0 and 1 for scores P(y = 1), or rows of K shares for scores of K classes"
_TOLERANCE = 1e-6
RATERS = "raters"
# Where soft labels are supported.
SUPPORTED = "evaluate, compare and check"


@dataclass(frozen=True, eq=False)
class SoftRows:
    """Rows whose labels are shares, in memory.

    Attributes
    ----------
    data : Data
        As the user passed them.
    shares : ndarray of shape (n, K), or (n, 1) of y = 1
    scores : array of shape (n, K) or (n,), or mapping from model to array
        In the classes of the slice of the row, then 0.
    classes : sequence of K or None
        Their names, where all slices have the same ones.
    weights : ndarray of shape (n,) or None
    group : ndarray of shape (n,)
        Number of the slice.
    axes : tuple of Axis
        Of the slices.
    clusters : ndarray of shape (n,) or None
        Number of the cluster.
    votes : Votes or None
        Of several raters.
    same_classes : bool
        Whether all slices have the same classes.
    """

    data: "Data"
    shares: Array
    scores: Any
    classes: Sequence[Any] | None
    weights: Array | None
    group: npt.NDArray[np.int64]
    axes: tuple[Axis, ...]
    clusters: npt.NDArray[np.int64] | None
    votes: Votes | None = None
    same_classes: bool = True
    by: Mapping[Hashable, SliceCodes] = field(default_factory=dict)

    @classmethod
    def of(cls, data: "Data", *, is_supported: bool = True) -> "SoftRows":
        """Read the labels and scores that the user passed, of one model or of several.

        Raises
        ------
        ValueError
            If labels are no shares, or of other classes or another shape than the scores, or options go with hard
            labels only; the message names the row. If the analysis does not support soft labels.
        """
        options = data.options
        if not is_supported:
            raise ValueError(
                "soft_labels (--soft-labels) is not supported here: this analysis counts labels that are 0 or 1; "
                f"{SUPPORTED} accept shares."
            )
        if isinstance(data.scores, Mapping):
            models = {name: cls.of(replace(data, scores=scores)) for name, scores in data.scores.items()}
            first = next(iter(models.values()))
            if any(one.classes != first.classes or not one.same_classes for one in models.values()):
                raise ValueError("soft_labels of several models expects scores of the same classes, in the same order.")
            return replace(first, data=data, scores={name: one.scores for name, one in models.items()})
        _check_options(data)
        given = {"y_true": data.labels, "y_prob": data.scores, "sample_weight": data.weights, "groups": options.groups}
        given = aligned(given)
        scores, names = _numbers("y_prob", given["y_prob"], options.class_dim)
        is_vector = scores.ndim == 1
        votes = None
        if options.soft_labels == RATERS or (is_vector and _width(given["y_true"]) > 1):
            votes = Votes.of(given["y_true"], None if is_vector else names or range(scores.shape[1]), options)
            labels = votes.shares
        else:
            labels, own = _numbers("y_true", given["y_true"], options.class_dim)
            labels = _matched(labels, own, names)
        if labels.shape != scores.shape:
            raise ValueError(f"{_WHERE}; got shapes {labels.shape} and {scores.shape}.")
        n = len(scores)
        slices = None if data.by is None else {name: in_memory(values) for name, values in data.by.items()}
        group, axes = coded(slices, n, options.sample_dims[0])
        group = np.zeros(n, np.int64) if group is None else np.asarray(group).astype(np.int64)
        by, rest = {}, group
        for axis in reversed(axes):
            by[axis.given_name] = SliceCodes((rest % axis.size).astype(np.int32), np.asarray(axis.labels))
            rest = rest // axis.size
        same = True
        if not is_vector and not options.logits and np.isnan(scores).any():
            labels, scores, order = _of_slices(labels, scores, names, group, axes)
            same = order is not None
            names = [names[k] for k in order] if names is not None and order is not None else None
        if not is_vector:
            # A class that a row does not name has no share of it.
            labels = np.where(np.isnan(labels), 0.0, labels)
        _check_shares(labels, options.sum_tolerance)
        if not options.logits:
            _check_scores(scores, options.sum_tolerance)
        shares = labels[:, None] if is_vector else labels / labels.sum(-1, keepdims=True)
        weights = None if given["sample_weight"] is None else _weights(given["sample_weight"], n)
        clusters = given["groups"]
        if clusters is not None:
            clusters = np.unique(key_numbers(np.asarray(in_memory(clusters))), return_inverse=True)[1]
        in_order = dict(reversed(by.items()))
        return cls(data, shares.clip(0.0, 1.0), scores, names, weights, group, axes, clusters, votes, same, in_order)

    @cached_property
    def are_hard(self) -> bool:
        """Whether all shares are 0 or 1."""
        return bool(((self.shares == 0) | (self.shares == 1)).all())

    @property
    def weighted_data(self) -> "Data":
        """The labels that all shares are, or weighted parts of rows."""
        return self.hard_data if self.are_hard else self.parts

    @property
    def hard_data(self) -> "Data":
        """The data with the labels, where all shares are 0 or 1."""
        binary = self.shares.shape[1] == 1
        labels: Any = self.shares[:, 0].astype(np.int64) if binary else self._named(self.shares.argmax(-1))
        groups = self.data.options.groups
        options = replace(self._plain, groups=None if groups is None else in_memory(groups))
        by = None if self.data.by is None else {name: in_memory(values) for name, values in self.data.by.items()}
        columns = {"labels": labels, "scores": self.scores, "weights": self.weights, "by": by, "identifiers": {}}
        return replace(self.data, **columns, options=options)

    @property
    def parts(self) -> "Data":
        """A weighted part of each row per class that it has a share of.

        Parts have their share as weight, and the row as their cluster: whatever is linear in the label is the mean over
        labels drawn from the shares, and rows are resampled as wholes.
        """
        every = np.concatenate([1 - self.shares, self.shares], -1) if self.shares.shape[1] == 1 else self.shares
        weighted = every if self.weights is None else every * self.weights[:, None]
        row, label = np.nonzero(weighted > LEAST)
        options = self.data.options
        groups = None if options.groups is None else np.asarray(in_memory(options.groups))
        clusters = row if groups is None else groups[row]
        name = options.groups_name or ("" if groups is not None else "rows")
        return self.rows_of(row, label, weighted[row, label], replace(self._plain, groups=clusters, groups_name=name))

    def rows_of(self, row: npt.NDArray[np.int64], label: Any, weight: Array | None, options: Any = None) -> "Data":
        """Data of rows, each as often as it is listed, with these labels and weights."""
        by = {name: SliceCodes(slices.codes[row], slices.labels) for name, slices in self.by.items()}
        options = replace(self._plain, groups=None, groups_name="") if options is None else options
        scores = self.scores
        columns = {
            "labels": self._named(label),
            "scores": {name: of[row] for name, of in scores.items()} if isinstance(scores, Mapping) else scores[row],
            "by": by or None,
            "weights": weight,
            "identifiers": {},
        }
        return replace(self.data, **columns, options=options)

    def _named(self, label: Any) -> Any:
        """Labels by name where the classes have names."""
        return label if self.classes is None else np.array([*self.classes], object)[label]

    @property
    def _plain(self) -> Any:
        return replace(self.data.options, soft_labels=False, labels=self.classes, pos_label=None)

    @property
    def slice_shape(self) -> tuple[int, ...]:
        """Sizes of the axes of the slices."""
        return tuple(axis.size for axis in self.axes)

    @property
    def row_counts(self) -> npt.NDArray[np.int64]:
        """Rows of positive weight in each slice."""
        counted = self.group if self.weights is None else self.group[self.weights > 0]
        return np.bincount(counted, minlength=int(np.prod(self.slice_shape, dtype=int))).reshape(self.slice_shape)

    @property
    def effective_rows(self) -> Array:
        """Kish's effective number of rows of each slice."""
        weights = np.ones(len(self.group)) if self.weights is None else self.weights
        counts = self.row_counts
        total, square = (np.bincount(self.group, sums, counts.size) for sums in (weights, weights**2))
        return np.divide(total**2, square, out=np.zeros(counts.size), where=square > 0).reshape(counts.shape)


def _check_options(data: "Data") -> None:
    options = data.options
    refused: Mapping[str, Any] = {
        "labels": None if options.soft_labels == RATERS else options.labels,
        "pos_label": None if options.soft_labels == RATERS else options.pos_label,
        "ignore_label": options.ignore_label,
        "skip_missing": options.skip_missing or None,
    }
    for name, value in refused.items():
        if value is not None:
            raise ValueError(f"soft_labels does not support {name}; omit it, or prepare the rows first.")
    if not data.has_rows or data.top is not None or data.scores is None:
        raise ValueError("soft_labels expects rows in arrays, a frame or a file, held in memory.")


def _width(values: Any) -> int:
    """Number of columns of a matrix, else 1."""
    return int(np.shape(values)[1]) if len(np.shape(values)) == 2 else 1


def _numbers(name: str, values: Any, class_dim: str) -> tuple[Any, list[Hashable] | None]:
    """Numbers in memory, (n,) or (n, K), and the names of the columns."""
    if callable(getattr(values, "compute", None)):
        values = values.compute() if isinstance(values, xr.DataArray) else in_memory(values)
    names: list[Hashable] | None = None
    if is_pandas(values) and values.ndim == 2:
        names = list(values.columns)
    cells = values if isinstance(values, xr.DataArray) else np.asarray(values)
    if cells.dtype.kind == "O" and cells.ndim == 1:
        cells = matrix_of_mappings(np.asarray(cells), class_dim)
    if isinstance(cells, xr.DataArray):
        if class_dim in cells.dims:
            cells = cells.transpose(..., class_dim)
            names = cells[class_dim].values.tolist() if class_dim in cells.coords else None
        cells = cells.values
    array = rows_of_lists(cells, name)
    try:
        numbers = np.asarray(array, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{_WHERE}; {name} holds values that are not numbers.") from None
    if numbers.ndim not in (1, 2):
        raise ValueError(f"{_WHERE}; {name} has {numbers.ndim} dimensions.")
    if numbers.ndim == 2 and numbers.shape[1] == 1 and names is None:
        return (array if array.dtype.kind == "f" and name == "y_prob" else numbers)[:, 0], None
    return (array if name == "y_prob" and array.dtype.kind == "f" else numbers), names


def _matched(labels: Array, own: Sequence[Any] | None, names: Sequence[Any] | None) -> Array:
    """The shares in the order of the classes of the scores, by name where both have names."""
    if own is None or names is None or own == names:
        return labels
    place = {name: k for k, name in enumerate(names)}
    matched = np.full((len(labels), len(names)), np.nan)
    for k, name in enumerate(own):
        if name in place:
            matched[:, place[name]] = labels[:, k]
        elif (has := np.nan_to_num(labels[:, k]) != 0).any():
            raise ValueError(
                f"soft_labels matches classes by name, but row {int(has.argmax())} has a share of {name!r}, and the "
                f"scores are of {listed(names)}; use the same names in both."
            )
    return matched


def _of_slices(
    shares: Array, scores: Array, names: Sequence[Any] | None, group: npt.NDArray[np.int64], axes: tuple[Axis, ...]
) -> tuple[Array, Array, list[int] | None]:
    """Shares and scores in the classes of each slice, which some of its rows have a score of; no score counts as 0.

    Columns are as many as the most classes of a slice; with the classes of all slices, where these are the same.
    """
    here = ~np.isnan(scores)
    slices = int(group.max(initial=0)) + 1
    present = np.stack([np.bincount(group, column, slices) > 0 for column in here.T], -1)
    filled = np.bincount(group, minlength=slices) > 0
    outside = (np.nan_to_num(shares) != 0) & ~present[group]
    if outside.any():
        row, k = map(int, np.argwhere(outside)[0])
        classes = [k if names is None else names[k] for k in np.flatnonzero(present[group[row]]).tolist()]
        where = ", ".join(
            f"{axis.given_name}={np.asarray(axis.labels)[code]}"
            for axis, code in zip(axes, np.unravel_index(group[row], [axis.size for axis in axes]), strict=True)
        )
        raise ValueError(
            f"soft_labels matches classes by name within a slice, but row {row} has a share of "
            f"{k if names is None else names[k]!r}, and the scores of its slice ({where or 'all rows'}) are of "
            f"{listed(classes)}; use the same names in both."
        )
    are_same = bool((present[filled] == present[filled][:1]).all())
    most = max(2, int(present.sum(-1).max()))
    order = np.argsort(~present, axis=-1, kind="stable")[:, :most]
    columns = order[group]
    kept = [np.take_along_axis(np.nan_to_num(values), columns, -1) for values in (shares, scores)]
    return kept[0], kept[1], order[int(filled.argmax())].tolist() if are_same else None


def _check_shares(shares: Array, sum_tolerance: float) -> None:
    rows = shares[:, None] if shares.ndim == 1 else shares
    wrong = ~((rows >= -_TOLERANCE) & (rows <= 1 + _TOLERANCE)).all(-1)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{_WHERE}; found others in {_rows(wrong)}, the first is row {row}: {shares[row]}.")
    if shares.ndim == 2:
        _check_sums("soft_labels expects shares", shares, sum_tolerance)


def _check_scores(scores: Array, sum_tolerance: float) -> None:
    """Of the rows as they are given: those that are evaluated are parts of them, which have other numbers."""
    rows = scores[:, None] if scores.ndim == 1 else scores
    wrong = ~((rows >= -_TOLERANCE) & (rows <= 1 + _TOLERANCE)).all(-1)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"y_prob expects probabilities from 0 to 1; found others in {_rows(wrong)}, the first is row {row}: "
            f"{scores[row]}. For logits give logits=True (--logits)."
        )
    if scores.ndim == 2:
        _check_sums("y_prob expects probabilities", scores, sum_tolerance)


def _check_sums(expected: str, rows: Array, sum_tolerance: float) -> None:
    sums = rows.sum(-1)
    off = np.abs(sums - 1) > sum_tolerance
    if off.any():
        row = int(off.argmax())
        raise ValueError(
            f"{expected} of K classes that add up to 1; found other sums in {_rows(off)}, the first is row {row}: "
            f"{sums[row]:g}."
        )


def _weights(values: Any, n: int) -> Array:
    weights = np.asarray(in_memory(values), np.float64)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight expects one weight for each of {n} rows, got shape {weights.shape}.")
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"sample_weight expects non-negative numbers; found others in {_rows(wrong)}, the first is row {row}: "
            f"{weights[row]:g}."
        )
    if not weights.any():
        raise ValueError("sample_weight expects at least one positive weight; all are 0.")
    return weights


def _rows(marked: Any) -> str:
    """How many rows are marked, as text."""
    return f"{int(marked.sum()):,} of {marked.size:,} {'row' if marked.size == 1 else 'rows'}"

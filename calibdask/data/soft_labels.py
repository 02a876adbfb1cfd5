"""Soft labels: shares of classes in place of a class, as judges, several raters and ties give them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibdask.engine.arrays import in_memory, is_dask, rows_of_lists
from calibdask.statistics.exact import Array

if TYPE_CHECKING:
    from calibdask.data.data import Data

_WHERE = "soft_labels expects y_true between 0 and 1 for scores P(y = 1), or rows of K shares for scores of K classes"
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class SoftRows:
    """Shares of each class, (n, K), or of y = 1, (n, 1), with the array of scores."""

    shares: Array
    scores: Any

    @classmethod
    def of(cls, labels: Any, scores: Any, sum_tolerance: float) -> "SoftRows":
        """Of labels and scores as the user passed them, in memory.

        Raises
        ------
        ValueError
            If they are no shares, or of another shape than the scores; the message names the row.
        """
        shares, scores = _matrix("y_true", labels), _matrix("y_prob", scores)
        if scores.ndim == 2 and scores.shape[1] == 1:
            scores = scores[:, 0]
        if shares.ndim == 2 and shares.shape[1] == 1:
            shares = shares[:, 0]
        if shares.ndim != scores.ndim or shares.shape != scores.shape:
            raise ValueError(f"{_WHERE}; got shapes {shares.shape} and {scores.shape}.")
        rows = shares[:, None] if shares.ndim == 1 else shares
        wrong = ~((rows >= -_TOLERANCE) & (rows <= 1 + _TOLERANCE)).all(-1)
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(f"{_WHERE}; {int(wrong.sum())} rows have others, the first is row {row}: {shares[row]}.")
        if shares.ndim == 2:
            sums = rows.sum(-1)
            off = np.abs(sums - 1) > sum_tolerance
            if off.any():
                row = int(off.argmax())
                raise ValueError(
                    f"soft_labels expects shares of K classes that add up to 1; {int(off.sum())} rows have other sums, "
                    f"the first is row {row}: {sums[row]:g}."
                )
            rows = rows / sums[:, None]
        return cls(rows.clip(0.0, 1.0), scores)

    @property
    def are_hard(self) -> bool:
        """Whether all shares are 0 or 1."""
        return bool(((self.shares == 0) | (self.shares == 1)).all())

    @property
    def hard_labels(self) -> Any:
        """The labels where all shares are 0 or 1."""
        return self.shares[:, 0].astype(np.int64) if self.shares.shape[1] == 1 else self.shares.argmax(-1)

    def parts(self) -> tuple[Any, Any, Any]:
        """Row, class and weight of every class that a row has a share of."""
        every = np.concatenate([1 - self.shares, self.shares], -1) if self.shares.shape[1] == 1 else self.shares
        row, label = np.nonzero(every > 0)
        return row, label, every[row, label]


def soft_data(data: "Data") -> "Data":
    """The data with hard labels: unchanged if all shares are 0 or 1, else a weighted part of each row per class.

    Parts have their share as weight, and the row as their cluster: whatever is linear in the label is the mean over
    labels drawn from the shares, and rows are resampled as wholes.

    Raises
    ------
    ValueError
        If labels are no shares, or options go with hard labels only.
    """
    options = data.options
    refused: Mapping[str, Any] = {
        "sample_weight": data.weights,
        "labels": options.labels,
        "pos_label": options.pos_label,
        "ignore_label": options.ignore_label,
        "skip_missing": options.skip_missing or None,
    }
    for name, value in refused.items():
        if value is not None:
            raise ValueError(f"soft_labels does not support {name}; omit it, or prepare the rows first.")
    if not data.has_rows or data.top is not None or data.scores is None or isinstance(data.scores, Mapping):
        raise ValueError("soft_labels expects rows of one model in arrays, a frame or a file, held in memory.")
    rows = SoftRows.of(data.labels, data.scores, options.sum_tolerance)
    plain = replace(options, soft_labels=False)
    if rows.are_hard:
        return replace(data, labels=rows.hard_labels, options=plain, identifiers={})
    row, label, weight = rows.parts()
    groups = options.groups
    clusters = row if groups is None else np.asarray(in_memory(groups))[row]
    by = None if data.by is None else {name: np.asarray(in_memory(values))[row] for name, values in data.by.items()}
    parts = replace(plain, groups=clusters, groups_name=options.groups_name or ("" if groups is not None else "rows"))
    columns = {"labels": label, "scores": rows.scores[row], "by": by, "weights": weight, "identifiers": {}}
    return replace(data, **columns, options=parts)


def _matrix(name: str, values: Any) -> Any:
    """Numbers in memory, (n,) or (n, K)."""
    if callable(getattr(values, "compute", None)) or is_dask(values):
        compute: Callable[[], Any] = values.compute
        values = compute()
    array = rows_of_lists(np.asarray(values), name)
    try:
        numbers = np.asarray(array, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{_WHERE}; {name} holds values that are not numbers.") from None
    if numbers.ndim not in (1, 2):
        raise ValueError(f"{_WHERE}; {name} has {numbers.ndim} dimensions.")
    return array if name == "y_prob" and array.dtype.kind == "f" else numbers

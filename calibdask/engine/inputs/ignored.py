"""Rows that are left out because of their label, and how many they are."""

from dataclasses import replace
from typing import Any

import numpy as np

from calibdask.engine.inputs.arrays import is_dask
from calibdask.engine.inputs.rows import Rows


class Ignored:
    """Leaves out the rows that have a label.

    Attributes
    ----------
    label : number
        The label.
    """

    def __init__(self, label: Any) -> None:
        self.label = label

    def kept(self, rows: Rows) -> Rows:
        """The rows that are left.

        Raises
        ------
        ValueError
            If labels differ between models.
        """
        keep = _keep(rows.labels, self.label)
        if keep.all():
            return rows
        return replace(
            rows,
            scores=rows.scores[:, keep],
            labels=rows.labels[:, keep],
            weights=None if rows.weights is None else rows.weights[:, keep],
            group=None if rows.group is None else rows.group[keep],
            features=tuple(feature[keep] for feature in rows.features),
        )

    def kept_arrays(self, scores: Any, others: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Dask arrays with equal chunks of samples, less these rows; how many are left is known when they are read."""
        labels = others["labels"]
        kept = {name: self._kept(array, "bn"[-array.ndim :], labels) for name, array in others.items()}
        return self._kept(scores, "bnk", labels), kept

    def _kept(self, array: Any, axes: str, labels: Any) -> Any:
        import dask.array as da

        return da.blockwise(
            _kept_part,
            axes,
            array,
            axes,
            labels,
            "bn",
            axis=axes.index("n"),
            label=self.label,
            dtype=array.dtype,
            meta=np.empty((0,) * array.ndim, array.dtype),
            adjust_chunks={"n": lambda size: np.nan},
            concatenate=True,
            align_arrays=False,
        )

    def positions(self, labels: Any) -> np.ndarray:
        """Numbers of the rows that are left, for an error message."""
        keep = _keep(np.asarray(labels), self.label)
        return np.flatnonzero(keep)

    def count(self, labels: Any) -> int:
        """How many rows have the label; reads the labels of Dask."""
        count = (labels == self.label).any(axis=0).sum()
        if not is_dask(count):
            return int(count)
        from calibdask.engine.scheduler import scheduler

        return int(count.compute(scheduler=scheduler()))


def _keep(labels: np.ndarray, label: Any) -> np.ndarray:
    """Which rows are kept, (n,), of labels (1 or batch, n)."""
    out = np.broadcast_to(np.asarray(labels == label, bool), labels.shape)
    first: np.ndarray = out[0]
    if not (out == first).all():
        raise ValueError(
            "ignore_label expects the same rows to be left out for all models; give it one column of labels."
        )
    return ~first


def _kept_part(part: np.ndarray, labels: np.ndarray, axis: int, label: Any) -> np.ndarray:
    return np.asarray(part).compress(_keep(np.asarray(labels), label), axis=axis)

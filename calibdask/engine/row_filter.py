"""Rows that are left out of the analysis: those with a label to be ignored, and those with missing values."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.engine.arrays import is_dask
from calibdask.engine.rows import Rows
from calibdask.statistics.validity import ABSENT_LABEL, EXCLUDED

# Numbers in place of labels: of rows that are left out, of rows without a label where some may be missing, and the
# first number of labels that are no class.
IGNORED_LABEL, MISSING_LABEL, STRAY_LABEL = ABSENT_LABEL - 2, ABSENT_LABEL - 1, ABSENT_LABEL + 1

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RowFilter:
    """Leaves out rows, block by block, and counts them.

    Attributes
    ----------
    ignored : number, optional
        Rows with this label are left out.
    skip_missing : bool
        Whether rows without a label, a score or a weight are left out; of several models a row that one of them lacks
        is left out for all, so that they are compared on the same rows.
    by_cell : bool
        Whether the elements of the batch are problems of their own (multilabel): then a missing label or score
        leaves out that cell alone, by weight 0, and not the row.
    missing_slices : array of bool, optional
        Whether each slice is one of rows without a value, which stay, and are counted.
    """

    ignored: float | None = None
    skip_missing: bool = False
    by_cell: bool = False
    missing_slices: Mask | None = None

    def kept(self, rows: Rows) -> Rows:
        """The rows that are left, with counts of the others.

        Raises
        ------
        ValueError
            If labels to be ignored differ between models.
        """
        missing = self._missing(rows)
        if self.by_cell:
            return self._with_slices(_weighted(rows, missing))
        ignored = _ignored(rows.labels, self.ignored)
        absent = {role: mask.any(axis=0) & ~ignored for role, mask in missing.items()}
        skipped = np.any([*absent.values()], axis=0) if absent else np.zeros_like(ignored)
        counts = {"ignored": ignored, "skipped": skipped, **absent}
        keep = ~(ignored | skipped)
        left = rows if keep.all() else rows.where(keep)
        return self._with_slices(replace(left, excluded=_counted(counts)))

    def _with_slices(self, rows: Rows) -> Rows:
        """The rows that are left, with the number of those without a value of a slice."""
        if self.missing_slices is not None and rows.group is not None and rows.excluded is not None:
            rows.excluded[EXCLUDED.index("slice")] = self.missing_slices[rows.group].sum()
        return rows

    def kept_arrays(self, scores: Any, others: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Dask arrays with equal chunks of samples, less these rows; how many are left is known when they are read."""
        names = ("scores", *others)
        given: list[Any] = [scores, "bnk"]
        for array in others.values():
            given += [array, "bn"[-array.ndim :]]
        arrays = {"scores": scores, **others}
        if self.by_cell and "weights" not in arrays:
            arrays["weights"] = others["labels"].astype(np.float64)
        kept = {name: self._kept(name, array, names, given) for name, array in arrays.items()}
        return kept.pop("scores"), kept

    def mask(self, rows: Rows) -> Any:
        """Whether each row is left, (n,); of Dask where one of the arrays is."""
        arrays = (rows.scores, rows.labels, rows.weights)
        if not any(map(is_dask, arrays)):
            return self._mask(*arrays)
        import dask.array as da

        given = [item for array, axes in zip(arrays, ("bnk", "bn", "bn"), strict=True) for item in (array, axes)]
        return da.blockwise(
            self._mask,
            "n",
            *(given if rows.weights is not None else [*given[:4], None, None]),
            dtype=bool,
            meta=np.empty(0, bool),
            concatenate=True,
        )

    def _mask(self, scores: Any, labels: Any, weights: Any) -> Mask:
        """Whether each row of arrays in memory is left."""
        rows = Rows(np.asarray(scores), np.asarray(labels), None if weights is None else np.asarray(weights))
        if self.by_cell:
            weights = self.kept(rows).weights
            assert weights is not None
            return np.asarray((weights > 0).any(axis=0))
        marked = replace(rows, features=(np.arange(rows.count),))
        mask = np.zeros(rows.count, bool)
        mask[self.kept(marked).features[0]] = True
        return mask

    def positions(self, rows: Rows) -> npt.NDArray[np.intp]:
        """Numbers of the rows that are left, for an error message; ``rows`` may be arrays of Dask."""
        if any(map(is_dask, (rows.scores, rows.labels, rows.weights))):
            from dask import compute

            from calibdask.engine.workers import scheduler

            rows = Rows(*compute(rows.scores, rows.labels, rows.weights, scheduler=scheduler()))
        numbered = replace(rows, group=None, features=(np.arange(rows.count),))
        return np.asarray(self.kept(numbered).features[0])

    def _missing(self, rows: Rows) -> dict[str, Mask]:
        """Where values are missing, (1 or batch, n), by role."""
        if not self.skip_missing:
            return {}
        weights = np.zeros((1, rows.count), bool) if rows.weights is None else np.isnan(rows.weights)
        return {
            "label": _is_missing_label(rows.labels),
            "score": np.asarray(_is_nan(rows.scores).any(axis=-1)),
            "weight": weights,
        }

    def _kept(self, name: str, array: Any, names: tuple[str, ...], given: list[Any]) -> Any:
        import dask.array as da

        axes = "bnk" if name == "scores" else "bn"[-array.ndim :]
        options: dict[str, Any] = {} if self.by_cell else {"adjust_chunks": {"n": lambda size: np.nan}}
        return da.blockwise(
            _kept_part,
            axes,
            *given,
            filter=self,
            wanted=name,
            names=names,
            dtype=array.dtype,
            meta=np.empty((0,) * array.ndim, array.dtype),
            concatenate=True,
            align_arrays=False,
            **options,
        )


def _weighted(rows: Rows, missing: dict[str, Mask]) -> Rows:
    """The rows with weight 0 where a cell lacks its label or its score; values there are replaced by valid ones."""
    label, score = missing["label"], missing["score"]
    absent = label | score | missing["weight"]
    weights = np.ones((1, rows.count)) if rows.weights is None else rows.weights
    counts = {"skipped": absent, "label": label, "score": score, "weight": missing["weight"]}
    if not absent.any():
        return replace(rows, weights=np.broadcast_to(weights, absent.shape), excluded=_counted(counts))
    return replace(
        rows,
        scores=np.where(absent[..., None], rows.scores.dtype.type(0), rows.scores),
        labels=np.where(absent, rows.labels.dtype.type(0), rows.labels),
        weights=np.where(absent, 0.0, weights),
        excluded=_counted(counts),
    )


def _counted(masks: dict[str, Mask]) -> npt.NDArray[np.int64]:
    counts = np.zeros(len(EXCLUDED), np.int64)
    for role, mask in masks.items():
        counts[EXCLUDED.index(role)] = mask.sum()
    return counts


def _ignored(labels: npt.NDArray[Any], label: float | None) -> Mask:
    """Mask of the rows with the label to ignore, (n,), from labels (1 or batch, n)."""
    out = np.broadcast_to(np.asarray(labels == label, bool), labels.shape)
    first: Mask = out[0]
    if not (out == first).all():
        raise ValueError(
            "ignore_label expects the same rows to be skipped for all models; give it one column of labels."
        )
    return first


def _is_nan(values: npt.NDArray[Any]) -> Mask:
    return np.asarray(np.isnan(values)) if values.dtype.kind == "f" else np.zeros(values.shape, bool)


def _is_missing_label(labels: npt.NDArray[Any]) -> Mask:
    return _is_nan(labels) if labels.dtype.kind == "f" else np.asarray(labels == MISSING_LABEL)


def _kept_part(*arrays: Any, filter: RowFilter, wanted: str, names: tuple[str, ...]) -> npt.NDArray[Any]:
    """One array of a block without the rows that are left out."""
    given = dict(zip(names, map(np.asarray, arrays), strict=True))
    features = [name for name in names if name not in ("scores", "labels", "weights", "groups", "clusters")]
    rows = Rows(
        given["scores"],
        given["labels"],
        given.get("weights"),
        given.get("groups"),
        tuple(given[name] for name in features),
        clusters=given.get("clusters"),
    )
    left = filter.kept(rows)
    kept: dict[str, Any] = {
        "scores": left.scores,
        "labels": left.labels,
        "weights": left.weights,
        "groups": left.group,
        "clusters": left.clusters,
        **dict(zip(features, left.features, strict=True)),
    }
    return np.asarray(kept[wanted])

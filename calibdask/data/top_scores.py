"""The largest scores of each row in place of all of them, where classes are very many."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.data.input import Input
from calibdask.data.options import InputOptions
from calibdask.engine.arrays import is_dask, is_pandas, plain
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.scores.proper import LogLoss
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting

# Scores that are equal but for rounding.
_ROUNDED = 1e-6


@dataclass(frozen=True, eq=False)
class TopScores:
    """The m largest scores of each row with their classes, and the score of the label, of ``n_classes`` classes.

    Pass them to `calibdask.evaluate` as ``y_prob`` instead of rows with 10^5 or more scores. They determine all metrics
    of the confidence and of the k <= m largest scores, and the log loss; other metrics raise an error.

    Parameters
    ----------
    classes : array of shape (n, m)
        Classes of the largest scores, in the order of the scores; values like those of ``y_true``.
    scores : array of shape (n, m)
        Their scores, in decreasing order. NumPy or Dask.
    label_scores : array of shape (n,), optional
        Score of the label of each row. Without it there is no log loss.
    n_classes : int
        Number of classes K, which the bins of the confidence depend on.

    Raises
    ------
    ValueError
        If shapes do not match; while rows are read, if scores rise in a row, a class occurs twice in it, the score of a
        label differs from the one in its row, or exceeds the smallest of the m scores although the label is not among
        their classes, or sums are above 1.

    Notes
    -----
    m + 1 numbers per row are read instead of K. Results equal those of full rows, to the last bit, if equal scores are
    listed in the order of their classes.

    Examples
    --------
    >>> import numpy as np
    >>> import calibdask as cd
    >>> full = np.random.default_rng(0).dirichlet(np.full(1000, 0.01), 200)
    >>> labels = np.array([np.searchsorted(row.cumsum(), 0.5) for row in full])
    >>> classes = np.argsort(-full, axis=1, kind="stable")[:, :5]
    >>> top = cd.TopScores(classes, np.take_along_axis(full, classes, 1), full[np.arange(200), labels], n_classes=1000)
    >>> metrics = {"ece": cd.ECE(), "top": cd.ECE(setting="top-k", k=5), "log_loss": cd.LogLoss()}
    >>> cd.evaluate(labels, top, metrics).equals(cd.evaluate(labels, full, metrics))
    True
    """

    classes: Any
    scores: Any
    label_scores: Any = None
    n_classes: int = 0

    def __post_init__(self) -> None:
        for name in ("classes", "scores", "label_scores"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, plain(getattr(self, name), name))
        shape = self.scores.shape
        if len(shape) != 2 or self.classes.shape != shape or not shape[1]:
            raise ValueError(
                f"classes and scores expect the same shape (n, m), got {self.classes.shape} and {self.scores.shape}."
            )
        if self.label_scores is not None and self.label_scores.shape != shape[:1]:
            raise ValueError(f"label_scores expects the shape {shape[:1]}, got {self.label_scores.shape}.")
        if isinstance(self.n_classes, bool) or not isinstance(self.n_classes, int | np.integer):
            raise ValueError(f"n_classes expects a whole number, got {self.n_classes!r}.")
        if self.n_classes <= shape[1]:
            raise ValueError(
                f"n_classes expects the number of all classes, more than the {shape[1]} scores in a row, got "
                f"{self.n_classes}; if you have all scores, give them as y_prob."
            )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Refused: most scores are not there."""
        raise ValueError("Only calibdask.evaluate and the shorthands accept TopScores, which lack most scores.")

    @property
    def kept(self) -> int:
        """The number m of scores in a row."""
        return int(self.scores.shape[1])

    def rows(self, y_true: Any) -> tuple[Any, Any]:
        """Labels and scores of m + 1 columns: the largest scores, and that of a label which is not among them.

        The label is its rank among the largest scores, from 0, or m.
        """
        labels = y_true if is_dask(y_true) else plain(y_true, "y_true")
        if labels.ndim != 1 or labels.shape != self.scores.shape[:1]:
            raise ValueError(
                f"With TopScores y_true expects one label for each of {self.scores.shape[0]} rows, got the shape "
                f"{labels.shape}."
            )
        given = [self.classes, self.scores, *([] if self.label_scores is None else [self.label_scores])]
        if any(map(is_dask, (labels, *given))):
            return _blockwise(labels, *given)
        ranks = _ranks(labels, self.classes)
        columns = _columns(ranks, *given)
        return y_true.__class__(ranks, index=y_true.index) if is_pandas(y_true) else ranks, columns

    def options(self, options: InputOptions) -> InputOptions:
        """Input options for reading the rows.

        Raises
        ------
        ValueError
            If some do not apply.
        """
        if options.names_classes or options.logits or options.task not in (None, "multiclass"):
            raise ValueError(
                "labels, pos_label, logits and task do not apply to TopScores: its scores are probabilities of classes "
                "named as in y_true."
            )
        if options.ignore_label is not None:
            raise ValueError("ignore_label does not apply to TopScores; omit such rows.")
        # Rows lack the small scores.
        return replace(options, sum_tolerance=1.0)

    def input(self, data: Input) -> Input:
        """The input with the number of all classes."""
        data.source.layout = replace(data.source.layout, classes=int(self.n_classes))
        return replace(data, classes=None, are_ranks=True)

    def check(self, metrics: Mapping[str, Estimator], layout: Layout) -> None:
        """Raise ValueError for metrics that all scores are needed for."""
        for name, metric in metrics.items():
            reason = self.lacks(metric, layout)
            if reason:
                raise ValueError(f"The metric {name!r} cannot be computed from TopScores: {reason}.")

    def lacks(self, metric: Estimator, layout: Layout) -> str:
        """Reason why the largest scores do not suffice for a metric; empty if they do."""
        if isinstance(metric, LogLoss):
            return "" if self.label_scores is not None else "it needs label_scores"
        setting = Setting.parse(metric.measured_setting(layout))
        if setting is None or setting.kind not in ("confidence", "top-k"):
            return "it needs the scores of all classes; the confidence, top-k and the log loss do not"
        if setting.kind == "top-k" and setting.index > self.kept:
            return f"it needs {setting.index} scores of each row, which has {self.kept}"
        return ""


def _blockwise(*arrays: Any) -> tuple[Any, Any]:
    import dask.array as da

    chunks = (next(array for array in arrays if is_dask(array)).chunks[0], -1)
    labels, classes, *scores = (
        array if is_dask(array) else da.from_array(array, chunks[: array.ndim]) for array in arrays
    )
    ranks = da.blockwise(
        _ranks, "n", labels, "n", classes, "nm", concatenate=True, dtype=np.int64, meta=np.empty(0, np.int64)
    )
    given = [item for array, index in zip(scores, ("nm", "n"), strict=False) for item in (array, index)]
    dtype = np.result_type(*(array.dtype for array in scores), np.float16)
    columns = da.blockwise(
        _columns,
        "nc",
        *(ranks, "n", classes, "nm", *given),
        new_axes={"c": classes.shape[1] + 1},
        concatenate=True,
        dtype=dtype,
        meta=np.empty((0, 0), dtype),
    )
    return ranks, columns


def _ranks(labels: npt.NDArray[Any], classes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    hit = classes == labels[:, None]
    return np.where(hit.any(1), hit.argmax(1), classes.shape[1]).astype(np.int64)


def _columns(
    ranks: npt.NDArray[np.int64],
    classes: npt.NDArray[Any],
    scores: npt.NDArray[Any],
    label_scores: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    _refuse(np.any(np.diff(scores, axis=1) > 0, axis=1), "scores expects those of each row to fall")
    ordered = np.sort(classes, axis=1)
    _refuse(np.any(ordered[:, 1:] == ordered[:, :-1], axis=1), "classes expects each class at most once in a row")
    rest = np.zeros(len(scores), scores.dtype)
    if label_scores is not None:
        last = scores.shape[1] - 1
        among = ranks <= last
        # That of the label, or the smallest.
        listed = np.take_along_axis(scores, np.minimum(ranks, last)[:, None], axis=1)[:, 0]
        _refuse(
            among & ~(np.abs(listed - label_scores) <= _ROUNDED),
            "label_scores expects the score that scores has of the label too",
        )
        _refuse(
            ~among & (label_scores > listed),
            "label_scores expects no more than the smallest of the largest scores where classes lacks the label",
        )
        rest = np.where(among, 0, label_scores)
    _refuse(scores.sum(1) + rest > 1 + 1e-3, "scores expects rows whose sum is at most 1")
    return np.concatenate([scores, rest[:, None]], axis=1)


def _refuse(wrong: npt.NDArray[np.bool_], expected: str) -> None:
    if wrong.any():
        rows = f"{int(wrong.sum())} rows of a block do not, the first of them its row {int(wrong.argmax())}"
        raise ValueError(f"{expected}; {rows}.")

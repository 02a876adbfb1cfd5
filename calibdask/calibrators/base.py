"""The base class of calibrators: inputs in either order, checks, and predictions block by block."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from calibdask.engine.inputs.arrays import is_dask, plain
from calibdask.engine.inputs.input import read_arrays
from calibdask.engine.inputs.options import InputOptions
from calibdask.engine.sources.source import Source
from calibdask.statistics.exact import Array
from calibdask.statistics.validity import Validity

# The tolerances of `calibdask.evaluate`.
_VALIDITY = Validity()

# From the checked scores of a block, (n,) or (n, K), to values of shape (n, K); picklable, since Dask sends it around.
BlockMap = Callable[[Array], Array]


class Calibrator(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """A map fitted to scores, as an estimator in the manner of scikit-learn.

    A subclass implements `_fit`, which computes the map from the statistics of a source, and `_probabilities`, which
    returns the map as a function of the scores of a block.
    """

    # The second argument of `fit` is scores or labels, not what scikit-learn calls metadata.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"y_prob": UNUSED}

    @abstractmethod
    def _fit(self, source: Source) -> None:
        """Check the parameters of the calibrator and fit it to labels and scores."""

    @abstractmethod
    def _probabilities(self) -> BlockMap:
        """The fitted map."""

    def fit(
        self, y_true: Any = None, y_prob: Any = None, sample_weight: Any = None, *, X: Any = None, y: Any = None
    ) -> Self:
        """Fit the maps.

        Parameters
        ----------
        y_true : array of shape (n,)
            Labels 0..K-1.
        y_prob : array of shape (n,), (n, 1) or (n, K)
            P(y = 1), or scores of all classes.
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        X, y : arrays, optional
            Scores and labels under scikit-learn's names.

        Returns
        -------
        Calibrator
            The fitted calibrator itself.

        Raises
        ------
        ValueError
            As the class describes.

        Notes
        -----
        scikit-learn calls ``fit(X, y)``: two-dimensional scores followed by one-dimensional labels are recognised as
        such, so that pipelines and cross-validation work; there, pass a vector of scores as a column. Two vectors are
        labels and scores, in this order.
        """
        labels, scores = self._labels_and_scores(y_true, y_prob, X, y)
        labels, scores = self._labels(labels), self._scores(scores, reset=True)
        if labels.dtype.kind == "f" and scores.dtype.kind in "iub":
            raise ValueError(
                "fit expects labels first, fit(y_true, y_prob), or fit(X, y) with scores in columns; got real numbers "
                "where labels should be and whole numbers where scores should be."
            )
        source = read_arrays(labels, scores, None, sample_weight, InputOptions()).source
        self._fit(source)
        self.classes_ = np.arange(source.layout.classes)
        return self

    def predict_proba(self, y_prob: Any) -> Any:
        """Calibrated probabilities, shape (n, K); for a vector of P(y = 1) shape (n, 2).

        Raises
        ------
        ValueError
            If ``y_prob`` does not hold scores of the same classes; for Dask arrays when they are computed.
        """
        check_is_fitted(self)
        return self._by_rows(y_prob, self._probabilities())

    def predict(self, y_prob: Any) -> Any:
        """The class of the largest calibrated probability, shape (n,)."""
        return self.predict_proba(y_prob).argmax(axis=-1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def _by_rows(self, y_prob: Any, block_map: BlockMap) -> Any:
        """Computed for NumPy arrays, lazily block by block for Dask arrays."""
        scores = self._scores(y_prob, reset=False)
        compute = partial(_mapped, block_map)
        if not is_dask(scores):
            return compute(scores)
        if hasattr(scores, "to_dask_array"):
            scores = scores.to_dask_array()
        if scores.ndim == 1:
            chunks = (scores.chunks[0], (len(self.classes_),))
            return scores.map_blocks(compute, new_axis=1, chunks=chunks, dtype=np.float64)
        return scores.rechunk({1: -1}).map_blocks(compute, dtype=np.float64)

    def _labels_and_scores(self, y_true: Any, y_prob: Any, X: Any, y: Any) -> tuple[Any, Any]:
        """Labels and scores: labels first, or scores of several columns before labels, or by scikit-learn's names."""
        labels, scores = y_true, y_prob
        if X is not None or y is not None:
            labels, scores = y, y_true if X is None else X
        if labels is None or scores is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; fit expects labels and "
                "scores: fit(y_true, y_prob) or fit(X, y)."
            )
        if _columns(labels) > _columns(scores) <= 1:
            return scores, labels
        return labels, scores

    def _labels(self, array: Any) -> Any:
        """Labels as a vector."""
        labels = _unwrapped(array)
        if not is_dask(labels):
            return column_or_1d(plain(labels), warn=True)
        if labels.ndim == 2 and labels.shape[1] == 1:
            return _first_column(labels)
        if labels.ndim != 1:
            raise ValueError(f"y_true expects one label for each row, shape (n,), got {labels.ndim} dimensions.")
        return labels

    def _scores(self, array: Any, *, reset: bool) -> Any:
        """Scores as an array, a single column as a vector; ``reset`` records the columns, otherwise they must match."""
        scores = _unwrapped(array)
        dimensions = _dimensions(scores)
        if dimensions == 1 and not reset and self.n_features_in_ > 1:
            raise ValueError(
                f"y_prob expects rows of {self.n_features_in_} scores, got a vector. Reshape your data to shape "
                f"(1, {self.n_features_in_}) if it is a single row."
            )
        if is_dask(scores):
            if dimensions > 2:
                raise ValueError(f"y_prob expects shape (n,) or (n, K), got {dimensions} dimensions.")
            # Chunks are checked when they are read; here only the number of columns is.
            columns = np.empty((0, scores.shape[1] if dimensions == 2 else 1))
            validate_data(self, columns, reset=reset, skip_check_array=True)
            return _first_column(scores) if dimensions == 2 and columns.shape[1] == 1 else scores
        if dimensions == 1 or isinstance(scores, np.ma.MaskedArray):
            scores = plain(scores)
        scores = scores[:, None] if dimensions == 1 else scores
        # Whether they are finite is checked with the rest, apart from rows of weight 0.
        scores = validate_data(self, scores, reset=reset, ensure_all_finite=False, ensure_min_samples=int(reset))
        return scores[:, 0] if scores.shape[1] == 1 else scores


def _mapped(block_map: BlockMap, scores: Any) -> Array:
    """The values of a map at the scores of a block, once these are checked."""
    return block_map(_checked(scores))


def _dimensions(array: Any) -> int:
    return int(array.ndim) if hasattr(array, "ndim") else np.asarray(array).ndim


def _columns(array: Any) -> int:
    """Number of columns; 0 for a vector."""
    shape = array.shape if hasattr(array, "shape") else np.asarray(array).shape
    return int(shape[1]) if len(shape) == 2 else 0


def _unwrapped(array: Any) -> Any:
    """The array of an xarray object, with samples first."""
    if not hasattr(array, "dims"):
        return array
    return (array.transpose("sample", ...) if "sample" in array.dims else array).data


def _first_column(array: Any) -> Any:
    """The first column of a Dask array or data frame."""
    return array[array.columns[0]] if hasattr(array, "columns") else array[:, 0]


def _checked(scores: Any) -> Array:
    """Scores as float64 in [0, 1]."""
    values = np.asarray(scores)
    if values.dtype.kind not in "fiub":
        raise ValueError(f"y_prob expects real numbers in [0, 1], got an array of type {values.dtype}.")
    values = values.astype(np.float64)
    wrong = ~((values >= -_VALIDITY.tolerance) & (values <= 1 + _VALIDITY.tolerance))
    if wrong.any():
        raise ValueError(
            f"y_prob expects finite scores in [0, 1], got {wrong.sum()} invalid value{'s'[: wrong.sum() - 1]}, the "
            f"first is {values[wrong][0]}; remove NaN and infinite values, and convert logits to probabilities first."
        )
    sums = values.sum(-1) if values.ndim == 2 else np.ones(0)
    off = np.abs(sums - 1) > _VALIDITY.sum_tolerance
    if off.any():
        raise ValueError(
            f"y_prob expects rows that sum to 1 (within {_VALIDITY.sum_tolerance}), got {off.sum()} invalid "
            f"row{'s'[: off.sum() - 1]}, the first sums to {sums[off][0]}; normalise the rows."
        )
    return values

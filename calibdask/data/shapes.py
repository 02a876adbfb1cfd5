"""Meaning of the axes of labels and scores: vectors, class columns, one-hot rows, independent labels, images."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from calibdask.data.frames import is_frame
from calibdask.data.options import InputOptions
from calibdask.engine.arrays import is_named, ndim_of, plain
from calibdask.safe_text import listed


def stacked(variable: xr.Variable, sizes: Mapping[Hashable, int], name: str) -> xr.Variable:
    """The variable with the dimensions of ``sizes`` as one, ``name``, in the order of rows of NumPy.

    Chunks of Dask are joined along all of these dimensions but the first, and never split further than that takes:
    rows keep their order, so that results do not depend on the chunks.

    Examples
    --------
    >>> stacked(xr.Variable(("y", "class", "x"), [[[1, 2], [3, 4]]]), {"y": 1, "x": 2}, "sample").values
    array([[1, 3],
           [2, 4]])
    """
    if any(size != size for size in variable.shape):
        raise ValueError("Several sample dimensions expect known chunk sizes; call compute_chunk_sizes() first.")
    missing = {dim: size for dim, size in sizes.items() if dim not in variable.dims}
    full = variable.set_dims({**missing, **variable.sizes}) if missing else variable
    tail = [dim for dim in full.dims if dim not in sizes]
    ordered = full.transpose(*sizes, *tail)
    data = ordered.data.reshape((math.prod(sizes.values()), *ordered.shape[len(sizes) :]))
    return xr.Variable((name, *tail), data)


def stacked_slices(values: Any, sizes: Mapping[Hashable, int], name: str) -> Any:
    """A slicing variable with one value for each sample; it may lack some of the dimensions."""
    shape = tuple(sizes.values())
    if isinstance(values, xr.DataArray):
        if not {*values.dims} <= {*sizes}:
            raise ValueError(f"by expects dimensions among {listed(sizes)}, got {values.dims}.")
        return stacked(values.variable, sizes, name).data
    if getattr(values, "ndim", 1) == 1 and not isinstance(values, list):
        return values
    array = plain(values)
    return array.reshape(-1) if array.shape == shape else array


@dataclass(frozen=True)
class Shape:
    """How the axes of labels and scores are read.

    Attributes
    ----------
    options : InputOptions
        What the user said.
    columns : int or None
        Number of columns of scores along the dimension of classes; None for a vector of P(y = 1).
    one_hot : bool
        Whether the labels are rows with a single 1.
    multilabel : bool
        Whether every column is a binary problem of its own.
    """

    options: InputOptions
    columns: int | None = None
    one_hot: bool = False
    multilabel: bool = False

    @property
    def vector(self) -> bool:
        """Whether scores are P(y = 1), of one problem or of several."""
        return self.columns is None or self.multilabel

    @property
    def classes(self) -> int:
        """Number of classes."""
        return 2 if self.columns is None or self.multilabel else self.columns

    @classmethod
    def of(cls, y_true: Any, y_prob: Any, options: InputOptions) -> "Shape":
        """How these are read.

        Raises
        ------
        ValueError
            If the shapes fit no reading, or several.

        Examples
        --------
        >>> Shape.of([0, 1], [[0.1, 0.9], [0.7, 0.3]], InputOptions()).columns
        2
        """
        match options.task:
            case "binary":
                return cls._binary(y_true, y_prob, options)
            case None:
                return cls._open(y_true, y_prob, options)
        columns = _columns(y_true, y_prob, options)
        if options.task == "multilabel":
            if not _has_classes(y_true, y_prob, options):
                raise ValueError(
                    "task='multilabel' expects 0 or 1 for every row and class, an array of the shape of y_prob, got "
                    f"labels {_shape(y_true)} and scores {_shape(y_prob)}" + _of_classifiers(y_prob)
                )
            return cls(options, columns, multilabel=True)
        return cls(options, columns, one_hot=_has_classes(y_true, y_prob, options))

    @classmethod
    def _binary(cls, y_true: Any, y_prob: Any, options: InputOptions) -> "Shape":
        for name, array in (("y_true", y_true), ("y_prob", y_prob)):
            if is_named(array) and options.class_dim in array.dims:
                raise ValueError(
                    f"task='binary' expects P(y = 1) without a dimension {options.class_dim!r}, but {name} has one; "
                    f"select the positive class, or rename the dimension if these are several models."
                )
        samples = len(options.sample_dims)
        shape, rows = _sizes(y_prob), _sizes(y_true)[-samples:]
        if not is_named(y_prob) and len(shape) > samples and shape[:samples] == rows != shape[-samples:]:
            raise ValueError(
                f"task='binary' reads scores {_shape(y_prob)} as (models, n), but there are {rows[0]} labels; for "
                "several models transpose the scores, for two columns (1 - p, p) give y_prob[:, 1] or "
                "task='multiclass'."
            )
        return cls(options)

    @classmethod
    def _open(cls, y_true: Any, y_prob: Any, options: InputOptions) -> "Shape":
        """Shape inferred from sizes and dimension names alone."""
        samples, class_dim = len(options.sample_dims), options.class_dim
        if is_named(y_true) and class_dim in y_true.dims:
            raise ValueError(
                f"y_true has a dimension {class_dim!r} of classes; give task='multiclass' if its rows are one-hot, or "
                "task='multilabel' if every class is a separate problem."
            )
        if is_named(y_prob):
            columns = y_prob.sizes.get(class_dim)
            if columns is not None and not is_named(y_true) and _sizes(y_true) == _sizes(y_prob) != ():
                raise _ambiguous(y_true, y_prob)
            return cls(options, columns)
        _check_single_columns(y_true, y_prob, options)
        labels, scores = ndim_of(y_true), ndim_of(y_prob)
        if labels == scores:
            if scores == samples + 1 and not is_named(y_true) and _sizes(y_true) == _sizes(y_prob):
                raise _ambiguous(y_true, y_prob)
            return cls(options)
        if scores == labels + 1 or (labels == samples and scores > samples + 1):
            if _sizes(y_prob)[-1] == 1:
                raise _single_column("y_prob")
            return cls(options, _sizes(y_prob)[-1])
        if scores == 0:
            raise ValueError("y_prob expects at least one dimension, of samples; got a single number.")
        raise ValueError(
            f"y_true and y_prob expect shapes (..., n) and (..., n) or (..., n, K), got shapes {_shape(y_true)} and "
            f"{_shape(y_prob)}" + ("; labels come first." if labels == scores + 1 else ".")
        )

    def labels(self, y_true: Any) -> xr.Variable:
        """Labels with named dimensions."""
        matrix = self.one_hot or self.multilabel
        return self._variable("y_true", y_true, (self.options.class_dim,) if matrix else ())

    def scores(self, y_prob: Any, name: str = "y_prob") -> xr.Variable:
        """Scores with named dimensions."""
        class_dim = self.options.class_dim
        variable = self._variable(name, y_prob, () if self.columns is None else (class_dim,))
        if variable.sizes.get(class_dim) == 1 and not self.multilabel:
            raise _single_column(name)
        return variable

    def weights(self, sample_weight: Any) -> xr.Variable:
        """Weights with named dimensions."""
        several = len(self.options.sample_dims) > 1
        return self._variable("sample_weight", sample_weight, (), partly=several)

    def _variable(self, name: str, values: Any, tail: tuple[str, ...], *, partly: bool = False) -> xr.Variable:
        """Unnamed dimensions are (dim_0, ..., samples, tail)."""
        dims = (*self.options.sample_dims, *tail)
        if is_named(values):
            variable = values.variable if isinstance(values, xr.DataArray) else values
            missing = [dim for dim in self.options.sample_dims if dim not in variable.dims]
            if missing and not (partly and {*variable.dims} & {*dims}):
                raise ValueError(
                    f"{name} expects a dimension {missing[0]!r} of samples, got {variable.dims}; name it by sample_dim."
                )
            return variable
        array = plain(values, name)
        if array.ndim == 0:
            raise ValueError(f"{name} expects at least one dimension, of samples; got a single number.")
        if array.ndim < len(dims):
            raise ValueError(f"{name} expects the dimensions {listed(dims)}, got an array of shape {array.shape}.")
        # As it is: to look into an array of numbers, xarray would import dask.array, which takes half a second.
        is_numbers = type(array) is np.ndarray and array.dtype.kind in "biuf"
        return xr.Variable((*(f"dim_{i}" for i in range(array.ndim - len(dims))), *dims), array, fastpath=is_numbers)


def _check_single_columns(y_true: Any, y_prob: Any, options: InputOptions) -> None:
    """Reject shapes that are off by an axis: a single column instead of a vector, or a transposed matrix."""
    if is_named(y_true) or len(options.sample_dims) > 1:
        return
    labels, scores = _sizes(y_true), _sizes(y_prob)
    if len(labels) == 2 and labels[1] == 1 < labels[0] and scores[:1] == labels[:1] and len(scores) < 3:
        both = scores == labels
        raise ValueError(
            f"y_true is a matrix of a single column, {_shape(y_true)}; give the vector y_true[:, 0]"
            + (", and y_prob[:, 0]." if both else ".")
        )
    if len(labels) == 1 and len(scores) == 2 and scores[0] != labels[0] == scores[1] and labels[0] > 0:
        raise ValueError(
            f"y_prob expects a row for each of the {labels[0]} labels, (n, K), got {_shape(y_prob)}; transpose it, "
            "y_prob.T, or, if these are several models, give task='binary'."
        )


def _of_classifiers(y_prob: Any) -> str:
    """How to mend the list of (n, 2) arrays that classifiers of scikit-learn give."""
    sizes = _sizes(y_prob)
    if len(sizes) == 3 and sizes[-1] == 2:
        return "; of a list of (n, 2) arrays give np.stack([p[:, 1] for p in y_prob], axis=1)."
    return "."


def _columns(y_true: Any, y_prob: Any, options: InputOptions) -> int:
    """Number of columns of scores of a task that has them."""
    sizes = _sizes(y_prob)
    if is_named(y_prob):
        if options.class_dim in y_prob.dims:
            return int(y_prob.sizes[options.class_dim])
    elif len(sizes) > len(options.sample_dims):
        return int(sizes[-1])
    raise ValueError(
        f"task={options.task!r} expects scores with a column for each class, (..., n, K), got {_shape(y_prob)} for "
        f"labels {_shape(y_true)}; a vector of P(y = 1) is task='binary'."
    )


def _has_classes(y_true: Any, y_prob: Any, options: InputOptions) -> bool:
    """Whether the labels have a dimension of classes."""
    if is_named(y_true):
        return options.class_dim in y_true.dims
    labels, samples = _sizes(y_true), len(options.sample_dims)
    if len(labels) <= samples:
        return False
    if len(labels) == ndim_of(y_prob):
        return True
    # Labels of several models would end in the samples; one-hot rows that the models share in the classes.
    return labels == _rows_and_columns(y_prob, options)


def _rows_and_columns(y_prob: Any, options: InputOptions) -> tuple[int, ...]:
    if is_named(y_prob):
        return tuple(y_prob.sizes[dim] for dim in (*options.sample_dims, options.class_dim) if dim in y_prob.dims)
    return _sizes(y_prob)[-len(options.sample_dims) - 1 :]


def _sizes(array: Any) -> tuple[int, ...]:
    """The shape; unknown sizes are -1."""
    if is_frame(array):
        return (-1, len(array.columns)) if array.ndim == 2 else (-1,)
    shape = array.shape if hasattr(array, "shape") else plain(array).shape
    return tuple(int(size) if size == size else -1 for size in shape)


def _shape(array: Any) -> str:
    """The shape as text."""
    if is_named(array):
        return "(" + listed(f"{dim}: {size}" for dim, size in array.sizes.items()) + ")"
    sizes = ["?" if size < 0 else str(size) for size in _sizes(array)]
    return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"


def _single_column(name: str) -> ValueError:
    return ValueError(
        f"{name} has a single class column; give the vector of P(y = 1), shape (n,), or two columns (1 - p, p)."
    )


def _ambiguous(y_true: Any, y_prob: Any) -> ValueError:
    return ValueError(
        f"y_true and y_prob both have the shape {_shape(y_true)}, which is ambiguous; set "
        "task='multiclass' if the rows of y_true are one-hot; task='multilabel' if every column is an independent "
        "label; task='binary' if the arrays are (models, n), a row of n scores for each model. At the shell: --task."
    )

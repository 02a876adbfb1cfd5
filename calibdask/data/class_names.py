"""Encoding of class names: labels as in scikit-learn's classifiers, converted to class numbers."""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np
import xarray as xr

from calibdask.data.frames import is_frame
from calibdask.data.label_numbers import (
    blocks_of,
    check_present,
    class_positions,
    collected,
    is_positive,
    other_labels,
    refuse_stray,
    shown_names,
    type_of,
    unknown_labels,
    values_of,
)
from calibdask.data.shapes import Shape
from calibdask.engine.arrays import is_dask, is_named, merged_in_float64, plain, unmasked
from calibdask.engine.row_filter import IGNORED_LABEL
from calibdask.engine.row_notes import OtherLabels
from calibdask.safe_text import check_labels, check_unicode

# How to mend names of columns that are not those of the labels.
_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_RENAME = (
    "; the columns of scores are called so: name the classes in their order by labels=... (--labels), or the columns "
    "by a pattern such as score='prob_*', whose * stands for the classes"
)


class Encoded(NamedTuple):
    """Labels as class numbers.

    Attributes
    ----------
    labels : array
    classes : array or None
        Names of the classes in the order of the columns.
    renumbered : bool
        Whether labels were names.
    others : OtherLabels or Dask collection
        Labels besides the positive one; with Dask a collection that the first pass computes.
    unknown : function, optional
        Makes a collection of Dask of labels that are none of the classes, for an error message.
    """

    labels: Any
    classes: Any = None
    renumbered: bool = False
    others: Any = OtherLabels()
    unknown: Callable[[], Any] | None = None

    def ignored(self, label: Any) -> Any:
        """The number of the labels that are left out, which had this one."""
        return IGNORED_LABEL if self.renumbered else _like(label, self.labels)


def encode_labels(y_true: Any, y_prob: Any, shape: Shape, *, whole: bool = True) -> Encoded:
    """Labels as class numbers, and the names of the classes, where these have names.

    Parameters
    ----------
    y_true : array of shape (..., n)
        Class numbers, which are returned unchanged, or names; of any kind that `calibdask.evaluate` accepts.
    y_prob : array of shape (..., n) or (..., n, K)
        Scores.
    shape : Shape
        How their axes are read, with the options ``labels``, ``pos_label`` and ``ignore_label``.
    whole : bool, default True
        Whether these are all rows, whose labels are all classes; otherwise names require ``labels``.

    Raises
    ------
    ValueError
        If labels and columns do not match, or the positive class of a vector of scores is not specified. Labels in Dask
        collections are checked when they are computed.

    Examples
    --------
    >>> from calibdask.data.options import InputOptions
    >>> shape = Shape(InputOptions(pos_label="spam"))
    >>> encode_labels(["ham", "spam"], [0.2, 0.7], shape).labels
    array([0, 1])
    """
    options = shape.options
    names = _column_names(y_prob, options.class_dim) if shape.columns is not None else None
    listed = None if options.labels is None else _listed(options.labels, y_true)
    if shape.columns is not None and options.pos_label is not None:
        raise ValueError(
            f"pos_label belongs to vectors of scores; name the {shape.columns} classes of a matrix by labels."
        )
    _check_order(listed, names, "labels")
    if shape.one_hot or shape.multilabel:
        _check_order(_column_names(y_true, options.class_dim), names, "y_true")
        known = listed or names
        return Encoded(y_true, _as_array(_checked(known, shape.columns), y_prob) if known else None)
    if getattr(type_of(y_true), "kind", "O") == "O":
        y_true = _numbers_of_objects(y_true)
    if shape.columns is None:
        has_names = options.names_classes or _has_names(y_true)
        return _encoded_outcomes(y_true, listed, shape) if has_names else Encoded(y_true)
    declared = _declared(y_true)
    unnamed = names == list(range(shape.columns)) and not (
        declared and sorted(map(str, declared)) == [*map(str, names)]
    )
    if unnamed and _has_names(y_true):
        names = None
    classes = listed or _classes_of(y_true, names, shape, whole=whole)
    if listed is None and classes is not None and len(classes) != shape.columns:
        raise ValueError(
            f"y_true expects a class for each of the {shape.columns} columns of scores, got the names of "
            f"{len(classes)}: {shown_names(classes)}. If these are the labels, name all classes in the order of the "
            "columns by labels=... (--labels)."
        )
    if classes is None or (classes == list(range(shape.columns)) and declared is None):
        return Encoded(y_true, _as_array(listed or names, y_prob))
    mend = "" if listed is not None or classes is not names else _RENAME
    names_of_columns = _checked(classes, shape.columns)
    labelled = names if listed is None and names is not None else classes
    encoded = _of_classes(y_true, names_of_columns, shape, mend)
    return encoded._replace(classes=_as_array(labelled, y_prob))


def _check_order(classes: list[Any] | None, columns: list[Any] | None, what: str) -> None:
    """Reject classes that are the column names in another order, since one of the two must be wrong."""
    if classes and columns:
        ours, theirs = [str(name) for name in classes], [str(name) for name in columns]
        if ours != theirs and sorted(ours) == sorted(theirs):
            raise ValueError(
                f"{what} expects the order of the columns of y_prob, which are called {shown_names(columns)}, got "
                f"{shown_names(classes)}; use the same order for both."
            )


def _as_array(names: list[Any] | None, y_prob: Any) -> Any:
    """Names along the dimension of classes; objects where they come from a data frame, or are of several types."""
    if names is None:
        return None
    check_labels("Each class", names)
    array = np.asarray(names)
    return np.asarray(names, object) if hasattr(y_prob, "columns") or array.tolist() != names else array


def _checked(names: list[Any], columns: int | None) -> list[Any]:
    """Check that there is one name per column, and return the names."""
    if len(names) != columns:
        raise ValueError(
            f"labels expects one class for each of the {columns} columns of scores, in their order, got {len(names)}: "
            f"{shown_names(names)}."
        )
    return names


def _of_classes(y_true: Any, names: list[Any], shape: Shape, mend: str = "") -> Encoded:
    """Positions among the names of classes, and the labels that are none of them, if there are any."""
    labels = _encode(y_true, partial(class_positions, names=names, shape=shape))
    found = partial(collected, _data(y_true), partial(unknown_labels, names=names, shape=shape, mend=mend))
    if is_dask(_data(labels)):
        return Encoded(labels, renumbered=True, unknown=found)
    others = found() if (np.asarray(_data(labels)) < 0).any() else OtherLabels()
    return Encoded(labels, renumbered=True, others=others)


def _encoded_outcomes(y_true: Any, listed: list[Any] | None, shape: Shape) -> Encoded:
    """Outcomes of the class whose probability a vector of scores is."""
    pos_label = None if shape.options.pos_label is None else _like(shape.options.pos_label, y_true)
    if listed is not None:
        return _of_classes(y_true, _outcome_classes(listed, pos_label), shape)
    if pos_label is None:
        _refuse_names(y_true)
    outcomes = _encode(y_true, partial(is_positive, pos_label=pos_label, shape=shape))
    others = collected(_data(y_true), partial(other_labels, pos_label=pos_label, shape=shape))
    return Encoded(outcomes, renumbered=True, others=others)


def _classes_of(y_true: Any, names: list[Any] | None, shape: Shape, *, whole: bool) -> list[Any] | None:
    """Classes in the order of the columns, if labels or columns determine it; None if numbers are positions."""
    if _has_names(y_true):
        if not (whole or names or _declared(y_true)):
            raise ValueError("Class names in blocks require labels=..., the classes in the order of the scores.")
        return names or _declared(y_true) or _distinct(y_true, shape)
    return _whole_numbers(names, shape.columns)


def _whole_numbers(names: list[Any] | None, columns: int | None) -> list[int] | None:
    """The numbers that columns are called by: numbers themselves, or digits that number all classes.

    Examples
    --------
    >>> _whole_numbers(["p_2", "p_0", "p_1"], 3), _whole_numbers(["p_2", "q_0", "p_1"], 3)
    ([2, 0, 1], None)
    """
    if not names:
        return None
    if all(isinstance(name, int | np.integer) and not isinstance(name, bool) for name in names):
        return [int(name) for name in names]
    matches = [re.fullmatch(r"(.*?)(\d+)", name) for name in names if isinstance(name, str)]
    digits = [int(match[2]) for match in matches if match]
    # The same text may stand before the digits of all.
    alike = len({match[1] for match in matches if match}) == 1
    return digits if alike and columns is not None and sorted(digits) == list(range(columns)) else None


def _has_names(y_true: Any) -> bool:
    """Whether labels are other than numbers; categories of numbers without gaps are numbers."""
    dtype = type_of(y_true)
    categories = getattr(dtype, "categories", None)
    if categories is not None:
        return getattr(categories.dtype, "kind", "O") not in "fiub" or [*categories] != [*range(len(categories))]
    return getattr(dtype, "kind", "O") not in "fiub"


def _declared(y_true: Any) -> list[Any] | None:
    """The classes of categorical labels in their declared order."""
    categories = getattr(type_of(y_true), "categories", None)
    known = getattr(getattr(y_true, "cat", None), "known", True)
    return [*categories] if categories is not None and known else None


def _numbers_of_objects(y_true: Any) -> Any:
    """Numbers that are stored as objects, as numbers."""
    values = _data(y_true)
    if is_dask(values) or is_frame(y_true) or getattr(type_of(y_true), "categories", None) is not None:
        return y_true
    import pandas as pd

    array = plain(values, "y_true")
    if pd.api.types.infer_dtype(array.ravel(), skipna=True) not in (
        "integer", "boolean", "floating", "mixed-integer-float", "integer-na",
    ):  # fmt: skip
        return y_true
    missing = pd.isna(array)
    numbers = np.where(missing, np.nan, array).astype(np.float64)
    if merged_in_float64(numbers) is not None:
        # Class numbers are small; these are names, and as objects they are told apart.
        return y_true
    return y_true.copy(data=numbers) if is_named(y_true) else numbers


def _listed(labels: Any, y_true: Any) -> list[Any]:
    """The classes that the user lists, checked to be distinct."""
    if isinstance(labels, str | Mapping) or not np.iterable(labels):
        raise ValueError(
            "labels expects a list of the classes, in the order of the columns, got "
            f"{type(labels).__name__} {labels!r}."
        )
    names = np.asarray(labels, object).ravel().tolist()
    check_labels("labels", names)
    if len(set(names)) != len(names) or len(names) < 2:
        raise ValueError(f"labels expects different classes, at least two of them, got {labels!r}.")
    return [_like(name, y_true) for name in names]


def _like(name: Any, y_true: Any) -> Any:
    """A class as the labels have it: texts as typed at a shell name numbers among numbers, booleans among booleans."""
    if isinstance(name, str) and getattr(type_of(y_true), "kind", "O") == "b" and name.lower() in _TRUTH:
        return _TRUTH[name.lower()]
    if isinstance(name, str) and not _has_names(y_true):
        try:
            name = float(name) if "." in name else int(name)
        except ValueError:
            return name
    if _is_float(y_true) and isinstance(name, int | float | np.number) and merged_in_float64([name]) is not None:
        raise ValueError(
            f"y_true expects classes below 2**53, as integers with missing values become floating-point numbers, which "
            f"cannot distinguish larger neighbours, got {name}; give such classes as text."
        )
    return name


def _is_float(y_true: Any) -> bool:
    return getattr(type_of(y_true), "kind", "O") == "f"


def _column_names(y_prob: Any, class_dim: str) -> list[Any] | None:
    """The names of the columns of scores."""
    if isinstance(y_prob, xr.DataArray):
        return y_prob[class_dim].values.tolist() if class_dim in y_prob.coords else None
    # The columns of an Arrow table are those themselves.
    columns = getattr(y_prob, "column_names", getattr(y_prob, "columns", None))
    return None if columns is None else list(columns)


def _distinct(y_true: Any, shape: Shape) -> list[Any]:
    """The distinct classes, sorted as by scikit-learn's classifiers."""
    values = _data(y_true)
    if is_dask(values):
        raise ValueError("Class names in a Dask collection require labels=..., the classes in the order of the scores.")
    import pandas as pd

    with _whole_characters(plain(values)) as given:
        names = pd.unique(given.ravel())
    if shape.options.skip_missing:
        names = names[~np.asarray(pd.isna(names))]
    elif pd.isna(names).any():
        check_present(given)
    ordered = sorted(names.tolist())
    numbers = [name for name in ordered if isinstance(name, str) and re.fullmatch(r"-?\d+", name)]
    if len(numbers) == len(ordered) and numbers != sorted(numbers, key=int):
        warnings.warn(
            f"Class names that are numbers were sorted as text, {shown_names(ordered)}, as scikit-learn does; if the "
            "columns of y_prob have another order, give labels=..., the classes in the order of the columns.",
            UserWarning,
            stacklevel=6,
        )
    return ordered


def _refuse_names(y_true: Any) -> NoReturn:
    """Raise ValueError: class names need a positive class."""
    refuse_stray(blocks_of(_data(y_true)))
    raise ValueError(
        "Class names require pos_label=... (--pos-label), the class whose probability the vector of scores holds; or "
        "labels=..., both classes with this one last. Without, y_true expects the class numbers 0 and 1, got type "
        f"{type_of(y_true)}."
    )


def _outcome_classes(labels: list[Any], pos_label: Any) -> list[Any]:
    """The two classes, the positive one last."""
    if len(labels) != 2:
        raise ValueError(f"A vector of scores expects labels of two classes, got {len(labels)}: {shown_names(labels)}.")
    if pos_label is not None and pos_label not in labels:
        raise ValueError(f"pos_label expects one of {shown_names(labels)}, got {pos_label!r}.")
    return labels[::-1] if pos_label == labels[0] else labels


def _data(array: Any) -> Any:
    return array.data if is_named(array) else array


def _encode(y_true: Any, encode: Callable[[np.ndarray], np.ndarray]) -> Any:
    """Encode all labels, keeping the container type; Dask labels stay lazy."""
    if is_named(y_true):
        return y_true.copy(data=_encode(y_true.data, encode))
    if is_frame(y_true):
        import pandas as pd

        return y_true.map_partitions(_encoded_series, encode, meta=pd.Series([], dtype=np.int64))
    if is_dask(y_true):
        return y_true.map_blocks(_encoded, encode, dtype=np.int64, meta=np.empty((0,) * y_true.ndim, np.int64))
    return _encoded(values_of(y_true), encode)


def _encoded(values: np.ndarray, encode: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    with _whole_characters(unmasked(values)) as given:
        return encode(given).astype(np.int64)


@contextmanager
def _whole_characters(values: np.ndarray) -> Iterator[np.ndarray]:
    """Name the row of a label which pandas cannot hash, since it has a lone surrogate."""
    try:
        yield values
    except UnicodeEncodeError:
        check_unicode("Each class", values.ravel().tolist(), lambda row: f" in row {row}")
        raise


def _encoded_series(part: Any, encode: Callable[[np.ndarray], np.ndarray]) -> Any:
    import pandas as pd

    return pd.Series(_encoded(part.to_numpy(), encode), index=part.index)

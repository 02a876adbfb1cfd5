"""Labels of slices that several summaries have: united, found again, and as values that JSON holds."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from calibdask.engine.axes import check_identifiers

Labels = npt.NDArray[Any]

_TEXT = "text"


def as_index(labels: Labels) -> "pd.Index[Any]":
    """Labels as a pandas index as xarray builds it: texts become objects."""
    return pd.Index(labels.astype(object), dtype=object) if labels.dtype.kind in "OUT" else pd.Index(labels)


def united(axis: Hashable, indexes: Sequence[Any], dtypes: Sequence[np.dtype[Any]]) -> Labels:
    """Union of the labels of all indexes along an axis; sorted unless all indexes are equal.

    Raises
    ------
    ValueError
        If they cannot be compared.
    """
    first = indexes[0]
    labels = first
    if not all(index.equals(first) for index in indexes):
        try:
            labels = first.append([*indexes[1:]]).unique().sort_values()
        except TypeError as error:
            raise ValueError(f"Summaries expect labels of one kind along {axis!r}; {error}.") from error
    same_kind = len({dtype.kind for dtype in dtypes}) == 1
    if not same_kind and labels.dtype.kind == "f":
        check_identifiers(labels.values)
    if not same_kind and {dtype.kind for dtype in dtypes} <= {*"OUT"}:
        # Texts of NumPy, and texts that it would change.
        return np.asarray(labels, object)
    values: Labels = labels.values
    return values.astype(np.result_type(*dtypes)) if same_kind else values


def positions(own: Labels, labels: Labels) -> npt.NDArray[np.intp]:
    """Where labels are among those that were united."""
    if own.dtype == labels.dtype and np.array_equal(own, labels):
        return np.arange(len(labels))
    position = {label: number for number, label in enumerate(_comparable(labels))}
    # Dates of one unit, and texts of one type.
    return np.array([position[label] for label in _comparable(own.astype(labels.dtype))], np.intp)


def to_json(labels: Labels) -> dict[str, Any]:
    """Labels with their type; missing numbers are null."""
    match labels.dtype.kind:
        case "M":
            return {"type": labels.dtype.str, "values": np.datetime_as_string(labels).tolist()}
        case "m":
            return {"type": labels.dtype.str, "values": labels.astype(np.int64).tolist()}
        case "f":
            values = [None if value != value else value for value in labels.tolist()]
            return {"type": labels.dtype.str, "values": values}
        case "b" | "i" | "u":
            return {"type": labels.dtype.str, "values": labels.tolist()}
    return {"type": _TEXT, "values": [str(label) for label in labels]}


def from_json(known: Mapping[str, Any]) -> Labels:
    """The labels again.

    Examples
    --------
    >>> from_json(to_json(np.array([1.0, np.nan])))
    array([ 1., nan])
    """
    if known["type"] == _TEXT:
        return texts_of(known["values"])
    kind = np.dtype(known["type"])
    values = [np.nan if value is None else value for value in known["values"]]
    return np.array(values, np.int64).astype(kind) if kind.kind == "m" else np.array(values, kind)


def texts_of(values: Sequence[str]) -> Labels:
    r"""Texts as an array: objects where NumPy's type of texts, which drops NUL at their end, would change one.

    Examples
    --------
    >>> texts_of(["a", "b"]).dtype.kind, texts_of(["a", "a\0"]).tolist()
    ('U', ['a', 'a\x00'])
    """
    texts = np.array(values, np.str_)
    return texts if texts.tolist() == [*values] else np.array(values, object)


def _comparable(labels: Labels) -> list[Any]:
    """Comparable labels: None replaces NaN, so that missing labels are equal."""
    return [None if label != label else label for label in np.asarray(labels).tolist()]

"""Fitted calibrators as mappings that JSON holds: parameters and a few numbers."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from calibdask import __version__
from calibdask.calibrators.fitted import Sliced
from calibdask.engine.axes import Axis
from calibdask.safe_text import listed
from calibdask.storage.resumable_output import digest

if TYPE_CHECKING:
    from calibdask.calibrators.base import Calibrator

    CalibratorT = TypeVar("CalibratorT", bound=Calibrator)

# Of what is stored. Format 1 has no checksum: so are maps of earlier versions, and those that are written by hand.
_FORMAT = 2
FINGERPRINT = "rows_fingerprint"
_KEYS = ("format", "calibrator", "parameters", "classes", "columns", "rows", "slices", "cautions", "numbers")


def to_dict(
    calibrator: "Calibrator", sliced: Sliced, classes: Any, columns: int, further: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A fitted calibrator as a JSON document with a checksum; ``further`` holds fields of its own class."""
    slices = None
    if sliced.axes:
        names = [str(axis.name) for axis in sliced.axes]
        labels = [_plain(np.arange(axis.size) if axis.labels is None else axis.labels) for axis in sliced.axes]
        kinds = [np.asarray(axis.labels).dtype.kind for axis in sliced.axes]
        slices = {
            "names": names,
            "labels": labels,
            "kinds": kinds,
            "pooled": [_as_json(label) for label in sliced.pooled],
        }
    stored = {
        "format": _FORMAT,
        "calibrator": type(calibrator).__name__,
        "calibdask_version": __version__,
        "parameters": {name: _as_json(value) for name, value in calibrator.get_params(deep=False).items()},
        "classes": _plain(classes),
        "columns": int(columns),
        "rows": sliced.rows.tolist(),
        "slices": slices,
        "cautions": list(sliced.cautions),
        "numbers": {name: _plain(values) for name, values in sliced.numbers.items()},
        **(further or {}),
    }
    return {**stored, "checksum": _checksum(stored)}


def with_fingerprint(stored: Mapping[str, Any], fingerprint: str) -> dict[str, Any]:
    """A stored calibrator that also knows the rows that it was fitted to, by their `calibdask.fingerprint`."""
    known = {**stored, FINGERPRINT: fingerprint}
    return {**known, "checksum": _checksum(known)}


def from_dict(
    expected: "type[CalibratorT]", stored: Mapping[str, Any] | Any
) -> "tuple[CalibratorT, Sliced, np.ndarray, int]":
    """A calibrator with the stored parameters, its numbers, classes and number of columns.

    Raises
    ------
    ValueError
        If the mapping is not of this kind, has a later format, was changed, or stores another calibrator.
    """
    keys: Any = stored if isinstance(stored, Mapping) else ()
    if missing := [key for key in _KEYS if key not in keys]:
        raise ValueError(f"from_dict expects what to_dict returned; it lacks {listed(missing)}.")
    if stored["format"] not in (1, _FORMAT):
        raise ValueError(
            f"from_dict expects format 1 or {_FORMAT}, got {stored['format']!r}, of calibdask "
            f"{stored.get('calibdask_version')}; this is calibdask {__version__}."
        )
    # Where there is a checksum it is checked: of a damaged map the format may be wrong as well.
    if (stored["format"] == _FORMAT or "checksum" in stored) and stored.get("checksum") != _checksum(stored):
        raise ValueError(
            "from_dict expects what to_dict returned, but its checksum does not match: it was damaged, or changed by "
            "hand; fit it again, or, if the change is intended, remove its checksum and set its format to 1."
        )
    kind = _class_of(stored["calibrator"])
    if not issubclass(kind, expected):
        raise ValueError(
            f"{expected.__name__}.from_dict expects a {expected.__name__}, got a {kind.__name__}; "
            "Calibrator.from_dict takes any."
        )
    try:
        calibrator = kind(**stored["parameters"])
        sliced = _sliced(stored)
        return calibrator, sliced, np.asarray(stored["classes"]), int(stored["columns"])
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(
            "from_dict expects what to_dict returned; parts of it are missing or have other types: it is damaged."
        ) from error


def _sliced(stored: Mapping[str, Any]) -> Sliced:
    """The numbers of all slices."""
    numbers = {name: _numbers(values) for name, values in stored["numbers"].items()}
    rows, slices = np.asarray(stored["rows"], np.int64), stored["slices"]
    if not numbers or any(len(values) != len(rows) for values in numbers.values()):
        raise ValueError("from_dict expects numbers for each of its slices; the mapping is damaged.")
    axes: tuple[Axis, ...] = ()
    if slices:
        labels = map(_labels, slices["labels"], slices["kinds"])
        axes = tuple(Axis(name, len(values), values) for name, values in zip(slices["names"], labels, strict=True))
    pooled = tuple(slices["pooled"]) if slices else ()
    return Sliced(numbers, rows, axes, pooled, tuple(stored["cautions"]))


def _checksum(stored: Mapping[str, Any]) -> str:
    """Digest of the document without its checksum, independent of key order and number formatting."""
    return digest(_canonical({key: value for key, value in stored.items() if key != "checksum"}))


def _canonical(value: Any) -> Any:
    """Whole numbers as integers: some programs write 1.0 as 1."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _class_of(name: Any) -> "type[Any]":
    from calibdask.calibrators.base import Calibrator

    package = importlib.import_module("calibdask")
    kind = getattr(package, name, None) if isinstance(name, str) and name in package.__all__ else None
    if not (isinstance(kind, type) and issubclass(kind, Calibrator)):
        raise ValueError(f"from_dict expects a calibrator of calibdask, got {name!r}.")
    return kind


def _labels(values: Any, kind: str) -> np.ndarray:
    """Labels of slices; dates are stored as text, missing numbers as None."""
    if kind == "f":
        return _numbers(values)
    return np.asarray(values, "datetime64[ns]" if kind == "M" else object if kind == "O" else None)


def _plain(values: Any) -> Any:
    """Nested lists of numbers and text; NaN, which JSON lacks, is None."""
    array = np.asarray(values)
    if array.dtype.kind == "f":
        array = array.astype(object)
        array[np.isnan(np.asarray(values))] = None
    return array.astype(str).tolist() if array.dtype.kind == "M" else array.tolist()


def _numbers(values: Any) -> np.ndarray:
    return np.asarray(values, object).astype(np.float64) if values is not None else np.array(np.nan)


def _as_json(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value)
    return list(map(_as_json, value)) if isinstance(value, list | tuple) else value

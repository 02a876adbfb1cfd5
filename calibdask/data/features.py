"""Further columns of the rows that audits describe segments by: numbers, dates, categories and texts, as they are."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import xarray as xr

from calibdask.engine.arrays import is_dask, is_pandas, local_times, plain, unmasked, without_zone

Kind = Literal["number", "date", "category", "text"]

_SECOND, _UNIT = np.timedelta64(1, "s"), "s"
# What pandas calls objects that are numbers, and dates.
_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")
_DATES = ("datetime", "datetime64", "date")


@dataclass(frozen=True, eq=False)
class FeatureColumn:
    """A column of the rows.

    Attributes
    ----------
    name : str
    kind : {"number", "date", "category", "text"}
    values : array of shape (n,)
        Numbers; dates, or seconds as float64; numbers of categories, -1 for none; texts or other objects. NumPy or
        Dask; until frames of Dask are joined, a series.
    labels : tuple of str or None
        The categories.
    unit : str
        Of numbers that are durations: seconds.
    """

    name: str
    kind: Kind
    values: Any
    labels: tuple[str, ...] | None = None
    unit: str = ""

    def check_rows(self, n: float) -> None:
        """Raise ValueError unless there is a value for each of the ``n`` rows."""
        shape = self.values.shape
        if len(shape) != 1 or (shape[0] == shape[0] and n == n and shape[0] != n):
            raise ValueError(
                f"Feature {self.name!r} expects one value for each of the {n} rows, got an array of shape {shape}."
            )


def feature_column(name: str, values: Any) -> FeatureColumn:
    """The column of an array, a series of pandas, or what has been made of one of Dask.

    Raises
    ------
    ValueError
        If values are nested, or records.
    """
    if isinstance(values, FeatureColumn):
        return replace(values, name=name)
    if isinstance(values, xr.DataArray):
        values = values.data
    values = without_zone(values)
    categorical = getattr(values, "cat", values)
    if hasattr(categorical, "categories") and not is_dask(values):
        labels = tuple(map(str, categorical.categories))
        return FeatureColumn(name, "category", np.asarray(categorical.codes), labels)
    if is_pandas(values) and values.ndim == 1 and not isinstance(values.dtype, np.dtype):
        # Types of pandas know what is missing.
        values = values.to_numpy(object)
    array = plain(values, f"feature {name!r}")
    kind = array.dtype.kind
    if kind in "iufm":
        return FeatureColumn(name, "number", array, unit=_UNIT if kind == "m" else "")
    if kind == "b":
        return FeatureColumn(name, "category", array, ("False", "True"))
    if kind == "M":
        return FeatureColumn(name, "date", array)
    if kind not in "OUST":
        raise ValueError(f"Feature {name!r} expects numbers, dates, categories or texts, got {array.dtype}.")
    return FeatureColumn(name, "text", array) if is_dask(array) else _of_objects(name, np.asarray(unmasked(array)))


def _of_objects(name: str, array: np.ndarray) -> FeatureColumn:
    """Objects that are all numbers or dates are such; others are known by their texts."""
    import pandas as pd

    if array.dtype.kind in "US":
        return FeatureColumn(name, "text", array)
    array = array.astype(object)
    inferred = pd.api.types.infer_dtype(array, skipna=True)
    absent = np.asarray(pd.isna(array), bool) if array.ndim == 1 else np.zeros(array.shape, bool)
    if inferred in _NUMBERS:
        numbers = np.full(array.shape, np.nan)
        numbers[~absent] = array[~absent].astype(np.float64)
        return FeatureColumn(name, "number", numbers)
    if inferred in _DATES:
        array = local_times(array)
        return FeatureColumn(name, "date", pd.to_datetime(pd.Series(array)).to_numpy("M8[s]"))
    if inferred == "boolean":
        codes = np.full(array.shape, -1, np.int8)
        codes[~absent] = array[~absent].astype(bool)
        return FeatureColumn(name, "category", codes, ("False", "True"))
    nested = next((value for value in array.ravel()[:1].tolist() if isinstance(value, dict | list | tuple | set)), None)
    if nested is not None:
        raise ValueError(
            f"Feature {name!r} expects one value in each row, got values of type {type(nested).__name__}; take a field."
        )
    if absent.any():
        array[absent] = None
    return FeatureColumn(name, "text", array)


def series_feature(series: Any) -> FeatureColumn:
    """The column of a series of Dask, as a series of numbers; a pass over it finds the values of texts."""
    import pandas as pd

    from calibdask.data.containers import DaskColumns
    from calibdask.data.frames import series_labels

    series = without_zone(series)
    kind = getattr(series.dtype, "kind", "O")
    name = str(series.name)
    if kind == "M":
        return FeatureColumn(name, "date", series.map_partitions(_seconds, meta=pd.Series([], dtype=np.float64)))
    if kind in "iuf":
        return FeatureColumn(name, "number", DaskColumns.numbers(series))
    if kind == "m":
        seconds = series.map_partitions(_durations, meta=pd.Series([], dtype=np.float64))
        return FeatureColumn(name, "number", seconds, unit=_UNIT)
    codes, labels, _ = series_labels(series.astype(object) if kind == "b" else series)
    numbers = codes.map_partitions(_without_last, len(labels), meta=pd.Series([], dtype=np.int32))
    return FeatureColumn(name, "category", numbers, tuple(map(str, labels)))


def _without_last(codes: Any, last: int) -> Any:
    return codes.where(codes != last, -1).astype(np.int32)


def _seconds(part: Any) -> Any:
    import pandas as pd

    seconds = part.to_numpy(dtype="M8[s]")
    return pd.Series(np.where(np.isnat(seconds), np.nan, seconds.astype(np.int64)), part.index)


def _durations(part: Any) -> Any:
    import pandas as pd

    durations = part.to_numpy(dtype="m8[ns]")
    return pd.Series(np.where(np.isnat(durations), np.nan, durations / _SECOND), part.index)

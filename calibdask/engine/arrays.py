"""Arrays of all supported kinds as NumPy or Dask arrays."""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr


def is_dask(array: Any) -> bool:
    """Whether this is a Dask collection; does not import dask."""
    return type(array).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(array, "dask")


def in_memory(values: Any) -> Any:
    """The values of a Dask collection, computed on `scheduler`; others as they are."""
    if not is_dask(values):
        return values
    from calibdask.engine.workers import scheduler

    return values.compute(scheduler=scheduler())


def is_named(array: Any) -> bool:
    """Whether the dimensions have names."""
    return isinstance(array, xr.DataArray | xr.Variable)


def is_pandas(array: Any) -> bool:
    """Whether this is a series or a data frame of pandas; does not import pandas."""
    return type(array).__module__.partition(".")[0] == "pandas" and hasattr(array, "index") and hasattr(array, "loc")


def ndim_of(array: Any) -> int:
    """Number of dimensions."""
    return int(array.ndim) if hasattr(array, "ndim") else np.ndim(array)


def with_axis(array: Any, axis: int) -> Any:
    """The array with one more axis of size 1; for Dask as a blockwise layer, which fuses where slicing does not."""
    if not is_dask(array):
        return np.expand_dims(array, axis)
    return array.map_blocks(
        np.expand_dims, axis=axis, new_axis=axis, dtype=array.dtype, meta=np.empty((0,) * (array.ndim + 1), array.dtype)
    )


def plain(array: Any, name: str = "An array") -> Any:
    """A NumPy or Dask array from an array, a data frame, a series, a tensor of another library or a list."""
    if is_dask(array):
        return array.map_blocks(unmasked, dtype=array.dtype) if _is_masked(getattr(array, "_meta", None)) else array
    if type(array) is np.ndarray and array.dtype.kind != "O":
        return array
    array = without_zone(array)
    # The to_numpy of Arrow refuses texts.
    if hasattr(array, "to_numpy") and type(array).__module__.partition(".")[0] != "pyarrow":
        array = array.to_numpy()
    if isinstance(array, np.ndarray):
        return local_times(unmasked(array))
    if speaks_protocols(array):
        return unmasked(host_array(name, array))
    if isinstance(array, list | tuple):
        # Converted as one array, masked rows would lose their masks.
        array = [unmasked(row) if _is_masked(row) and row.ndim else row for row in array]
    made = np.asarray(array)
    # NumPy makes the text "nan" of a missing value among texts.
    is_text = made.dtype.kind == "U" and made.ndim == 1 and isinstance(array, list)
    return np.array(array, object) if is_text and any(one != one for one in array) else made


class StrayValue(ValueError):
    """A value that is no number, or no score: the expectation, the row and its value, and how to mend it.

    ``is_text`` says whether it is the text of a number; ``is_located`` whether the row is that of all rows, not of a
    block.
    """

    def __init__(self, what: str, row: int, mend: str, is_text: bool = False, is_located: bool = False) -> None:
        # All of them are arguments of the error, with which it travels between processes.
        super().__init__(what, row, mend, is_text, is_located)
        self.what, self.row, self.mend, self.is_text, self.is_located = what, row, mend, is_text, is_located

    def __str__(self) -> str:
        return f"{self.what} in row {self.row}{self.mend}"

    def after(self, rows: int) -> "StrayValue":
        """The value in a block that comes after so many rows."""
        return self if self.is_located else StrayValue(self.what, self.row + rows, self.mend, self.is_text, True)

    def in_block(self, block_info: Any) -> "StrayValue":
        """The value in a block of Dask, where that knows its first row."""
        start = block_info[0]["array-location"][0][0] if block_info else np.nan
        return self if np.isnan(start) else self.after(int(start))


def refuse_strays(name: str, blocks: Iterable[npt.NDArray[Any]], mend: str = "") -> None:
    """Raise `StrayValue` for the first value in blocks of rows that is no number, or else for the first text of one.

    Examples
    --------
    >>> refuse_strays("y_prob", [np.array(["0.5"], object), np.array(["high"], object)])
    Traceback (most recent call last):
    calibdask.engine.arrays.StrayValue: y_prob expects numbers, got 'high', of type str, in row 1; repair these values,
    or convert them by astype(float).
    """
    import pandas as pd

    rows, first = 0, None
    for block in blocks:
        absent = np.asarray(pd.isna(block))
        for (row, *column), value in np.ndenumerate(block):
            if isinstance(value, Real | Decimal) or absent[(row, *column)]:
                continue
            shown = value.item() if isinstance(value, np.str_ | np.bytes_) else value
            place = f", column {column[0]}" if column else ""
            mend = mend or "; repair these values, or convert them by astype(float)."
            what = f"{name} expects numbers, got {shown!r}, of type {type(shown).__name__},"
            is_text = isinstance(value, str | bytes) and is_number(value)
            stray = StrayValue(what, rows + row, place + mend, is_text)
            if not is_text:
                raise stray
            first = first or stray
        rows += len(block)
    if first is not None:
        raise first


def numbers_of_objects(array: np.ndarray, name: str, block_info: Any = None) -> np.ndarray:
    """Scores or weights that are stored as objects - floats, decimals, None - as float64; others as they are.

    Dask says by ``block_info`` where a block is.

    Examples
    --------
    >>> from decimal import Decimal
    >>> numbers_of_objects(np.array([Decimal("0.5"), None], object), "y_prob")
    array([0.5, nan])
    """
    # Labels may be names: they have rules of their own.
    if array.dtype.kind not in "OSU" or name == "y_true":
        return array
    import pandas as pd

    absent = np.asarray(pd.isna(array))
    present = array[~absent]
    stray = next((value for value in present.ravel() if not isinstance(value, Real | Decimal)), None)
    if isinstance(stray, Mapping):
        raise ValueError(
            f"{name} expects numbers, got structures with the fields {', '.join(map(str, stray))}; take one field "
            f"of them, as in [row[{list(stray)[-1]!r}] for row in column]."
        )
    if stray is not None:
        try:
            refuse_strays(name, [array])
        except StrayValue as error:
            raise error.in_block(block_info) from None
    numbers = np.full(array.shape, np.nan)
    numbers[~absent] = present.astype(np.float64)
    return numbers


def is_number(text: str | bytes) -> bool:
    """Whether a text is that of a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def local_times(array: Any) -> Any:
    """Dates with a time zone as dates of the clock there, without a zone: of ``2024-05-01 09:00+02:00`` 9 o'clock.

    Slices, periods and audits speak of local hours and days. Other arrays are returned as they are.

    Examples
    --------
    >>> import pandas as pd
    >>> local_times(pd.Series(pd.to_datetime(["2024-05-01 09:00+02:00"])).to_numpy())
    array(['2024-05-01T09:00:00.000000'], dtype='datetime64[us]')
    """
    if not isinstance(array, np.ndarray) or array.dtype.kind != "O" or array.ndim != 1:
        return array
    import pandas as pd

    # The first value that is not missing says what all are.
    first = next((value for value in array if not (np.ndim(value) == 0 and pd.isna(value))), None)
    if not isinstance(first, datetime) or first.tzinfo is None:
        return array
    return pd.Series([value if pd.isna(value) else value.replace(tzinfo=None) for value in array]).to_numpy()


def without_zone(array: Any) -> Any:
    """As `local_times`, for a series or an index of pandas or of Dask."""
    if getattr(getattr(array, "dtype", None), "tz", None) is None:
        return array
    return array.dt.tz_localize(None) if hasattr(array, "dt") else array.tz_localize(None)


def unmasked(array: Any) -> Any:
    """The array without a mask.

    Raises
    ------
    ValueError
        If values are masked.
    """
    if not _is_masked(array):
        return array
    if np.ma.getmaskarray(array).any():
        raise ValueError("Masked values are not supported; remove these rows, or give them weight 0.")
    return np.asarray(array.data)


def _is_masked(array: Any) -> bool:
    return isinstance(array, np.ma.MaskedArray)


def rows_of_lists(array: np.ndarray, name: str) -> np.ndarray:
    """A matrix of an array whose cells are lists or arrays, as in a column of vectors; missing ones are rows of NaN.

    Examples
    --------
    >>> cells = np.empty(2, object)
    >>> cells[:] = [[0.2, 0.8], [0.7, 0.3]]
    >>> rows_of_lists(cells, "y_prob").shape
    (2, 2)
    """
    if array.dtype.kind != "O" or array.ndim != 1 or not array.size:
        return array
    # Vectors of Spark ML convert themselves.
    if any(hasattr(cell, "toArray") for cell in array[:1]):
        converted = np.empty(array.size, object)
        converted[:] = [cell.toArray() if hasattr(cell, "toArray") else cell for cell in array]
        array = converted
    if not isinstance(array[0], list | tuple | np.ndarray):
        return array
    absent = np.array([not isinstance(cell, list | tuple | np.ndarray) for cell in array])
    sizes = {np.shape(cell) for cell in array[~absent]}
    if len(sizes) > 1:
        raise ValueError(
            f"{name} holds lists and expects one value per class in every row, got "
            f"{' and '.join(str(size[0]) for size in sorted(sizes)[:2])} of them."
        )
    rows = np.stack([np.asarray(unmasked(cell)) for cell in array[~absent]])
    if not absent.any():
        return rows
    matrix = np.full((array.size, *rows.shape[1:]), np.nan, np.result_type(rows, np.float16))
    matrix[~absent] = rows
    return matrix


def matrix_of_mappings(cells: np.ndarray, class_dim: str = "class") -> Any:
    """A matrix (n, names) of an array of mappings from names of classes to numbers, with the names as a coordinate.

    A name that a cell lacks, or has no value for, is NaN, and so is a row without a cell. Other arrays are unchanged.

    Examples
    --------
    >>> cells = np.array([{"yes": 0.8, "no": 0.2}, {"no": 1}], object)
    >>> matrix_of_mappings(cells).values.tolist(), matrix_of_mappings(cells)["class"].values.tolist()
    ([[0.8, 0.2], [nan, 1.0]], ['yes', 'no'])
    """
    if cells.dtype.kind != "O" or cells.ndim != 1:
        return cells
    if not isinstance(next((cell for cell in cells if cell is not None and cell == cell), None), Mapping):
        return cells
    rows = [_shares_by_class(cell, i) for i, cell in enumerate(cells)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    matrix = np.full((len(rows), len(names)), np.nan)
    place = {name: k for k, name in enumerate(names)}
    for i, row in enumerate(rows):
        for name, value in row.items():
            matrix[i, place[name]] = value
    return xr.DataArray(matrix, {class_dim: names}, ("sample", class_dim))


def _shares_by_class(cell: Any, row: int) -> Mapping[Any, float]:
    """The numbers of one cell by class, NaN for null; nothing for an empty cell."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return {}
    if not isinstance(cell, Mapping):
        raise ValueError(f"Row {row} has {cell!r}, where other rows map classes to numbers; give a mapping or null.")
    for name, value in cell.items():
        if value is not None and not isinstance(value, Real | Decimal):
            raise ValueError(f"Row {row} has {value!r} for class {name!r}; expected a number or null.")
    return {name: np.nan if value is None else float(value) for name, value in cell.items()}


def merged_in_float64(values: Any) -> int | None:
    """The first whole number so large that float64 does not tell it from its neighbours; None without any.

    Examples
    --------
    >>> merged_in_float64([7, 2**53 + 1]), merged_in_float64([0.5, np.inf])
    (9007199254740993, None)
    """
    numbers = np.asarray(values)
    if numbers.dtype.kind == "f":
        numbers = np.where(np.isfinite(numbers), numbers, 0).astype(np.float64)
    large = numbers[(numbers >= 2**53) | (numbers <= -(2**53))]
    return int(large[0]) if large.size else None


def check_types(scores: xr.Variable, others: dict[str, xr.Variable]) -> None:
    """Raise ValueError for types that cannot be scores, labels or weights."""
    if scores.dtype.kind not in "fiub":
        narrow = "; convert it to float32" if scores.dtype.kind == "V" else ""
        raise ValueError(f"y_prob expects real numbers in [0, 1], got an array of type {scores.dtype}{narrow}.")
    if others["labels"].dtype.kind not in "fiub":
        raise ValueError(
            f"y_true expects class numbers 0, 1, ..., got an array of type {others['labels'].dtype}; "
            "name the classes in the order of the score columns by labels=...."
        )
    if "weights" in others and others["weights"].dtype.kind not in "fiub":
        raise ValueError(f"sample_weight expects real numbers, got an array of type {others['weights'].dtype}.")


def speaks_protocols(array: Any) -> bool:
    """Whether this offers its numbers to other libraries, by ``__array__`` or DLPack."""
    return any(hasattr(array, name) for name in ("__array__", "__dlpack__", "__cuda_array_interface__"))


def host_array(name: str, array: Any) -> np.ndarray:
    """A NumPy array of the numbers of a tensor; those on a device are copied to the host.

    Raises
    ------
    ValueError
        If the library refuses, with its reason and how to mend it.

    Examples
    --------
    >>> host_array("y_prob", np.float32([0.25, 0.5]))
    array([0.25, 0.5 ], dtype=float32)
    """
    if getattr(array, "requires_grad", False) is True:
        raise ValueError(f"{name} requires gradients; pass {name}.detach().")
    refusals: list[Exception] = []
    for convert in (_by_array, _by_dlpack, _by_copy):
        try:
            converted = convert(array)
        # Whatever the other library raises.
        except Exception as error:
            refusals.append(error)
            continue
        if converted is not None:
            return converted
    reason = " ".join(str(refusals[0]).split()).rstrip(".") if refusals else "it offers no numbers"
    raise ValueError(
        f"{name} cannot be converted to a NumPy array: {reason}. Copy it to the host as float32 or float64 first."
    ) from (refusals[0] if refusals else None)


def _by_array(array: Any) -> np.ndarray | None:
    # A masked array stays one.
    return np.asanyarray(array) if hasattr(array, "__array__") else None


def _by_dlpack(array: Any) -> np.ndarray | None:
    if not hasattr(array, "__dlpack__"):
        return None
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return np.from_dlpack(array, device="cpu", copy=True)


def _by_copy(array: Any) -> np.ndarray | None:
    """Arrays on a GPU copy themselves where they cannot be shared."""
    if not hasattr(array, "__cuda_array_interface__"):
        return None
    copy = getattr(array, "get", None) or getattr(array, "copy_to_host", None)
    return None if copy is None else np.asarray(copy())

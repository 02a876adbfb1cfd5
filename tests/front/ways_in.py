"""A catalogue of the ways in which people hold labels and scores in arrays, each the same rows as two NumPy arrays."""

from collections.abc import Callable
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import xarray as xr

Call = dict[str, Any]

_RNG = np.random.default_rng(42)
_N, _K = 120, 3
# The same rows in every way: labels and scores of classes, and of a single column.
LABELS, SCORES = _RNG.integers(0, _K, _N), _RNG.dirichlet(np.ones(_K), _N)
OUTCOMES, VECTOR = _RNG.integers(0, 2, _N), _RNG.random(_N)
ROWS = {"matrix": {"y_true": LABELS, "y_prob": SCORES}, "binary": {"y_true": OUTCOMES, "y_prob": VECTOR}}
NAMES = np.array(["tit", "owl", "auk"])
ONE_HOT = np.eye(_K, dtype=np.int8)[LABELS]
_ORDER = [2, 0, 1]
_SHUFFLED = _RNG.permutation(_N)
_IMAGES = (4, 5, 6)


class Tensor:
    """An array of another library that converts itself by ``__array__``; its types are not those of NumPy."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def dtype(self) -> str:
        return f"torch.{self.array.dtype}"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array, dtype)


class Exported:
    """An array of another library that speaks DLPack alone."""

    def __init__(self, array: Any) -> None:
        self.array = np.ascontiguousarray(array)
        self.shape, self.ndim = self.array.shape, self.array.ndim

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def _both(convert: Callable[[Any], Any], labels: np.ndarray = LABELS, scores: np.ndarray = SCORES) -> Call:
    return {"y_true": convert(labels), "y_prob": convert(scores)}


def _lazy(array: Any, rows: int = 35, columns: int = -1) -> Any:
    return da.from_array(np.asarray(array), chunks=(rows, *[columns] * (np.ndim(array) - 1)))


def _unknown(array: Any) -> Any:
    keep = da.from_array(np.arange(2 * _N) % 2 == 0, chunks=50)
    return _lazy(np.repeat(array, 2, axis=0), 50)[keep]


def _frame(columns: Any = None) -> Any:
    return pd.DataFrame(SCORES, columns=columns)


def _named(labels: Any = LABELS, scores: Any = SCORES, dims: tuple[str, ...] = ("row",), **coords: Any) -> Call:
    return {
        "y_true": xr.DataArray(labels, dims=dims),
        "y_prob": xr.DataArray(scores, coords, (*dims, "class")),
        "sample_dim": dims[0] if len(dims) == 1 else dims,
    }


def _with_void(array: Any, void: Any) -> Any:
    """The array with every row followed by one to be ignored."""
    return np.stack([array, np.broadcast_to(void, array.shape)], axis=1).reshape(2 * _N, *array.shape[1:])


def _images(convert: Callable[[Any], Any] = np.asarray) -> Call:
    dims = ("image", "y", "x")
    return {
        "y_true": convert(LABELS.reshape(_IMAGES)),
        "y_prob": convert(SCORES.reshape(*_IMAGES, _K)),
        "sample_dim": dims,
    }


def _blocks(labels: Any = LABELS, scores: Any = SCORES) -> list[tuple[Any, Any]]:
    return [(labels[start : start + 50], scores[start : start + 50]) for start in range(0, _N, 50)]


MATRIX: dict[str, Callable[[], Call]] = {
    "lists": lambda: _both(np.ndarray.tolist),
    "every other row of a larger array": lambda: _both(lambda array: np.repeat(array, 2, axis=0)[::2]),
    "labels floats": lambda: {"y_true": LABELS.astype(np.float32), "y_prob": SCORES},
    "labels objects": lambda: {"y_true": LABELS.astype(object), "y_prob": SCORES},
    "tensors by __array__": lambda: _both(Tensor),
    "tensors by DLPack": lambda: _both(Exported),
    "dask": lambda: _both(_lazy),
    "dask, classes in chunks": lambda: {"y_true": _lazy(LABELS, 50), "y_prob": _lazy(SCORES, 35, 2)},
    "dask, unknown chunks": lambda: _both(_unknown),
    "dask labels, scores in memory": lambda: {"y_true": _lazy(LABELS), "y_prob": SCORES},
    "series and frame": lambda: {"y_true": pd.Series(LABELS), "y_prob": _frame()},
    "frame with digits for names, in another order": lambda: {
        "y_true": LABELS,
        "y_prob": _frame(["0", "1", "2"]).iloc[:, _ORDER],
    },
    "names and columns of Arrow, in another order": lambda: {
        "y_true": pa.array(NAMES[LABELS]),
        "y_prob": pa.table({name: SCORES[:, column] for column, name in reversed([*enumerate(NAMES.tolist())])}),
    },
    "frames of dask": lambda: {
        "y_true": dd.from_pandas(pd.Series(LABELS), npartitions=3),
        "y_prob": dd.from_pandas(_frame(["p_0", "p_1", "p_2"]), npartitions=3),
    },
    "xarray": _named,
    "xarray, classes first": lambda: {**_named(), "y_prob": _named()["y_prob"].T},
    "xarray with numbers for names, in another order": lambda: {
        **_named(),
        "y_prob": _named(**{"class": [0, 1, 2]})["y_prob"][:, _ORDER],
    },
    "blocks": lambda: {"y_true": _blocks()},
    "blocks of tensors": lambda: {"y_true": [(Tensor(a), Exported(b)) for a, b in _blocks()]},
    "blocks of names": lambda: {"y_true": _blocks(NAMES[LABELS]), "labels": NAMES},
    "one-hot": lambda: {"y_true": ONE_HOT, "y_prob": SCORES, "task": "multiclass"},
    "one-hot of dask, classes in chunks": lambda: {
        "y_true": _lazy(ONE_HOT, 50, 2),
        "y_prob": _lazy(SCORES),
        "task": "multiclass",
    },
    "one-hot xarray": lambda: {
        **_named(),
        "y_true": xr.DataArray(ONE_HOT, dims=("row", "class")),
        "task": "multiclass",
    },
    "one-hot blocks": lambda: {"y_true": _blocks(ONE_HOT), "task": "multiclass"},
    "names with labels": lambda: {"y_true": NAMES[LABELS], "y_prob": SCORES, "labels": NAMES},
    "names of dask with labels": lambda: {"y_true": _lazy(NAMES[LABELS]), "y_prob": _lazy(SCORES), "labels": NAMES},
    "names of columns, in another order": lambda: {
        "y_true": pd.Series(NAMES[LABELS]),
        "y_prob": _frame(NAMES)[["auk", "tit", "owl"]],
    },
    "names of dask and of columns": lambda: {
        "y_true": dd.from_pandas(pd.Series(NAMES[LABELS]), npartitions=3),
        "y_prob": dd.from_pandas(_frame(NAMES), npartitions=3),
    },
    "categories in a declared order": lambda: {
        "y_true": pd.Series(pd.Categorical(NAMES[LABELS], NAMES)),
        "y_prob": SCORES,
    },
    "categories of dask": lambda: {
        "y_true": dd.from_pandas(pd.Series(pd.Categorical(NAMES[LABELS], NAMES)), npartitions=2),
        "y_prob": dd.from_pandas(_frame(), npartitions=2),
    },
    "numbers with gaps": lambda: {"y_true": np.array([7, 3, 5])[LABELS], "y_prob": SCORES, "labels": [7, 3, 5]},
    "images": _images,
    "images, batches of models": lambda: (
        _images(lambda array: array[None]) | {"y_true": LABELS.reshape(_IMAGES), "task": "multiclass"}
    ),
    "images of dask in odd chunks": lambda: _images(lambda a: da.from_array(a, chunks=(3, 2, 4, 2)[: a.ndim])),
    "images, classes first": lambda: {
        "y_true": xr.DataArray(LABELS.reshape(_IMAGES), dims=("image", "y", "x")),
        "y_prob": xr.DataArray(SCORES.reshape(*_IMAGES, _K), dims=("image", "y", "x", "class")).transpose(
            "image", "class", "x", "y"
        ),
        "sample_dim": ("image", "y", "x"),
    },
    "rows to ignore": lambda: {
        "y_true": _with_void(LABELS, 255),
        "y_prob": _with_void(SCORES, np.nan),
        "ignore_label": 255,
    },
    "cells that are lists": lambda: {"y_true": LABELS, "y_prob": pd.Series(SCORES.tolist())},
    "blocks with rows to ignore": lambda: {
        "y_true": [(np.append(a, 255), np.append(b, b[:1], 0)) for a, b in _blocks()],
        "ignore_label": 255,
    },
}

BINARY: dict[str, Callable[[], Call]] = {
    "booleans": lambda: {"y_true": OUTCOMES.astype(bool), "y_prob": VECTOR},
    "tensors by __array__": lambda: _both(Tensor, OUTCOMES, VECTOR),
    "tensors by DLPack": lambda: _both(Exported, OUTCOMES, VECTOR),
    "series of one index": lambda: _both(lambda array: pd.Series(array, _SHUFFLED), OUTCOMES, VECTOR),
    "series of dask": lambda: _both(lambda a: dd.from_pandas(pd.Series(a), npartitions=3), OUTCOMES, VECTOR),
    "blocks": lambda: {"y_true": _blocks(OUTCOMES, VECTOR)},
    "names": lambda: {"y_true": np.array(["ham", "spam"])[OUTCOMES], "y_prob": VECTOR, "pos_label": "spam"},
    "blocks of names": lambda: {
        "y_true": _blocks(np.array(["ham", "spam"])[OUTCOMES], VECTOR),
        "pos_label": "spam",
    },
    "minus one and one": lambda: {"y_true": 2 * OUTCOMES - 1, "y_prob": VECTOR, "pos_label": 1},
    "one and two, as typed": lambda: {"y_true": OUTCOMES + 1, "y_prob": VECTOR, "pos_label": "2"},
    "both names": lambda: {"y_true": np.where(OUTCOMES, "up", "down"), "y_prob": VECTOR, "labels": ["down", "up"]},
    "categories of numbers": lambda: {"y_true": pd.Series(OUTCOMES, dtype="category"), "y_prob": VECTOR},
    "as a task": lambda: {"y_true": OUTCOMES, "y_prob": VECTOR, "task": "binary"},
    "rows to ignore": lambda: {
        "y_true": _with_void(OUTCOMES, -1),
        "y_prob": _with_void(VECTOR, np.inf),
        "ignore_label": -1,
    },
    "pixels": lambda: {
        "y_true": OUTCOMES.reshape(_IMAGES),
        "y_prob": VECTOR.reshape(_IMAGES),
        "sample_dim": ("image", "y", "x"),
    },
}

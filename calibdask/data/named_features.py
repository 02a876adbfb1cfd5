"""The further columns of rows that audits describe subgroups by, as users name or pass them."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from calibdask.data.containers import DaskColumns, StreamColumns, columns_of, has_columns
from calibdask.data.data import Data
from calibdask.data.options import InputOptions
from calibdask.data.streams import RowStream
from calibdask.safe_text import listed
from calibdask.storage.readers import further_columns
from calibdask.storage.row_table import RowTable


def data_with_features(
    y_true: Any, y_prob: Any, features: Any, sample_weight: Any, options: InputOptions, caller: str = "audit"
) -> Data:
    """The rows with their features; ``caller`` is the function that expects them, in messages.

    Raises
    ------
    ValueError
        If there are none, or rows come in batches.
    """
    if isinstance(y_true, RowTable | Data) and y_prob is None:
        data = Data.of(y_true, options=options)
    else:
        wanted = (
            _all_further(y_true, y_prob, sample_weight, options) if features is None else features_by_name(features)
        )
        if isinstance(wanted, list) and (y_prob is not None):
            raise ValueError(
                f"{caller} expects names of columns, {listed(wanted)}, together with the frame or file that contains "
                "them, got arrays; give features as a data frame, or a mapping from name to array."
            )
        data = Data.of(y_true, y_prob, wanted, sample_weight, options, are_features=True)
    if data.has_rows and (isinstance(data.labels, RowStream) or data.scores is None):
        raise ValueError(
            f"{caller} expects arrays, a frame in memory or of Dask, or the path of a file; collect lazy frames and "
            "relations first, or write them to Parquet."
        )
    if data.has_rows and not data.by:
        raise ValueError(f"{caller} expects features: a data frame, a mapping from name to array, or names of columns.")
    return replace(data, features=data.by, by={}) if data.has_rows else data


def features_by_name(features: Any) -> Any:
    """Names of columns, or a mapping from names to columns."""
    if isinstance(features, str):
        return [features]
    if isinstance(features, list | tuple) and all(isinstance(name, str) for name in features):
        return list(features)
    if isinstance(features, Mapping) and not isinstance(features, xr.Dataset):
        return dict(features)
    if isinstance(getattr(features, "name", None), str) and getattr(features, "ndim", 0) == 1:
        return {features.name: features}
    if not (has_columns(features) or isinstance(features, xr.Dataset) or _has_fields(features)):
        raise ValueError(
            "features expects a data frame, a mapping from name to array, or names of columns, got "
            f"{type(features).__name__}."
        )
    columns = columns_of(features)
    if isinstance(columns, StreamColumns):
        raise ValueError("features expects a frame in memory or of Dask; collect this one first.")
    if isinstance(columns, DaskColumns):
        return {str(name): columns.frame[name] for name in columns.names}
    return {str(name): columns.slicing(name) for name in columns.names}


def _has_fields(features: Any) -> bool:
    return isinstance(features, np.ndarray) and features.dtype.names is not None


def _all_further(y_true: Any, y_prob: Any, weight: Any, options: InputOptions) -> list[str]:
    """The names of all columns besides labels, scores and weights."""
    label, score = options.label, options.score
    used = [name for name in (weight, options.groups) if isinstance(name, str)]
    if y_prob is None and isinstance(y_true, str | os.PathLike):
        from calibdask.storage.open_store import open_store
        from calibdask.storage.readers import StoredRows

        store = open_store(os.fspath(y_true))
        return further_columns(store, label, score, used) if isinstance(store, StoredRows) else []
    if y_prob is not None or not (has_columns(y_true) or isinstance(y_true, Mapping | xr.Dataset)):
        raise ValueError("features expects a data frame, a mapping from name to array, or names of columns, got none.")
    from calibdask.storage.columns import choose_columns

    there = columns_of(y_true).names
    names = choose_columns(there, label, score, "The frame", used=used)
    further = [name for name in there if name not in (*names.columns, *used)]
    if not further:
        raise ValueError(f"audit expects additional columns as features; the frame has only {listed(there)}.")
    return further

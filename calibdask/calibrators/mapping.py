"""Maps applied to rows: checked scores of a block through the map of the slice of each row."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import xarray as xr

from calibdask.engine.arrays import StrayValue, is_dask
from calibdask.engine.sources.source import FEWEST_ROWS
from calibdask.kernels import logits
from calibdask.safe_text import listed
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.validity import Validity

# From the checked scores of a block in float64, (n,) = P(y = 1) or (n, K), to calibrated ones of the same shape;
# picklable, since Dask sends it around.
BlockMap = Callable[[Array], Array]

# The tolerances of `calibdask.evaluate`.
_VALIDITY = Validity()


@dataclass(frozen=True)
class RowMap:
    """The maps of all slices, the last of all rows; rows without a slice have the last."""

    maps: tuple[BlockMap, ...]
    logits: bool = False

    def __call__(self, scores: Any, codes: Any = None) -> Array:
        """Calibrated scores of the shape of the scores."""
        values = checked(scores, are_logits=self.logits)
        if codes is None:
            return self.maps[-1](values)
        # An empty part tells the shape, which intervals of a vector have with two columns.
        calibrated = np.empty((len(values), *self.maps[-1](values[:0]).shape[1:]))
        # By one sort: looking for the rows of each of many slices would take slices times rows.
        order = np.argsort(codes, kind="stable")
        distinct, first = np.unique(codes[order], return_index=True)
        for code, rows in zip(distinct.tolist(), np.split(order, first[1:]), strict=False):
            calibrated[rows] = self.maps[code](values[rows])
        return calibrated

    def probabilities(self, scores: Any, codes: Any = None) -> Array:
        """Calibrated probabilities of all classes, (n, K); (1 - p, p) for a vector."""
        values = self(scores, codes)
        return np.stack([1 - values, values], -1) if values.ndim == 1 else values

    @property
    def all_codes(self) -> Counts:
        """Codes of rows that need every number of the maps."""
        return np.arange(len(self.maps))

    def unknown(self, codes: Any) -> int:
        """How many rows have values that the maps do not know."""
        return int((codes < 0).sum())


class MapsRows(Protocol):
    """A map of the scores of blocks, with or without slice codes."""

    def __call__(self, scores: Any, codes: Any = None) -> Array:
        """Calibrated scores of the shape of the scores."""

    @property
    def all_codes(self) -> Any:
        """Codes of rows that need every number of the maps."""

    def unknown(self, codes: Any) -> int:
        """How many rows have values that the maps do not know."""

    def probabilities(self, scores: Any, codes: Any) -> Array:
        """Calibrated probabilities of all classes, (n, K)."""


def mapped_rows(
    row_map: MapsRows, scores: Any, given: Any, codes: Any, classes: Any, *, skip_missing: bool = False
) -> Any:
    """Probabilities (n, K): computed for NumPy arrays, lazily block by block for Dask arrays, named as given.

    With ``skip_missing`` NaN in rows that lack a score.
    """
    values: Any
    probabilities = partial(beside_missing, row_map.probabilities) if skip_missing else row_map.probabilities
    if is_dask(scores) or is_dask(codes):
        from calibdask.engine.mapped_rows import mapped_blocks

        values = mapped_blocks(probabilities, scores, codes, len(classes))
    else:
        values = probabilities(scores, None if codes is None else np.asarray(codes))
    if not isinstance(given, xr.DataArray):
        return values
    sample = "sample" if "sample" in given.dims else given.dims[0]
    others = [dim for dim in given.dims if dim != sample] or ["class"]
    coords = {dim: given[dim] for dim in given.dims if dim in given.coords}
    return xr.DataArray(values, dims=(sample, *others), coords={others[0]: classes} | coords)


def scores_through(row_map: MapsRows, scores: Any, codes: Any, classes: Any, *, skip_missing: bool = False) -> Any:
    """Calibrated scores of the shape of the scores and in their container; Dask arrays stay lazy."""
    values = getattr(scores, "data", scores) if hasattr(scores, "dims") else scores
    if is_dask(values):
        mapped = mapped_rows(row_map, values, values, codes, classes, skip_missing=skip_missing)
        mapped = mapped[:, 1] if values.ndim == 1 else mapped
    else:
        mapped = (partial(beside_missing, row_map) if skip_missing else row_map)(np.asarray(values), codes)
    return scores.copy(data=mapped) if hasattr(scores, "dims") else mapped


def probabilities_of_logits(scores: Any, *, skip_missing: bool = False) -> Any:
    """The softmax of rows of logits, or the sigmoid of a vector, in the container of the scores."""
    classes = range(2 if scores.ndim == 1 else int(scores.shape[1]))
    return scores_through(RowMap((_unchanged,), logits=True), scores, None, classes, skip_missing=skip_missing)


def _unchanged(scores: Array) -> Array:
    return scores


def beside_missing(row_map: Callable[[Any, Any], Array], scores: Any, codes: Any = None) -> Array:
    """Calibrated scores by ``row_map``; NaN for rows that lack a score."""
    values = np.asarray(scores)
    is_missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    missing = is_missing.any(tuple(range(1, values.ndim)))
    if not missing.any():
        return row_map(values, codes)
    try:
        found = row_map(values[~missing], None if codes is None else np.asarray(codes)[~missing])
    except StrayValue as error:
        row = int(np.flatnonzero(~missing)[error.row])
        raise StrayValue(error.what, row, error.mend, error.is_text) from error
    calibrated = np.full((len(values), *found.shape[1:]), np.nan)
    calibrated[~missing] = found
    return calibrated


def warn_of_unknown(row_map: MapsRows, codes: Any, names: Sequence[str], what: str, stacklevel: int) -> None:
    """Warn of rows with values of these columns that the maps do not know, and say what they have.

    Not of Dask arrays, which are not looked at yet.
    """
    if codes is None or is_dask(codes):
        return
    if rows := row_map.unknown(np.asarray(codes)):
        warnings.warn(
            f"{rows:,} of {len(codes):,} rows have values of {listed([*names])} that are unknown to the map; they get "
            f"{what}.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def checked(scores: Any, *, are_logits: bool = False) -> Array:
    """Scores as float64 in [0, 1], computed from logits if they are.

    Raises
    ------
    ValueError
        If they are not numbers, not finite, out of range, or rows do not sum to 1.
    """
    values = np.asarray(scores)
    if values.dtype.kind not in "fiub":
        raise ValueError(f"y_prob expects real numbers in [0, 1], got an array of type {values.dtype}.")
    values = values.astype(np.float64)
    if are_logits:
        return _of_logits(values)
    wrong = ~((values >= -_VALIDITY.tolerance) & (values <= 1 + _VALIDITY.tolerance))
    if wrong.any():
        raise StrayValue(
            f"y_prob expects finite scores in [0, 1], got {wrong.sum()} invalid value{'s'[: wrong.sum() - 1]}, the "
            f"first is {values[wrong][0]}",
            int(np.argwhere(wrong)[0, 0]),
            "; remove NaN and infinite values, and convert logits to probabilities first.",
        )
    sums = values.sum(-1) if values.ndim == 2 else np.ones(0)
    off = np.abs(sums - 1) > _VALIDITY.sum_tolerance
    if off.any():
        raise StrayValue(
            f"y_prob expects rows that sum to 1 (within {_VALIDITY.sum_tolerance}), got {off.sum()} invalid "
            f"row{'s'[: off.sum() - 1]}, the first sums to {sums[off][0]}",
            int(off.argmax()),
            "; normalise the rows.",
        )
    return values


def _of_logits(values: Array) -> Array:
    """Their softmax, of a vector the sigmoid."""
    wrong = ~np.isfinite(values)
    if wrong.any():
        raise StrayValue(
            f"y_prob expects finite logits, got {wrong.sum()} invalid value{'s'[: wrong.sum() - 1]}, the first is "
            f"{values[wrong][0]}",
            int(np.argwhere(wrong)[0, 0]),
            "; remove NaN and infinite values.",
        )
    if values.ndim == 1:
        logits.sigmoid(values)
    elif logits.softmax(values) == len(values) >= FEWEST_ROWS:
        raise ValueError(
            "The map expects logits, as it was fitted with logits=True, but all rows lie in [0, 1] and sum to 1, like "
            "probabilities; give it the logits, or a map that was fitted to probabilities."
        )
    return values

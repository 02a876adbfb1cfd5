"""Results read out: their numbers one by one, with intervals, labels of slices and words."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.writers import slice_dims

__all__ = ["Reading", "interval_ends", "numbers_of", "parts", "places", "plain", "readings", "rests_on", "shown_number"]

# Units of dates that name no day.
_COARSE = ("Y", "M")


@dataclass(frozen=True)
class Reading:
    """One number of a result without slices: its name, value, interval, if it has one, and what it says."""

    name: str
    value: Any
    low: Any = None
    high: Any = None
    meaning: str = ""

    @property
    def has_interval(self) -> bool:
        """Whether it has one."""
        return self.low is not None


def readings(dataset: xr.Dataset) -> list[Reading]:
    """The numbers of a result without slices, in its order, ends of intervals with what they belong to.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], {"ece": cd.ECE(bins=2)})
    >>> [(each.name, round(each.value, 3)) for each in readings(result)]
    [('ece', 0.25)]
    """
    names = [str(name) for name, variable in dataset.data_vars.items() if not variable.ndim]
    ends = interval_ends(names)
    belonging = {end for pair in ends.values() for end in pair}
    read = []
    for name in names:
        if name not in belonging:
            value, *own = (dataset[each].item() for each in (name, *ends.get(name, ())))
            low, high = own or (None, None)
            read.append(Reading(name, value, low, high, str(dataset[name].attrs.get("meaning", ""))))
    return read


def interval_ends(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Names of the ends of intervals, by that of the number that they belong to.

    Examples
    --------
    >>> interval_ends(["ece", "ece_low", "ece_high", "pvalue"])
    {'ece': ('ece_low', 'ece_high')}
    """
    there = set(names)
    pairs = {name: (f"{name}_low", f"{name}_high") for name in names}
    return {name: pair for name, pair in pairs.items() if there.issuperset(pair)}


def numbers_of(dataset: xr.Dataset) -> xr.Dataset:
    """What has one value in each slice; what has one for each class or bin is left out."""
    dims = slice_dims(dataset)
    return dataset[[name for name, variable in dataset.data_vars.items() if variable.ndim == len(dims)]]


def places(dataset: xr.Dataset) -> Iterator[tuple[dict[Any, int], dict[Any, Any]]]:
    """Every combination of slices: where it is, and its labels."""
    dims = slice_dims(dataset)
    labels = [dataset[dim].values if dim in dataset.coords else np.arange(dataset.sizes[dim]) for dim in dims]
    for place in product(*(range(dataset.sizes[dim]) for dim in dims)):
        at = dict(zip(dims, place, strict=True))
        yield at, {dim: labels[i][place[i]] for i, dim in enumerate(dims)}


def parts(dataset: xr.Dataset, dims: Sequence[Any]) -> Iterator[tuple[str, xr.Dataset]]:
    """What is at each place along some dimensions, after its labels in words.

    Examples
    --------
    >>> dataset = xr.Dataset({"ece": (("model", "fold"), [[0.1, 0.2]])}, {"model": ["forest"]})
    >>> [(words, float(one.ece)) for words, one in parts(dataset, ["model", "fold"])]
    [('forest fold 0', 0.1), ('forest fold 1', 0.2)]
    """
    for place in product(*(range(dataset.sizes[dim]) for dim in dims)):
        at = dict(zip(dims, place, strict=True))
        labels = [
            str(plain(dataset[dim].values[i])) if dim in dataset.coords else f"{dim} {i}" for dim, i in at.items()
        ]
        yield " ".join(filter(None, labels)), dataset.isel(at)


def rests_on(attributes: Mapping[str, Any]) -> list[str]:
    """What the numbers of a result rest on, in words: rows, passes, replicates."""
    rows, passes = attributes["rows"], attributes["passes"]
    words = [f"{rows:,} row{'' if rows == 1 else 's'}"]
    words.append(f"{passes} pass{'' if passes == 1 else 'es'} over the data" if passes else "from their summary")
    if "ci" in attributes:
        words.append(f"{100 * attributes['ci']:g} % intervals of {attributes['n_boot']} replicates")
    return words


def shown_number(value: Any) -> str:
    """A number in few digits; a dash for what does not exist.

    Examples
    --------
    >>> shown_number(0.25), shown_number(1e-9), shown_number(float("nan")), shown_number(12000)
    ('0.250000', '1.00e-09', '-', '12,000')
    """
    if isinstance(value, float):
        if math.isnan(value):
            return "-"
        return f"{value:.6f}" if value == 0 or abs(value) >= 1e-4 else f"{value:.2e}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def plain(value: Any) -> Any:
    """What JSON can hold: a number that is none is null, dates are texts, without a time where it is midnight.

    Examples
    --------
    >>> plain(np.datetime64("2026-01-06T00:00:00.000000000")), plain(np.datetime64("2026-01")), plain(float("nan"))
    ('2026-01-06', '2026-01', None)
    """
    if isinstance(value, np.ndarray):
        # Of dates in nanoseconds numpy would make integers.
        value = value[()] if not value.ndim else list(value) if value.dtype.kind in "mM" else value.tolist()
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.datetime64) and np.datetime_data(value)[0] not in _COARSE:
        return str(np.datetime_as_string(value, unit="auto"))
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)

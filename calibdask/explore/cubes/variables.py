"""The variables of a dataset that can be explored: of a result its metrics, of other datasets all numbers on axes."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from calibdask.results.build import FORMAT
from calibdask.results.values import PartResult, Results
from calibdask.study.reading import cell_dims

# What the cube of a study is about.
_FIRST = ("estimate", "value")


def variables_of(dataset: xr.Dataset) -> list[str]:
    """Numeric variables to explore, in their order, without bounds.

    Of other datasets estimates and values first, then the ones with most numbers.

    Examples
    --------
    >>> variables_of(xr.Dataset({"status": ("model", [1, 1]), "value": ("model", [0.1, 0.2]), "level": 0.9}))
    ['value']
    """
    parts = _parts(dataset)
    if parts:
        return [name for name, part in parts.items() if _is_explorable(part.values)]
    hidden = {"status"} if cell_dims(dataset) else set()
    names = [str(name) for name, variable in dataset.data_vars.items() if _is_explorable(variable)]
    first = list(dict.fromkeys([*recommended(dataset), *_FIRST]))
    ranks = {name: number for number, name in enumerate(first)}
    return sorted(set(names) - hidden, key=lambda name: (ranks.get(name, len(ranks)), -dataset[name].size, name))


def recommended(dataset: xr.Dataset) -> Mapping[str, Mapping[str, Sequence[Any]]]:
    """The labels that the study of a cube recommends to begin with, by variable and axis; the first variable first."""
    views: Mapping[str, Mapping[str, Sequence[Any]]] = json.loads(str(dataset.attrs.get("views", "{}")))
    return {variable: chosen for variable, chosen in views.items() if variable in dataset.data_vars}


def titles_of(dataset: xr.Dataset) -> dict[str, str]:
    """Titles of the variables of a result by name; empty for other datasets.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 0], [0.2, 0.4, 0.6, 0.8], {"mine": cd.ECE(bins=2)}, by={"day": [1, 1, 2, 2]})
    >>> titles_of(result)
    {'mine': 'ECE, 2 bins'}
    """
    titles = {name: _title(part) for name, part in _parts(dataset).items()}
    count = Counter(titles.values())
    return {name: title if count[title] == 1 else f"{title} ({name})" for name, title in titles.items()}


def interval_ends(dataset: xr.Dataset, variable: str) -> tuple[str, str] | None:
    """Variables that hold the ends of an interval around a variable, if there are two.

    A result says which these are; in other datasets names do.

    Examples
    --------
    >>> results = xr.Dataset({name: ("model", [0.1, 0.2]) for name in ("ece", "ece_low", "ece_high")})
    >>> interval_ends(results, "ece")
    ('ece_low', 'ece_high')
    """
    parts = _parts(dataset)
    if parts:
        part = parts.get(variable)
        return (str(part.bounds["low"].name), str(part.bounds["high"].name)) if part and part.has_interval else None
    pairs = [(f"{variable}_low", f"{variable}_high"), *([("low", "high")] if variable in _FIRST else [])]
    for low, high in pairs:
        if {low, high} <= set(dataset.data_vars) and dataset[low].dims == dataset[high].dims == dataset[variable].dims:
            return low, high
    return None


def references_of(dataset: xr.Dataset, variable: str) -> list[str]:
    """Variables that a variable can be compared with: those that share dimensions with it.

    Examples
    --------
    >>> cube = xr.Dataset({"estimate": (("model", "draw"), [[0.1, 0.2]]), "truth": (("model", "norm"), [[0.1, 0.3]])})
    >>> references_of(cube, "estimate")
    ['truth']
    """
    own = set(dataset[variable].dims)
    return [name for name in variables_of(dataset) if name != variable and own & set(dataset[name].dims)]


def _parts(dataset: xr.Dataset) -> dict[str, PartResult]:
    """The parts of a result by the name of their variable; none of datasets that do not describe themselves."""
    return {part.variable: part for part in Results(dataset)} if dataset.attrs.get("format") == FORMAT else {}


def _is_explorable(variable: xr.DataArray) -> bool:
    return bool(variable.ndim and variable.size and variable.dtype.kind in "fiub")


def _title(part: PartResult) -> str:
    bound = str(part.values.attrs.get("bound", ""))
    return ": ".join(filter(None, (part.label or part.metric, part.part.replace("_", " "), bound.replace("_", " "))))

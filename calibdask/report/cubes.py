"""The page of a cube: the study, its progress, its results in tables, how to reproduce it."""

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.render.drawing import forest_axis, forest_range
from calibdask.report.analysis_page import Origin
from calibdask.report.tables import drawn_cell, value_cell
from calibdask.results.document import (
    Code,
    Document,
    Element,
    Heading,
    Listing,
    Section,
    Sentence,
    Table,
    number,
    text,
)
from calibdask.results.format import counted, figure, joined
from calibdask.results.values import Value
from calibdask.storage.cube_layout import DONE, FAILED
from calibdask.storage.open_store import StoredCube
from calibdask.study.quantiles import quantiles
from calibdask.study.reading import errors_of
from calibdask.study.study import coordinates_of

Array = npt.NDArray[np.float64]

LEVELS = (0.05, 0.5, 0.95)
_REPLICATES = ("replicate", "repeat", "set", "draw", "sample", "bootstrap")
# Axes of so many consecutive numbers are replicates too.
_COUNTED = 10
# Cells are read in blocks of so many bytes.
BLOCK = 64e6


@dataclass(frozen=True, eq=False)
class ReplicateQuantiles:
    """Quantiles over the replicates of each cell, at `LEVELS` along the first axis; ``over`` are the replicates."""

    variable: str
    dims: tuple[str, ...]
    over: tuple[str, ...]
    labels: Mapping[str, Sequence[str]]
    values: Array

    def at(self, place: Mapping[str, int]) -> tuple[float, float, float]:
        """Low, middle and high at a place: medians over cells of their quantiles, or quantiles over cells."""
        values = self.values
        for dim, i in place.items():
            values = np.take(values, [i], axis=1 + self.dims.index(dim))
        flat = values.reshape(len(LEVELS), -1)
        triple = quantiles(flat, (0.5,))[0] if self.over else quantiles(flat[1:2], LEVELS)[:, 0]
        low, middle, high = triple.tolist()
        return low, middle, high


def summary_of(cube: xr.Dataset, variable: str) -> ReplicateQuantiles:
    """The summary of a variable over cells that are done.

    Examples
    --------
    >>> cube = xr.Dataset({"error": (("size", "replicate"), [[1.0, 2.0, 3.0]])}, {"size": [30]})
    >>> summary_of(cube, "error").at({"size": 0})
    (1.1, 2.0, 2.9)
    """
    array = cube[variable]
    status = cube.get("status")
    of_cells = [str(dim) for dim in status.dims] if status is not None else []
    over = tuple(str(dim) for dim in array.dims if dim not in of_cells and _is_replicate(array, str(dim)))
    kept = tuple(str(dim) for dim in array.dims if dim not in over)
    values = np.full((len(LEVELS), *(array.sizes[dim] for dim in kept)), np.nan)
    for at in _blocks(array, [dim for dim in of_cells if dim in array.dims]):
        block = array.isel(at)
        known = np.asarray(block.values, np.float64)
        if status is not None:
            done = xr.DataArray(status.isel(at).values == DONE, dims=[dim for dim in of_cells if dim not in at])
            known = block.copy(data=known).where(done).transpose(*block.dims).values
        inner = block.copy(data=known).transpose(*(dim for dim in kept if dim not in at), *over).values
        size = math.prod(array.sizes[dim] for dim in over)
        place = (slice(None), *(at.get(dim, slice(None)) for dim in kept))
        values[place] = quantiles(inner.reshape(*inner.shape[: inner.ndim - len(over)], size), LEVELS)
    labels = {dim: _labels(array, dim) for dim in kept}
    return ReplicateQuantiles(variable, kept, over, labels, values)


def _blocks(array: xr.DataArray, cells: Sequence[str]) -> list[dict[str, int]]:
    """Places along the first axes of the cells, as many as make blocks small."""
    fixed: list[str] = []
    size = array.nbytes
    for dim in cells:
        if size <= BLOCK:
            break
        fixed.append(dim)
        size //= max(1, array.sizes[dim])
    return [dict(zip(fixed, place, strict=True)) for place in product(*(range(array.sizes[dim]) for dim in fixed))]


def _is_replicate(array: xr.DataArray, dim: str) -> bool:
    """Whether an axis counts, and names nothing."""
    if dim in _REPLICATES:
        return True
    values = array[dim].values if dim in array.coords else np.arange(array.sizes[dim])
    return bool(values.size >= _COUNTED and values.dtype.kind in "iu" and (np.diff(values) == 1).all())


def _labels(array: xr.DataArray, dim: str) -> list[str]:
    values = array[dim].values if dim in array.coords else np.arange(array.sizes[dim])
    return [str(value) for value in values.tolist()]


_MOST_ERRORS, _MOST_LABELS, _MOST_ROWS, _MOST_COLUMNS, _MOST_MARGINS = 5, 8, 60, 6, 12
_LONGEST_ERROR = 1500
_ENDS = ("value", "low", "high")


def cube_page(cube: StoredCube, origin: Origin) -> Document:
    """The page of the cube of a study, which is read and closed."""
    known = cube.fingerprint
    with cube.dataset as dataset:
        parts = {
            "cells": ("Progress", _cells(dataset, known["cells"])),
            "study": ("The study", _study(known)),
            "results": ("Results", _results(dataset)),
            "reproduce": ("How to reproduce", _reproduce(cube.url, known, _versions(dataset), origin)),
        }
        sections = [Section(anchor, title, list(elements)) for anchor, (title, elements) in parts.items()]
    lead = f"The cube of the study {known['study']}, version {known.get('version', 1)}; {origin.date}"
    return Document(
        origin.title, lead, sections, f"Made by calibdask {origin.versions.get('calibdask', '')}, {origin.date}."
    )


def _cells(cube: xr.Dataset, axes: Mapping[str, Any]) -> Iterator[Element]:
    status = cube["status"].values
    done, failed = int((status == DONE).sum()), int((status == FAILED).sum())
    todo = status.size - done - failed
    summary = f"{figure(done)} of {counted(status.size, 'cell')} {'is' if done == 1 else 'are'} done"
    left = [f"{figure(number)} {word}" for number, word in ((failed, "failed"), (todo, "to do")) if number]
    yield Sentence(f"{summary}{f', {joined(left)}' if left else ''}.")
    if left:
        yield Sentence("Unfinished cells are excluded from the results below, which may change.")
    errors = errors_of(cube)
    for cell in list(errors)[:_MOST_ERRORS]:
        at = ", ".join(f"{name} = {value}" for name, value in coordinates_of(axes, cell).items())
        yield Heading(f"Failed: {at}")
        yield Code(errors[cell].strip()[-_LONGEST_ERROR:])
    if len(errors) > _MOST_ERRORS:
        yield Sentence(f"... and {counted(len(errors) - _MOST_ERRORS, 'more failed cell')}.")


def _study(known: Mapping[str, Any]) -> Iterator[Element]:
    parameters = [[text(name), text(_value_text(value))] for name, value in known["parameters"].items()]
    yield Table("Parameters", [("parameter", False), ("value", False)], parameters)
    if known.get("inputs"):
        inputs = [[text(name), text(_value_text(value))] for name, value in known["inputs"].items()]
        yield Table("Inputs of the cells, with sizes and dates", [("input", False), ("value", False)], inputs)
    axes = [
        [text(name), text(where), number(len(labels), figure(len(labels))), text(_value_text(labels))]
        for where, kind in (("of the cells", "cells"), ("within a cell", "inside"))
        for name, labels in known[kind].items()
    ]
    yield Table("Axes", [("axis", False), ("which", False), ("size", True), ("values", False)], axes)
    outputs = [[text(name), text(", ".join(dims) or "one number")] for name, dims in known["outputs"].items()]
    yield Table("Variables of each cell", [("variable", False), ("along", False)], outputs)


def _value_text(value: Any) -> str:
    """Values in a few words."""
    if not isinstance(value, list):
        return str(value)
    words = [str(item) for item in value]
    if len(words) <= _MOST_LABELS:
        return ", ".join(words)
    return f"{', '.join(words[: _MOST_LABELS - 2])}, ..., {words[-1]}"


def _results(cube: xr.Dataset) -> Iterator[Element]:
    variables = [
        str(name) for name, values in cube.data_vars.items() if values.dtype.kind in "iuf" and name != "status"
    ]
    if {*_ENDS} <= {*variables} and len({cube[name].dims for name in _ENDS}) == 1:
        yield from _intervals(cube)
        variables = [name for name in variables if name not in _ENDS]
    for name in sorted(variables):
        yield Heading(name)
        yield from _summarized(summary_of(cube, name))


def _intervals(cube: xr.Dataset) -> Iterator[Element]:
    """Values with their intervals, a table for each label of the first axis within a cell."""
    every = cube[[*_ENDS, "status"]]
    inner = [str(dim) for dim in every["value"].dims if dim not in every["status"].dims]
    apart = inner[0] if inner else ""
    for i in range(every.sizes[apart] if apart else 1):
        one = every.isel({apart: i}) if apart else every
        yield _interval_table(f"{apart} {one[apart].item()}" if apart else "value", one)


def _interval_table(caption: str, every: xr.Dataset) -> Table:
    dims, sizes = [str(dim) for dim in every["value"].dims], every["value"].shape
    most = _MOST_ROWS * _MOST_COLUMNS
    # No more is read than is shown.
    first = {dim: slice(math.ceil(most / max(1, math.prod(sizes[1:])))) for dim in dims[:1]}
    one = every.isel(first).load()
    one = one.where(one["status"] == DONE).transpose(*dims)
    positions = [dict(zip(dims, at, strict=True)) for at in islice(product(*map(range, one["value"].shape)), most)]
    values = [(at, _value(one.isel(at))) for at in positions]
    reach = forest_range([end for _, value in values for end in (value.value, value.low, value.high)])
    rows = [
        [*(text(one[dim].values[at[dim]]) for dim in dims), drawn_cell(value, reach), value_cell(value)]
        for at, value in values
    ]
    rows.append([text(""), *(text("") for _ in dims[1:]), drawn_cell(None, reach, forest_axis(reach)), text("")])
    hidden = math.prod(sizes) - len(values)
    note = f"{counted(hidden, 'row')} not shown." if hidden else ""
    return Table(caption, [*((dim, False) for dim in dims), ("", False), ("value, interval", True)], rows, note)


def _value(one: xr.Dataset) -> Value:
    value, low, high = (float(one[name]) for name in _ENDS)
    return Value("value", value, low, high)


def _summarized(summary: ReplicateQuantiles) -> Iterator[Element]:
    """The variable in a few tables: of two axes together, and of the others each by itself."""
    sizes = {dim: len(labels) for dim, labels in summary.labels.items() if 1 < len(labels) <= _MOST_ROWS}
    named = [dim for dim in sizes if not all(label.lstrip("-").isdigit() for label in summary.labels[dim])]
    down = max(named or sizes, key=sizes.__getitem__, default=None)
    yield Sentence(_how(summary), quiet=True)
    if down is None:
        low, middle, high = summary.at({})
        yield Table(
            summary.variable, [("over all", False), ("median", True)], [[text("all"), _cell(low, middle, high)]]
        )
        return
    # Numbers, such as sizes, go across: what depends on them is read along a line.
    others = [dim for dim in sizes if dim != down and sizes[dim] <= _MOST_COLUMNS]
    across = next((dim for dim in reversed(others) if dim not in named), next(reversed(others), None))
    yield _table(summary, down, across)
    for dim, size in sizes.items():
        if dim not in (down, across) and size <= _MOST_MARGINS:
            yield _table(summary, dim, None)


def _how(summary: ReplicateQuantiles) -> str:
    if summary.over:
        rest = "of that the median over all other cells and axes"
        return f"Median, 5 % and 95 % quantiles over {joined(summary.over)} within each cell; {rest}."
    return "Median, 5 % and 95 % quantiles over all cells and axes that are not shown."


def _table(summary: ReplicateQuantiles, down: str, across: str | None) -> Table:
    labels = summary.labels[down]
    headings = list(summary.labels[across]) if across else ["median"]
    rows = []
    for i, label in enumerate(labels):
        positions = [{down: i, across: j} for j in range(len(headings))] if across else [{down: i}]
        rows.append([text(label), *(_cell(*summary.at(position)) for position in positions)])
    caption = f"{summary.variable} by {down}{f' and {across}' if across else ''}"
    return Table(
        caption, [(down, False), *((f"{across} {label}" if across else label, True) for label in headings)], rows
    )


def _cell(low: float, middle: float, high: float) -> Any:
    spread = f"{figure(low)} to {figure(high)}" if math.isfinite(low) and low != high else ""
    return number(middle, figure(middle), spread)


def _versions(cube: xr.Dataset) -> list[dict[str, str]]:
    """Of those that computed cells, in the order in which they came."""
    versions = json.loads(str(cube.attrs.get("versions", "[]")))
    return versions if isinstance(versions, list) else [versions]


def _reproduce(
    store: str, known: Mapping[str, Any], versions: Sequence[Mapping[str, str]], origin: Origin
) -> Iterator[Element]:
    yield Sentence(
        f"STUDY is the folder or module:object that holds {known['study']}; the cube does not record its location. "
        "The command completes an incomplete cube."
    )
    yield Code(_command(store, known))
    claim = (
        "Numbers depend on the seed and the cell alone, not on the cluster or the order of work; of models that are "
        "trained, also on the BLAS kernels (blas)."
    )
    yield Sentence(f"{claim} Computed with:" if versions else claim)
    if versions:
        yield Listing([", ".join(f"{name} {version}" for name, version in packages.items()) for packages in versions])
    if origin.command:
        yield Sentence("This page:")
        yield Code(origin.command, copied=True)


def _command(store: str, known: Mapping[str, Any]) -> str:
    """The command of the run, one parameter a line."""
    settings = [
        f"--set {shlex.quote(f'{name}={_option_text(value)}')}"
        for name, value in known["parameters"].items()
        if value != ""
    ]
    return " \\\n  ".join([f"calibdask run STUDY --store {shlex.quote(store)}", *settings])


def _option_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)

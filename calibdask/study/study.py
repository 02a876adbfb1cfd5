"""Definition of studies: named axes, typed parameters, and one function that computes a cell."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from math import prod
from typing import Any, ClassVar

import numpy as np

from calibdask.html_repr import HtmlRepr, table_of
from calibdask.markup import Html
from calibdask.safe_text import listed
from calibdask.study.seeds import Seeds

Axes = Mapping[str, Sequence[Hashable]]


@dataclass(frozen=True, kw_only=True)
class Study(HtmlRepr, ABC):
    """A grid of cells and the function that computes each of them.

    Define a frozen dataclass: its fields are the typed parameters of the study, which ``--set name=value`` overrides
    and which are part of its fingerprint. Its methods name the axes of cells and the axes inside a cell, and compute
    one cell.

    Parameters
    ----------
    seed : int, default 0
        Root of all random numbers.

    Attributes
    ----------
    outputs : mapping from str to tuple of str
        The variables of the cube with their axes inside a cell.
    types : mapping from str to str
        Types of variables other than ``"float64"``: floats, integers or booleans.
    presets : mapping from str to mapping
        Values of parameters by name of a preset; ``--set preset=quick`` selects those of ``"quick"``.
    views : mapping from str to mapping
        Initial view of a page of the cube: labels of an axis by variable, the first variable first.
    batch : int
        Cells per task: enough for a task to take seconds.
    version : int
        Increase it when the computation of cells changes, so that old and new cells are not mixed in one cube.

    Examples
    --------
    >>> import numpy as np
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Means(Study):
    ...     rows: tuple[int, ...] = (10, 100)
    ...     replicates: int = 3
    ...     outputs: ClassVar = {"average": ("replicate",)}
    ...
    ...     def cells(self):
    ...         return {"rows": self.rows}
    ...
    ...     def inside(self):
    ...         return {"replicate": range(self.replicates)}
    ...
    ...     def cell(self, at, seeds):
    ...         draws = seeds.generator().random((self.replicates, at["rows"]))
    ...         return {"average": draws.mean(axis=1)}
    >>> study = Means(replicates=2)
    >>> [at["rows"] for at in study.coordinates()]
    [10, 100]
    """

    seed: int = 0

    outputs: ClassVar[Mapping[str, tuple[str, ...]]]
    types: ClassVar[Mapping[str, str]] = {}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    views: ClassVar[Mapping[str, Mapping[str, Sequence[Hashable]]]] = {}
    batch: ClassVar[int] = 1
    version: ClassVar[int] = 1

    @abstractmethod
    def cells(self) -> Axes:
        """The axes whose combinations are cells."""

    def inside(self) -> Axes:
        """The axes inside a cell."""
        return {}

    @abstractmethod
    def cell(self, at: Mapping[str, Any], seeds: Seeds) -> Mapping[str, Any]:
        """Compute one cell.

        Parameters
        ----------
        at : mapping
            The coordinates of the cell: one value for each axis of `cells`.
        seeds : Seeds
            Random numbers that depend only on coordinates.

        Returns
        -------
        mapping from str to array
            For each of the ``outputs`` an array with its axes, or a number if it has none.
        """

    def problems(self) -> Iterable[str]:
        """Problems of the parameters, as sentences; a study with problems does not run."""
        return ()

    def inputs(self) -> Mapping[str, Any]:
        """Inputs of cells besides parameters, such as sizes and dates of files, as numbers and texts.

        They are part of the fingerprint: a cube is not continued with other inputs.
        """
        return {}

    def type_of(self, variable: str) -> np.dtype[Any]:
        """Type in which values of a variable are stored."""
        return np.dtype(self.types.get(variable, "float64"))

    @property
    def name(self) -> str:
        """Name of the study: the name of its class."""
        return type(self).__name__

    def coordinates(self) -> Iterator[dict[str, Any]]:
        """Coordinates of all cells; the last axis varies fastest."""
        axes = self.cells()
        return (dict(zip(axes, values, strict=True)) for values in product(*axes.values()))

    def _more_html(self) -> Iterable[Html]:
        """HTML for notebooks: the axes of the cube, or the problems of the study."""
        problems = tuple(self.problems())
        if problems:
            return (table_of(("problem",), (((problem,), False) for problem in problems)),)
        axes = {"cells": self.cells(), "inside a cell": self.inside()}
        rows = [
            ((name, where, f"{len(values):,}", _spanned(values)), False)
            for where, group in axes.items()
            for name, values in group.items()
        ]
        total = f"{prod(len(values) for values in axes['cells'].values()):,} cells"
        return Html("<div>{}</div>").format(total), table_of(("axis", "of", "size", "values"), rows, right=(2,))

    def parameters(self) -> dict[str, Any]:
        """Values of all fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def computed(self, number: int) -> dict[str, np.ndarray]:
        """Compute one cell and check its results.

        Raises
        ------
        ValueError
            If the cell function returns other variables or other shapes than the study declares.
        """
        at = coordinates_of(self.cells(), number)
        results = self.cell(at, Seeds(self.seed, tuple(at.items())))
        if set(results) != set(self.outputs):
            raise ValueError(f"The cell expects the variables {sorted(self.outputs)}, got {sorted(results)}.")
        inside = self.inside()
        arrays = {}
        for variable, dims in self.outputs.items():
            shape = tuple(len(inside[dim]) for dim in dims)
            arrays[variable] = np.asarray(results[variable], self.type_of(variable))
            if arrays[variable].shape != shape:
                raise ValueError(
                    f"{variable} expects the shape {shape} of {listed(dims) or 'a single number'}, got "
                    f"{arrays[variable].shape}."
                )
        return arrays

    def with_settings(self, settings: Mapping[str, Any]) -> "Study":
        """The study with other parameters; texts are converted to the types of the parameters.

        Raises
        ------
        ValueError
            If there is no such parameter or preset, or a text cannot be converted.
        """
        known = self.parameters()
        chosen: dict[str, Any] = {}
        if "preset" in settings:
            chosen |= self._preset(settings["preset"])
        for name, value in settings.items():
            if name == "preset":
                continue
            if name not in known:
                raise ValueError(f"{self.name} has the parameters preset, {listed(known)}; got {name!r}.")
            chosen[name] = _read(name, value, known[name])
        return replace(self, **chosen)

    def _preset(self, name: Any) -> Mapping[str, Any]:
        if name not in self.presets:
            names = listed(self.presets) or "none"
            raise ValueError(f"{self.name} has the presets {names}; got {name!r}.")
        return self.presets[name]


def coordinates_of(axes: Axes, number: int) -> dict[str, Any]:
    """Coordinates of a cell by its number; the last axis varies fastest."""
    positions = np.unravel_index(number, [len(values) for values in axes.values()])
    return {name: values[int(position)] for (name, values), position in zip(axes.items(), positions, strict=True)}


def _spanned(values: Sequence[Hashable]) -> str:
    """The values of an axis, abbreviated if there are many."""
    shown = [str(value) for value in values] if len(values) <= 6 else [str(values[0]), "...", str(values[-1])]
    return listed(shown)


def _read(name: str, value: Any, like: Any) -> Any:
    """A text converted to the type of the current value."""
    if not isinstance(value, str) or isinstance(like, str):
        return value
    try:
        if isinstance(like, bool):
            return {"true": True, "false": False}[value.lower()]
        if isinstance(like, tuple):
            kind = type(like[0]) if like else str
            return tuple(kind(word) for word in value.split(",") if word)
        if isinstance(like, int) and float(value).is_integer():
            # 2e6 is an integer too.
            return int(value) if value.lstrip("+-").isdigit() else int(float(value))
        return type(like)(value)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"{name} expects a value such as {like!r}, got {value!r}.") from error

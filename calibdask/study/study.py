"""What a study is: named axes, typed parameters, and one function of a cell."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from math import prod
from typing import Any, ClassVar

import numpy as np

from calibdask.described import Described, table_of
from calibdask.study.seeds import Seeds

__all__ = ["Study", "coordinates_of"]

Axes = Mapping[str, Sequence[Hashable]]


@dataclass(frozen=True, kw_only=True)
class Study(Described, ABC):
    """A grid of cells and what is computed in each.

    Write a frozen dataclass: its fields are the typed parameters of the study, which ``--set name=value`` overrides and
    which belong to its fingerprint. Then say which axes make cells, which axes the results of a cell have, and compute
    one cell.

    Parameters
    ----------
    seed : int, default 0
        Root of all random numbers.

    Attributes
    ----------
    outputs : mapping from str to tuple of str
        Each variable of the cube and the axes that it has within a cell.
    types : mapping from str to str
        Types of variables that are not kept as ``"float64"``, of floats, whole numbers or booleans.
    presets : mapping from str to mapping
        Values of parameters by the name of a preset; ``--set preset=quick`` takes those of ``"quick"``.
    batch : int
        Cells of a task: so many that a task takes seconds.
    version : int
        Raise it when cells are computed otherwise: cubes of another version are not mixed with new cells.

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
    batch: ClassVar[int] = 1
    version: ClassVar[int] = 1

    @abstractmethod
    def cells(self) -> Axes:
        """The axes whose combinations are cells: each is a task, and whole chunks of the cube."""

    def inside(self) -> Axes:
        """The axes within a cell."""
        return {}

    @abstractmethod
    def cell(self, at: Mapping[str, Any], seeds: Seeds) -> Mapping[str, Any]:
        """Compute one cell.

        Parameters
        ----------
        at : mapping
            The coordinates of the cell, a value for each axis of `cells`.
        seeds : Seeds
            Random numbers that depend on coordinates alone.

        Returns
        -------
        mapping from str to array
            For every one of the ``outputs`` an array with its axes, or a number if it has none.
        """

    def problems(self) -> Iterable[str]:
        """What is wrong with the parameters, in sentences; a cube is laid out where there is nothing."""
        return ()

    def inputs(self) -> Mapping[str, Any]:
        """What cells read besides, such as sizes and dates of files, as numbers and texts.

        Part of the fingerprint: a cube of other inputs is another one.
        """
        return {}

    def type_of(self, variable: str) -> np.dtype[Any]:
        """The type that values of a variable are kept in."""
        return np.dtype(self.types.get(variable, "float64"))

    @property
    def name(self) -> str:
        """Name of the study: that of its class."""
        return type(self).__name__

    def coordinates(self) -> Iterator[dict[str, Any]]:
        """Coordinates of all cells, the last axis fastest."""
        axes = self.cells()
        return (dict(zip(axes, values, strict=True)) for values in product(*axes.values()))

    def _more_html(self) -> Iterable[str]:
        """For notebooks: the axes of the cube, or why there is none."""
        problems = tuple(self.problems())
        if problems:
            return (table_of(("what is wrong",), (((problem,), False) for problem in problems)),)
        axes = {"cells": self.cells(), "inside a cell": self.inside()}
        rows = [
            ((name, where, f"{len(values):,}", _spanned(values)), False)
            for where, some in axes.items()
            for name, values in some.items()
        ]
        total = f"{prod(len(values) for values in axes['cells'].values()):,} cells"
        return f"<div>{total}</div>", table_of(("axis", "of", "size", "values"), rows, right=(2,))

    def parameters(self) -> dict[str, Any]:
        """Values of all fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def computed(self, number: int) -> dict[str, np.ndarray]:
        """The results of one cell, checked.

        Raises
        ------
        ValueError
            If the cell function returns other variables or other shapes than the study has announced.
        """
        at = coordinates_of(self.cells(), number)
        found = self.cell(at, Seeds(self.seed, tuple(at.items())))
        if set(found) != set(self.outputs):
            raise ValueError(f"The cell expects the variables {sorted(self.outputs)}, got {sorted(found)}.")
        inside = self.inside()
        arrays = {}
        for variable, dims in self.outputs.items():
            shape = tuple(len(inside[dim]) for dim in dims)
            arrays[variable] = np.asarray(found[variable], self.type_of(variable))
            if arrays[variable].shape != shape:
                raise ValueError(
                    f"{variable} expects the shape {shape} of {', '.join(dims) or 'a single number'}, got "
                    f"{arrays[variable].shape}."
                )
        return arrays

    def with_settings(self, settings: Mapping[str, Any]) -> "Study":
        """The study with other parameters; texts are read as the type that the parameter has.

        Raises
        ------
        ValueError
            If there is no such parameter or preset, or a text is not of its type.
        """
        known = self.parameters()
        chosen: dict[str, Any] = {}
        if "preset" in settings:
            chosen |= self._preset(settings["preset"])
        for name, value in settings.items():
            if name == "preset":
                continue
            if name not in known:
                raise ValueError(f"{self.name} has the parameters preset, {', '.join(known)}; got {name!r}.")
            chosen[name] = _read(name, value, known[name])
        return replace(self, **chosen)

    def _preset(self, name: Any) -> Mapping[str, Any]:
        if name not in self.presets:
            there = ", ".join(self.presets) or "none"
            raise ValueError(f"{self.name} has the presets {there}; got {name!r}.")
        return self.presets[name]


def coordinates_of(axes: Axes, number: int) -> dict[str, Any]:
    """Coordinates of a cell by its number, the last axis fastest."""
    places = np.unravel_index(number, [len(values) for values in axes.values()])
    return {name: values[int(place)] for (name, values), place in zip(axes.items(), places, strict=True)}


def _spanned(values: Sequence[Hashable]) -> str:
    """The values of an axis, or of a long one the first and the last."""
    shown = [str(value) for value in values] if len(values) <= 6 else [str(values[0]), "...", str(values[-1])]
    return ", ".join(shown)


def _read(name: str, value: Any, like: Any) -> Any:
    """A text as the type of the value that is there."""
    if not isinstance(value, str) or isinstance(like, str):
        return value
    try:
        if isinstance(like, bool):
            return {"true": True, "false": False}[value.lower()]
        if isinstance(like, tuple):
            kind = type(like[0]) if like else str
            return tuple(kind(word) for word in value.split(",") if word)
        if isinstance(like, int) and float(value).is_integer():
            # 2e6 is a whole number too.
            return int(value) if value.lstrip("+-").isdigit() else int(float(value))
        return type(like)(value)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"{name} expects a value such as {like!r}, got {value!r}.") from error

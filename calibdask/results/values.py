"""Results read back: metrics, parts and values with their intervals, slices and classes. The one place that does."""

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from calibdask.estimators.slice_totals import TOTALS
from calibdask.results.build import DEFAULT_PANEL, DESCRIBING, FORMAT
from calibdask.results.format import slice_text
from calibdask.safe_text import listed, visible

_WHOLE = {"low", "high"}
# The part, and its kind, that says of how many rows a number is.
BEHIND = ("rows", "count")


def is_result(dataset: xr.Dataset) -> bool:
    """Whether this is a result of `calibdask.evaluate` or `calibdask.compare`, of this version or an earlier one."""
    return "format" in dataset.attrs or {"rows", "passes", "calibdask_version"} <= dataset.attrs.keys()


@dataclass(frozen=True)
class Value:
    """One number: name, description, value, and interval ends (None without interval).

    ``pvalue`` is for comparisons.
    """

    name: str
    value: Any
    low: Any = None
    high: Any = None
    meaning: str = ""
    pvalue: Any = None

    @property
    def has_interval(self) -> bool:
        """Whether the number has an interval."""
        return self.low is not None


@dataclass(frozen=True, eq=False)
class PartResult:
    """One part of a metric: its values, and their bounds by name.

    Bounds are ``low``, ``high``, ``band_low``, ``band_high``, ``median``, ``replicates`` and for comparisons
    ``pvalue``, ``pvalue_holm``, ``pvalue_bh``.
    """

    values: xr.DataArray
    bounds: Mapping[str, xr.DataArray]
    shared_dims: tuple[str, ...]

    def _attribute(self, attribute: str) -> str:
        return str(self.values.attrs.get(attribute, ""))

    @property
    def variable(self) -> str:
        """The name of the variable."""
        return str(self.values.name)

    @property
    def metric(self) -> str:
        """The name that the user gave to the metric."""
        return self._attribute("metric")

    @property
    def part(self) -> str:
        """The part of the metric; empty for a plain number."""
        return self._attribute("part")

    @property
    def kind(self) -> str:
        """Kind of the part, see ``calibdask.estimators.about.Kind``."""
        return self._attribute("kind")

    @property
    def direction(self) -> str:
        """Which value is best: zero, lower, higher or none."""
        return self._attribute("direction")

    @property
    def quantity(self) -> str:
        """Quantity of the part, see ``calibdask.estimators.about.Quantity``; empty if not declared."""
        return self._attribute("quantity")

    @property
    def title(self) -> str:
        """The name of the metric in the literature."""
        return self._attribute("title")

    @property
    def label(self) -> str:
        """A short name of the metric, with its main parameter."""
        return self._attribute("label")

    @property
    def meaning(self) -> str:
        """A short description of the number."""
        return self._attribute("meaning")

    @property
    def definition(self) -> str:
        """Sentences with the formula."""
        return self._attribute("definition")

    @property
    def source(self) -> str:
        """The reference."""
        return self._attribute("source")

    @property
    def setting(self) -> str:
        """The setting: which scores are measured."""
        return self._attribute("setting")

    @property
    def estimator(self) -> str:
        """The description of the estimator."""
        return self._attribute("estimator")

    @property
    def notes(self) -> Mapping[str, Any]:
        """Further notes, such as the assumptions of a p-value."""
        return {name: value for name, value in self.values.attrs.items() if name not in DESCRIBING}

    @property
    def estimator_class(self) -> str:
        """The name of the class of the estimator."""
        return str(self._described.get("name", ""))

    @property
    def choices(self) -> Mapping[str, Any]:
        """The parameters of the estimator."""
        return dict(self._described.get("parameters", {}))

    @property
    def _described(self) -> Any:
        return json.loads(self._attribute("estimator_json") or "{}")

    @property
    def own_dims(self) -> tuple[str, ...]:
        """Dimensions other than slices and input dimensions: classes, bins, scores."""
        return tuple(str(dim) for dim in self.values.dims if dim not in self.shared_dims)

    @property
    def is_number(self) -> bool:
        """Whether there is one number in each slice."""
        return not self.own_dims

    @property
    def has_interval(self) -> bool:
        """Whether it has intervals."""
        return self.bounds.keys() >= _WHOLE

    @property
    def interval_method(self) -> str:
        """The method of the interval: corrected, percentile, bca or normal; empty without an interval."""
        return str(self.bounds["low"].attrs.get("interval", "")) if "low" in self.bounds else ""

    def at(self, indexers: Mapping[Any, Any]) -> "PartResult":
        """The part at some positions of its dimensions."""
        own = {dim: index for dim, index in indexers.items() if dim in self.values.dims}
        bounds = {
            name: bound.isel({dim: i for dim, i in own.items() if dim in bound.dims})
            for name, bound in self.bounds.items()
        }
        return PartResult(self.values.isel(own), bounds, self.shared_dims)

    def value(self) -> Value:
        """The single number that remains after selecting slices and classes.

        Raises
        ------
        ValueError
            If there are several.
        """
        if self.values.ndim:
            raise ValueError(f"{visible(self.variable)} has the dimensions {listed(self.values.dims)} left.")
        low, high, pvalue = (
            self.bounds[name].item() if name in self.bounds else None for name in ("low", "high", "pvalue")
        )
        if not self.has_interval:
            low = high = None
        return Value(self.variable, self.values.item(), low, high, self.meaning, pvalue)


class Results:
    """A result of `calibdask.evaluate` or `calibdask.compare`, read through the descriptions in its variables.

    Parameters
    ----------
    dataset : xarray.Dataset
        The result, for all slices or some of them.

    Raises
    ------
    ValueError
        If it is not such a result, or comes from a version whose results do not describe themselves.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], {"mine": cd.ECE(bins=2), "brier": cd.BrierScore()})
    >>> [(part.metric, part.kind, part.label) for part in Results(result)]
    [('mine', 'error', 'ECE, 2 bins'), ('brier', 'score', 'Brier score')]
    >>> Results(result).errors[0].value().value
    0.25
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        given = dataset.attrs.get("format")
        if given != FORMAT:
            version = dataset.attrs.get("calibdask_version")
            what = f"a result of calibdask {version}" if version else "no result of calibdask"
            written = f", written as {given!r}" if given else ""
            raise ValueError(
                f"A result in the form {FORMAT!r} is expected, got {what}{written}. Evaluate the data again with this "
                "version of calibdask."
            )
        self.dataset = dataset

    def __iter__(self) -> Iterator[PartResult]:
        return iter(self.parts)

    @cached_property
    def parts(self) -> tuple[PartResult, ...]:
        """All parts of all metrics, in the order of the result; p-values of comparisons are separate parts."""
        bounds: dict[tuple[str, str], dict[str, Any]] = {}
        for name, variable in self._variables.items():
            bound = variable.attrs.get("bound")
            if bound:
                bounds.setdefault(_key(variable), {})[str(bound)] = name
        shared = self.shared_dims

        def part(name: Any, variable: xr.Variable) -> PartResult:
            names = {} if "bound" in variable.attrs else bounds.get(_key(variable), {})
            own = {bound: self.dataset[name] for bound, name in names.items()}
            return PartResult(self.dataset[name], own, shared)

        return tuple(
            part(name, variable)
            for name, variable in self._variables.items()
            if "metric" in variable.attrs and _stands_alone(variable)
        )

    @property
    def _variables(self) -> dict[Any, xr.Variable]:
        """The variables without their coordinates, which take xarray longer to find than all that is asked of them."""
        return {name: self.dataset.variables[name] for name in self.dataset.data_vars}

    @property
    def slices(self) -> tuple[str, ...]:
        """The remaining dimensions of slices."""
        return self._dims("slices")

    @property
    def batch(self) -> tuple[str, ...]:
        """The remaining dimensions of the input, such as models, and dimensions along which results were joined."""
        variables = [variable for variable in self._variables.values() if "metric" in variable.attrs]
        own = {dim for variable in variables for dim in _names(variable.attrs.get("own_dims", []))}
        common = [
            str(dim)
            for dim in self.dataset.dims
            if dim not in own and variables and all(dim in variable.dims for variable in variables)
        ]
        return tuple(dict.fromkeys((*self._dims("batch"), *(dim for dim in common if dim not in self.slices))))

    @property
    def shared_dims(self) -> tuple[str, ...]:
        """Dimensions of the input and of slices."""
        return (*self.batch, *self.slices)

    @property
    def class_dim(self) -> str:
        """The dimension of classes."""
        return str(self.dataset.attrs.get("class_dim", "class"))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.dataset.attrs["rows"])

    @property
    def level(self) -> float | None:
        """Level of the intervals, if there are any."""
        level = self.dataset.attrs.get("ci")
        return None if level is None else float(level)

    @property
    def numbers(self) -> tuple[PartResult, ...]:
        """The parts with one number in each slice."""
        return tuple(part for part in self.parts if part.is_number)

    @property
    def shown(self) -> tuple[PartResult, ...]:
        """The numbers in tables: all; of the default panel only the main number of each metric that has one."""
        if self.dataset.attrs.get("panel") != DEFAULT_PANEL:
            # Without slices the rows behind a number are among the words on it.
            return tuple(part for part in self.numbers if self.shared_dims or (part.part, part.kind) != BEHIND)
        first: dict[str, PartResult] = {}
        for word in ("", "pvalue", "score"):
            first |= {part.metric: part for part in self.numbers if part.part == word and part.metric not in first}
        return tuple(part for part in self.numbers if first.get(part.metric, part) is part)

    @property
    def totals(self) -> dict[str, xr.DataArray]:
        """Rows, events, mean score and frequency of each slice, if known."""
        coords = self.dataset.coords
        return {name: coords[name] for name in TOTALS if name in coords}

    @property
    def errors(self) -> tuple[PartResult, ...]:
        """The calibration errors among the numbers."""
        return tuple(part for part in self.numbers if part.kind == "error")

    def of(self, metric: str, part: str | None = None) -> tuple[PartResult, ...]:
        """The parts of a metric, or one of them."""
        return tuple(one for one in self.parts if one.metric == metric and part in (None, one.part))

    def variable(self, name: str) -> PartResult:
        """The part stored in the variable of this name.

        Raises
        ------
        KeyError
            If there is no such variable, or it is a bound of another one.
        """
        for part in self.parts:
            if part.variable == name:
                return part
        raise KeyError(name)

    def only(self, metrics: Container[str]) -> xr.Dataset:
        """The result restricted to these metrics."""
        variables = self._variables.items()
        return self.dataset[[name for name, variable in variables if variable.attrs.get("metric") in metrics]]

    def at(self, indexers: Mapping[Any, Any]) -> "Results":
        """The results at some positions of their dimensions."""
        return Results(self.dataset.isel(indexers, missing_dims="ignore"))

    def values(self) -> list[Value]:
        """The numbers, after slices and dimensions of the input have been selected."""
        return [part.value() for part in self.numbers if not part.values.ndim]

    def strata(self, dims: Sequence[str] | None = None) -> Iterator[tuple[dict[str, int], dict[str, Any]]]:
        """Every combination of slices (or of positions along ``dims``): the positions and the labels."""
        dims = self.shared_dims if dims is None else dims
        labels = {
            dim: self.dataset[dim].values if dim in self.dataset.coords else np.arange(self.dataset.sizes[dim])
            for dim in dims
        }
        for position in product(*(range(self.dataset.sizes[dim]) for dim in dims)):
            at = dict(zip(dims, position, strict=True))
            yield at, {dim: labels[dim][i] for dim, i in at.items()}

    def _dims(self, attribute: str) -> tuple[str, ...]:
        return tuple(name for name in _names(self.dataset.attrs.get(attribute, [])) if name in self.dataset.dims)


def _names(attribute: Any) -> list[str]:
    """A list of names; stores keep a list of one as that name."""
    return [str(name) for name in np.atleast_1d(attribute).tolist()]


def named_strata(dataset: xr.Dataset, dims: Sequence[Any]) -> Iterator[tuple[str, xr.Dataset]]:
    """The dataset at each position along some dimensions, after the labels there in words.

    Examples
    --------
    >>> dataset = xr.Dataset({"ece": (("model", "fold"), [[0.1, 0.2]])}, {"model": ["forest"]})
    >>> [(words, float(stratum.ece)) for words, stratum in named_strata(dataset, ["model", "fold"])]
    [('forest fold 0', 0.1), ('forest fold 1', 0.2)]
    """
    for position in product(*(range(dataset.sizes[dim]) for dim in dims)):
        at = dict(zip(dims, position, strict=True))
        labels = [
            slice_text(dataset[dim].values[i]) if dim in dataset.coords else f"{dim} {i}" for dim, i in at.items()
        ]
        yield " ".join(filter(None, labels)), dataset.isel(at)


def _stands_alone(variable: xr.Variable) -> bool:
    """Whether it is no end of an interval, no band and no replicates of another variable."""
    return variable.attrs.get("bound", "pvalue").startswith("pvalue")


def _key(variable: xr.Variable) -> tuple[str, str]:
    return str(variable.attrs.get("metric", "")), str(variable.attrs.get("part", ""))

"""The numbers of a view, and those behind one of its points; what has been read is kept for the next view."""

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from threading import Lock
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.cancellation import CancelToken
from calibdask.explore.cubes.aggregates import Step, aggregated, spread
from calibdask.explore.cubes.block_reduction import BlockReduction, reduced_blocks
from calibdask.explore.cubes.views import CubeView, positions_of
from calibdask.study.reading import Indexers, block_dims

# Numbers that are in memory at once, and those that a figure or a histogram may have.
HELD, SHOWN, _DRAWN = 1 << 24, 1 << 20, 1 << 22
# Up to so many bytes cells that a filter leaves out are read too, so that the next filter needs no reading.
_READ_WHOLE = 1 << 32
KEPT_BYTES = 1 << 28
# Numbers, bytes and cells up to which aggregating and reading take no noticeable time.
_QUICK, _QUICK_BYTES, FEW_CELLS = 1 << 20, 1 << 22, 1_000


@dataclass(frozen=True, eq=False)
class _Plan:
    """How a view is computed: what blocks are reduced to, where, and the steps that remain."""

    dataset: xr.Dataset
    view: CubeView

    @cached_property
    def leading(self) -> tuple[Step, ...]:
        """Steps that are done within each block; the last step is never among them."""
        split = set(block_dims(self.dataset, self.view.variable))
        steps = self.view.steps[:-1]
        number = next((index for index, step in enumerate(steps) if split & set(step.dims)), len(steps))
        return steps[:number]

    @property
    def rest(self) -> tuple[Step, ...]:
        """Steps over the reduced blocks."""
        return self.view.steps[len(self.leading) :]

    @property
    def reduction(self) -> BlockReduction:
        return BlockReduction(self.view.variable, self.view.reference, self.leading)

    @cached_property
    def selected(self) -> Indexers:
        """Positions of the labels that are shown."""
        dims = self.dataset[self.view.variable].dims
        return positions_of(self.dataset, {dim: labels for dim, labels in self.view.filters().items() if dim in dims})

    @cached_property
    def only(self) -> Indexers:
        """Positions to read: those aggregated within blocks are chosen there, the rest if there is much."""
        variable = self.dataset[self.view.variable]
        whole = self.held({}) <= HELD and variable.size * variable.dtype.itemsize <= _READ_WHOLE
        return {dim: positions for dim, positions in self.selected.items() if dim not in self.left or not whole}

    @property
    def left(self) -> list[str]:
        """Dimensions of the reduced blocks."""
        gone = {dim for step in self.leading for dim in step.dims}
        return [dim for dim in map(str, self.dataset[self.view.variable].dims) if dim not in gone]

    def held(self, only: Indexers) -> int:
        """Number of values in the reduced blocks."""
        return math.prod(len(only[dim]) if dim in only else self.dataset.sizes[dim] for dim in self.left)

    def slabs(self) -> Iterator[Indexers]:
        """Indexers of parts that fit in memory one by one; of one part if all fits.

        Raises
        ------
        ValueError
            If there are none.
        """
        parts, needed = {}, math.ceil(self.held(self.only) / HELD)
        # Parts along blocks are read once, others several times.
        split = block_dims(self.dataset, self.view.variable)
        for dim in sorted(self.view.kept, key=lambda dim: (dim not in split, -self.dataset.sizes[dim])):
            positions = self.only.get(dim, np.arange(self.dataset.sizes[dim]))
            number = min(len(positions), needed)
            parts[dim] = np.array_split(positions, number)
            needed = math.ceil(needed / number)
        if needed > 1:
            dims = ", ".join(self.rest[0].dims)
            raise ValueError(
                f"All values over {dims} at once do not fit in memory ({self.held(self.only):,} numbers); aggregate "
                "one of these dimensions in an earlier step, or choose fewer labels."
            )
        return ({**self.only, **dict(zip(parts, part, strict=True))} for part in product(*parts.values()))

    def finished(self, held: xr.DataArray, only: Indexers, selected: Indexers) -> xr.Dataset:
        """The remaining steps, at the selected positions of those that were read."""
        values = _chosen(held, only, selected)
        values = values.isel({dim: 0 for dim, _ in self.view.at if dim in values.dims}, drop=True)
        for step in self.rest[:-1]:
            values = aggregated(values, step)
        if not self.rest:
            return xr.Dataset({"value": values})
        last = self.rest[-1]
        result = {"value": aggregated(values, last)}
        if self.view.band is not None:
            ends = spread(values, last.dims, [float(share) for share in self.view.band])
            result |= zip(("low", "high"), ends, strict=True)
        return xr.Dataset(result)


class Reductions:
    """The numbers of views of one dataset.

    Parameters
    ----------
    dataset : xarray.Dataset
        A cube, or anything else with numbers on named axes.

    Examples
    --------
    >>> cube = xr.Dataset(
    ...     {"status": ("model", [1, 1]), "value": (("model", "draw"), [[1.0, 3.0], [2.0, 6.0]])},
    ...     {"model": ["a", "b"]},
    ... )
    >>> view = CubeView("value", x="model", steps=(Step("mean", ("draw",)),))
    >>> Reductions(cube).values_of(view).value.values
    array([2., 4.])
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        self.dataset = dataset
        self._kept: OrderedDict[Any, xr.DataArray] = OrderedDict()
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        """Memory of cached results."""
        return sum(held.nbytes for held in self._kept.values())

    def values_of(self, view: CubeView, token: CancelToken | None = None) -> xr.Dataset:
        """``value`` along the dimensions of the figure, and ``low`` and ``high`` if the view has a band.

        Raises
        ------
        Cancelled
            If the token says so.
        ValueError
            If there are more numbers than can be shown, or held.
        """
        token, views = token or CancelToken(), _by_variable(view)
        if len(views) > 1:
            return xr.Dataset(
                {name: self.values_of(own, token.part(i, 3))["value"] for i, (name, own) in enumerate(views.items())}
            )
        plan = _Plan(self.dataset, view)
        sizes = {dim: len(plan.selected.get(dim, np.arange(self.dataset.sizes[dim]))) for dim in view.kept}
        if math.prod(sizes.values()) > SHOWN:
            counts = ", ".join(f"{dim}: {size:,}" for dim, size in sizes.items())
            raise ValueError(f"A figure expects at most {SHOWN:,} points, got {counts}; aggregate or fix one of these.")
        parts = list(plan.slabs())
        if len(parts) == 1:
            return plan.finished(self._reduced(plan, token), plan.only, plan.selected)
        results = []
        # Along the dimensions of the figure parts hold the selected positions only.
        within = {dim: positions for dim, positions in plan.selected.items() if dim not in view.kept}
        for number, only in enumerate(parts):
            part = token.part(number, len(parts))
            held = reduced_blocks(self.dataset, plan.reduction, only, part)
            results.append((only, plan.finished(held, only, within)))
        return _joined(plan, results)

    def is_at_hand(self, view: CubeView) -> bool:
        """Whether a view takes no noticeable time."""
        return all(self._is_quick(_Plan(self.dataset, own)) for own in _by_variable(view).values())

    def _is_quick(self, plan: _Plan) -> bool:
        if plan.held(plan.only) > _QUICK:
            return False
        sizes = self._sizes(plan)
        # Many small blocks cost more than their bytes.
        blocks = math.prod(sizes[dim] for dim in block_dims(self.dataset, plan.view.variable))
        small = math.prod(sizes.values()) * self.dataset[plan.view.variable].dtype.itemsize <= _QUICK_BYTES
        return self._key(plan) in self._kept or (small and blocks <= FEW_CELLS)

    def rows(self, view: CubeView, point: Mapping[str, Any], token: CancelToken | None = None) -> xr.DataArray:
        """Values that the last steps aggregate at a point of the figure, by cell for a cube.

        Parameters
        ----------
        view : View
        point : mapping from str to label
            A label for each dimension of the figure.
        token : CancelToken, optional
        """
        plan = _Plan(self.dataset, view)
        at = positions_of(self.dataset, {dim: (label,) for dim, label in point.items()})
        selected = {**plan.selected, **at}
        if self._key(plan) in self._kept:
            values = _chosen(self._reduced(plan, token), plan.only, selected)
        else:
            self._check(plan, selected)
            values = reduced_blocks(self.dataset, plan.reduction, selected, token)
        return _at_point(values, view, point)

    def finite(self, view: CubeView, point: Mapping[str, Any], token: CancelToken | None = None) -> np.ndarray:
        """The values of `unaggregated` that are not NaN."""
        values = self.unaggregated(view, point, token).values.ravel()
        return values[~np.isnan(values)]

    def unaggregated(self, view: CubeView, point: Mapping[str, Any], token: CancelToken | None = None) -> xr.DataArray:
        """All values at a point of the figure, or at a row of `rows`, without any aggregation.

        Raises
        ------
        Cancelled
            If the token says so.
        ValueError
            If there are more than can be drawn.
        """
        plan = _Plan(self.dataset, view)
        selected = {**plan.selected, **positions_of(self.dataset, {dim: (label,) for dim, label in point.items()})}
        unaggregated = _Plan(self.dataset, CubeView(view.variable, reference=view.reference))
        self._check(unaggregated, selected)
        values = reduced_blocks(self.dataset, unaggregated.reduction, selected, token)
        return _at_point(values, view, point)

    def _check(self, plan: _Plan, selected: Indexers) -> None:
        number = plan.held(selected)
        if number > _DRAWN:
            raise ValueError(f"{number:,} values are more than can be drawn here ({_DRAWN:,}); choose fewer labels.")

    def _reduced(self, plan: _Plan, token: CancelToken | None) -> xr.DataArray:
        key = self._key(plan)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        held = reduced_blocks(self.dataset, plan.reduction, plan.only, token)
        with self._lock:
            self._kept[key] = held
            while len(self._kept) > 1 and self.nbytes > KEPT_BYTES:
                self._kept.popitem(last=False)
        return held

    def _key(self, plan: _Plan) -> Any:
        return plan.reduction, tuple((dim, positions.tobytes()) for dim, positions in sorted(plan.only.items()))

    def _sizes(self, plan: _Plan) -> dict[str, int]:
        """Number of positions that are read for a view, by dimension."""
        variable = self.dataset[plan.view.variable]
        split = block_dims(self.dataset, plan.view.variable)
        chosen = {dim: len(positions) for dim, positions in plan.only.items() if dim in split}
        return {str(dim): chosen.get(str(dim), size) for dim, size in variable.sizes.items()}


def _at_point(values: xr.DataArray, view: CubeView, point: Mapping[str, Any]) -> xr.DataArray:
    """Without the dimensions of the point and those at one of their labels."""
    fixed = {*point, *(dim for dim, _ in view.at)}
    return values.isel({dim: 0 for dim in map(str, values.dims) if dim in fixed}, drop=True)


def _by_variable(view: CubeView) -> dict[str, CubeView]:
    """The views of single variables that make up one: three where two variables hold the ends of intervals."""
    if view.band is None or not isinstance(view.band[0], str):
        return {"value": view}
    names = {"value": view.variable, "low": view.band[0], "high": str(view.band[1])}
    return {end: replace(view, variable=name, band=None) for end, name in names.items()}


def _chosen(held: xr.DataArray, only: Indexers, selected: Indexers) -> xr.DataArray:
    """The selected positions of what has been read."""
    positions = {dim: own for dim, own in selected.items() if dim in held.dims}
    return held.isel({dim: np.searchsorted(only[dim], own) if dim in only else own for dim, own in positions.items()})


def _joined(plan: _Plan, parts: list[tuple[Indexers, xr.Dataset]]) -> xr.Dataset:
    """One dataset of parts, each at its positions."""
    kept = [dim for dim in plan.left if dim in plan.view.kept]
    positions = {dim: plan.only.get(dim, np.arange(plan.dataset.sizes[dim])) for dim in kept}
    coords = {dim: plan.dataset[dim].isel({dim: positions[dim]}) for dim in kept if dim in plan.dataset.coords}
    shape = [len(positions[dim]) for dim in kept]
    joined = xr.Dataset({name: (kept, np.full(shape, np.nan)) for name in parts[0][1].data_vars}, coords)
    for only, part in parts:
        target = np.ix_(*(np.searchsorted(positions[dim], only[dim]) for dim in kept))
        for name in joined.data_vars:
            joined[name].values[target] = part[name].transpose(*kept).values
    return joined


def worst_first(rows: xr.DataArray, *, signed: bool = False) -> Any:
    """A table of values with their coordinates, largest first; those without a number are left out.

    Parameters
    ----------
    rows : xarray.DataArray
        What `Reductions.rows` gives.
    signed : bool
        Order by distance from 0.

    Returns
    -------
    pandas.DataFrame
        A column for each dimension, and ``value``.

    Examples
    --------
    >>> worst_first(xr.DataArray([0.1, np.nan, 0.3], {"draw": [0, 1, 2]}, "draw")).draw.tolist()
    [2, 0]
    """
    if not rows.ndim:
        return rows.expand_dims("value_of").to_dataframe("value").reset_index(drop=True)
    table = rows.to_dataframe("value").reset_index().dropna(subset="value")
    order = table["value"].abs() if signed else table["value"]
    return table.iloc[np.argsort(-order.to_numpy(), kind="stable")].reset_index(drop=True)

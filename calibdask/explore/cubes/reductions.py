"""What a view shows, and what stands behind one of its points; what has been read for it is kept for the next."""

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

from calibdask.explore.cubes.aggregates import Step, aggregated, spread
from calibdask.explore.cubes.gathering import Gathering, gathered
from calibdask.explore.cubes.views import View, places_of
from calibdask.explore.latest import Watch
from calibdask.study.reading import Places, block_dims

__all__ = ["FEW_CELLS", "Reductions", "worst_first"]

# Numbers that are held at once, and those that a figure or a distribution may have.
_HELD, _SHOWN, _DRAWN = 1 << 24, 1 << 20, 1 << 22
# Up to here cells are read that a filter leaves out, so that the next filter needs no reading.
_READ_WHOLE = 1 << 32
_KEPT_BYTES = 1 << 28
# Numbers, bytes and cells up to which nobody notices that they are aggregated, or read.
_QUICK, _QUICK_BYTES, FEW_CELLS = 1 << 20, 1 << 22, 1_000


@dataclass(frozen=True, eq=False)
class _Plan:
    """How a view is read: what is gathered, where, and what is left to be done."""

    dataset: xr.Dataset
    view: View

    @cached_property
    def leading(self) -> tuple[Step, ...]:
        """Steps that each block does by itself; the last step is never among them."""
        split = set(block_dims(self.dataset, self.view.variable))
        steps = self.view.steps[:-1]
        number = next((at for at, step in enumerate(steps) if split & set(step.dims)), len(steps))
        return steps[:number]

    @property
    def rest(self) -> tuple[Step, ...]:
        """Steps over what has been gathered."""
        return self.view.steps[len(self.leading) :]

    @property
    def gathering(self) -> Gathering:
        return Gathering(self.view.variable, self.view.reference, self.leading)

    @cached_property
    def wanted(self) -> Places:
        """Places of the labels that are looked at."""
        dims = self.dataset[self.view.variable].dims
        return places_of(self.dataset, {dim: at for dim, at in self.view.filters().items() if dim in dims})

    @cached_property
    def only(self) -> Places:
        """Places that are read: what is aggregated within blocks has to be chosen there; the rest if there is much."""
        there = self.dataset[self.view.variable]
        whole = self.held({}) <= _HELD and there.size * there.dtype.itemsize <= _READ_WHOLE
        return {dim: places for dim, places in self.wanted.items() if dim not in self.left or not whole}

    @property
    def left(self) -> list[str]:
        """Dimensions of what is gathered."""
        gone = {dim for step in self.leading for dim in step.dims}
        return [dim for dim in map(str, self.dataset[self.view.variable].dims) if dim not in gone]

    def held(self, only: Places) -> int:
        """Numbers that are gathered."""
        return math.prod(len(only[dim]) if dim in only else self.dataset.sizes[dim] for dim in self.left)

    def slabs(self) -> Iterator[Places]:
        """Places of parts, of which each can be held; of one part if all can.

        Raises
        ------
        ValueError
            If there are none.
        """
        parts, needed = {}, math.ceil(self.held(self.only) / _HELD)
        # Parts along blocks are read once, others several times.
        split = block_dims(self.dataset, self.view.variable)
        for dim in sorted(self.view.kept, key=lambda dim: (dim not in split, -self.dataset.sizes[dim])):
            places = self.only.get(dim, np.arange(self.dataset.sizes[dim]))
            number = min(len(places), needed)
            parts[dim] = np.array_split(places, number)
            needed = math.ceil(needed / number)
        if needed > 1:
            dims = ", ".join(self.rest[0].dims)
            raise ValueError(
                f"All values over {dims} at once are more than can be held ({self.held(self.only):,}); aggregate one "
                "of these dimensions in a step before, or choose fewer labels."
            )
        return ({**self.only, **dict(zip(parts, each, strict=True))} for each in product(*parts.values()))

    def finished(self, held: xr.DataArray, only: Places, wanted: Places) -> xr.Dataset:
        """The rest of the steps, at the places that are wanted of those that were read."""
        values = _chosen(held, only, wanted)
        values = values.isel({dim: 0 for dim, _ in self.view.at if dim in values.dims}, drop=True)
        for step in self.rest[:-1]:
            values = aggregated(values, step)
        if not self.rest:
            return xr.Dataset({"value": values})
        last = self.rest[-1]
        found = {"value": aggregated(values, last)}
        if self.view.band is not None:
            ends = spread(values, last.dims, [float(share) for share in self.view.band])
            found |= zip(("low", "high"), ends, strict=True)
        return xr.Dataset(found)


class Reductions:
    """What views of one cube show.

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
    >>> view = View("value", x="model", steps=(Step("mean", ("draw",)),))
    >>> Reductions(cube).shown(view).value.values
    array([2., 4.])
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        self.dataset = dataset
        self._kept: OrderedDict[Any, xr.DataArray] = OrderedDict()
        self._lock = Lock()

    def shown(self, view: View, watch: Watch | None = None) -> xr.Dataset:
        """``value`` along the dimensions of the figure, and ``low`` and ``high`` if the view has a band.

        Raises
        ------
        Stopped
            If the watch says so.
        ValueError
            If there are more numbers than can be shown, or held.
        """
        watch, each = watch or Watch(), _apart(view)
        if len(each) > 1:
            numbered = enumerate(each.items())
            return xr.Dataset({end: self.shown(one, watch.part(i, 3))["value"] for i, (end, one) in numbered})
        plan = _Plan(self.dataset, view)
        sizes = {dim: len(plan.wanted.get(dim, np.arange(self.dataset.sizes[dim]))) for dim in view.kept}
        if math.prod(sizes.values()) > _SHOWN:
            told = ", ".join(f"{dim}: {size:,}" for dim, size in sizes.items())
            raise ValueError(f"A figure expects at most {_SHOWN:,} points, got {told}; aggregate or fix one of these.")
        parts = list(plan.slabs())
        if len(parts) == 1:
            return plan.finished(self._gathered(plan, watch), plan.only, plan.wanted)
        found = []
        # Of the dimensions of the figure parts hold what is looked at alone.
        within = {dim: places for dim, places in plan.wanted.items() if dim not in view.kept}
        for number, only in enumerate(parts):
            part = watch.part(number, len(parts))
            held = gathered(self.dataset, plan.gathering, only, part)
            found.append((only, plan.finished(held, only, within)))
        return _joined(plan, found)

    def is_at_hand(self, view: View) -> bool:
        """Whether a view takes no time that anybody would notice."""
        return all(self._is_quick(_Plan(self.dataset, one)) for one in _apart(view).values())

    def _is_quick(self, plan: _Plan) -> bool:
        if plan.held(plan.only) > _QUICK:
            return False
        sizes = self._sizes(plan)
        # Each of many small blocks costs more than its bytes.
        blocks = math.prod(sizes[dim] for dim in block_dims(self.dataset, plan.view.variable))
        small = math.prod(sizes.values()) * self.dataset[plan.view.variable].dtype.itemsize <= _QUICK_BYTES
        return self._key(plan) in self._kept or (small and blocks <= FEW_CELLS)

    def rows(self, view: View, point: Mapping[str, Any], watch: Watch | None = None) -> xr.DataArray:
        """What the last steps aggregate at a point of the figure: values by cell, if it is a cube.

        Parameters
        ----------
        view : View
        point : mapping from str to label
            A label for each dimension of the figure.
        watch : Watch, optional
        """
        plan = _Plan(self.dataset, view)
        at = places_of(self.dataset, {dim: (label,) for dim, label in point.items()})
        wanted = {**plan.wanted, **at}
        if self._key(plan) in self._kept:
            values = _chosen(self._gathered(plan, watch), plan.only, wanted)
        else:
            self._check(plan, wanted)
            values = gathered(self.dataset, plan.gathering, wanted, watch)
        fixed = {*point, *(dim for dim, _ in view.at)}
        return values.isel({dim: 0 for dim in map(str, values.dims) if dim in fixed}, drop=True)

    def raw(self, view: View, point: Mapping[str, Any], watch: Watch | None = None) -> np.ndarray:
        """All values of `each` without what is NaN."""
        values = self.each(view, point, watch).values.ravel()
        return values[~np.isnan(values)]

    def each(self, view: View, point: Mapping[str, Any], watch: Watch | None = None) -> xr.DataArray:
        """All values at a point of the figure, or at a row of `rows`, without any aggregation.

        Raises
        ------
        Stopped
            If the watch says so.
        ValueError
            If there are more than can be drawn.
        """
        plan = _Plan(self.dataset, view)
        wanted = {**plan.wanted, **places_of(self.dataset, {dim: (label,) for dim, label in point.items()})}
        plain = _Plan(self.dataset, View(view.variable, reference=view.reference))
        self._check(plain, wanted)
        values = gathered(self.dataset, plain.gathering, wanted, watch)
        fixed = {*point, *(dim for dim, _ in view.at)}
        return values.isel({dim: 0 for dim in map(str, values.dims) if dim in fixed}, drop=True)

    def _check(self, plan: _Plan, wanted: Places) -> None:
        number = plan.held(wanted)
        if number > _DRAWN:
            raise ValueError(f"{number:,} values are more than can be drawn here ({_DRAWN:,}); choose fewer labels.")

    def _gathered(self, plan: _Plan, watch: Watch | None) -> xr.DataArray:
        key = self._key(plan)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        held = gathered(self.dataset, plan.gathering, plan.only, watch)
        with self._lock:
            self._kept[key] = held
            while len(self._kept) > 1 and sum(each.nbytes for each in self._kept.values()) > _KEPT_BYTES:
                self._kept.popitem(last=False)
        return held

    def _key(self, plan: _Plan) -> Any:
        return plan.gathering, tuple((dim, places.tobytes()) for dim, places in sorted(plan.only.items()))

    def _sizes(self, plan: _Plan) -> dict[str, int]:
        """What is read for a view, by dimension."""
        there = self.dataset[plan.view.variable]
        split = block_dims(self.dataset, plan.view.variable)
        chosen = {dim: len(places) for dim, places in plan.only.items() if dim in split}
        return {str(dim): chosen.get(str(dim), size) for dim, size in there.sizes.items()}


def _apart(view: View) -> dict[str, View]:
    """The views that make up one: three where two variables hold the ends of intervals."""
    if view.band is None or not isinstance(view.band[0], str):
        return {"value": view}
    names = {"value": view.variable, "low": view.band[0], "high": str(view.band[1])}
    return {end: replace(view, variable=name, band=None) for end, name in names.items()}


def _chosen(held: xr.DataArray, only: Places, wanted: Places) -> xr.DataArray:
    """What is wanted of what has been read."""
    places = {dim: at for dim, at in wanted.items() if dim in held.dims}
    return held.isel({dim: np.searchsorted(only[dim], at) if dim in only else at for dim, at in places.items()})


def _joined(plan: _Plan, parts: list[tuple[Places, xr.Dataset]]) -> xr.Dataset:
    """One dataset of parts, each at its places."""
    kept = [dim for dim in plan.left if dim in plan.view.kept]
    where = {dim: plan.only.get(dim, np.arange(plan.dataset.sizes[dim])) for dim in kept}
    coords = {dim: plan.dataset[dim].isel({dim: where[dim]}) for dim in kept if dim in plan.dataset.coords}
    shape = [len(where[dim]) for dim in kept]
    found = xr.Dataset({name: (kept, np.full(shape, np.nan)) for name in parts[0][1].data_vars}, coords)
    for only, part in parts:
        place = np.ix_(*(np.searchsorted(where[dim], only[dim]) for dim in kept))
        for name in found.data_vars:
            found[name].values[place] = part[name].transpose(*kept).values
    return found


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

"""The first view of a dataset: suggested from names, types and lengths of its dimensions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.cubes.aggregates import Step
from calibdask.explore.cubes.variables import interval_ends, recommended, references_of, titles_of, variables_of
from calibdask.explore.cubes.views import CubeView, Reference, labels_of
from calibdask.results.cautions import MODEL_DIMS
from calibdask.study.reading import cell_dims

# Lines and panels of a first view.
_FEW_LINES, _FEW_PANELS = 8, 4
_SIZES = ("size", "sizes", "rows", "n", "samples", "length")
_REPLICATES = ("replicate", "replicates", "repeat", "bootstrap", "resample", "draw", "sample", "seed")
_LEAST_RATIO = 1.15


@dataclass(frozen=True)
class _Dims:
    """The dimensions of a variable by what their labels are."""

    dataset: xr.Dataset
    variable: str

    @property
    def all(self) -> list[str]:
        return [str(dim) for dim in self.dataset[self.variable].dims]

    def size(self, dim: str) -> int:
        return self.dataset.sizes[dim]

    def is_text(self, dim: str) -> bool:
        """Whether labels name things; models do, whatever they are called: an average over them says nothing."""
        named = dim in self.dataset.coords and self.dataset[dim].dtype.kind in "UOT"
        batch = np.atleast_1d(self.dataset.attrs.get("batch", []))
        return named or dim in MODEL_DIMS or (dim in batch and dim not in _REPLICATES)

    def is_counter(self, dim: str) -> bool:
        """Whether labels only number interchangeable things."""
        labels = labels_of(self.dataset, dim)
        return not self.is_text(dim) and labels == list(range(len(labels)))

    def is_shared(self, dim: str) -> bool:
        """Whether other variables have it too: if not, its labels are parts of this one."""
        others = [name for name in variables_of(self.dataset) if name != self.variable]
        return not others or any(dim in self.dataset[name].dims for name in others)


def suggested(dataset: xr.Dataset, variable: str) -> CubeView:
    """A first view of a variable.

    Sizes run along the x axis; texts make lines, and panels where there are few; replicates are aggregated first, all
    others after them. If the cube has the truth of an estimate, errors are shown.

    Examples
    --------
    >>> cube = xr.Dataset(
    ...     {"status": ("model", [1, 1]), "error_rate": (("model", "size", "replicate"), np.zeros((2, 3, 5)))},
    ...     {"model": ["a", "b"], "size": [10, 100, 1000], "replicate": range(5)},
    ... )
    >>> view = suggested(cube, "error_rate")
    >>> view.x, view.lines, view.text()
    ('size', ('model',), 'error_rate: median over replicate')
    """
    dims = _Dims(dataset, variable)
    single = [dim for dim in dims.all if dims.size(dim) == 1]
    free = [dim for dim in dims.all if dim not in single]
    x = _along(dims, free)
    texts = [dim for dim in free if dims.is_text(dim) and dim != x]
    cells = cell_dims(dataset)
    # Of two of the same length the one within cells: cells are what it is tried on.
    lines = max(texts, key=lambda dim: (dims.size(dim), dim not in cells), default="")
    panels = _panels(dims, [dim for dim in texts if dim != lines])
    left = [dim for dim in free if dim not in (x, lines, *panels)]
    parts = [dim for dim in left if dims.is_text(dim) and not dims.is_shared(dim)]
    reference = _reference(dataset, variable)
    steps = _steps(dims, [dim for dim in left if dim not in parts], is_difference=reference is not None)
    return CubeView(
        variable,
        x,
        (lines,) if lines else (),
        panels,
        steps,
        at=tuple((dim, labels_of(dataset, dim)[0]) for dim in (*single, *parts)),
        only=_few(dims, lines),
        reference=reference,
        band=None if reference else interval_ends(dataset, variable),
        title=titles_of(dataset).get(variable, ""),
    )


def is_geometric(labels: Sequence[Any]) -> bool:
    """Whether numbers grow by a roughly constant factor, so that a logarithmic axis fits.

    Examples
    --------
    >>> is_geometric([30, 39, 51, 67]), is_geometric([2, 10, 100, 1000]), is_geometric([1, 2, 3, 4, 5])
    (True, True, False)
    """
    if len(labels) < 3 or any(isinstance(label, str | bool) or not np.isreal(label) for label in labels):
        return False
    values = np.asarray(labels)
    if values.dtype.kind not in "fiu" or values[0] <= 0 or (np.diff(values) <= 0).any():
        return False
    steps, ratios = np.diff(values), values[1:] / values[:-1]
    return bool(ratios.min() > _LEAST_RATIO and steps[-1] >= 1.5 * steps[0])


def _reference(dataset: xr.Dataset, variable: str) -> Reference | None:
    """The truth of an estimate, at the first label of what only the truth has."""
    if variable not in ("estimate", "estimates") or "truth" not in references_of(dataset, variable):
        return None
    extra = [str(dim) for dim in dataset["truth"].dims if dim not in dataset[variable].dims]
    return Reference("truth", tuple((dim, labels_of(dataset, dim)[0]) for dim in extra))


def _along(dims: _Dims, free: Sequence[str]) -> str:
    """The dimension along the x axis."""
    numbers = [dim for dim in free if not dims.is_text(dim)]
    named = [dim for dim in numbers if dim in _SIZES]
    geometric = [dim for dim in numbers if is_geometric(labels_of(dims.dataset, dim))]
    values = [dim for dim in numbers if not dims.is_counter(dim)]
    texts = [dim for dim in free if dims.is_text(dim)]
    candidates = next((kind for kind in (named, geometric, values, texts, free) if kind), [])
    return max(candidates, key=dims.size, default="")


def _panels(dims: _Dims, texts: Sequence[str]) -> tuple[str, ...]:
    """The shortest dimensions of texts, as long as there are few panels."""
    chosen: list[str] = []
    panels = 1
    for dim in sorted(texts, key=dims.size):
        panels *= dims.size(dim)
        if panels <= _FEW_PANELS and dims.is_shared(dim):
            chosen.append(dim)
    return tuple(chosen)


def _steps(dims: _Dims, left: Sequence[str], *, is_difference: bool) -> tuple[Step, ...]:
    """Replicates first, then all others."""
    cells = cell_dims(dims.dataset)
    inside = [dim for dim in left if dim not in cells and dims.is_counter(dim)]
    named = [dim for dim in inside if dim in _REPLICATES]
    first = max(named or inside, key=dims.size, default="")
    rest = tuple(dim for dim in left if dim != first)
    # Of differences from a reference a bound that is rarely exceeded.
    within = Step("quantile", (first,), 0.95) if is_difference else Step("median", (first,))
    return (*([within] if first else []), *([Step("median", rest)] if rest else []))


def _few(dims: _Dims, lines: str) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Labels recommended by the study, else the first of many labels."""
    wanted = recommended(dims.dataset).get(dims.variable, {})
    labels = {dim: labels_of(dims.dataset, dim) for dim in dims.all}
    chosen = {dim: [label for label in labels[dim] if label in wanted.get(dim, ())] for dim in dims.all}
    if lines and not chosen[lines] and dims.size(lines) > _FEW_LINES:
        chosen[lines] = labels[lines][:_FEW_LINES]
    return tuple((dim, tuple(shown)) for dim, shown in chosen.items() if shown)

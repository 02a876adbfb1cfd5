"""Slices of one model, the worst first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from calibdask.report.measuring import CLASSES, EVIDENCE
from calibdask.results.cautions import TOO_FEW_IN_A_SLICE
from calibdask.results.decisions import Evidence
from calibdask.results.format import slice_text
from calibdask.results.ranking import worst_order
from calibdask.results.reliability import Bins
from calibdask.results.values import Results, Value

__all__ = ["Slice", "slices_of"]


@dataclass(frozen=True, eq=False)
class Slice:
    """One slice: its label, its rows (NaN where no diagram counts them), its numbers by name, and its bins.

    Numbers of very few rows have no interval. ``evidence`` is what its error is decided on.
    """

    label: str
    rows: float
    numbers: Mapping[str, Value]
    bins: Sequence[tuple[str, Bins]]
    evidence: Evidence | None = None

    @property
    def is_tiny(self) -> bool:
        """Whether it has too few rows for intervals."""
        return self.rows < TOO_FEW_IN_A_SLICE


def slices_of(result: xr.Dataset, variable: str = "ece") -> list[Slice]:
    """The slices in the order of `calibdask.worst_slices`, those of very few rows and without a value last.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> scores, day = rng.random(3000), rng.choice(["mon", "tue", "wed"], 3000)
    >>> labels = (rng.random(3000) < np.where(day == "tue", scores**3, scores)).astype(int)
    >>> result = cd.evaluate(labels, scores, cd.ECE(), by={"day": day}, ci=0.95)
    >>> slices_of(result)[0].label
    'tue'
    """
    results = Results(result)
    slices = [_slice(results, at, labels.values()) for at, labels in results.strata()]
    order: list[int] = []
    if variable in result:
        part = results.variable(variable)
        columns = [part.values, *(part.bounds[name] for name in ("low",) if name in part.bounds)]
        order = worst_order(*(column.transpose(*results.shared_dims).values.ravel() for column in columns)).tolist()
    rest = [i for i in range(len(slices)) if i not in set(order)]
    return sorted((slices[i] for i in (*order, *rest)), key=lambda piece: piece.is_tiny)


def _slice(results: Results, at: Mapping[Any, int], labels: Iterable[Any]) -> Slice:
    bins = list(Bins.first(results.dataset, at, skip=CLASSES).items())
    rows = bins[0][1].rows if bins else np.nan
    here = results.at(at)
    numbers = {value.name: value for value in here.values()}
    if rows < TOO_FEW_IN_A_SLICE:
        numbers = {name: replace(value, low=None, high=None) for name, value in numbers.items()}
    return Slice(" · ".join(slice_text(label) for label in labels), rows, numbers, bins, Evidence.of(here, EVIDENCE))

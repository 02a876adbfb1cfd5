"""Slices of one model, the worst first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from calibdask.report.measuring import CLASSES
from calibdask.results.cautions import TOO_FEW_IN_A_SLICE
from calibdask.results.format import slice_text
from calibdask.results.ranking import worst_slices
from calibdask.results.reliability import Bins, reliability_variables
from calibdask.results.values import Results, Value

__all__ = ["Slice", "bins_of", "slices_of"]


@dataclass(frozen=True, eq=False)
class Slice:
    """One slice: its label, its rows (NaN where no diagram counts them), its numbers by name, and its bins.

    Numbers of very few rows have no interval.
    """

    label: str
    rows: float
    numbers: Mapping[str, Value]
    bins: Sequence[tuple[str, Bins]]

    @property
    def is_tiny(self) -> bool:
        """Whether it has too few rows for intervals."""
        return self.rows < TOO_FEW_IN_A_SLICE


def bins_of(result: xr.Dataset, at: Mapping[Any, int] | None = None) -> list[tuple[str, Bins]]:
    """The bins of the first diagram in a result, by class where there is one for each."""
    metric = next((name for name in reliability_variables(result, "diagram") if name != CLASSES), None)
    return [] if metric is None else list(Bins.by_class(result, metric, at).items())


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
    slices = {_key(labels.values()): _slice(results, at, _key(labels.values())) for at, labels in results.strata()}
    worst = _worst(results, variable)
    ordered = [slices[key] for key in (*worst, *(key for key in slices if key not in set(worst)))]
    return sorted(ordered, key=lambda piece: piece.is_tiny)


def _key(labels: Any) -> tuple[str, ...]:
    return tuple(slice_text(label) for label in labels)


def _worst(results: Results, variable: str) -> list[tuple[str, ...]]:
    """Labels of the slices that have a value, the worst first."""
    if variable not in results.dataset:
        return []
    number = int(np.prod([results.dataset.sizes[dim] for dim in results.slices]))
    worst = worst_slices(results.dataset, variable, max(1, number))
    return [_key(labels) for labels in zip(*(worst[dim].values for dim in results.slices), strict=True)]


def _slice(results: Results, at: Mapping[str, int], key: Sequence[str]) -> Slice:
    bins = bins_of(results.dataset, at)
    rows = bins[0][1].rows if bins else np.nan
    piece = Slice(" · ".join(key), rows, {value.name: value for value in results.at(at).values()}, bins)
    if not piece.is_tiny:
        return piece
    return replace(piece, numbers={name: replace(value, low=None, high=None) for name, value in piece.numbers.items()})

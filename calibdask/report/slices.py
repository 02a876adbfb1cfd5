"""Slices of one model, the worst first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.report.measuring import CLASSES
from calibdask.results.cautions import TOO_FEW_IN_A_SLICE
from calibdask.results.format import slice_text
from calibdask.results.ranking import certain_ends, judged, worst_order
from calibdask.results.reliability import BinnedReliability
from calibdask.results.values import Results, Value


@dataclass(frozen=True, eq=False)
class Slice:
    """One slice: its label, its rows (NaN where no diagram counts them), its numbers by name, and its bins.

    Numbers of very few rows have no interval. ``least`` is what the error that slices are ordered by is at least, for
    all slices at a time; NaN without an interval. ``events`` are NaN where nobody has counted them, as of several
    classes each for itself.
    """

    label: str
    rows: float
    numbers: Mapping[str, Value]
    bins: Sequence[tuple[str, BinnedReliability]]
    least: float = np.nan
    events: float = np.nan

    @property
    def means(self) -> tuple[float, float]:
        """Mean score and frequency of the outcome; NaN where there is one for each class."""
        return (self.bins[0][1].mean_score, self.bins[0][1].frequency) if len(self.bins) == 1 else (np.nan, np.nan)

    @property
    def observed_expected(self) -> float:
        """Observed over expected events."""
        return ratio_of(self.means)

    @property
    def is_tiny(self) -> bool:
        """Whether it has too few rows for intervals."""
        return self.rows < TOO_FEW_IN_A_SLICE


def slices_of(result: xr.Dataset, variable: str = "ece", models: int = 1) -> list[Slice]:
    """Slices in the order of `calibdask.worst_slices`; slices with very few rows or without a value come last.

    Lower ends are adjusted for the slices of so many models.

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

        def flat(values: Any) -> npt.NDArray[np.float64]:
            spread = part.values.copy(data=values).transpose(*results.shared_dims)
            return np.asarray(spread.values, np.float64).ravel()

        lows = []
        if part.has_interval and results.level is not None:
            numbers = models * judged(part.values)
            lows = [flat(certain_ends(part, results.level, numbers)[0]), flat(part.bounds["low"].values)]
            slices = [
                piece if piece.is_tiny else replace(piece, least=float(least))
                for piece, least in zip(slices, lows[0], strict=True)
            ]
        order = worst_order(flat(part.values.values), *lows).tolist()
    rest = [i for i in range(len(slices)) if i not in set(order)]
    return sorted((slices[i] for i in (*order, *rest)), key=lambda piece: piece.is_tiny)


def ratio_of(means: tuple[float, float]) -> float:
    """Observed over expected events of a mean score and a frequency, both weighted; NaN where none is expected."""
    score, frequency = means
    return frequency / score if score > 0 else np.nan


def events_of(here: Results) -> float:
    """How often the outcome occurred in a result without slices; NaN where that is not one number."""
    events = here.totals.get("events")
    return float(events) if events is not None and not events.ndim else np.nan


def _slice(results: Results, at: Mapping[Any, int], labels: Iterable[Any]) -> Slice:
    bins = list(BinnedReliability.first(results.dataset, at, skip=CLASSES).items())
    rows = bins[0][1].rows if bins else np.nan
    here = results.at(at)
    numbers = {value.name: value for value in here.values()}
    if rows < TOO_FEW_IN_A_SLICE:
        numbers = {name: replace(value, low=None, high=None) for name, value in numbers.items()}
    return Slice(" · ".join(slice_text(label) for label in labels), rows, numbers, bins, events=events_of(here))

"""Base classes of estimators with bins: the parameters of bins, their checks, and sums over bins."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from calibdask.estimators.checks import MOST_BINS, check_choice, check_setting
from calibdask.estimators.columns import SettingEstimator
from calibdask.estimators.compat import Compat, choices
from calibdask.estimators.interval import FromHistograms, FromRows, IntervalMethod
from calibdask.statistics.bins.bin_sums import BinSums, BinSumsState
from calibdask.statistics.bins.binnings import BinEdges, Binning, EqualMass, Explicit, Uniform, binned_sums
from calibdask.statistics.bins.edges import Closed, Edges
from calibdask.statistics.bins.grid import Grid, GridHistogram
from calibdask.statistics.bins.mappings import Bins, Mapping, bin_edges, mapped
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting, SettingChoice


@dataclass(frozen=True, kw_only=True)
class BinnedEstimator(SettingEstimator):
    """The parameters of bins, documented in `calibdask.ECE`; None: the value of ``compat``, or the default."""

    bins: int | Literal["sqrt"] | tuple[float, ...] | None = None
    binning: Literal["uniform", "equal-mass"] = "uniform"
    setting: SettingChoice = None
    k: int | None = None
    closed: Closed | None = None
    range: tuple[float, float] | None = None
    compat: Compat | None = None

    def __post_init__(self) -> None:
        chosen = choices(self.compat)
        self._set("bins", _checked_bins(chosen["bins"] if self.bins is None else self.bins))
        self._set("closed", chosen["closed"] if self.closed is None else self.closed)
        if self.range is not None:
            self._set("range", _checked_range(self.range))
        elif not chosen["spread_over_support"]:
            self._set("range", (0.0, 1.0))
        check_setting(self.setting, self.k)
        check_choice("binning", self.binning, ("uniform", "equal-mass"))
        check_choice("closed", self.closed, ("right", "left"))
        if isinstance(self.bins, tuple) and self.range not in (None, (0.0, 1.0)):
            raise ValueError("range applies to bins of equal width or mass; explicit edges already define the range.")
        if isinstance(self.bins, tuple) and self.binning == "equal-mass":
            raise ValueError("binning='equal-mass' chooses its own edges; give a number of bins, or binning='uniform'.")

    def _set(self, field: str, value: Any) -> None:
        object.__setattr__(self, field, value)

    def interval(self, layout: Layout) -> IntervalMethod:
        """From a fine histogram if bins consist of whole cells, from replicates of the rows otherwise."""
        setting = self.measured(layout)
        mapping: Mapping = getattr(self, "mapping", "hard")
        grid = Grid(refined=True)
        if not _of_cells(self.rule(layout, setting, mapping), mapping, setting, grid):
            return FromRows()
        return FromHistograms((GridHistogram(setting, grid),), self)

    def rule(self, layout: Layout, setting: Setting, mapping: Mapping) -> Binning:
        """The binning that follows from the parameters for data of this shape."""
        chosen = choices(self.compat)
        closed: Closed = self.closed or "right"
        if isinstance(self.bins, tuple):
            return Explicit(self.bins, closed)
        bins = self.bins or chosen["bins"]
        smallest = 1 / layout.classes if setting.kind == "confidence" else 0.0
        span = self.range or (smallest, 1.0)
        if self.binning == "equal-mass":
            return EqualMass(bins, span, closed, chosen["equal_mass_rule"])
        if chosen["uniform_rule"] == "floor":
            # The authors' code computes the bin by index on [0, 1], but the centres on the support.
            return Uniform(bins, closed=closed, rule="floor") if mapping == "hard" else Uniform(bins, span, closed)
        return Uniform(bins, span, closed, chosen["uniform_rule"])

    def binned(self, mapping: Mapping) -> Requests[tuple[Setting, Edges, BinSumsState, Bins]]:
        """Request edges and sums."""
        layout = yield from Layout()
        setting = self.measured(layout)
        edges = yield from BinEdges(self.rule(layout, setting, mapping), setting)
        if mapping == "hard":
            sums = yield from binned_sums(setting, edges)
        else:
            sums = yield from BinSums(setting, bin_edges(mapping, edges), "offsets")
        return setting, edges, sums, mapped(mapping, edges, sums)


@dataclass(frozen=True, kw_only=True)
class BinnedDecomposition(BinnedEstimator):
    """A decomposition of a score, whose terms are summed over classes."""

    usual_setting = "classwise"


def _of_cells(binning: Binning, mapping: Mapping, setting: Setting, grid: Grid) -> bool:
    """Whether bins are closed like cells and their edges are, or can be, borders of cells."""
    if binning.closed != "right":
        return False
    if isinstance(binning, EqualMass):
        return mapping == "hard" and binning.rule == "spread" and binning.range == (0.0, 1.0)
    if isinstance(binning, Uniform) and binning.bins == "sqrt":
        return False
    try:
        next(binning.edges(setting))
    except StopIteration as stop:
        return bool((grid.borders(bin_edges(mapping, stop.value).values[..., 1:-1]) >= 0).all())
    return False


def _checked_range(span: Any) -> tuple[float, float]:
    ends = np.asarray(span, np.float64).ravel().tolist() if np.size(span) == 2 else [1.0, 0.0]
    low, high = ends
    if not 0.0 <= low < high <= 1.0:
        raise ValueError(f"range expects two increasing numbers within [0, 1], got {span!r}.")
    return low, high


def _checked_bins(bins: Any) -> Any:
    """A positive int, "sqrt", or a tuple of increasing edges."""
    if isinstance(bins, str) and bins == "sqrt":
        return bins
    if isinstance(bins, Sequence | np.ndarray) and not isinstance(bins, str):
        edges = tuple(np.asarray(bins, np.float64).ravel().tolist())
        if len(edges) < 2 or not np.isfinite(edges).all() or not all(a < b for a, b in itertools.pairwise(edges)):
            raise ValueError(f"bins as edges expects at least two finite, increasing numbers, got {edges!r}.")
        return edges
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or not 1 <= bins <= MOST_BINS:
        raise ValueError(
            f"bins expects a positive whole number up to {MOST_BINS:,}, 'sqrt' or increasing edges, got {bins!r}."
        )
    return int(bins)

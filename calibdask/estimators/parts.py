"""Parts of an estimate: numbers, calibration errors, curves, values that are not estimated, coordinates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from calibdask.estimators.about import Kind
from calibdask.statistics.exact import Array

# Ends of intervals at a level, each of the shape of the values.
Ends = Callable[[float], tuple[Array, Array]]
Limits = tuple[Any, Any]


@dataclass(frozen=True)
class Part:
    """Values of shape ``(batch, groups, *dims)``; the sizes of ``dims`` follow from them.

    ``notes`` become attributes of the variable.
    """

    values: npt.NDArray[Any]
    dims: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)

    # The kind where the estimator declares none.
    kind: ClassVar[Kind] = "number"


@dataclass(frozen=True)
class Number(Part):
    """Numbers within ``limits``, each with its own interval.

    ``known_ends`` returns the ends at a level if a formula gives them, or if percentiles of replicates are not
    appropriate; ``ends_method`` names the formula. ``is_biased``: resampling shifts the number just as sampling did.
    """

    limits: Limits = (-np.inf, np.inf)
    is_biased: bool = False
    known_ends: Ends | None = None
    ends_method: str = "normal"

    # Whether there is a simultaneous band along the last dimension besides the ends of each value.
    has_band: ClassVar[bool] = False

    @property
    def resampled(self) -> Array:
        """The values that are kept of each replicate."""
        return self.values

    def pooled(self, replicates: Array) -> Array:
        """Values of all replicates, (replicates, *shape of the values), from those kept."""
        return replicates

    def lowered(self, low: Array, level: float) -> Array:
        """Lower ends that replicates give, or lower ones."""
        return low

    def without_ends(self, refused: npt.NDArray[np.bool_], reason: str) -> Self:
        """The number without an interval in the refused slices, by NaN as their limits, and the reason as a note."""
        if not refused.any():
            return self
        low, high = (np.where(refused, np.nan, end) for end in self.limits)
        return replace(self, limits=(low, high), notes={**self.notes, "no_interval": reason})


@dataclass(frozen=True)
class CalibrationError(Number):
    """The ``pool`` of ``columns`` (batch, groups, columns): 0 for a calibrated model, positive by chance.

    ``lower_limit``: a lower confidence limit by level, which the lower end of an interval does not exceed.
    """

    is_biased: bool = True
    columns: npt.NDArray[Any] = field(default_factory=lambda: np.zeros((0, 0, 0)))
    pool: Callable[..., Any] = np.mean
    lower_limit: Callable[[float], Array] | None = None

    kind: ClassVar[Kind] = "error"

    @property
    def resampled(self) -> Array:
        """The values of the columns, before pooling."""
        return self.columns

    def pooled(self, replicates: Array) -> Array:
        """Replicates of the columns pooled as if all columns were large or small together; see `_together`."""
        return np.asarray(self.pool(_together(replicates), axis=-1))

    def lowered(self, low: Array, level: float) -> Array:
        """Lower ends that replicates give, or the lower limit where that is lower."""
        return low if self.lower_limit is None else np.minimum(low, self.lower_limit(level))


@dataclass(frozen=True)
class SummedNumber(Number):
    """The sum of ``columns`` (batch, groups, columns)."""

    columns: npt.NDArray[Any] = field(default_factory=lambda: np.zeros((0, 0, 0)))

    @property
    def resampled(self) -> Array:
        """The values of the columns, before they are added up."""
        return self.columns

    def pooled(self, replicates: Array) -> Array:
        """Replicates of the columns added up as if all columns were large or small together; see `_together`."""
        return np.asarray(_together(replicates).sum(-1))


def _together(replicates: Array) -> Array:
    """Replicates of each column in order of size.

    Columns are resampled independently, while the dependence between the columns of a row cannot be computed from
    histograms; no other dependence gives their sum a larger variance.
    """
    return np.sort(replicates, axis=0)


@dataclass(frozen=True)
class Curve(Number):
    """A curve along the last dimension within ``limits``, with pointwise intervals and a simultaneous band.

    ``ends_of_clusters``: from the level, the variance of the values over replicates of clusters, the design effect of
    all rows, and the factor by which few clusters widen intervals, each of the shape of the values.
    """

    ends_of_clusters: Callable[[float, Array, Array, Array], tuple[Array, Array]] | None = None

    kind: ClassVar[Kind] = "curve"
    has_band: ClassVar[bool] = True


@dataclass(frozen=True)
class FixedPart(Part):
    """Values that are counted or chosen rather than estimated; they have no intervals."""

    kind: ClassVar[Kind] = "choice"


@dataclass(frozen=True)
class Coordinate(Part):
    """Positions along the dimension with this name; one-dimensional."""


# Part name -> values; the only part of a plain number has the empty name.
Estimate = Mapping[str, Part]


def estimated(estimate: Estimate) -> dict[str, Number]:
    """The parts whose values differ between replicates of the data."""
    return {name: part for name, part in estimate.items() if isinstance(part, Number)}


def number(values: npt.NDArray[np.float64], least: float = -np.inf, **notes: Any) -> Estimate:
    """The estimate of a single number, at least ``least``, for each (batch, group)."""
    return {"": Number(values, notes=notes, limits=(least, np.inf))}


def summed(columns: npt.NDArray[np.float64], values: npt.NDArray[np.float64], **options: Any) -> Number:
    """The sum over the columns of each (batch, group), which is computed already."""
    if columns.shape[-1] == 1:
        return Number(values, **options)
    return SummedNumber(values, columns=columns, **options)


def calibration_error(
    columns: npt.NDArray[np.float64],
    pool: Callable[..., Any] = np.mean,
    most: float = 1.0,
    dims: tuple[str, ...] = (),
    **notes: Any,
) -> CalibrationError:
    """A calibration error from 0 to ``most``, pooled over the columns of each (batch, group)."""
    return CalibrationError(pool(columns, axis=-1), dims, notes, limits=(0.0, most), columns=columns, pool=pool)

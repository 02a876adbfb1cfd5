"""What an estimator is: a frozen description whose one method asks for statistics and computes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from calibdask.described import Described
from calibdask.statistics.grid import GridHistogram
from calibdask.statistics.layout import Layout

__all__ = ["PVALUE", "Estimate", "Estimation", "Estimator", "Meanings", "Part", "calibration_error", "number"]


@dataclass(frozen=True)
class Part:
    """Values of shape ``(batch, groups, *dims)``, the sizes of ``dims`` following from the values.

    ``notes`` say what the reader of the number should know; they become attributes of the variable. ``role`` says how
    replicates become an interval: of each number by itself, of a curve along its last dimension also as a band within
    ``limits``, not at all for what is given and not estimated; a coordinate has the shape of its one dimension alone.
    ``spread`` gives the (pointwise) ends at a level where replicates would not do.

    ``columns`` (batch, groups, columns) are the values of which a calibration error is the ``pool``: 0 for a calibrated
    model, and above 0 by chance. ``biased`` numbers are others that resampling shifts as sampling has shifted them.
    """

    values: npt.NDArray[Any]
    dims: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    role: Literal["number", "curve", "given", "coordinate"] = "number"
    limits: tuple[Any, Any] = (-np.inf, np.inf)
    spread: Callable[[float], tuple[Any, Any]] | None = None
    columns: npt.NDArray[Any] | None = None
    pool: Callable[..., Any] = np.mean
    biased: bool = False


Meanings = Mapping[str, str]
# What the p-value of a test of calibration says.
PVALUE = "chance of one as extreme if calibrated"

# Name of the part -> its values; the one part of a plain number has the empty name.
Estimate = Mapping[str, Part]
# Yields requests (a Statistic, or a Layout) and is sent their states.
Estimation = Generator[Any, Any, Estimate]


class Estimator(Described, ABC):
    """A frozen, picklable description of a number, a curve or a test.

    Constructing one reads no data. To add an estimator, write a frozen dataclass with a method ``estimate``.
    """

    @abstractmethod
    def estimate(self) -> Estimation:
        """Ask for statistics by ``yield`` and return the estimate."""

    @property
    def name(self) -> str:
        """Short name of the variable that holds the result."""
        return type(self).__name__.lower()

    @property
    def weighs(self) -> bool:
        """Whether it takes weights, and so replicates of the data in which rows count more or less."""
        return True

    def histograms(self, layout: Layout) -> tuple[GridHistogram, ...] | None:
        """The histograms of the scores that tell it, so that intervals come from resampling these; None: no such."""
        return None

    def meanings(self, layout: Layout) -> Meanings:
        """What each part says, in a few words, for data of this shape."""
        return {}

    @property
    def is_error(self) -> bool:
        """Whether a part is an error that calibrated models have by chance; see ``columns`` of `Part`."""
        return False

    @property
    def knows_ends(self) -> bool:
        """Whether its numbers bring the ends of their intervals along; see ``spread`` of `Part`."""
        return False

    @property
    def tests(self) -> bool:
        """Whether it is a test, whose numbers have no intervals."""
        return False

    def replicated(self) -> "Estimator":
        """The estimator that intervals are made of; another one where that mends a bias."""
        return self


def number(values: npt.NDArray[np.float64], least: float = -np.inf, **notes: Any) -> Estimate:
    """The estimate that is one number, from ``least`` on, for each (batch, group)."""
    return {"": Part(values, notes=notes, limits=(least, np.inf))}


def calibration_error(
    columns: npt.NDArray[np.float64], pool: Callable[..., Any] = np.mean, most: float = 1.0, **notes: Any
) -> Part:
    """A calibration error from 0 to ``most``, pooled over the columns of each (batch, group)."""
    return Part(pool(columns, axis=-1), notes=notes, limits=(0.0, most), columns=columns, pool=pool)

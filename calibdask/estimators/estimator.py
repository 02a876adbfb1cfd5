"""What an estimator is: a frozen description whose one method asks for statistics and computes."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Estimate", "Estimation", "Estimator", "Part", "number"]


@dataclass(frozen=True)
class Part:
    """Values of shape (batch, groups, *dims), the sizes of ``dims`` following from the values.

    ``notes`` say what the reader of the number should know; they become attributes of the variable.
    """

    values: npt.NDArray[Any]
    dims: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)


# Name of the part -> its values; the one part of a plain number has the empty name.
Estimate = Mapping[str, Part]
# Yields requests (a Statistic, or a Layout) and is sent their states.
Estimation = Generator[Any, Any, Estimate]


class Estimator(ABC):
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


def number(values: npt.NDArray[np.float64], **notes: Any) -> Estimate:
    """The estimate that is one number for each (batch, group)."""
    return {"": Part(values, notes=notes)}

"""What a place to work is."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

from calibdask.halted import Halted

__all__ = ["ClusterLost", "Place"]


class ClusterLost(Halted):
    """The scheduler, or all its workers, have gone in the midst of work."""


@dataclass(frozen=True)
class Place(ABC):
    """Somewhere to work; a description that starts nothing until it is opened.

    Attributes
    ----------
    patience : float
        Seconds to wait for workers once there are none.

    Examples
    --------
    >>> from calibdask.cluster import place
    >>> place("threads:2").patience
    300.0
    """

    patience: ClassVar[float] = 300.0

    @abstractmethod
    def opened(self) -> AbstractContextManager[Any]:
        """Work there inside the block: a client, or None for threads of this process.

        What is started is closed at the end.

        Raises
        ------
        ValueError
            If its connections are not as safe as they have to be, or what it needs is missing.
        Halted
            If nobody answers there.
        """

    def answers(self) -> bool:
        """Whether somebody does; a place that starts its own scheduler always will."""
        return True

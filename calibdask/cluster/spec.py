"""Descriptions of clusters."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from calibdask.errors import Unavailable

# Seconds without workers, of clusters whose workers are not started by this process.
PATIENCE = 300.0


class ClusterLost(Unavailable):
    """The scheduler, or all of its workers, were lost during a computation."""


def no_worker(seconds: float) -> Unavailable:
    """The error of a cluster that has been without workers for this time."""
    return Unavailable(
        f"The cluster has had no worker for {seconds:.0f} seconds: check that workers run and reach the scheduler, "
        "which their logs say."
    )


@dataclass(frozen=True)
class ClusterSpec(ABC):
    """Description of a cluster, which starts nothing until it is opened.

    Examples
    --------
    >>> from calibdask.cluster import cluster_spec
    >>> cluster_spec("threads:2").patience
    300.0
    """

    @property
    def patience(self) -> float:
        """Seconds to wait for workers when there are none."""
        return PATIENCE

    @abstractmethod
    def opened(self) -> AbstractContextManager[Any]:
        """Use the cluster inside the block: yields a client, or None for threads of this process.

        Whatever was started is stopped at the end.

        Raises
        ------
        ValueError
            If connections would be insecure, or a requirement is missing.
        Unavailable
            If the scheduler does not answer.
        """

    def answers(self) -> bool:
        """Whether the scheduler answers; always true of clusters that start their own."""
        return True

"""Working at a place."""

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from calibdask.cluster.places import ClusterLost, Place
from calibdask.cluster.versions import check_versions
from calibdask.cluster.words import place
from calibdask.halted import Halted

__all__ = ["connected"]


@contextmanager
def connected(where: str | Place = "threads") -> Iterator[Any]:
    """Run what Dask computes inside this block there.

    Parameters
    ----------
    where : str or Place
        See `place`.

    Raises
    ------
    ValueError
        If it is no place, or if workers have other versions than this process.
    Halted
        If nobody answers there, or no worker joins.
    ClusterLost
        If the scheduler goes away while something is computed, or if that kills the workers.

    Examples
    --------
    >>> import calibdask as cd
    >>> with connected("threads"):
    ...     cd.ece([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2)
    0.25
    """
    chosen = place(where)
    with chosen.opened() as client:
        if client is not None:
            _await_worker(client, chosen.patience)
            check_versions(client)
        try:
            yield client
        except CancelledError as error:
            raise ClusterLost("The scheduler has gone, and with it what it held; try again.") from error
        except Exception as error:
            if type(error).__name__ != "KilledWorker":
                raise
            raise ClusterLost(
                "Workers died one after the other of the same piece of work, as they do where memory is short: give "
                f"them more, or smaller chunks. {error}"
            ) from error


def _await_worker(client: Any, seconds: float) -> None:
    """Begin with the first worker; others may join."""
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError as error:
        raise Halted(f"The cluster has had no worker for {seconds:.0f} seconds.") from error

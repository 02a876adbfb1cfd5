"""Running computations on a cluster."""

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from calibdask.cluster.parse import cluster_spec
from calibdask.cluster.quiet_losses import quiet_losses
from calibdask.cluster.spec import ClusterLost, ClusterSpec, no_worker
from calibdask.cluster.versions import check_versions


@contextmanager
def connected(where: str | ClusterSpec = "threads") -> Iterator[Any]:
    """Run the Dask computations inside this block on a cluster.

    Parameters
    ----------
    where : str or ClusterSpec
        See `cluster_spec`.

    Raises
    ------
    ValueError
        If there is no such cluster, if the versions of workers differ from those of this process, or if a worker does
        not see a path.
    Unavailable
        If the scheduler does not answer, or no worker joins.
    ClusterLost
        If the connection to the scheduler is lost during a computation, or the computation kills its workers.

    Examples
    --------
    >>> import calibdask as cd
    >>> with connected("threads"):
    ...     cd.ece([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2)
    0.25
    """
    spec = cluster_spec(where)
    with quiet_losses(), spec.opened() as client:
        if client is not None:
            _await_worker(client, spec.patience)
            check_versions(client)
        try:
            yield client
        except CancelledError as error:
            raise ClusterLost("The scheduler was lost, and its results with it; try again.") from error
        except Exception as error:
            if type(error).__name__ != "KilledWorker":
                raise
            raise ClusterLost(
                "Workers died while computing the same task, usually because memory ran out: give them more "
                f"memory, or use smaller chunks. {error}"
            ) from error


def _await_worker(client: Any, seconds: float) -> None:
    """Return when the first worker has joined; others may follow."""
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError as error:
        raise no_worker(seconds) from error

"""Running computations on a cluster."""

import logging
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from calibdask.cluster.parse import cluster_spec
from calibdask.cluster.spec import ClusterLost, ClusterSpec, no_worker
from calibdask.cluster.versions import check_versions

_LOGGERS = ("distributed.client", "distributed.comm.tcp", "distributed.core", "tornado.application")
# Errors of connections and of results that went with them.
_HANDLED = {"CancelledError", "CommClosedError", "FutureCancelledError", "StreamClosedError"}
# Results that were computed again, since their workers had gone; a lost scheduler, which ends in `ClusterLost`.
_HANDLED_MESSAGES = ("Couldn't gather", "Failed to reconnect to scheduler")


@contextmanager
def quiet_losses() -> Iterator[None]:
    """Omit what Dask logs of lost connections and workers during the block."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(_is_news)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if isinstance(record.exc_info, tuple) else None
    is_handled = kind is not None and kind.__name__ in _HANDLED
    return not (is_handled or record.getMessage().startswith(_HANDLED_MESSAGES))


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
            raise ClusterLost("The scheduler and its results were lost; try again.") from error
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

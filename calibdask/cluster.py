"""Where work runs: threads of this process, processes of this machine, or a cluster that is there already."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["connected", "threads_of"]

_THREADS = re.compile(r"threads(?::(\d+))?")
_LOCAL = re.compile(r"local(?::(\d+))?")
_SECONDS_TO_ANSWER = "15s"


@contextmanager
def connected(where: str = "threads") -> Iterator[None]:
    """Run what Dask computes inside this block there.

    Parameters
    ----------
    where : str
        ``threads`` (one for each core) or ``threads:4`` of this process; ``local`` or ``local:4``, a cluster of (4)
        processes of this machine, closed at the end; ``tcp://host:port`` or ``tls://host:port`` of a scheduler; or the
        path of a scheduler file.

    Raises
    ------
    ValueError
        If it is none of these, or no scheduler answers.

    Examples
    --------
    >>> import calibdask as cd
    >>> with connected("threads"):
    ...     cd.ece([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2)
    0.25
    """
    threads = threads_of(where)
    if threads:
        import dask

        with dask.config.set(scheduler="threads", num_workers=threads):
            yield
        return
    with _client(where):
        yield


def threads_of(where: str) -> int:
    """How many threads of this process a place means; 0 if it is another one.

    ``threads`` alone: one for each core that this process may use, as affinity and limits of a container allow.

    Raises
    ------
    ValueError
        For ``threads:0``.
    """
    found = _THREADS.fullmatch(where)
    if not found:
        return 0
    if found[1] is None:
        from dask.system import CPU_COUNT

        return int(CPU_COUNT)
    if int(found[1]) == 0:
        raise ValueError("threads:N expects at least one thread, got threads:0.")
    return int(found[1])


def _client(where: str) -> Any:
    """A client that is current while it is open, and closes what it started."""
    local = _LOCAL.fullmatch(where)
    if local:
        workers = int(local[1]) if local[1] else None
        if workers == 0:
            raise ValueError("local:N expects at least one worker process, got local:0.")
        return _local_client(workers)
    is_address = re.match(r"(tcp|tls)://.", where) is not None
    if not is_address and not Path(where).is_file():
        raise ValueError(
            "Expected threads, threads:N, local, local:N, tcp://host:port, tls://host:port or a scheduler file as the "
            f"place to work, got {where!r}."
        )
    from distributed import Client

    try:
        options = {"address": where} if is_address else {"scheduler_file": where}
        return Client(**options, timeout=_SECONDS_TO_ANSWER)
    except (OSError, ValueError) as error:
        raise ValueError(f"No scheduler answers at {where}: {' '.join(str(error).split())}") from error


@contextmanager
def _local_client(workers: int | None) -> Iterator[None]:
    import logging

    from distributed import Client, LocalCluster

    threads = {} if workers is None else {"threads_per_worker": 1}
    with (
        LocalCluster(
            n_workers=workers,
            **threads,
            # No dashboard, and its server on any free port of the loopback, where it gets in nobody's way.
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            host="127.0.0.1",
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster),
    ):
        yield

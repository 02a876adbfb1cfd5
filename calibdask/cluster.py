"""Where work runs: threads of this process, processes of this machine, or a cluster that is there already."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["connected"]

_LOCAL = re.compile(r"local(?::(\d+))?")
_SECONDS_TO_ANSWER = "15s"


@contextmanager
def connected(where: str = "threads") -> Iterator[None]:
    """Run what Dask computes inside this block there.

    Parameters
    ----------
    where : str
        ``threads`` of this process; ``local`` or ``local:4``, a cluster of (4) processes of this machine, closed at the
        end; ``tcp://host:port`` or ``tls://host:port`` of a scheduler; or the path of a scheduler file.

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
    if where == "threads":
        import dask

        with dask.config.set(scheduler="threads"):
            yield
        return
    with _client(where):
        yield


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
            "Expected threads, local, local:N, tcp://host:port, tls://host:port or a scheduler file as the place to "
            f"work, got {where!r}."
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

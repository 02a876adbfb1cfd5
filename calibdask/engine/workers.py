"""Workers of a Dask cluster, which compute blocks in processes of their own, or on other machines."""

import sys
from typing import NamedTuple


class Workers(NamedTuple):
    """Resources of the processes that compute blocks.

    Attributes
    ----------
    threads : int
        Of the worker with the most.
    memory : int or None
        Bytes that the worker with the least may use; None where none has a limit.
    """

    threads: int
    memory: int | None


def workers_in_force() -> Workers | None:
    """Workers of the active client; None if computations run in this process."""
    import dask

    if "distributed" not in sys.modules or dask.config.get("scheduler", None) not in (
        "dask.distributed",
        "distributed",
    ):
        return None
    from distributed import default_client

    try:
        known = default_client().scheduler_info(n_workers=-1)["workers"].values()
    except ValueError:
        # The client was closed.
        return None
    if not known:
        return None
    limits = [worker["memory_limit"] for worker in known if worker["memory_limit"]]
    return Workers(max(worker["nthreads"] for worker in known), min(limits, default=None))

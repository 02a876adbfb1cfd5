"""Workers in Slurm jobs, submitted for one computation and cancelled after it."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from calibdask.cluster.scheduler import worker_ttl
from calibdask.cluster.security import Transport
from calibdask.cluster.spec import ClusterSpec

_JOBS = "calibdask.slurm.jobs"
_COMMANDS = ("sbatch", "squeue", "scancel")
# Interval of checks whether a worker has joined, or all jobs have ended without one.
_POLL_SECONDS = 10.0
# A busy controller refuses jobs that it accepts a moment later.
_RETRY_PAUSES = (1.0, 4.0, 15.0)
# The HTTP server runs with or without a dashboard; on the loopback it cannot be reached from elsewhere.
_NO_DASHBOARD = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")


@dataclass(frozen=True)
class Slurm(ClusterSpec):
    """Jobs of one worker each, as described by Dask's configuration (``deploy/slurm/dask.yaml``).

    The scheduler runs in this process, which must be able to submit jobs and be reachable from the nodes: on a login
    node, or better in a small job of its own (``deploy/slurm/driver.sbatch``). Jobs that end, cancelled or at their
    time limit, are replaced.

    Parameters
    ----------
    transport : Transport
        Without certificates, and unless insecure, temporary ones are created in the directory
        ``jobqueue.slurm.shared-temp-directory`` (or the current one), which all nodes must see, and removed at the end.
    """

    transport: Transport

    @property
    def patience(self) -> float:
        """A day, because jobs may queue for hours."""
        return 86_400.0

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A scheduler in this process, and workers in jobs; the block starts when the first one has joined.

        Raises
        ------
        ValueError
            If dask-jobqueue or Slurm's commands are missing, if the configuration is incomplete, if Slurm refuses the
            jobs, or if all of them end before a worker has joined.
        """
        from distributed import Client

        _jobqueue()
        number = _number_of_jobs()
        for command in _COMMANDS:
            if shutil.which(command) is None:
                raise ValueError(
                    f"slurm expects the command {command}, which is missing here; run where jobs can be submitted."
                )
        with self._security() as security, worker_ttl(), self.cluster(security) as cluster, Client(cluster) as client:
            _submit(cluster, number)
            # scale() leaves jobs that have ended as they are; adapt() replaces them.
            cluster.adapt(minimum_jobs=number, maximum_jobs=number)
            _await_worker(cluster, client, self.patience)
            yield client

    def cluster(self, security: Any) -> Any:
        """The ``SLURMCluster``, without jobs so far.

        Parameters
        ----------
        security : distributed.Security or None
            None: connections without TLS.
        """
        jobqueue = _jobqueue()
        import dask

        def configured(key: str) -> Any:
            return dask.config.get(f"jobqueue.slurm.{key}", None)

        if configured("processes") != 1:
            # Dask does not notice the end of jobs with several workers (dask/distributed#9102), and replaces none.
            raise ValueError(
                f"jobqueue.slurm.processes expects 1, one worker process per job, got {configured('processes')!r}; "
                f"use more jobs with fewer cores instead ({_JOBS})."
            )
        return jobqueue.SLURMCluster(
            job_cls=_job(jobqueue.slurm.SLURMJob),
            python=configured("python") or shlex.quote(sys.executable),
            security=security,
            processes=1,
            worker_extra_args=[*(configured("worker-extra-args") or ()), *_NO_DASHBOARD],
            scheduler_options={
                **(configured("scheduler-options") or {}),
                "dashboard": False,
                "dashboard_address": "127.0.0.1:0",
            },
        )

    @contextmanager
    def _security(self) -> Iterator[Any]:
        """The given certificates, or temporary ones for the block; None for insecure connections."""
        certificates = self.transport.certificates()
        if certificates is not None or self.transport.insecure:
            yield certificates
            return
        from calibdask.cluster.certificates import temporary_certificates

        # Of entering alone: an ImportError of the block itself is not about certificates.
        with ExitStack() as stack:
            try:
                certificates = stack.enter_context(temporary_certificates(_shared()))
            except ImportError as error:
                raise ValueError(f"{error} Or give certificates with --tls FOLDER.") from error
            yield certificates


def _jobqueue() -> Any:
    try:
        import dask_jobqueue
        import dask_jobqueue.slurm
    except ImportError as error:
        raise ValueError(f"slurm expects dask-jobqueue: pip install dask-jobqueue ({error}).") from error
    return dask_jobqueue


def _number_of_jobs() -> int:
    import dask

    number = dask.config.get(_JOBS, None)
    if not isinstance(number, int) or number < 1:
        raise ValueError(
            f"{_JOBS} expects the number of jobs, got {number!r}. Set it in Dask's configuration, as in "
            "deploy/slurm/dask.yaml, or with DASK_CALIBDASK__SLURM__JOBS=4."
        )
    return number


def _shared() -> Path:
    """Folder for temporary certificates that all nodes see; TemporaryDirectory denies access to other users."""
    import dask

    configured = dask.config.get("jobqueue.slurm.shared-temp-directory", None) or "."
    folder = Path(os.path.expandvars(configured)).expanduser().resolve()
    if not folder.is_dir():
        raise ValueError(f"jobqueue.slurm.shared-temp-directory expects a directory, got {configured!r}.")
    return folder


def _job(kind: Any) -> Any:
    """Subclass of a job class that quotes paths and resubmits after a pause when Slurm refuses."""
    from asyncio import sleep

    from distributed.core import Status

    class Job(kind):  # type: ignore[misc]
        def __init__(self, *args: Any, security: Any = None, worker_extra_args: Any = (), **kwargs: Any) -> None:
            # dask-jobqueue pastes words into the job script as they are. Those of the configuration are meant so
            # ($TMPDIR is expanded in the job); the folder of certificates may be called "a; rm -r b".
            files = {} if security is None else security.get_tls_config_for_role("worker")
            words = [(f"--tls-{key.replace('_', '-')}", shlex.quote(files[key])) for key in files if key != "ciphers"]
            super().__init__(*args, worker_extra_args=[*worker_extra_args, *chain.from_iterable(words)], **kwargs)

        async def start(self) -> None:
            for seconds in _RETRY_PAUSES:
                try:
                    return await super().start()
                except RuntimeError:
                    await sleep(seconds)
            return await super().start()

        async def close(self) -> None:
            await super().close()
            # dask-jobqueue leaves the status as it was, so clusters whose jobs were refused could not be closed.
            self.status = Status.closed

    return Job


def _submit(cluster: Any, number: int) -> None:
    """Submit the first jobs, and wait until Slurm has accepted all of them."""

    async def submitted() -> None:
        # Not by scale(), which submits later and reports no errors.
        while len(cluster.worker_spec) < number:
            cluster.worker_spec.update(cluster.new_worker_spec())
        await cluster

    try:
        cluster.sync(submitted)
    except RuntimeError as error:
        raise ValueError(f"Slurm refuses the jobs, see jobqueue.slurm in Dask's configuration: {error}") from error


def _await_worker(cluster: Any, client: Any, seconds: float) -> None:
    """Wait until the first worker has joined."""
    until = time.monotonic() + seconds
    ended = False
    while time.monotonic() < until:
        try:
            return client.wait_for_workers(1, timeout=_POLL_SECONDS)
        except TimeoutError:
            # Twice in a row: a worker may join, and its job end, between two checks.
            before, ended = ended, _have_ended(cluster)
        if before and ended:
            where = f"their logs ({logs})" if (logs := _logs()) else "their logs"
            raise ValueError(f"All jobs ended before a worker joined; see {where}.")
    raise ValueError(f"No job has started within {seconds:.0f} seconds; see squeue.")


def _have_ended(cluster: Any) -> bool:
    """Whether none of the jobs is queued or running; False if Slurm does not answer."""
    queue = subprocess.run(
        ["squeue", "--noheader", "--format=%A", f"--user={os.getuid()}"],
        capture_output=True,
        text=True,
        check=False,
    )
    own = {str(job.job_id) for job in list(cluster.workers.values())}
    return queue.returncode == 0 and not own & set(queue.stdout.split())


def _logs() -> str | None:
    import dask

    folder: str | None = dask.config.get("jobqueue.slurm.log-directory", None)
    return folder

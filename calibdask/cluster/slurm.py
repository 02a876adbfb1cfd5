"""Jobs of Slurm, started for this work and ended with it."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from calibdask.cluster.places import Place
from calibdask.cluster.scheduler import hung_after
from calibdask.cluster.security import Transport

__all__ = ["Slurm"]

_JOBS = "calibdask.slurm.jobs"
_COMMANDS = ("sbatch", "squeue", "scancel")
# Between looks at whether a worker has joined, or all jobs have ended without one.
_LOOK_SECONDS = 10.0
# A controller that is busy refuses for a moment what it takes later.
_PAUSES = (1.0, 4.0, 15.0)
# The servers of dashboards run with or without one; on the loopback they are in nobody's way, and nobody's reach.
_NO_DASHBOARD = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")


@dataclass(frozen=True)
class Slurm(Place):
    """Jobs of one worker each, as Dask's configuration describes them (``deploy/slurm/dask.yaml``).

    The scheduler lives in this process, which has to run where jobs may be submitted from and the nodes can reach it: a
    login node, or better a small job of its own (``deploy/slurm/driver.sbatch``). Jobs that end, cancelled or at their
    time limit, are replaced.

    Parameters
    ----------
    transport : Transport
        Without certificates, and if it need not be insecure, temporary ones are made in the directory
        ``jobqueue.slurm.shared-temp-directory`` (or the current one), which all nodes have to see; they are removed at
        the end.
    """

    transport: Transport

    # Jobs wait for their turn, sometimes for hours.
    patience: ClassVar[float] = 86_400.0

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A scheduler in this process, and workers in jobs; the block begins when the first one has joined.

        Raises
        ------
        ValueError
            If dask-jobqueue or Slurm's commands are missing, if the configuration does not say what it has to, if Slurm
            refuses the jobs, or if all of them end before a worker has joined.
        """
        from distributed import Client

        _jobqueue()
        number = _number_of_jobs()
        for command in _COMMANDS:
            if shutil.which(command) is None:
                raise ValueError(f"slurm expects the command {command} here; work where jobs may be submitted from.")
        with self._security() as security, hung_after(), self.cluster(security) as cluster, Client(cluster) as client:
            _submit(cluster, number)
            # scale() leaves jobs that have ended as they are; adapt() replaces them.
            cluster.adapt(minimum_jobs=number, maximum_jobs=number)
            _await_worker(cluster, client, self.patience)
            yield client

    def cluster(self, security: Any) -> Any:
        """The ``SLURMCluster``, yet without jobs.

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
            # Dask does not notice the end of jobs with several (dask/distributed#9102), and replaces none.
            raise ValueError(
                f"jobqueue.slurm.processes expects 1, a worker process for each job, got {configured('processes')!r}; "
                f"ask for more jobs of fewer cores instead ({_JOBS})."
            )
        if security is not None and any(map(str.isspace, security.tls_ca_file)):
            # dask-jobqueue writes paths into the script of jobs as they are.
            raise ValueError(f"slurm expects certificates in a path without blanks, got {security.tls_ca_file!r}.")
        return jobqueue.SLURMCluster(
            job_cls=_patient(jobqueue.slurm.SLURMJob),
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
        """The certificates that are named, or such as last as long as the block; None where it may be insecure."""
        found = self.transport.found()
        if found is not None or self.transport.insecure:
            yield found
            return
        from calibdask.cluster.certificates import make_certificates

        with TemporaryDirectory(prefix=".calibdask-tls-", dir=_shared()) as folder:
            try:
                make_certificates(folder)
            except ImportError as error:
                raise ValueError(f"{error} Or name certificates by --tls FOLDER.") from error
            yield Transport(folder).found()


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
            f"{_JOBS} expects the number of jobs, got {number!r}. Set it in Dask's configuration, as "
            "deploy/slurm/dask.yaml does, or by DASK_CALIBDASK__SLURM__JOBS=4."
        )
    return number


def _shared() -> Path:
    """Where all nodes find the temporary certificates; TemporaryDirectory lets nobody else in."""
    import dask

    named = dask.config.get("jobqueue.slurm.shared-temp-directory", None) or "."
    folder = Path(os.path.expandvars(named)).expanduser().resolve()
    if not folder.is_dir():
        raise ValueError(f"jobqueue.slurm.shared-temp-directory expects a directory, got {named!r}.")
    return folder


def _patient(kind: Any) -> Any:
    """The same kind of job, submitted again after a while where Slurm refuses it."""
    from asyncio import sleep

    from distributed.core import Status

    class PatientJob(kind):  # type: ignore[misc]
        async def start(self) -> None:
            for seconds in _PAUSES:
                try:
                    return await super().start()
                except RuntimeError:
                    await sleep(seconds)
            return await super().start()

        async def close(self) -> None:
            await super().close()
            # dask-jobqueue leaves it as it was, and clusters whose jobs were refused could not be closed.
            self.status = Status.closed

    return PatientJob


def _submit(cluster: Any, number: int) -> None:
    """Submit the first jobs, and wait until Slurm has taken all of them."""

    async def submitted() -> None:
        # Not by scale(), which submits later and tells nobody what went wrong.
        while len(cluster.worker_spec) < number:
            cluster.worker_spec.update(cluster.new_worker_spec())
        await cluster

    try:
        cluster.sync(submitted)
    except RuntimeError as error:
        raise ValueError(f"Slurm refuses the jobs, see jobqueue.slurm in Dask's configuration: {error}") from error


def _await_worker(cluster: Any, client: Any, seconds: float) -> None:
    """Wait until the first job has begun."""
    until = time.monotonic() + seconds
    ended = False
    while time.monotonic() < until:
        try:
            return client.wait_for_workers(1, timeout=_LOOK_SECONDS)
        except TimeoutError:
            # Twice in a row: a worker may join, and its job end, between two looks.
            before, ended = ended, _have_ended(cluster)
        if before and ended:
            where = f"their logs ({logs})" if (logs := _logs()) else "their logs"
            raise ValueError(f"All jobs have ended before a worker has joined; see {where}.")
    raise ValueError(f"No job has begun within {seconds:.0f} seconds; see squeue.")


def _have_ended(cluster: Any) -> bool:
    """Whether none of the jobs is queued or running; not, as long as Slurm does not say so."""
    asked = subprocess.run(
        ["squeue", "--noheader", "--format=%A", f"--user={os.getuid()}"],
        capture_output=True,
        text=True,
        check=False,
    )
    own = {str(job.job_id) for job in list(cluster.workers.values())}
    return asked.returncode == 0 and not own & set(asked.stdout.split())


def _logs() -> str | None:
    import dask

    folder: str | None = dask.config.get("jobqueue.slurm.log-directory", None)
    return folder

"""Real daemons of Slurm on this machine, for as long as a test needs them."""

import getpass
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.clusters.dask_processes import PATIENCE

DAEMONS = ("munged", "slurmctld", "slurmd")


def missing_daemons() -> str:
    """Why there can be none; empty if there can."""
    missing = [name for name in DAEMONS if shutil.which(name) is None]
    return f"{', '.join(missing)} missing; Debian has munge, slurmctld, slurmd and slurm-client" if missing else ""


@dataclass(frozen=True)
class Daemons:
    """One node of Slurm, known by its configuration."""

    configuration: Path

    def said(self, *command: str) -> str:
        """What one of Slurm's commands tells."""
        environment = {**os.environ, "SLURM_CONF": str(self.configuration)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    def queue(self, form: str, *options: str) -> list[str]:
        """One line for each job that is not over."""
        return self.said("squeue", "--noheader", "--array", f"--format={form}", *options).split()

    def idle(self) -> bool:
        """Whether nothing runs, waits or ends."""
        return not self.queue("%i")


@contextmanager
def daemons(folder: Path) -> Iterator[Daemons]:
    """Munge, controller and node in a folder with a short name, on free ports of the loopback, all ended afterwards."""
    running = Daemons(_configured(folder))
    with ExitStack() as stack:
        _started(stack, folder, *_munge(folder))
        waited(lambda: (folder / "munge.socket").exists(), "munged to listen")
        for name in ("slurmctld", "slurmd"):
            _started(stack, folder, name, "-D", "-f", str(running.configuration))
        waited(lambda: "idle" in _states(running), "the node to be idle")
        try:
            yield running
        finally:
            running.said("scancel", f"--user={getpass.getuser()}")
            waited(running.idle, "all jobs to end")
    left = _processes(running.configuration)
    assert not left, f"left behind: {left}"


def waited(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait until it holds.

    Raises
    ------
    TimeoutError
        If it does not hold in time.
    """
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"waited {seconds} seconds in vain for {what}")
        time.sleep(0.2)


def _configured(folder: Path) -> Path:
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    host, user = socket.gethostname().partition(".")[0], getpass.getuser()
    controller, node = _free_ports(2)
    settings = {
        "ClusterName": "tests",
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": controller,
        "SlurmdPort": node,
        "SlurmUser": user,
        "SlurmdUser": user,
        "AuthType": "auth/munge",
        "CryptoType": "crypto/munge",
        # Jobs that are requeued wait until credentials have expired, two minutes by default.
        "AuthInfo": f"socket={folder / 'munge.socket'},cred_expire=5",
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": folder / "spool",
        "SlurmctldPidFile": folder / "slurmctld.pid",
        "SlurmdPidFile": folder / "slurmd.pid",
        "SlurmctldLogFile": folder / "slurmctld.log",
        "SlurmdLogFile": folder / "slurmd.log",
        # Neither control groups nor an accounting database.
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "AccountingStorageType": "accounting_storage/none",
        "MpiDefault": "none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SchedulerParameters": "sched_interval=1,bf_interval=1",
        "ReturnToService": 2,
        "KillWait": 5,
        # More cores than the machine may have: jobs of tests sleep most of the time.
        "SlurmdParameters": "config_overrides",
    }
    lines = [f"{name}={value}" for name, value in settings.items()]
    lines.append(f"NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=8000 State=UNKNOWN")
    lines.append(f"PartitionName=tests Nodes={host} Default=YES MaxTime=INFINITE State=UP")
    path = folder / "slurm.conf"
    path.write_text("\n".join([*lines, ""]))
    return path


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for bound in sockets:
            bound.bind(("127.0.0.1", 0))
        return [bound.getsockname()[1] for bound in sockets]


def _munge(folder: Path) -> list[str]:
    """A daemon with a key of its own, whose files are where the tests are."""
    key = folder / "munge.key"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(128))
    # Forced, since folders of tests are closed to other users, which munged takes for a mistake.
    files = [f"--{name}-file={folder / f'munge.{name}'}" for name in ("key", "pid", "log", "seed")]
    return ["munged", "--foreground", "--force", f"--socket={folder / 'munge.socket'}", *files]


def _started(stack: ExitStack, folder: Path, *command: str) -> None:
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    log = stack.enter_context((folder / f"{command[0]}.out").open("w"))
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    stack.callback(_ended, process)


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _states(running: Daemons) -> str:
    try:
        return running.said("sinfo", "--noheader", "--format=%T")
    except subprocess.CalledProcessError:
        return ""


def _processes(configuration: Path) -> list[str]:
    """Command lines of processes that know of these daemons."""
    left = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.name != str(os.getpid()) and str(configuration) in (process / "environ").read_text():
                left.append((process / "cmdline").read_text().replace("\0", " "))
        except (OSError, UnicodeDecodeError):
            continue
    return left

"""Schedulers, workers and runs as processes of their own, to be killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
RUN = (sys.executable, "-c", "import sys; from calibdask.cli import main; sys.exit(main())")
# However busy the machine is: only what never ends is missed.
PATIENCE = 600.0
_MARK = "CALIBDASK_TEST_FOLDER"


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def eventually(what: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait until something holds."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is only waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@dataclass
class Processes:
    """Processes of one test, all of them ended with it."""

    folder: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    tls: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, command: Sequence[str], name: str, **more: str) -> subprocess.Popen[bytes]:
        """Start a process in a group of its own; meaning goes to a file."""
        log = (self.folder / f"{name}-{len(self.started)}.log").open("wb")
        known = os.environ | {"PYTHONPATH": str(ROOT), _MARK: str(self.folder)} | self.environment | more
        process = subprocess.Popen(command, cwd=ROOT, env=known, start_new_session=True, stdout=log, stderr=log)
        log.close()
        self.started.append(process)
        return process

    def scheduler(self, port: int, **more: str) -> subprocess.Popen[bytes]:
        """A scheduler that listens there."""
        scheme = "tcp" if self.tls is None else "tls"
        command = ["dask", "scheduler", "--host", f"{scheme}://127.0.0.1:{port}", "--no-dashboard", "--no-show"]
        command += ["--dashboard-address", "127.0.0.1:0"]
        process = self.start([*_dask(command), *self.flags()], "scheduler", **more)
        eventually(lambda: _listens(port))
        return process

    def worker(self, port: int, *options: str, **more: str) -> subprocess.Popen[bytes]:
        """A worker of one thread, with a nanny unless told otherwise."""
        scheme = "tcp" if self.tls is None else "tls"
        address = f"{scheme}://127.0.0.1:{port}"
        command = ["dask", "worker", address, "--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard"]
        command += ["--dashboard-address", "127.0.0.1:0"]
        folder = ["--local-directory", str(self.folder / f"worker-{len(self.started)}")]
        return self.start([*_dask(command), *folder, *self.flags(), *options], "worker", **more)

    def flags(self) -> list[str]:
        """TLS, as commands of Dask take it."""
        if self.tls is None:
            return []
        names = {"ca-file": "ca.pem", "cert": "node.pem", "key": "node-key.pem"}
        return [part for flag, name in names.items() for part in (f"--tls-{flag}", str(self.tls / name))]

    def run(self, *arguments: str) -> subprocess.Popen[bytes]:
        """``calibdask run``."""
        return self.start([*RUN, "run", *arguments], "run")

    def said(self, name: str) -> str:
        """What processes of this name have said, all together."""
        return "".join(path.read_text() for path in sorted(self.folder.glob(f"{name}-*.log")))

    def end(self) -> None:
        """Kill all groups that are left."""
        for process in reversed(self.started):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _dask(command: Sequence[str]) -> list[str]:
    """The command by this interpreter, whatever is on the path."""
    return [sys.executable, "-m", *command]


def _listens(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def processes(folder: Path, tls: Path | None = None) -> Iterator[Processes]:
    """Processes that end with the block; none of them, nor of their children, is left."""
    folder.mkdir(parents=True, exist_ok=True)
    running = Processes(folder, tls=tls)
    try:
        yield running
    finally:
        running.end()
        eventually(lambda: not leftovers(folder), 15)


def leftovers(folder: Path) -> list[int]:
    """Processes that were started for this folder, by them or by their children: all inherit a mark."""
    mark = f"{_MARK}={folder}".encode()
    pids = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        pid = int(path.parent.name)
        if mark in words and pid != os.getpid() and alive(pid):
            pids.append(pid)
    return pids


def descendants(process: subprocess.Popen[bytes]) -> list[int]:
    """Processes of the session that was begun with this one."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            session = int(path.read_text().rpartition(")")[2].split()[3])
        except OSError:
            continue
        if session == process.pid and alive(int(path.parent.name)):
            pids.append(int(path.parent.name))
    return pids

"""Workers, schedulers and drivers that are killed or hang: the cube is the one of an undisturbed run, bit for bit."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError
from io import StringIO
from pathlib import Path

import dask
import dask.array as da
import distributed  # noqa: F401 - before its configuration is changed: it would be forgotten with the change
import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli import main
from calibdask.cluster import ClusterLost, connected
from calibdask.cluster.connecting import quiet_losses
from calibdask.study.cube import Cube
from tests.clusters.dask_processes import (
    PATIENCE,
    Processes,
    alive,
    descendants,
    eventually,
    free_port,
    leftovers,
    processes,
)
from tests.clusters.fault_study import Heavy, Moments

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them"),
]

NAME = "tests.clusters.fault_study:Moments"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> xr.Dataset:
    path = tmp_path_factory.mktemp("undisturbed") / "cube.zarr"
    cd.run(Moments(seconds=0.0), path)
    return cd.open_cube(str(path)).load()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Processes]:
    with processes(tmp_path / "processes") as running:
        yield running


def equal(path: Path, expected: xr.Dataset, leaving: tuple[int, ...] = ()) -> None:
    """Bit for bit, but for the cells of some samples."""
    actual = cd.open_cube(str(path)).load().drop_attrs()
    kept = [number for number in expected.samples.values.tolist() if number not in leaving]
    for name in ("moment", "largest", "status"):
        one, other = (cube[name].sel(samples=kept).values for cube in (actual, expected))
        assert one.tobytes() == other.tobytes(), name


def done(path: Path) -> int:
    try:
        return int((Cube(str(path)).status() == 1).sum())
    except ValueError:
        return 0


def ended(process: subprocess.Popen[bytes], seconds: float = PATIENCE) -> int:
    """The exit status; whatever it had started has ended too."""
    status = process.wait(timeout=seconds)
    eventually(lambda: not descendants(process), 20)
    return status


def test_a_worker_that_is_killed(started: Processes, undisturbed: xr.Dataset, tmp_path: Path) -> None:
    port, store = free_port(), tmp_path / "cube.zarr"
    started.scheduler(port)
    for options in ((), ("--no-nanny",)):
        started.worker(port, *options)
    run = started.run(NAME, "--store", str(store), "--cluster", f"tcp://127.0.0.1:{port}")
    eventually(lambda: done(store) >= 6)
    os.killpg(started.started[2].pid, signal.SIGKILL)
    assert ended(run) == 0, started.said("run")
    equal(store, undisturbed)


def test_a_worker_that_hangs(started: Processes, undisturbed: xr.Dataset, tmp_path: Path) -> None:
    port, store = free_port(), tmp_path / "cube.zarr"
    started.scheduler(port, DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="5 seconds")
    started.worker(port, "--no-nanny")
    hung = started.worker(port, "--no-nanny")
    run = started.run(NAME, "--store", str(store), "--cluster", f"tcp://127.0.0.1:{port}")
    eventually(lambda: done(store) >= 6)
    os.kill(hung.pid, signal.SIGSTOP)
    assert ended(run) == 0, started.said("run")
    assert alive(hung.pid)
    equal(store, undisturbed)


def test_a_scheduler_that_is_killed_and_comes_back(started: Processes, undisturbed: xr.Dataset, tmp_path: Path) -> None:
    port, store = free_port(), tmp_path / "cube.zarr"
    scheduler = started.scheduler(port)
    started.worker(port)
    run = started.run(NAME, "--store", str(store), "--cluster", f"tcp://127.0.0.1:{port}")
    eventually(lambda: done(store) >= 6)
    os.kill(scheduler.pid, signal.SIGKILL)
    scheduler.wait()
    started.scheduler(port)
    started.worker(port)
    assert ended(run) == 0, started.said("run")
    equal(store, undisturbed)
    # The loss, in our words, and no tracebacks of what is handled.
    assert "calibdask: The scheduler was lost. Reconnecting.\n" in started.said("run")
    assert "Traceback" not in started.said("run")


def test_versions_that_may_differ_are_not_listed(started: Processes, tmp_path: Path) -> None:
    port, store, other = free_port(), tmp_path / "cube.zarr", tmp_path / "other"
    metadata = other / "cloudpickle-0.0.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: cloudpickle\nVersion: 0.0.1\n")
    paths = {"PYTHONPATH": os.pathsep.join([str(other), str(Path(__file__).parent.parent.parent)])}
    started.scheduler(port, **paths)
    started.worker(port, "--no-nanny")
    run = started.run(NAME, "--store", str(store), "--cluster", f"tcp://127.0.0.1:{port}", "--set", "seconds=0")
    assert ended(run) == 0
    # Dask sees the difference, and calibdask has no need of its table.
    eventually(lambda: "cloudpickle" in started.said("worker"))
    assert "ismatched" not in started.said("run")


def test_a_scheduler_that_is_killed_for_good(
    started: Processes,
    undisturbed: xr.Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    port, store = free_port(), tmp_path / "cube.zarr"
    scheduler = started.scheduler(port)
    started.worker(port)
    monkeypatch.setattr("calibdask.study.running._RETURN_TIMEOUT", 1.0)
    monkeypatch.setattr("calibdask.cluster.scheduler.SECONDS_TO_ANSWER", 1)

    def kill() -> None:
        eventually(lambda: done(store) >= 6)
        os.kill(scheduler.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    command = ["run", NAME, "--store", str(store), "--set", "seconds=0.15"]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main([*command, "--cluster", f"tcp://127.0.0.1:{port}"]) == 1
    killer.join()
    message = capsys.readouterr().err
    assert "calibdask: The scheduler was lost. Reconnecting.\n" in message
    assert "Finished cells are kept; call run again" in message
    kept = done(store)
    assert 6 <= kept < 60
    assert main(command) == 0
    assert f"{60 - kept} computed now" in capsys.readouterr().out
    equal(store, undisturbed)


@pytest.mark.parametrize("where", ["threads:2", "local:2"])
def test_a_driver_that_is_killed(where: str, started: Processes, undisturbed: xr.Dataset, tmp_path: Path) -> None:
    store, log = tmp_path / "cube.zarr", tmp_path / "log"
    command = (NAME, "--store", str(store), "--cluster", where, "--set", f"log={log}")
    for least in (6, 20):
        run = started.run(*command)
        eventually(lambda least=least: done(store) >= least)
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        # Workers notice by themselves that their driver has gone.
        pids = {int(line.split()[-1]) for line in log.read_text().splitlines()}
        eventually(lambda pids=pids: not any(map(alive, pids)))
    assert ended(started.run(*command)) == 0, started.said("run")
    equal(store, undisturbed)
    # No cell that was done was computed again, but for those in hand.
    assert len(log.read_text().splitlines()) <= 60 + 2 * 2 * 2


def test_a_driver_that_is_asked_to_stop(started: Processes, undisturbed: xr.Dataset, tmp_path: Path) -> None:
    store = tmp_path / "cube.zarr"
    command = (NAME, "--store", str(store), "--cluster", "threads:2")
    run = started.run(*command)
    eventually(lambda: done(store) >= 6)
    run.terminate()
    assert ended(run) == 143
    assert "stopped by TERM; run the same command again to resume" in started.said("run")
    kept = done(store)
    # Chunks in hand were finished: none is half done.
    assert 6 <= kept < 60
    assert kept % 2 == 0
    assert ended(started.run(*command)) == 0
    equal(store, undisturbed)


def test_a_cell_that_kills_its_workers(started: Processes, undisturbed: xr.Dataset, tmp_path: Path) -> None:
    store = tmp_path / "cube.zarr"
    environment = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    started.environment |= environment
    command = (NAME, "--store", str(store), "--set", "deadly=105", "--cluster", "local:2")
    run = started.run(*command)
    assert ended(run) == 3, started.said("run")
    # The cell beside it, of the same task, is done as all others are.
    equal(store, undisturbed, leaving=(105,))
    cube = cd.open_cube(str(store)).load().sel(samples=105)
    assert cube.status.values.tolist() == [2, 1]
    assert "KilledWorker" in str(cube.error.values[0])
    np.testing.assert_array_equal(cube.moment.sel(order=2), undisturbed.moment.sel(samples=105, order=2))


def test_a_worker_of_other_versions_is_refused(started: Processes, tmp_path: Path) -> None:
    port, store, other = free_port(), tmp_path / "cube.zarr", tmp_path / "other"
    metadata = other / "scipy-0.0.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: scipy\nVersion: 0.0.1\n")
    started.scheduler(port)
    paths = {"PYTHONPATH": os.pathsep.join([str(other), str(Path(__file__).parent.parent.parent)])}
    started.worker(port, "--no-nanny", **paths)
    run = started.run(NAME, "--store", str(store), "--cluster", f"tcp://127.0.0.1:{port}")
    assert ended(run) == 2
    message = started.said("run")
    assert f"scipy 0.0.1 there and {__import__('scipy').__version__} here" in message
    assert len(message.splitlines()) == 1
    assert not store.exists()


def test_a_worker_of_other_versions_that_joins_later_is_refused(started: Processes, tmp_path: Path) -> None:
    port, store, other = free_port(), tmp_path / "cube.zarr", tmp_path / "other"
    metadata = other / "zarr-0.0.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: zarr\nVersion: 0.0.1\n")
    started.scheduler(port)
    started.worker(port, "--no-nanny")
    run = started.run(NAME, "--store", str(store), "--cluster", f"tcp://127.0.0.1:{port}")
    eventually(lambda: done(store) >= 2)
    paths = {"PYTHONPATH": os.pathsep.join([str(other), str(Path(__file__).parent.parent.parent)])}
    started.worker(port, "--no-nanny", **paths)
    assert ended(run) == 2
    assert "zarr 0.0.1 there" in started.said("run")
    assert done(store) < 60


def test_a_cluster_without_workers(
    started: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    started.scheduler(port)
    monkeypatch.setattr("calibdask.cluster.spec.ClusterSpec.patience", 2.0)
    command = ["run", NAME, "--store", str(tmp_path / "cube.zarr"), "--cluster", f"tcp://127.0.0.1:{port}"]
    assert main(command) == 1
    assert "has had no worker for 2 seconds" in capsys.readouterr().err


def test_a_disk_that_is_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    store = disk / "cube.zarr"
    command = ["run", "tests.clusters.fault_study:Heavy", "--store", str(store), "--cluster", "threads:2"]
    try:
        assert main(command) == 1
        message = capsys.readouterr().err
        assert "No space left" in message
        assert f"to continue: calibdask {' '.join(command)}" in message
        kept = done(store)
        assert 0 < kept < 40
        subprocess.run(["mount", "-o", "remount,size=40m", str(disk)], check=True)
        assert main(command) == 0
        assert f"{40 - kept} computed now" in capsys.readouterr().out
        expected = tmp_path / "expected.zarr"
        cd.run(Heavy(), expected)
        one, other = (cd.open_cube(str(path)).noise.values for path in (store, expected))
        assert one.tobytes() == other.tobytes()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_losses_that_are_handled_are_not_logged() -> None:
    log, text = logging.getLogger("distributed.client"), StringIO()
    handler = logging.StreamHandler(text)
    log.addHandler(handler)
    try:
        with quiet_losses():
            log.error("Failed to reconnect to scheduler after 15.00 seconds, closing client")
            log.error("Couldn't gather 3 keys, rescheduling")
            try:
                raise CancelledError
            except CancelledError:
                log.exception("lost")
            log.error("disk is full")
        log.error("Couldn't gather 1 keys")
    finally:
        log.removeHandler(handler)
    assert text.getvalue().splitlines() == ["disk is full", "Couldn't gather 1 keys"]


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    with processes(tmp_path / "processes") as started:
        port = free_port()
        started.scheduler(port)
        started.worker(port)
        # The scheduler, the worker, its nanny.
        eventually(lambda: len(leftovers(tmp_path / "processes")) >= 3)
    assert not leftovers(tmp_path / "processes")


def _die(block: np.ndarray) -> np.ndarray:
    if len(block) == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return block


def test_rows_that_kill_their_workers_are_said_so() -> None:
    labels, scores = da.zeros(107, chunks=(100, 7), dtype=int), da.full(107, 0.5, chunks=(100, 7)).map_blocks(_die)
    allowed = {"distributed.scheduler.allowed-failures": 0}
    with pytest.raises(ClusterLost, match="because memory ran out"), dask.config.set(allowed), connected("local:1"):
        cd.evaluate(labels, scores, cd.BrierScore())


def test_an_evaluation_whose_scheduler_is_killed(started: Processes, tmp_path: Path) -> None:
    port = free_port()
    scheduler = started.scheduler(port)
    started.worker(port)
    begun = tmp_path / "begun"
    # With what they are like given, no block is computed here.
    scores = da.full(40, 0.5, chunks=1).map_blocks(_wait, begun, meta=np.empty(0))

    def kill() -> None:
        eventually(begun.exists)
        scheduler.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(ClusterLost, match="were lost"), connected(f"tcp://127.0.0.1:{port}"):
        cd.evaluate(da.zeros(40, chunks=1, dtype=int), scores, cd.BrierScore())
    killer.join()


def _wait(block: np.ndarray, begun: Path) -> np.ndarray:
    begun.touch()
    time.sleep(0.5)
    return block


def test_workers_find_a_study_in_a_folder(started: Processes, tmp_path: Path) -> None:
    """Whose module was never installed anywhere."""
    port, folder = free_port(), tmp_path / "somewhere" / "homegrown"
    folder.mkdir(parents=True)
    source = (Path(__file__).parent / "fault_study.py").read_text()
    (folder / "study.py").write_text(source[: source.index("@dataclass", source.index("class Moments"))])
    started.scheduler(port)
    started.worker(port, "--no-nanny")
    store = tmp_path / "cube.zarr"
    run = started.run(str(folder), "--store", str(store), "--cluster", f"tcp://127.0.0.1:{port}", "--set", "seconds=0")
    assert ended(run) == 0, started.said("run")
    assert done(store) == 60


def test_a_study_that_workers_cannot_import(started: Processes, tmp_path: Path) -> None:
    port, folder = free_port(), tmp_path / "somewhere" / "homegrown"
    folder.mkdir(parents=True)
    source = (Path(__file__).parent / "fault_study.py").read_text()
    missing = "import os\nif 'IMPORTABLE' not in os.environ:\n    raise ImportError('nothing here')\n"
    head = source.index('"""', 3) + 4
    (folder / "study.py").write_text(
        source[:head] + missing + source[head : source.index("@dataclass", source.index("class Moments"))]
    )
    started.scheduler(port)
    started.worker(port, "--no-nanny")
    started.environment["IMPORTABLE"] = "yes"
    store = tmp_path / "cube.zarr"
    run = started.run(str(folder), "--store", str(store), "--cluster", f"tcp://127.0.0.1:{port}")
    assert ended(run) == 2
    assert "Workers cannot import the study (ImportError: nothing here)" in started.said("run")

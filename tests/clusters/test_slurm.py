"""Studies on real Slurm daemons: jobs of Dask workers, and arrays of jobs without a scheduler."""

import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cluster import cluster_spec, connected
from calibdask.study.cube import Cube
from calibdask.study.running import lay_out
from tests.clusters.slurm_daemons import Daemons, daemons, missing_daemons, waited
from tests.clusters.sockets import documented, ports, spoken
from tests.study.sample_study import Walks

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy" / "slurm"
NAME = "tests.study.sample_study:Walks"
LENGTHS = tuple(range(2, 42))

real = pytest.mark.skipif(bool(missing_daemons()), reason=missing_daemons() or "never")


@pytest.fixture(scope="module")
def slurm() -> Iterator[Daemons]:
    # Not pytest's own folders: the name of a socket has to be short.
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, daemons(Path(folder)) as running:
        yield running


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, from where jobs find the tests' modules and the command of this environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in [name for name in os.environ if name.startswith(("SLURM_", "SBATCH_", "CALIBDASK_", "DASK_"))]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def there(slurm: Daemons, here: Path, monkeypatch: pytest.MonkeyPatch) -> Daemons:
    """The same, with commands of Slurm that know the daemons."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.configuration))
    return slurm


def flat(nested: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in nested.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name}.")
        else:
            yield before + name, value


@contextmanager
def configured(**jobqueue: Any) -> Iterator[None]:
    """The configuration that deploy/slurm gives, but for some values of jobs."""
    import dask
    import dask_jobqueue  # noqa: F401 - brings its defaults, which would come later else

    (file,) = dask.config.collect_yaml([str(DEPLOY)])
    given = dict(flat(file))
    given |= {f"jobqueue.slurm.{name.replace('_', '-')}": value for name, value in jobqueue.items()}
    with dask.config.set(given):
        yield


def done(store: Path) -> int:
    try:
        return int((Cube(str(store)).status() == 1).sum())
    except ValueError:
        return 0


def same(store: Path, folder: Path) -> None:
    """The cube is, bit for bit, that of threads."""
    cd.run(Walks(lengths=LENGTHS), folder / "threads.zarr")
    one, other = (cd.open_cube(str(path)).load().drop_attrs() for path in (store, folder / "threads.zarr"))
    xr.testing.assert_identical(one, other)
    for name in Walks.outputs:
        assert one[name].values.tobytes() == other[name].values.tobytes()


def test_the_script_of_jobs(here: Path) -> None:
    pytest.importorskip("dask_jobqueue")
    from calibdask.cluster.certificates import make_certificates
    from calibdask.cluster.security import Transport
    from calibdask.cluster.slurm import Slurm

    make_certificates(here / "tls")
    transport = Transport(str(here / "tls"))
    with configured(interface="lo"), Slurm(transport).cluster(transport.certificates()) as cluster:
        script = cluster.job_script()
    script = script.replace(sys.executable, "python").replace(str(here), "HERE")
    *head, worker = re.sub(r"tls://[\d.]+:\d+", "tls://ADDRESS", script).splitlines()
    assert head == [
        "#!/usr/bin/env bash",
        "",
        "#SBATCH -J calibdask",
        "#SBATCH -e slurm-logs/calibdask-%J.err",
        "#SBATCH -o slurm-logs/calibdask-%J.out",
        "#SBATCH -n 1",
        "#SBATCH --cpus-per-task=4",
        "#SBATCH --mem=8G",
        "#SBATCH -t 01:00:00",
        "#SBATCH --no-requeue",
        "",
    ]
    assert worker.split(" --") == [
        "python -m distributed.cli.dask_worker tls://ADDRESS",
        *("name dummy-name", "nthreads 4", "memory-limit 7.45GiB", "nanny", "death-timeout 60"),
        *("lifetime 52m", "lifetime-stagger 4m", "no-dashboard", "dashboard-address 127.0.0.1:0"),
        *("tls-ca-file HERE/tls/ca.pem", "tls-cert HERE/tls/node.pem", "tls-key HERE/tls/node-key.pem"),
        *("interface lo", "protocol tls://"),
    ]


@pytest.mark.parametrize("name", ["my tls", "a;touch PWN;b", "$(touch PWN)", "`touch PWN`", "it's", "a&b|c", '[x]"y"'])
def test_paths_of_certificates_are_words_of_the_script(name: str, here: Path) -> None:
    pytest.importorskip("dask_jobqueue")
    from calibdask.cluster.certificates import make_certificates
    from calibdask.cluster.security import Transport
    from calibdask.cluster.slurm import Slurm

    make_certificates(here / name)
    transport = Transport(str(here / name))
    with configured(interface="lo"), Slurm(transport).cluster(transport.certificates()) as cluster:
        worker = cluster.job_script().splitlines()[-1]
    echoed = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {worker}"], cwd=here, capture_output=True, text=True, check=True
    )
    words = echoed.stdout.splitlines()
    assert words[0] == sys.executable
    first = words.index("--tls-ca-file")
    assert words[first : first + 6] == [
        *("--tls-ca-file", str(here / name / "ca.pem"), "--tls-cert", str(here / name / "node.pem")),
        *("--tls-key", str(here / name / "node-key.pem")),
    ]
    assert not (here / "PWN").exists()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"jobqueue.slurm.processes": 2}, r"processes expects 1, one worker process per job, got 2"),
        ({"calibdask.slurm.jobs": None}, r"calibdask\.slurm\.jobs expects the number of jobs, got None"),
        ({"jobqueue.slurm.shared-temp-directory": "nowhere"}, r"expects a directory, got 'nowhere'"),
    ],
    ids=["processes", "jobs", "directory"],
)
def test_configurations_that_cannot_work(
    values: dict[str, Any], message: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dask_jobqueue")
    import dask

    monkeypatch.setattr("shutil.which", lambda command: command)
    with (
        configured(interface="lo"),
        dask.config.set(values),
        pytest.raises(ValueError, match=message),
        cluster_spec("slurm").opened(),
    ):
        pass
    assert not list(here.glob(".calibdask-tls-*"))


def test_what_is_missing_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    with pytest.raises(ValueError, match=r"pip install dask-jobqueue"), cluster_spec("slurm").opened():
        pass
    monkeypatch.undo()
    pytest.importorskip("dask_jobqueue")
    monkeypatch.setenv("PATH", str(here))
    with (
        configured(),
        pytest.raises(ValueError, match="expects the command sbatch, which is missing"),
        cluster_spec("slurm").opened(),
    ):
        pass


@dataclass(frozen=True)
class Seen:
    """What somebody beside the driver sees and does."""

    address: str
    plain_client_refused: bool
    certificates: list[Path]
    first: set[str]
    later: set[str]


def disturbed(there: Daemons, store: Path, folder: Path) -> Seen:
    """Try to get in, and cancel a job midway; wait for another one in its place."""
    from distributed import Client

    waited(lambda: done(store) >= 4, "cells")
    first = set(there.queue("%A", "--states=running"))
    script = there.said("scontrol", "write", "batch_script", min(first), "-")
    match = re.search(r"\w+://[\d.]+:\d+", script)
    assert match
    try:
        Client(match[0].replace("tls://", "tcp://"), timeout=3).close()
    except OSError:
        refused = True
    else:
        refused = False
    certificates = list(folder.glob(".calibdask-tls-*"))
    there.said("scancel", min(first))
    later: set[str] = set()

    def replaced() -> bool:
        later.update(set(there.queue("%A", "--states=running")) - first)
        return bool(later)

    waited(replaced, "another job")
    return Seen(match[0], refused, certificates, first, later)


SMALL = {"cores": 1, "memory": "1GB", "walltime": "00:10:00", "interface": "lo"}


@pytest.mark.slurm
@real
def test_dask_workers_in_jobs_one_of_them_cancelled(there: Daemons, here: Path) -> None:
    pytest.importorskip("dask_jobqueue")
    import dask

    store = here / "walks.zarr"
    quick = {"distributed.deploy.lost-worker-timeout": "1s", "calibdask.slurm.jobs": 2}
    with configured(**SMALL, worker_extra_args=[]), dask.config.set(quick), ThreadPoolExecutor(1) as beside:
        seen = beside.submit(disturbed, there, store, here)
        counts = cd.run(Walks(lengths=LENGTHS, seconds=0.3), store, cluster_spec("slurm"))
    assert (counts.done, counts.failed, counts.total) == (80, 0, 80)
    outcome = seen.result()
    assert outcome.address.startswith("tls://127.0.0.1:")
    assert outcome.plain_client_refused
    assert len(outcome.certificates) == 1
    assert not list(here.glob(".calibdask-tls-*"))
    assert len(outcome.first) == 2
    assert outcome.later
    waited(there.idle, "jobs to end with the driver", 30)
    same(store, here)


@pytest.mark.slurm
@real
def test_what_listens(there: Daemons, here: Path) -> None:
    pytest.importorskip("dask_jobqueue")
    import dask

    # The daemons are children of this process too, and so are jobs.
    before = ports(os.getpid())
    with configured(**SMALL, worker_extra_args=[]), dask.config.set({"calibdask.slurm.jobs": 1}):
        with connected("slurm") as client:
            nannies = [psutil.Process(worker).ppid() for worker in client.run(os.getpid).values()]
            served = {(address, spoken(port)) for address, port in ports(os.getpid(), *nannies) - before}
        waited(there.idle, "jobs to end with the driver", 30)
    assert {said for _, said in served} == {said for _, said in documented()["slurm"]}
    # The network is the loopback here, by the configuration.
    assert {address for address, _ in served} == {"127.0.0.1"}


@pytest.mark.slurm
@real
def test_jobs_that_are_refused_or_end_at_once(there: Daemons, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dask_jobqueue")
    from calibdask.cluster import slurm

    monkeypatch.setattr(slurm, "_POLL_SECONDS", 1.0)
    monkeypatch.setattr(slurm, "_RETRY_PAUSES", (0.1,))
    with (
        configured(**SMALL, queue="nowhere"),
        pytest.raises(ValueError, match=r"(?s)Slurm refuses the jobs.*invalid partition"),
        cluster_spec("slurm", insecure=True).opened(),
    ):
        pass
    with (
        configured(**SMALL, job_script_prologue=["exit 1"]),
        pytest.raises(ValueError, match=r"ended before a worker joined; see their logs \(slurm-logs\)"),
        cluster_spec("slurm", insecure=True).opened(),
    ):
        pass
    assert there.idle()


def submitted(tasks: str, store: Path, seconds: float, **variables: str) -> str:
    """Number of the array that deploy/slurm/submit.sh has submitted."""
    settings = {"lengths": ",".join(map(str, LENGTHS)), "seconds": str(seconds), "log": str(store.parent / "cells")}
    options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = [str(DEPLOY / "submit.sh"), tasks, NAME, str(store), *options]
    environment = {**os.environ, **variables}
    completed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    match = re.search(r"submitted job (\d+)", completed.stdout)
    assert match
    assert f"calibdask status {store}" in completed.stdout
    return match[1]


def computed(folder: Path) -> list[str]:
    """The cells that were computed, as often as they were."""
    return [line.rsplit(" ", 1)[0] for line in (folder / "cells").read_text().splitlines()]


@pytest.mark.slurm
@real
def test_array_tasks_one_of_them_requeued(there: Daemons, here: Path) -> None:
    store = here / "walks.zarr"
    job = submitted("3%3", store, 0.3)
    waited(lambda: done(store) >= 6, "cells")
    there.said("scontrol", "requeue", f"{job}_1")
    waited(there.idle, "all tasks")
    logs = [(here / f"calibdask-{job}_{task}.log").read_text() for task in range(3)]
    assert ["restart 1" in log for log in logs] == [False, True, False]
    assert all(f"shard {task} of 3, restart 0" in log for task, log in enumerate(logs))
    assert done(store) == 80
    # What was in hand was finished: no cell was computed twice.
    assert "stopped by TERM" in logs[1]
    assert len(computed(here)) == 80
    same(store, here)


@pytest.mark.slurm
@real
def test_a_time_limit_ends_no_cell_midway(there: Daemons, here: Path) -> None:
    store = here / "walks.zarr"
    job = submitted("1", store, 1.0, SBATCH_TIMELIMIT="10", SBATCH_SIGNAL="B:TERM@30")
    log = here / f"calibdask-{job}_0.log"
    started = time.monotonic()
    waited(lambda: done(store) > 0, "the first cell")
    # Slurm sends the signal up to a minute early: no limit is near before a cell is done, however slow the start.
    minutes = math.ceil((time.monotonic() - started + 30) / 60)
    there.said("scontrol", "update", f"JobId={job}", f"TimeLimit={minutes}")
    waited(lambda: "requeued" in log.read_text(), "the end of the time")
    before = done(store)
    assert 0 < before < 80
    there.said("scontrol", "update", f"JobId={job}", "TimeLimit=10")
    waited(there.idle, "the task")
    text = log.read_text()
    assert "shard 0 of 1, restart 0" in text
    assert "shard 0 of 1, restart 1" in text
    # What was in hand was finished: no cell was computed twice.
    assert sorted(computed(here)) == sorted(f"{length} {model}" for length in LENGTHS for model in ("up", "down"))
    same(store, here)


@pytest.mark.slurm
@real
def test_tasks_are_numbered_as_one_likes(there: Daemons, here: Path) -> None:
    """From 3 in steps of 2; and not at unequal distances."""
    store = here / "walks.zarr"
    lay_out(Walks(lengths=LENGTHS), store)
    settings = ["--set", f"lengths={','.join(map(str, LENGTHS))}"]
    script = [str(DEPLOY / "array.sbatch"), NAME, str(store), *settings]
    job = there.said("sbatch", "--parsable", "--array=3-5:2", *script)
    wrong = there.said("sbatch", "--parsable", "--array=1,2,5", *script)
    waited(there.idle, "all tasks")
    assert "shard 0 of 2" in (here / f"calibdask-{job}_3.log").read_text()
    assert "shard 1 of 2" in (here / f"calibdask-{job}_5.log").read_text()
    assert "expects task numbers at equal distances" in (here / f"calibdask-{wrong}_2.log").read_text()
    same(store, here)


@pytest.mark.slurm
@real
def test_a_driver_in_a_job(there: Daemons, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dask_jobqueue")
    store = here / "walks.zarr"
    monkeypatch.setenv("DASK_CONFIG", str(DEPLOY / "dask.yaml"))
    monkeypatch.setenv("DASK_CALIBDASK__SLURM__JOBS", "2")
    for name, value in SMALL.items():
        monkeypatch.setenv(f"DASK_JOBQUEUE__SLURM__{name.upper()}", repr(value))
    settings = ["--set", f"lengths={','.join(map(str, LENGTHS))}"]
    job = there.said("sbatch", "--parsable", str(DEPLOY / "driver.sbatch"), NAME, str(store), *settings)
    waited(there.idle, "the driver and its jobs")
    log = (here / f"calibdask-driver-{job}.log").read_text()
    assert "80 of 80 cells done" in log, log
    same(store, here)

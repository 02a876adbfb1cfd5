"""Studies, holdout data and summaries on object stores, as a user has them: set up by variables, in other processes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import calibdask as cd
from calibdask.cli import main
from tests.clusters.object_stores import SERVERS, ObjectStore, missing, proxied
from tests.study.sample_study import Walks

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-c", "import sys; from calibdask.cli import main; sys.exit(main())"]
LENGTHS = tuple(range(2, 14))
CELLS = 2 * len(LENGTHS)
PATIENCE = 600
# Both formats, read and evaluated; every bit of every figure.
EVALUATED = """
import sys
import calibdask as cd
for url in sys.argv[1:]:
    table = cd.read_rows(url, by=["day"], chunk_rows=200)
    found = cd.evaluate(table.labels, table.scores, by=table.by)
    for name in sorted(map(str, found.data_vars)):
        print(name, found[name].values.astype(float).tobytes().hex())
"""


@pytest.fixture(scope="module", params=SERVERS)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    if reason := missing(request.param):
        pytest.skip(reason)
    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as served:
        yield served


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Equal rows as ``rows.zarr`` and ``rows.parquet``, in twenty parts each."""
    folder = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    scores = rng.dirichlet([0.5, 1.0, 2.0], 4000)
    labels = (rng.random((4000, 1)) > scores.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    day = np.sort(rng.integers(0, 5, 4000))
    group = zarr.open_group(folder / "rows.zarr", mode="w", zarr_format=3)
    for name, values in {"labels": labels, "scores": scores, "day": day}.items():
        # With chunks of nothing but zeros, of the first day: what is missing counts as lost.
        options = {"chunks": (200, *values.shape[1:]), "config": {"write_empty_chunks": True}}
        group.create_array(name, data=values, **options)
    frame = pd.DataFrame(scores, columns=["score_0", "score_1", "score_2"]).assign(label=labels, day=day)
    frame.to_parquet(folder / "rows.parquet", row_group_size=200)
    return folder


def ran(
    command: Sequence[str], environment: Mapping[str, str], *, prefix: Sequence[str] = COMMAND
) -> subprocess.CompletedProcess[str]:
    whole = [*prefix, *command]
    return subprocess.run(
        whole, check=False, cwd=ROOT, env=environment, timeout=PATIENCE, capture_output=True, text=True
    )


def done(command: Sequence[str], environment: Mapping[str, str], *, prefix: Sequence[str] = COMMAND) -> str:
    """What a command says that must succeed."""
    completed = ran(command, environment, prefix=prefix)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def refused(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """The one line of a command that must refuse."""
    completed = ran(command, environment)
    assert completed.returncode == 2, completed.stderr
    assert completed.stderr.startswith("calibdask: "), completed.stderr
    assert completed.stderr.count("\n") == 1, completed.stderr
    return completed.stderr


def running(store: str, log: Path, *more: str) -> list[str]:
    settings = {"lengths": ",".join(map(str, LENGTHS)), "seconds": "0.2", "log": str(log)}
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return ["run", "tests.study.sample_study:Walks", "--store", store, *words, *more]


def begun(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


@contextmanager
def started(
    command: Sequence[str], environment: Mapping[str, str], log: Path, cells: int
) -> Iterator[subprocess.Popen[str]]:
    """A run in which so many cells have begun; killed at the end of the block, where it has not ended."""
    process = subprocess.Popen(
        [*COMMAND, *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            until = time.monotonic() + PATIENCE
            while begun(log) < cells and process.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
            assert process.poll() is None, "ended too early"
            assert begun(log) >= cells
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def same(actual: xr.Dataset, expected: xr.Dataset) -> None:
    """Bit for bit, NaN and all."""
    xr.testing.assert_identical(actual.drop_attrs(), expected.drop_attrs())
    for name in ("end", "path", "longest", "status"):
        assert actual[name].values.tobytes() == expected[name].values.tobytes()


@pytest.mark.s3
@pytest.mark.parametrize("share", [0.0, 0.1], ids=["steady", "failing"])
def test_killed_and_resumed(store: ObjectStore, share: float, tmp_path: Path) -> None:
    url, log = f"{store.url}/killed-{share}.zarr", tmp_path / "log"
    command = running(url, log, "--cluster", "threads:2")
    with ExitStack() as stack:
        proxy = stack.enter_context(proxied(store, share)) if share else None
        environment = (store if proxy is None else proxy.store).environment()
        with started(command, environment, log, 8) as process:
            process.kill()
        output = done(command, environment)
        assert proxy is None or proxy.failures > 5
    match = re.search(r"(\d+) of (\d+) cells done, (\d+) computed now", output)
    assert match is not None
    ready, total, computed = map(int, match.groups())
    assert (ready, total) == (CELLS, CELLS)
    assert 0 < computed < CELLS
    cd.run(Walks(lengths=LENGTHS), tmp_path / "here.zarr", "threads:2")
    there = store.fetched(url, tmp_path / "there.zarr")
    same(cd.open_cube(str(there)).load(), cd.open_cube(str(tmp_path / "here.zarr")).load())


@pytest.mark.s3
@pytest.mark.parametrize("store", ["moto"], indirect=True)
def test_a_store_that_goes_away_halts_the_run(store: ObjectStore, tmp_path: Path) -> None:
    """With what is done kept, for the same command to go on once it is back."""
    url, log = f"{store.url}/halted.zarr", tmp_path / "log"
    command = running(url, log, "--cluster", "threads:2")
    with proxied(store, share=0.0) as proxy:
        # One attempt of the package's own: it would wait for longer and longer.
        environment = proxy.store.environment(AWS_MAX_ATTEMPTS="1")
        with started(command, environment, log, 6) as process:
            proxy.share = 1.0
            message = process.communicate(timeout=PATIENCE)[1]
        assert process.returncode == 1, message
        # Before it there may be lines on how far it was.
        assert "calibdask: The store does not respond" in message
        last = message.splitlines()[-1]
        assert last.startswith("calibdask: to continue: calibdask run ")
        proxy.share = 0.0
        assert f"{CELLS} of {CELLS} cells done" in done(command, environment)
        assert begun(log) < 2 * CELLS


@pytest.mark.s3
@pytest.mark.parametrize("store", ["rclone"], indirect=True)
def test_shards_and_processes_fill_the_same_cube(store: ObjectStore, tmp_path: Path) -> None:
    """Of a cube that one process has laid out; `status` of another tells how far it is."""
    url, environment = f"{store.url}/shards.zarr", store.environment()
    whole = [*running(url, tmp_path / "log"), "--set", "seconds=0"]
    done([*whole, "--lay-out"], environment)
    done([*whole, "--shard", "1/2"], environment)
    assert f"{CELLS // 2} of {CELLS} cells done, 0 failed" in done(["status", url], environment)
    done([*whole, "--cluster", "local:2"], environment)
    cd.run(Walks(lengths=LENGTHS), tmp_path / "here.zarr")
    there = store.fetched(url, tmp_path / "there.zarr")
    same(cd.open_cube(str(there)).load(), cd.open_cube(str(tmp_path / "here.zarr")).load())


@pytest.mark.s3
def test_rows_give_the_same_numbers(store: ObjectStore, data: Path) -> None:
    """As from local files, with requests that fail at random."""
    paths = [data / "rows.zarr", data / "rows.parquet"]
    prefix = [sys.executable, "-c", EVALUATED]
    here = done([str(path) for path in paths], store.environment(), prefix=prefix)
    with proxied(store) as proxy:
        there = done([store.put(path) for path in paths], proxy.store.environment(), prefix=prefix)
        assert proxy.failures > 5
    assert there == here
    assert len(here.splitlines()) > 10


@pytest.mark.s3
@pytest.mark.parametrize("store", ["moto"], indirect=True)
def test_the_command_evaluates_rows(store: ObjectStore, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In processes that have the store from variables too."""
    url = store.put(data / "rows.zarr")
    with proxied(store, seed=1) as proxy:
        there = done(["evaluate", url, "--json", "--cluster", "local:2"], proxy.store.environment())
        assert proxy.failures
    assert main(["evaluate", str(data / "rows.zarr"), "--json"]) == 0
    assert json.loads(there) == json.loads(capsys.readouterr().out)


@pytest.mark.s3
@pytest.mark.parametrize(
    ("store", "name"),
    [("moto", "summary.nc"), ("moto", "summary.zarr"), ("rclone", "summary.zarr")],
    indirect=["store"],
)
def test_summaries(
    name: str, store: ObjectStore, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written to a store and evaluated from there, with requests that fail at random; replaced only when told to."""
    url, rows = f"{store.url}/{name}", str(data / "rows.zarr")
    with proxied(store, seed=2) as proxy:
        environment = proxy.store.environment()
        written = ["summarize", rows, "--by", "day", "--out", url]
        assert f"wrote {url}: 4,000 rows" in done(written, environment)
        assert "already" in refused(written, environment)
        done([*written, "--overwrite"], environment)
        there = done(["evaluate", url, "--by", "day", "--json"], environment)
        assert proxy.failures
    assert main(["summarize", rows, "--by", "day", "--out", str(tmp_path / name)]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / name), "--by", "day", "--json"]) == 0
    assert json.loads(there) == json.loads(capsys.readouterr().out)


@pytest.mark.s3
@pytest.mark.parametrize("command", ["run", "evaluate", "summarize"])
def test_missing_buckets_are_told(command: str, store: ObjectStore, data: Path, tmp_path: Path) -> None:
    commands = {
        "run": running("s3://nothing/cube.zarr", tmp_path / "log"),
        "evaluate": ["evaluate", "s3://nothing/rows.zarr"],
        "summarize": ["summarize", str(data / "rows.zarr"), "--out", "s3://nothing/summary.zarr"],
    }
    with proxied(store, share=0.0) as proxy:
        message = refused(commands[command], proxy.store.environment())
        # Nothing is tried again and again.
        assert proxy.requests < 40
    assert "s3://nothing" in message
    assert begun(tmp_path / "log") == 0


@pytest.mark.s3
@pytest.mark.parametrize("store", ["rclone"], indirect=True)  # moto's server takes any credentials
@pytest.mark.parametrize(
    "wrong",
    [{"AWS_SECRET_ACCESS_KEY": "another"}, {"AWS_ACCESS_KEY_ID": "nobody"}, {}],
    ids=["secret", "key", "none"],
)
def test_wrong_credentials_are_told(wrong: dict[str, str], store: ObjectStore, data: Path, tmp_path: Path) -> None:
    with proxied(store, share=0.0) as proxy:
        environment = proxy.store.environment(**wrong)
        if not wrong:
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                del environment[name]
        for command in (
            running(f"{store.url}/cube.zarr", tmp_path / "log"),
            ["evaluate", f"{store.url}/rows.zarr"],
            ["status", f"{store.url}/cube.zarr"],
        ):
            assert store.url in refused(command, environment)
        assert proxy.requests < 40
    assert begun(tmp_path / "log") == 0


def test_a_study_in_memory_is_stopped_and_goes_on(tmp_path: Path) -> None:
    url, study = "memory://object-stores/stopped.zarr", Walks(lengths=LENGTHS, seconds=0.05)
    asked = iter([False] * 3)
    first = cd.run(study, url, "threads:2", stop=lambda: next(asked, True))
    assert 0 < first.done < CELLS
    second = cd.run(study, url, "threads:2")
    assert (second.done, second.computed) == (CELLS, CELLS - first.done)
    cd.run(study, tmp_path / "here.zarr")
    same(cd.open_cube(url).load(), cd.open_cube(str(tmp_path / "here.zarr")).load())


@pytest.mark.parametrize("name", ["summary.zarr", "summary.nc"])
def test_summaries_in_memory(name: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, url = str(data / "rows.zarr"), f"memory://object-stores/{name}"
    reports = []
    for out in (url, str(tmp_path / name)):
        assert main(["summarize", rows, "--out", out]) == 0
        assert main(["summarize", rows, "--out", out]) == 2
        assert main(["summarize", rows, "--out", out, "--overwrite"]) == 0
        capsys.readouterr()
        assert main(["evaluate", out, "--json"]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    assert reports[0] == reports[1]


def test_results_in_memory(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = "memory://object-stores/result.json"
    assert main(["evaluate", str(data / "rows.zarr"), "--json", "--out", url]) == 0
    report = json.loads(capsys.readouterr().out)
    import fsspec

    with fsspec.open(url, "rt") as file:
        written: Any = json.load(file)
    assert written == report

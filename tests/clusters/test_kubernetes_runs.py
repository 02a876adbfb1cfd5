"""Whole runs on Kubernetes, with processes of this machine in place of pods: data in S3, scaling, shards."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
import zarr

import calibdask as cd
from calibdask.cluster.kubectl import Kubectl
from calibdask.cluster.kubernetes_settings import KubernetesSettings
from calibdask.cluster.manifests import sharded_run
from tests.clusters import fake_kubectl
from tests.clusters.dask_processes import PATIENCE, ROOT, Processes, eventually, free_port, processes
from tests.clusters.fake_kubectl import Fake
from tests.clusters.fault_study import Moments
from tests.clusters.object_stores import SERVERS, ObjectStore, missing

pytestmark = pytest.mark.deploy
STUDY = "tests.clusters.fault_study:Moments"
ROWS = 1200
FORMATS = ("rows.parquet", "delta", "csv", "rows.zarr")
# Every bit of every figure, of data that are read in blocks.
EVALUATE = """
import sys
import calibdask as cd
from calibdask.cluster import connected

where, *urls = sys.argv[1:]
with connected(where):
    for url in urls:
        table = cd.read_rows(url, by=["day"], chunk_rows=200)
        assert hasattr(table.scores, "dask"), url
        found = cd.evaluate(table.labels, table.scores, ["ece", "brier_score"], by=table.by)
        for name in sorted(map(str, found.data_vars)):
            print(url.rpartition("/")[2], name, found[name].values.astype(float).tobytes().hex())
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows in each of the formats, in several parts."""
    folder = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    scores = rng.random(ROWS)
    columns = {"label": (rng.random(ROWS) < scores).astype(int), "score": scores, "day": np.arange(ROWS) // 400}
    frame = pd.DataFrame(columns)
    frame.to_parquet(folder / "rows.parquet", row_group_size=200)
    (folder / "csv").mkdir()
    for start in range(0, ROWS, 400):
        part = frame[start : start + 400]
        pytest.importorskip("deltalake").write_deltalake(str(folder / "delta"), part, mode="append")
        part.to_csv(folder / "csv" / f"{start}.csv.gz", index=False)
    group = zarr.open_group(folder / "rows.zarr", mode="w", zarr_format=3)
    for name, values in columns.items():
        options: Any = {"chunks": (200,), "config": {"write_empty_chunks": True}}
        group.create_array(name if name == "day" else f"{name}s", data=values, **options)
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Iterator[ObjectStore]:
    if reason := missing("moto"):
        pytest.skip(reason)
    with SERVERS["moto"](tmp_path_factory.mktemp("moto")) as served:
        for name in FORMATS:
            served.put(data / name)
        yield served


def variables_of(store: ObjectStore) -> dict[str, str]:
    """The variables by which processes reach the store, which a secret holds."""
    # Delta tables are read by a library that refuses plain HTTP otherwise.
    return {
        name: value
        for name, value in store.environment(AWS_ALLOW_HTTP="true").items()
        if name.startswith("AWS_") or name.upper() == "NO_PROXY"
    }


def evaluated(where: str, places: list[str], variables: dict[str, str]) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | variables
    command = [sys.executable, "-c", EVALUATE, where, *places]
    environment |= {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def expected(data: Path) -> list[str]:
    return evaluated("threads", [str(data / name) for name in FORMATS], {})


@pytest.mark.s3
def test_a_scheduler_needs_no_credentials(
    store: ObjectStore, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    port, variables = free_port(), variables_of(store)
    with processes(tmp_path / "processes") as started:
        scheduler = started.scheduler(port)
        assert b"AWS_" not in Path(f"/proc/{scheduler.pid}/environ").read_bytes()
        started.worker(port, **variables)
        found = evaluated(f"tcp://127.0.0.1:{port}", [f"{store.url}/{name}" for name in FORMATS], variables)
    assert found == expected
    assert len({line.split()[2] for line in found}) < len(found)


@pytest.mark.s3
def test_only_pods_that_declare_a_secret_have_it(store: ObjectStore, expected: list[str], fake: Fake) -> None:
    variables = variables_of(store)
    fake.add_secret("trial-store", variables)
    configuration = Path(fake.variables["DASK_CONFIG"])
    configured = yaml.safe_load(configuration.read_text())
    configured["calibdask"]["kubernetes"] |= {"store-secret": "trial-store", "workers": 1}
    configuration.write_text(yaml.safe_dump(configured))
    urls = [f"{store.url}/{name}" for name in FORMATS]
    assert evaluated("kubernetes", urls, variables | fake.variables | {"CALIBDASK_TLS": str(fake.tls)}) == expected
    (scheduler,) = fake.folder.glob("*-scheduler-0.variables")
    (worker,) = fake.folder.glob("*-worker-0.variables")
    assert "AWS_SECRET_ACCESS_KEY" in worker.read_text().split()
    assert "AWS_SECRET_ACCESS_KEY" not in scheduler.read_text().split()


def same(store: Path, other: Path, study: cd.Study) -> None:
    assert cd.run(study, other).done == 60
    left, right = (cd.open_cube(str(path)).load() for path in (store, other))
    for name in ("moment", "largest"):
        assert left[name].values.tobytes() == right[name].values.tobytes()


def computed_by(log: Path) -> list[str]:
    """The process that computed each cell."""
    return [line.split()[-1] for line in log.read_text().splitlines()] if log.exists() else []


def test_workers_are_scaled_during_a_run(tmp_path: Path, fake: Fake, driver: Processes) -> None:
    """Cells that were begun by workers that are removed are computed by others."""
    store, log, gate = tmp_path / "cube.zarr", tmp_path / "cells", tmp_path / "gate"
    arguments = [STUDY, "--store", str(store), "--set", "seconds=0", "--set", f"log={log}", "--set", f"gate={gate}"]
    run = driver.run(*arguments, "--cluster", "kubernetes", "--tls", str(fake.tls))
    eventually(lambda: bool(computed_by(log)))
    name = next(pod["service"] for pod in fake_kubectl.pods(fake.folder) if pod["service"]).removesuffix("-scheduler")
    kubectl = Kubectl("default")
    kubectl("scale", f"deployment/{name}-worker", "--replicas=3")
    eventually(lambda: len({*computed_by(log)}) == 3)
    kubectl("scale", f"deployment/{name}-worker", "--replicas=1")
    assert len(fake_kubectl.pods(fake.folder)) == 2
    gate.touch()
    assert run.wait(PATIENCE) == 0, driver.said("run")
    assert "Traceback" not in driver.said("run")
    same(store, tmp_path / "threads.zarr", Moments(seconds=0.0))


def settings(**changes: Any) -> KubernetesSettings:
    return KubernetesSettings(image="calibdask:1.0.0rc1", name="trial", insecure=True, **changes)


def test_shards_fill_a_cube_without_a_cluster(tmp_path: Path, fake: Fake) -> None:
    """The first one lays it out, others wait for it; one that is killed is started again."""
    store, log, gate = tmp_path / "cube.zarr", tmp_path / "cells", tmp_path / "gate"
    arguments = ["--set", "seconds=0", "--set", f"log={log}", "--set", f"gate={gate}"]
    manifests = sharded_run(settings(workers=2), STUDY, str(store), 3, arguments)
    with Kubectl("default").applied(manifests):
        eventually((fake.folder / "trial-run-1-0.container").exists)
        container = int((fake.folder / "trial-run-1-0.container").read_text())
        eventually(lambda: str(container) in computed_by(log))
        os.kill(container, signal.SIGKILL)
        eventually((fake.folder / "trial-run-1-1").exists)
        gate.touch()
        eventually((fake.folder / "trial-run.condition").exists)
        logs = "".join(path.read_text() for path in sorted(fake.folder.glob("trial-run-*.log")))
        assert (fake.folder / "trial-run.condition").read_text() == "complete", logs
    assert [fake.status(f"trial-run-{index}-0") for index in range(3)] == [0, -signal.SIGKILL, 0]
    assert fake.status("trial-run-1-1") == 0
    assert "of shard 2/3 done" in logs
    same(store, tmp_path / "threads.zarr", Moments(seconds=0.0))


def test_shards_of_bad_use_are_not_tried_again(tmp_path: Path, fake: Fake) -> None:
    manifests = sharded_run(settings(workers=1), STUDY, str(tmp_path / "cube.zarr"), 5, ["--set", "nothing=1"])
    with Kubectl("default").applied(manifests):
        eventually((fake.folder / "trial-run.condition").exists)
    assert (fake.folder / "trial-run.condition").read_text() == "failed"
    assert [path.name for path in fake.folder.glob("*.status")] == ["trial-run-0-0.status"]
    assert fake.status("trial-run-0-0") == 2

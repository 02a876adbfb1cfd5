"""``--cluster kubernetes`` and the manifests' commands, with processes of this machine in place of pods."""

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import calibdask as cd
from calibdask.cluster import cluster_spec
from calibdask.cluster.certificates import make_certificates
from calibdask.cluster.kubectl import Kubectl
from calibdask.cluster.kubernetes_settings import KubernetesSettings
from calibdask.cluster.manifests import as_yaml, cluster, study_run
from calibdask.errors import Unavailable
from tests.clusters import fake_kubectl
from tests.clusters.dask_processes import Processes, alive, eventually, leftovers, processes
from tests.clusters.fault_study import Moments

pytestmark = pytest.mark.deploy
STUDY = "tests.clusters.fault_study:Moments"
PATIENCE = 120.0


@dataclass(frozen=True)
class Fake:
    """A stand-in for kubectl, and what is configured for it."""

    folder: Path
    tls: Path
    variables: dict[str, str]

    @property
    def words(self) -> list[str]:
        return fake_kubectl.calls(self.folder)

    @property
    def commands(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.command")))

    def status(self, pod: str) -> int | None:
        path = self.folder / f"{pod}.status"
        return int(path.read_text() or -1) if path.exists() else None


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    tls, folder = tmp_path / "certificates", tmp_path / "kubectl"
    make_certificates(tls)
    variables = fake_kubectl.installed(folder, tls)
    configured = {"image": "calibdask:0.1.0", "name": "trial", "tls-secret": "trial-tls", "workers": 2}
    (folder / "dask.yaml").write_text(yaml.safe_dump({"calibdask": {"kubernetes": configured}}))
    variables |= {"DASK_CONFIG": str(folder / "dask.yaml")}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    yield Fake(folder, tls, variables)
    fake_kubectl.ended(folder)


@pytest.fixture
def driver(tmp_path: Path, fake: Fake) -> Iterator[Processes]:
    with processes(tmp_path / "driver") as running:
        running.environment = fake.variables
        yield running


def same(store: Path, other: Path, study: cd.Study) -> None:
    assert cd.run(study, other).done == 60
    left, right = (cd.open_cube(path).load() for path in (store, other))
    for name in ("moment", "largest"):
        assert left[name].values.tobytes() == right[name].values.tobytes()


def test_run_starts_uses_and_deletes_a_cluster(tmp_path: Path, fake: Fake, driver: Processes) -> None:
    store, log = tmp_path / "cube.zarr", tmp_path / "cells"
    arguments = [STUDY, "--store", str(store), "--set", "seconds=0.1", "--set", f"log={log}"]
    run = driver.run(*arguments, "--cluster", "kubernetes", "--tls", str(fake.tls))
    eventually(lambda: log.exists() and len(log.read_text().splitlines()) > 8, PATIENCE)
    _, worker, lost = fake_kubectl.pods(fake.folder)
    assert worker["of"] == lost["of"]
    os.killpg(lost["pid"], signal.SIGKILL)
    assert run.wait(PATIENCE) == 0, driver.said("run")
    same(store, tmp_path / "threads.zarr", Moments(seconds=0.1))
    words = fake.words
    assert {*words} == {"apply", "get", "port-forward", "delete"}
    assert (words[0], words[-1]) == ("apply", "delete")
    # TaskResult as asked to, but for the one that was killed, and none is left.
    assert len([*fake.folder.glob("*.command")]) == 3
    assert len([*fake.folder.glob("*.status")]) == 2
    assert fake_kubectl.pods(fake.folder) == []
    assert not leftovers(driver.folder)
    assert fake.commands.count("--tls-key") == 3
    assert fake.commands.count("tls://127.0.7.1:8786") == 2


def test_job_runs_inside(tmp_path: Path, fake: Fake) -> None:
    store = tmp_path / "cube.zarr"
    settings = KubernetesSettings(image="calibdask:0.1.0", name="trial", tls_secret="trial-tls", workers=1)
    manifests = as_yaml(study_run(settings, STUDY, str(store), ["--set", "seconds=0.02"]))
    with Kubectl("default").applied(manifests):
        eventually(lambda: fake.status("trial-run-0") is not None, PATIENCE)
        said = (fake.folder / "trial-run-0.log").read_text()
        assert fake.status("trial-run-0") == 0, said
        scheduler, worker, _ = fake_kubectl.pods(fake.folder)
        assert _probed(fake, scheduler, "livenessProbe")
        assert _probed(fake, worker, "livenessProbe")
    same(store, tmp_path / "threads.zarr", Moments(seconds=0.02))
    # Probes by HTTP on the loopback do not disturb the port with TLS; who waited for it to open did, once.
    assert (fake.folder / "trial-scheduler-0.log").read_text().count("SSL") == 1


def _probed(fake: Fake, pod: dict[str, Any], probe: str) -> bool:
    command = pod["spec"]["containers"][0][probe]["exec"]["command"]
    words = [str(pod["http"]) if word == "8787" else word for word in command]
    return subprocess.run(words, env=os.environ | fake.variables, check=False).returncode == 0


def test_port_forwarding_ends_with_its_driver(tmp_path: Path, fake: Fake, driver: Processes) -> None:
    arguments = [STUDY, "--store", str(tmp_path / "cube.zarr"), "--set", "seconds=1"]
    run = driver.run(*arguments, "--cluster", "kubernetes", "--tls", str(fake.tls))
    eventually(lambda: (tmp_path / "cube.zarr").exists(), PATIENCE)
    # The guard, and the stand-in that it guards.
    forwarding = [pid for pid in _processes_named("port-forward") if f"service/{_name(fake)}" in _command(pid)]
    assert len(forwarding) >= 2
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    eventually(lambda: not any(map(alive, forwarding)), 15)
    # Pods stay: nobody was left to delete them, and README.md says how.
    assert len(fake_kubectl.pods(fake.folder)) == 3
    fake_kubectl.ended(fake.folder)


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")


def _name(fake: Fake) -> str:
    return next(pod["service"] for pod in fake_kubectl.pods(fake.folder) if pod["service"])


def _processes_named(word: str) -> list[int]:
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if alive(pid) and word in _command(pid)]


@pytest.mark.parametrize("failing", ["apply", "get", "port-forward"])
def test_failures_delete_what_was_applied(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, failing: str, tmp_path: Path
) -> None:
    import dask

    monkeypatch.setenv("FAKE_FAILS", failing)
    monkeypatch.setenv("FAKE_GRACE", "1")
    with (
        dask.config.set(
            {"calibdask.kubernetes": {"image": "calibdask:0.1.0", "tls-secret": "trial-tls", "workers": 1}}
        ),
        pytest.raises(ValueError, match=rf"kubectl {failing}.* the server does not want to {failing}"),
        cluster_spec("kubernetes", tls=str(fake.tls)).opened(),
    ):
        pass
    assert fake.words[-1] == "delete"
    assert not fake_kubectl.pods(fake.folder)


def test_inside_kubernetes_the_service_is_asked(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    import dask

    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("FAKE_GRACE", "1")
    monkeypatch.setattr("calibdask.cluster.scheduler.SECONDS_TO_ANSWER", 1)
    configured = {"image": "calibdask:0.1.0", "tls-secret": "trial-tls", "workers": 1, "namespace": "calibration"}
    with (
        dask.config.set({"calibdask.kubernetes": configured}),
        pytest.raises(Unavailable, match=r"answers at tls://calibdask-\w{6}-scheduler\.calibration\.svc:8786"),
        cluster_spec("kubernetes", tls=str(fake.tls)).opened(),
    ):
        pass
    assert {*fake.words} == {"apply", "get", "delete"}


def test_a_failing_delete_hides_nothing(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAILS", "delete")
    text = as_yaml([manifest for manifest in cluster(_settings()) if manifest["kind"] == "NetworkPolicy"])
    with (
        pytest.warns(UserWarning, match="does not want to delete Objects that were created in default may still exist"),
        pytest.raises(KeyError, match="inside"),
        Kubectl("default").applied(text),
    ):
        raise KeyError("inside")


def test_kubectl_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="expects the command kubectl, which is not on the path: install it"):
        Kubectl("default")


def test_certificates_are_needed_here_too(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    import dask

    monkeypatch.delenv("CALIBDASK_TLS", raising=False)
    with (
        dask.config.set({"calibdask.kubernetes": {"image": "calibdask:0.1.0", "tls-secret": "trial-tls"}}),
        pytest.raises(ValueError, match=r"tls://calibdask-[0-9a-f]{6}-scheduler:8786 expects certificates"),
        cluster_spec("kubernetes").opened(),
    ):
        pass
    assert not (fake.folder / "calls.jsonl").exists()


def _settings(**changes: Any) -> KubernetesSettings:
    return KubernetesSettings(**{"image": "calibdask:0.1.0", "tls_secret": "trial-tls", **changes})

"""``--cluster kubernetes`` and the manifests' commands, with processes of this machine in place of pods."""

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import dask
import pytest
import yaml

import calibdask as cd
from calibdask.cluster import ClusterLost, cluster_spec
from calibdask.cluster.kubectl import Kubectl
from calibdask.cluster.kubernetes_settings import KubernetesSettings
from calibdask.cluster.manifests import cluster, study_run
from calibdask.errors import Unavailable, with_notes
from tests.clusters import fake_kubectl
from tests.clusters.dask_processes import PATIENCE, Processes, alive, eventually, leftovers
from tests.clusters.fake_kubectl import Fake
from tests.clusters.fault_study import Moments
from tests.clusters.kubernetes_clusters import CONFIGURED, ROLE, STUDY, hurried, opened, settings

pytestmark = pytest.mark.deploy
FORBIDDEN = 'Error from server (Forbidden): pods is forbidden: User "trial" cannot list resource "pods" in API group ""'
TERMINATING = (
    'Error from server (Forbidden): error when creating "STDIN": services "x" is forbidden: unable to create new '
    "content in namespace default because it is being terminated"
)
WEBHOOK = (
    'Error from server: error when creating "STDIN": admission webhook "policy.example" denied the request: pods '
    "expect a timeout"
)
POLICY = (
    "Error from server (Forbidden): deployments.apps \"x\" is forbidden: ValidatingAdmissionPolicy 'images' with "
    "binding 'images' denied request: failed expression: object.spec.replicas <= 5"
)
INVALID = (
    'The Deployment "x" is invalid: spec.template.spec.containers[0].livenessProbe.timeoutSeconds: Invalid value: 0: '
    "must be greater than 0"
)
STRICT = (
    'Error from server (BadRequest): error when creating "STDIN": Deployment in version "v1" cannot be handled as a '
    'Deployment: strict decoding error: unknown field "spec.replica"'
)
NO_KIND = (
    'error: resource mapping not found for name: "x" namespace: "default" from "STDIN": no matches for kind '
    '"HorizontalPodAutoscaler" in version "autoscaling/v2"'
)
NO_NAMESPACE = 'Error from server (NotFound): error when creating "STDIN": namespaces "default" not found'


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
    assert fake.commands.count(f"tls://{fake_kubectl.network(fake.folder)}.1:8786") == 2


def test_job_runs_inside(tmp_path: Path, fake: Fake) -> None:
    store = tmp_path / "cube.zarr"
    settings = KubernetesSettings(image="calibdask:1.0.0rc1", name="trial", tls_secret="trial-tls", workers=1)
    manifests = study_run(settings, STUDY, str(store), ["--set", "seconds=0.02"])
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


@pytest.mark.parametrize("is_shared", [True, False], ids=["shared", "alone"])
def test_init_containers_end_at_once(fake: Fake, monkeypatch: pytest.MonkeyPatch, is_shared: bool) -> None:
    """Also before they handle TERM, which the first process of a namespace would ignore until then."""
    if not is_shared and subprocess.run([*fake_kubectl.ALONE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("only root may create a process namespace")
    (job,) = study_run(settings(), STUDY, "cube.zarr")[-1:]
    pod = job["spec"]["template"]["spec"]
    assert [one["name"] for one in pod["initContainers"]] == ["wait-for-scheduler"]
    assert pod.pop("shareProcessNamespace")
    pod |= {"shareProcessNamespace": True} if is_shared else {}
    monkeypatch.setenv("FAKE_TERM", "1")
    with Kubectl("default").applied([job]):
        eventually((fake.folder / "calibdask-run-0.container").exists)
        if is_shared:
            eventually(lambda: fake.status("calibdask-run-0") is not None)
            assert fake.status("calibdask-run-0") in (-signal.SIGTERM, 143)
        else:
            time.sleep(2.0)
            assert fake.status("calibdask-run-0") is None
            assert alive(int((fake.folder / "calibdask-run-0.container").read_text()))
    assert not fake_kubectl.pods(fake.folder)


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
def test_failures_delete_what_was_created(fake: Fake, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    monkeypatch.setenv("FAKE_FAILS", failing)
    if failing == "get":
        monkeypatch.setenv("FAKE_MESSAGE", FORBIDDEN)
    # A connection that cannot be made to a pod that is ready may be made later.
    kind = Unavailable if failing == "port-forward" else ValueError
    with pytest.raises(kind, match=rf"kubectl {failing}.* failed in the namespace default: "), opened(fake):
        pass
    # Nothing was created by an apply that failed.
    assert fake.words == ["apply"] if failing == "apply" else fake.words[-1] == "delete"
    assert not fake_kubectl.pods(fake.folder)


def test_attempts_of_kubectl_are_no_messages(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = 'E1126 22:49:57.808644 32417 memcache.go:265] "Unhandled Error" err="connection refused"'
    monkeypatch.setenv("FAKE_FAILS", "get")
    monkeypatch.setenv("FAKE_MESSAGE", f"{attempt}\n{attempt}\nThe connection to the server 10.0.0.1:6443 was refused")
    with pytest.raises(Unavailable) as caught:
        Kubectl("default")("get", "pods")
    assert "memcache" not in str(caught.value)


@pytest.mark.parametrize(
    ("message", "kind", "advice"),
    [
        ("The connection to the server 10.0.0.1:6443 was refused", Unavailable, "Check that 'kubectl get pods' works"),
        ("Unable to connect to the server: dial tcp: i/o timeout", Unavailable, "Check that 'kubectl get pods' works"),
        ("error: You must be logged in to the server (Unauthorized)", Unavailable, "Log in again"),
        ('Error (Forbidden): pods "x" is forbidden: exceeded quota: tight', Unavailable, "Ask for less"),
        ('Error (Forbidden): pods "x" is forbidden: status unknown for quota: tight', Unavailable, "Ask for less"),
        ("The connection to the server localhost:8080 was refused", Unavailable, "No cluster is configured"),
        ("Please enter Username: error: EOF", Unavailable, "Log in again"),
        (FORBIDDEN, ValueError, "deploy/kubernetes/role.yaml"),
        (f"{NO_NAMESPACE}\n{NO_NAMESPACE}\n{NO_NAMESPACE}", ValueError, "kubectl create namespace default"),
        (TERMINATING, Unavailable, "Wait until 'kubectl get namespace default' does not find it any more"),
        (WEBHOOK, ValueError, "or ask an administrator of the cluster"),
        (POLICY, ValueError, "A policy of the cluster expects other objects"),
        (INVALID, ValueError, "The server expects other values"),
        (STRICT, ValueError, "'python -m calibdask.cluster.manifests' shows the objects"),
        (NO_KIND, ValueError, "Kubernetes 1.31 or newer is expected"),
        ("error: something new", ValueError, "kubectl apply --dry-run=server --filename -"),
    ],
)
def test_errors_say_how_to_continue(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, message: str, kind: type[Exception], advice: str
) -> None:
    monkeypatch.setenv("FAKE_FAILS", "apply,delete")
    monkeypatch.setenv("FAKE_MESSAGE", message)
    with pytest.raises(kind) as caught, opened(fake):
        pass
    assert advice in str(caught.value)
    # Once each, and no objects are said to exist where none were created.
    assert str(caught.value).count(message.splitlines()[0]) == 1
    assert fake.words == ["apply"]


@pytest.mark.parametrize(
    "message",
    [
        "Error from server (Timeout): the server was unable to return a response in the time allotted (timeout)",
        "Error from server: http2: client connection lost",
        "error: read tcp 10.0.0.2:5050->10.0.0.1:6443: i/o timeout",
        'Error from server (InternalError): an error on the server ("") has prevented the request from succeeding',
    ],
)
def test_what_may_have_been_created_is_deleted(message: str, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may have done what it has not confirmed."""
    monkeypatch.setenv("FAKE_FAILS", "apply")
    monkeypatch.setenv("FAKE_MESSAGE", message)
    with pytest.raises(Unavailable, match="Check that 'kubectl get pods' works"), opened(fake):
        pass
    assert fake.words == ["apply", "delete"]


def test_less_is_shown_with_fewer_permissions(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    role = yaml.safe_load(ROLE.read_text())
    optional = (["events"], ["pods/log"])
    role["rules"] = [rule for rule in role["rules"] if rule["resources"] not in optional]
    (fake.folder / "role.yaml").write_text(yaml.safe_dump(role))
    hurried(monkeypatch)
    with pytest.raises(KeyError, match="inside") as caught, opened(fake):
        raise KeyError("inside")
    (note,) = caught.value.__notes__
    (log,) = tmp_path.glob("calibdask-*.log")
    assert str(log) in note
    assert "cannot get resource" in log.read_text() or "cannot list resource" in log.read_text()


def test_logs_are_kept_after_errors(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    def fail() -> None:
        with opened(fake):
            (scheduler,) = fake.folder.glob("*-scheduler-0.log")
            with scheduler.open("a") as log:
                log.write("".join(f"line {number}\n" for number in range(500)))
            raise ClusterLost("gone")

    with pytest.raises(ClusterLost) as caught:
        fail()
    (log,) = tmp_path.glob("calibdask-*.log")
    assert with_notes(caught.value) == f"gone The logs of the pods, before they were deleted, are in {log}."
    lines = log.read_text().splitlines()
    of_scheduler = [line for line in lines if "-scheduler-0/scheduler] " in line]
    assert len(of_scheduler) == 200
    assert any(line.endswith("] line 499") for line in of_scheduler)
    assert any("-worker-0/worker] " in line for line in lines)


def test_no_logs_are_kept_without_errors(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit), opened(fake):
        raise SystemExit(143)
    assert "logs" not in fake.words
    assert fake.words[-1] == "delete"
    assert not [*tmp_path.glob("*.log")]


def test_inside_kubernetes_the_service_is_asked(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr("calibdask.cluster.scheduler.SECONDS_TO_ANSWER", 1)
    with (
        pytest.raises(Unavailable, match=r"answers at tls://calibdask-\w{6}-scheduler\.calibration\.svc:8786"),
        opened(fake, namespace="calibration"),
    ):
        pass
    assert {*fake.words} == {"apply", "get", "logs", "delete"}


def test_a_failing_delete_hides_nothing(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the command that it names deletes all that is left."""
    monkeypatch.setenv("FAKE_FAILS", "delete")
    with (
        pytest.warns(
            UserWarning, match=r"does not want to delete\. Check .* works\. Objects in default may still"
        ) as caught,
        pytest.raises(KeyError, match="inside"),
        Kubectl("default").applied(cluster(settings())),
    ):
        raise KeyError("inside")
    assert len(fake_kubectl.pods(fake.folder)) == 3
    monkeypatch.delenv("FAKE_FAILS")
    command = str(caught[0].message).rpartition("delete them with: ")[2]
    subprocess.run(shlex.split(command), check=True)
    assert not fake_kubectl.pods(fake.folder)
    assert not [*fake.folder.glob("*-calibdask*.yaml")]


def test_an_interrupted_delete_names_what_is_left(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("FAKE_FAILS", "delete")
    monkeypatch.setenv("FAKE_MESSAGE", "The connection to the server 10.0.0.1:6443 was refused")
    monkeypatch.setattr("calibdask.cluster.kubectl.sleep", interrupted)
    with (
        pytest.warns(UserWarning, match="deletion was interrupted. Objects in default may still exist") as caught,
        pytest.raises(KeyboardInterrupt),
        Kubectl("default").applied(cluster(settings())),
    ):
        pass
    assert len(fake_kubectl.pods(fake.folder)) == 3
    monkeypatch.delenv("FAKE_FAILS")
    command = str(caught[0].message).rpartition("delete them with: ")[2]
    subprocess.run(shlex.split(command), check=True)
    assert not fake_kubectl.pods(fake.folder)


def test_a_server_that_restarts_is_waited_for(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAILS", "delete,get")
    monkeypatch.setenv("FAKE_MESSAGE", "The connection to the server 10.0.0.1:6443 was refused")
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            monkeypatch.delenv("FAKE_FAILS")

    monkeypatch.setattr("calibdask.cluster.kubectl.sleep", pause)
    spec = cluster_spec("kubernetes", tls=str(fake.tls))
    with dask.config.set({"calibdask.kubernetes": CONFIGURED}):
        assert not spec.answers()
        with Kubectl("default").applied([one for one in cluster(settings()) if one["kind"] == "NetworkPolicy"]):
            pass
        assert spec.answers()
    assert pauses == [1.0, 4.0]
    assert fake.words == ["get", "apply", "delete", "delete", "delete", "get"]


def test_kubectl_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="expects the command kubectl, which is not on the path: install it"):
        Kubectl("default")


def test_certificates_are_needed_here_too(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CALIBDASK_TLS", raising=False)
    with (
        dask.config.set({"calibdask.kubernetes": {"image": "calibdask:1.0.0rc1", "tls-secret": "trial-tls"}}),
        pytest.raises(ValueError, match=r"tls://calibdask-[0-9a-f]{6}-scheduler:8786 expects certificates"),
        cluster_spec("kubernetes").opened(),
    ):
        pass
    assert not (fake.folder / "calls.jsonl").exists()

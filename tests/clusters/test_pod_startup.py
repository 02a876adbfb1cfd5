"""What keeps the pods of a cluster from starting: what is said of it, when, and by whose permissions."""

import json
import math
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from calibdask.cluster import pod_startup
from calibdask.cluster.kubectl import Kubectl
from calibdask.cluster.kubernetes_settings import KubernetesSettings
from calibdask.cluster.manifests import cluster, study_run
from calibdask.cluster.pod_startup import PodStartup, event_obstacles
from calibdask.errors import Unavailable
from tests.clusters import fake_kubectl
from tests.clusters.dask_processes import PATIENCE, Processes, eventually
from tests.clusters.fake_kubectl import Fake, Faults
from tests.clusters.kubernetes_clusters import ROLE, STUDY, hurried, opened, settings

pytestmark = pytest.mark.deploy
STANDARD = (
    'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "worker" must set it)'
)


@pytest.mark.parametrize("awaited", ["scheduler", "worker"])
def test_workers_that_find_no_scheduler_yet_are_no_error(awaited: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_startup, "_FATAL_SECONDS", 0.0)
    monkeypatch.setattr(pod_startup, "_QUIET_SECONDS", math.inf)
    kubectl: Any = SimpleNamespace(namespace="default")
    startup = PodStartup(kubectl, "trial", 900.0)
    ended = [pod_startup.Obstacle("worker", "CrashLoopBackOff", "Error, exit status 1", is_fatal=True)]
    if awaited == "scheduler":
        startup._report(ended, awaited)
    else:
        with pytest.raises(ValueError, match="worker: CrashLoopBackOff"):
            startup._report(ended, awaited)


@pytest.mark.parametrize(
    ("faults", "secrets", "kind", "message", "advice"),
    [
        (
            Faults(image="InvalidImageName"),
            None,
            ValueError,
            r"scheduler: InvalidImageName \(failed to pull",
            "Check image",
        ),
        (
            Faults(image="ImagePullBackOff"),
            None,
            ValueError,
            "scheduler: ImagePullBackOff",
            "Check image and pull-secret",
        ),
        (
            Faults(most_pods=0),
            None,
            Unavailable,
            r"scheduler: FailedCreate \(pods .*exceeded quota: small",
            "Ask for less",
        ),
        (
            Faults(most_pods=1),
            None,
            Unavailable,
            r"worker: FailedCreate \(pods .*exceeded quota: small",
            "Ask for less",
        ),
        (Faults(), {}, ValueError, r'scheduler: FailedMount \(Mount.*"trial-tls" not found', "that the secrets exist"),
        (
            Faults(refusal=STANDARD),
            None,
            ValueError,
            r"scheduler: FailedCreate \(pods .*violates PodSecurity",
            "have its limits, its security standard or its policies changed",
        ),
        (
            Faults(unschedulable="0/3 nodes: few cpu"),
            None,
            Unavailable,
            "No scheduler has started .* within 1 seconds: .*few cpu",
            "Ask for less (scheduler, workers, at calibdask.kubernetes)",
        ),
        (
            Faults(is_pending=True),
            None,
            Unavailable,
            "within 1 seconds: scheduler: Pending",
            "more time (patience, at calibdask.kubernetes)",
        ),
    ],
    ids=["name", "image", "quota", "quota of workers", "secret", "standard", "no room", "pending"],
)
def test_what_keeps_pods_from_starting(
    fake: Fake,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    faults: Faults,
    secrets: Any,
    kind: type[Exception],
    message: str,
    advice: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    hurried(monkeypatch)
    fake_kubectl.set_faults(fake.folder, faults)
    if secrets is not None:
        (fake.folder / "secrets.json").write_text(json.dumps(secrets))
    patience = 1 if faults.unschedulable or faults.is_pending else 600
    # A name that is wrong will not become right.
    at_once = faults.image == "InvalidImageName"
    waiting = pytest.warns(UserWarning, match="Waiting in the namespace default for ")
    with (
        nullcontext() if at_once else waiting,
        pytest.raises(kind, match=message) as caught,
        opened(fake, patience=patience),
    ):
        pass
    assert advice in str(caught.value)
    assert not fake_kubectl.pods(fake.folder)


class Clock:
    """A clock that the loop of `PodStartup` turns on by its pauses, and the times at which it warned."""

    def __init__(self) -> None:
        self.now, self.warned = 0.0, list[tuple[float, str]]()

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def clear(self) -> None:
        """Nothing is kept."""

    def warn(self, text: str, **_: Any) -> None:
        self.warned.append((self.now, text))


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        (Faults(is_pending=True), "scheduler: Pending"),
        (Faults(image="ErrImagePull"), "worker: ErrImagePull (failed to pull calibdask:1.0.0rc1)"),
        (Faults(unschedulable="0/3 nodes: few cpu"), "scheduler: Unschedulable (0/3 nodes: few cpu)"),
        (Faults(most_pods=0), "worker: FailedCreate (pods "),
        (Faults(refusal=STANDARD), f'scheduler: FailedCreate (pods "calibdask-scheduler-x" is forbidden: {STANDARD})'),
    ],
    ids=["pending", "image", "room", "quota", "standard"],
)
@pytest.mark.parametrize("may_watch", [True, False], ids=["watched", "read"])
def test_reasons_are_shown_within_half_a_minute(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, faults: Faults, reason: str, may_watch: bool
) -> None:
    """By a clock that stands still while the stand-in starts; who may not watch reads after 15 seconds at most."""
    fake_kubectl.set_faults(fake.folder, faults)
    latest = 30.0
    if not may_watch:
        (fake.folder / "role.yaml").write_text(yaml.safe_dump(required_role()))
        latest -= pod_startup._READ_SECONDS
        monkeypatch.setattr(pod_startup, "_READ_SECONDS", 0.1)
    clock = Clock()
    monkeypatch.setattr(pod_startup, "monotonic", clock)
    monkeypatch.setattr(pod_startup.warnings, "warn", clock.warn)
    deployments = [one for one in cluster(settings()) if one["kind"] == "Deployment"]
    with Kubectl("default").applied(deployments):
        startup = PodStartup(Kubectl("default"), "calibdask", 900.0)
        with startup.watching():
            eventually(lambda: len(startup._obstacles()) == 2)
            monkeypatch.setattr(startup, "_changed", clock)
            startup.wait("scheduler", lambda: clock.now >= latest)
    assert not startup.scheduler_is_ready()
    shown = [at for at, text in clock.warned if reason in text and "in the namespace default" in text]
    assert len(shown) == 1
    assert shown[0] < latest


def test_a_missing_permission_is_an_error_at_once(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for resource, verb in (("deployments", "create"), ("pods", "list")):
        role = required_role()
        for rule in role["rules"]:
            rule["verbs"] = [one for one in rule["verbs"] if (rule["resources"], one) != ([resource], verb)]
        (fake.folder / "role.yaml").write_text(yaml.safe_dump(role))
        # Within the time of a single request: before anything is read again.
        with pytest.raises(ValueError, match=f'cannot {verb} resource "{resource}"') as caught, opened(fake):
            pass
        assert "deploy/kubernetes/role.yaml" in str(caught.value)
        assert not fake_kubectl.pods(fake.folder)


def required_role() -> dict[str, Any]:
    """The role of the repository without its optional rules."""
    role: dict[str, Any] = yaml.safe_load(ROLE.read_text())
    role["rules"] = role["rules"][:5]
    return role


def test_workers_that_never_come_are_an_error(fake: Fake, driver: Processes, tmp_path: Path) -> None:
    """After ``patience``, which is minutes unless it is set otherwise, and with status 1."""
    assert KubernetesSettings(image="x", insecure=True).patience == 900
    fake_kubectl.set_faults(fake.folder, Faults(unschedulable="0/3 nodes: few cpu", component="worker"))
    configuration = Path(fake.variables["DASK_CONFIG"])
    configured = yaml.safe_load(configuration.read_text())
    configured["calibdask"]["kubernetes"] |= {"patience": 60}
    configuration.write_text(yaml.safe_dump(configured))
    arguments = [STUDY, "--store", str(tmp_path / "cube.zarr"), "--cluster", "kubernetes", "--tls", str(fake.tls)]
    begun = time.monotonic()
    assert driver.run(*arguments).wait(PATIENCE) == 1, driver.said("run")
    assert 60 <= time.monotonic() - begun < 240
    said = driver.said("run")
    assert "Waiting in the namespace default for worker: Unschedulable (0/3 nodes: few cpu)." in said
    assert "No worker has started in the namespace default within 60 seconds: worker: Unschedulable" in said
    assert "Ask for less (worker, workers, at calibdask.kubernetes)" in said
    assert "to continue: calibdask run" in said
    assert not (tmp_path / "cube.zarr").exists()
    assert not fake_kubectl.pods(fake.folder)


def test_a_missing_secret_of_the_store(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Which only the workers declare."""
    monkeypatch.chdir(tmp_path)
    hurried(monkeypatch)
    with (
        pytest.warns(UserWarning, match="for worker: CreateContainerConfigError"),
        pytest.raises(ValueError, match=r'worker: CreateContainerConfigError \(secret "trial-store" not found\)'),
        opened(fake, **{"store-secret": "trial-store"}),
    ):
        pass


def test_events_of_what_has_passed_are_no_obstacles() -> None:
    event = {"reason": "FailedMount", "message": "not found", "involvedObject": {"name": "trial"}}
    labels = {"app.kubernetes.io/component": "worker"}
    waiting = {"metadata": {"name": "trial", "labels": labels}, "status": {"phase": "Pending", "conditions": []}}
    assert [str(one) for one in event_obstacles(event, {"trial": waiting})] == ["worker: FailedMount (not found)"]
    mounted = {"type": "PodReadyToStartContainers", "status": "True"}
    pulling = {**waiting, "status": {"phase": "Pending", "conditions": [mounted]}}
    running = {**waiting, "status": {"phase": "Running"}}
    for pods in ({"trial": pulling}, {"trial": running}, {"another": waiting}, {}):
        assert not [*event_obstacles(event, pods)]


def test_waiting_is_one_request_of_each_kind(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often obstacles are read, and a pod that starts late is noticed by it."""
    hurried(monkeypatch)
    fake_kubectl.set_faults(fake.folder, Faults(unschedulable="0/3 nodes are available"))
    manifests = cluster(settings())
    with Kubectl("default").applied([one for one in manifests if one["kind"] == "Deployment"]):
        with PodStartup(Kubectl("default"), "calibdask", 3.0).watching() as startup:
            eventually(lambda: len(startup._pods) == 3 and len(fake.words) == 4)
            with pytest.warns(UserWarning, match="Unschedulable"), pytest.raises(Unavailable):
                startup.wait("scheduler", startup.scheduler_is_ready)
        _, *watching = fake_kubectl.calls(fake.folder)
        assert sorted(words[1] for words in watching) == ["deployments", "events", "pods"]
        assert all("--watch" in words for words in watching)
        monkeypatch.setattr("calibdask.cluster.pod_startup._QUIET_SECONDS", 600.0)
        with (PodStartup(Kubectl("default"), "calibdask", 600.0)).watching() as startup:
            assert not startup.scheduler_is_ready()
            fake_kubectl.set_faults(fake.folder, Faults())
            for replicas in (0, 1):
                Kubectl("default")("scale", "deployment/calibdask-scheduler", f"--replicas={replicas}")
            startup.wait("scheduler", startup.scheduler_is_ready)


def test_the_role_permits_what_is_needed_and_nothing_else(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    role = yaml.safe_load(ROLE.read_text())
    (fake.folder / "role.yaml").write_text(ROLE.read_text())
    hurried(monkeypatch)
    with pytest.raises(RuntimeError), opened(fake, autoscaling={"maximum": 3}):
        raise RuntimeError
    with Kubectl("default").applied(study_run(settings(), STUDY, str(tmp_path / "cube.zarr"))[-1:]):
        pass
    permitted = {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert permitted == fake_kubectl.permissions_used(fake.folder)


def expect_quota(fake: Fake) -> None:
    """Expect the warning and the error of a namespace whose quota allows no pod."""
    fake_kubectl.set_faults(fake.folder, Faults(most_pods=0))
    with (
        pytest.warns(UserWarning, match="FailedCreate"),
        pytest.raises(Unavailable, match="exceeded quota: small"),
        opened(fake),
    ):
        pass


@pytest.mark.parametrize("message", [None, "Error from server (Forbidden): unknown (get pods)"], ids=["1.32", "1.31"])
def test_permissions_to_watch_are_optional(
    message: str | None, fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A cluster starts, and reasons are shown, for who may only get and list pods; whatever kubectl says of it."""
    monkeypatch.chdir(tmp_path)
    if message is not None:
        monkeypatch.setenv("FAKE_NO_WATCH", message)
    (fake.folder / "role.yaml").write_text(yaml.safe_dump(required_role()))
    monkeypatch.setattr("calibdask.cluster.pod_startup._READ_SECONDS", 0.5)
    with opened(fake) as client:
        assert client.submit(sum, (1, 2)).result() == 3
    reading = [words[1] for words in fake_kubectl.calls(fake.folder) if "--watch" in words]
    assert reading.count("pods") > reading.count("events") == 1
    hurried(monkeypatch)
    fake_kubectl.set_faults(fake.folder, Faults(image="ErrImagePull"))
    with (
        pytest.warns(UserWarning, match="Waiting in the namespace default for "),
        pytest.raises(ValueError, match=r"scheduler: ErrImagePull|worker: ErrImagePull"),
        opened(fake),
    ):
        pass
    expect_quota(fake)
    assert not fake_kubectl.pods(fake.folder)


def test_a_server_that_does_not_answer_is_named(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """While pods are awaited, and not taken for controllers that create none."""
    monkeypatch.setattr(pod_startup, "_QUIET_SECONDS", 0.0)
    monkeypatch.setenv("FAKE_FAILS", "get")
    monkeypatch.setenv("FAKE_MESSAGE", "The connection to the server 10.0.0.1:6443 was refused - did you specify it?")
    startup = PodStartup(Kubectl("default"), "trial", 3.0)
    with (
        pytest.warns(UserWarning, match=r"Waiting in the namespace default for server: no answer \(The connection"),
        pytest.raises(Unavailable, match=r"server: no answer .* Try again when the server answers") as raised,
        startup.watching(),
    ):
        startup.wait("scheduler", startup.scheduler_is_ready)
    assert "controllers" not in str(raised.value)


def test_a_quota_is_noticed_without_another_request(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where no pod is created, only the Deployment says why."""
    monkeypatch.chdir(tmp_path)
    for name, seconds in {"_QUIET_SECONDS": 0.0, "_FATAL_SECONDS": 1.0}.items():
        monkeypatch.setattr(f"calibdask.cluster.pod_startup.{name}", seconds)
    expect_quota(fake)
    reading = [words for words in fake_kubectl.calls(fake.folder) if words[:2] == ["get", "deployments"]]
    assert len(reading) == 1
    assert "--watch" in reading[0]

"""A Kubernetes cluster, where there is one: that of KUBECONFIG, in a namespace of its own that is deleted at the end.

With KUBECONFIG alone those tests run in which nothing is computed. What is needed:

- All: an account that may create and delete namespaces, and in them secrets, pods by Deployments, and roles.
- `needs_image`: an image of this version in CALIBDASK_LIVE_IMAGE, and an object store that pods and this machine reach
  in CALIBDASK_LIVE_STORE (``s3://bucket``), its credentials and address in the usual variables (AWS_ACCESS_KEY_ID,
  AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, ...). Room for three pods of 250m and 1Gi. Nodes and this machine of x86-64
  since 2013: studies train models, so all use the BLAS kernels of one kind of processor.
- Each test says what it needs besides.

Without a cluster, `fake_api_server` says how the same tests, except that of Helm, run with processes in place of pods.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pytest
import yaml

import calibdask as cd
from calibdask.cluster.certificates import make_certificates
from calibdask.cluster.kubectl import Kubectl
from calibdask.cluster.kubernetes_settings import Autoscaling, KubernetesSettings, Resources
from calibdask.cluster.manifests import as_yaml, sharded_run, study_run
from calibdask.storage.cube_layout import DONE
from calibdask.study.cube import Cube
from tests.clusters.dask_processes import RUN, Processes, eventually, processes

pytestmark = [
    pytest.mark.k8s_live,
    pytest.mark.skipif("KUBECONFIG" not in os.environ, reason="no Kubernetes: KUBECONFIG is not set"),
]
IMAGE, STORE = os.environ.get("CALIBDASK_LIVE_IMAGE"), os.environ.get("CALIBDASK_LIVE_STORE")
needs_image = pytest.mark.skipif(not IMAGE or not STORE, reason="no CALIBDASK_LIVE_IMAGE or CALIBDASK_LIVE_STORE")
STUDY, PRESET = "experiments/ece_benchmark", "preset=quick"
CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ENDPOINT_URL",
    "AWS_DEFAULT_REGION",
    "AWS_REGION",
    "AWS_REQUEST_CHECKSUM_CALCULATION",
    "AWS_RESPONSE_CHECKSUM_VALIDATION",
)
KERNELS = {"OPENBLAS_CORETYPE": "Haswell"}
ROOT = Path(__file__).parents[2]
PATIENCE = 1800.0
# A minute until a reason counts, and the time to notice it.
EARLY = 240.0


@dataclass(frozen=True)
class Live:
    """A namespace with the secrets that pods need."""

    kubectl: Kubectl
    tls: Path

    @property
    def configured(self) -> dict[str, Any]:
        small = {"cpu": "250m", "memory": "1Gi", "cpu_limit": "1"}
        sizes = dict.fromkeys(("scheduler", "worker", "client"), small)
        secrets = {"tls_secret": "trial-tls", "store_secret": "trial-store"}
        names = {"image": IMAGE or "calibdask:1.0.0rc1", "name": "trial", "namespace": self.kubectl.namespace}
        return names | sizes | secrets | {"environment": KERNELS}

    def url(self, name: str) -> str:
        """An address in the store of this namespace alone."""
        return f"{STORE}/{self.kubectl.namespace}/{name}"

    def names(self, component: str) -> list[str]:
        """The pods of a component."""
        selector = f"--selector=app.kubernetes.io/component={component}"
        return self.kubectl("get", "pods", selector, "--output=name").split()

    def driver(self, folder: Path, **changes: Any) -> AbstractContextManager[Processes]:
        """Commands of this machine that are configured for the namespace."""

        @contextmanager
        def configured() -> Iterator[Processes]:
            with processes(folder / "driver") as running:
                configuration = running.folder / "dask.yaml"
                configuration.write_text(yaml.safe_dump({"calibdask": {"kubernetes": self.configured | changes}}))
                running.environment = {"DASK_CONFIG": str(configuration), "CALIBDASK_TLS": str(self.tls)}
                yield running

        return configured()

    def leaves_nothing(self) -> bool:
        """Whether all that was created for a run is deleted."""
        own = "--selector=app.kubernetes.io/name=calibdask"
        return self.kubectl("get", "deployments,services,networkpolicies,jobs,pods", own, "--output=name") == ""

    def settings(self, **changes: Any) -> KubernetesSettings:
        sizes = {role: Resources(**self.configured[role]) for role in ("scheduler", "worker", "client")}
        return KubernetesSettings(**self.configured | sizes | changes)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    tls = tmp_path_factory.mktemp("live") / "certificates"
    make_certificates(tls)
    namespace = f"calibdask-trial-{token_hex(3)}"
    kubectl = Kubectl(namespace)
    kubectl("create", "namespace", namespace)
    try:
        kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
        kubectl("create", "secret", "generic", "trial-tls", f"--from-file={tls}")
        known = [f"--from-literal={name}={os.environ[name]}" for name in CREDENTIALS if name in os.environ]
        kubectl("create", "secret", "generic", "trial-store", *known)
        yield Live(kubectl, tls)
    finally:
        kubectl("delete", "namespace", namespace, "--wait=false")
        # Which runs that fail keep where they were started.
        for log in ROOT.glob("trial-*.log"):
            log.unlink()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The cube as threads of this machine compute it, with the same BLAS kernels."""
    folder = tmp_path_factory.mktemp("threads")
    store = str(folder / "cube.zarr")
    with processes(folder / "driver") as driver:
        driver.environment = KERNELS
        assert driver.run(STUDY, "--store", store, "--set", PRESET).wait(PATIENCE) == 0, driver.said("run")
    return cd.open_cube(store).load()


def _done(store: str) -> int:
    try:
        return int((Cube(store).status() == DONE).sum())
    except ValueError:  # not there yet, or being laid out
        return 0


def finish(live: Live, folder: Path, store: str, undisturbed: Any, disturb: Callable[[], None], **changes: Any) -> str:
    """Run the study on the cluster, disturb it when a cell is done, and compare the cube; what the run has said."""
    with live.driver(folder, **changes) as driver:
        run = driver.run(STUDY, "--store", store, "--set", PRESET, "--cluster", "kubernetes")
        eventually(lambda: run.poll() is not None or _done(store) > 0, PATIENCE)
        disturb()
        assert run.wait(PATIENCE) == 0, driver.said("run")
        said = driver.said("run")
    assert cd.open_cube(store).load().equals(undisturbed)
    eventually(live.leaves_nothing, PATIENCE)
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize("changes", [{}, {"autoscaling": Autoscaling(maximum=3)}], ids=["plain", "scaled"])
def test_the_server_takes_manifests(live: Live, changes: dict[str, Any]) -> None:
    """Needs nothing else; nothing is created."""
    store = "s3://calibration/cube.zarr"
    for manifests in (
        study_run(live.settings(**changes), STUDY, store),
        sharded_run(live.settings(**changes), STUDY, store, 100),
        [yaml.safe_load((ROOT / "deploy" / "kubernetes" / "role.yaml").read_text())],
    ):
        live.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=as_yaml(manifests))


@needs_image
def test_a_worker_pod_deleted_midway(live: Live, tmp_path: Path, undisturbed: Any) -> None:
    def disturb() -> None:
        live.kubectl("delete", live.names("worker")[0], "--grace-period=0", "--force")

    finish(live, tmp_path, live.url("worker.zarr"), undisturbed, disturb)


@needs_image
def test_a_scheduler_pod_deleted_midway(live: Live, tmp_path: Path, undisturbed: Any) -> None:
    """The run reports the loss, and starts another cluster."""

    def disturb() -> None:
        live.kubectl("delete", live.names("scheduler")[0], "--grace-period=0", "--force")

    said = finish(live, tmp_path, live.url("scheduler.zarr"), undisturbed, disturb)
    assert "Reconnecting." in said


@needs_image
def test_workers_scaled_midway(live: Live, tmp_path: Path, undisturbed: Any) -> None:
    """Needs room for two more workers."""

    def disturb() -> None:
        (deployment,) = live.kubectl(
            "get", "deployments", "--selector=app.kubernetes.io/component=worker", "--output=name"
        ).split()
        live.kubectl("scale", deployment, "--replicas=4")
        eventually(lambda: len(live.names("worker")) == 4, PATIENCE)
        live.kubectl("scale", deployment, "--replicas=1")

    finish(live, tmp_path, live.url("scaled.zarr"), undisturbed, disturb)


@needs_image
def test_a_job_inside(live: Live, undisturbed: Any) -> None:
    store = live.url("job.zarr")
    with live.kubectl.applied(study_run(live.settings(), STUDY, store, ["--set", PRESET])):
        live.kubectl("wait", "--for=condition=complete", "job/trial-run", f"--timeout={PATIENCE:.0f}s")
    assert cd.open_cube(store).load().equals(undisturbed)
    eventually(live.leaves_nothing, PATIENCE)


@needs_image
def test_an_indexed_job(live: Live, undisturbed: Any) -> None:
    """A shard whose pod is deleted is started again."""
    store = live.url("shards.zarr")
    with live.kubectl.applied(sharded_run(live.settings(), STUDY, store, 4, ["--set", PRESET])):
        eventually(lambda: bool(live.names("client")), PATIENCE)
        live.kubectl("delete", live.names("client")[0], "--grace-period=0", "--force")
        live.kubectl("wait", "--for=condition=complete", "job/trial-run", f"--timeout={PATIENCE:.0f}s")
        text = live.kubectl("get", "job/trial-run", "--output=jsonpath={.status.completedIndexes}")
        assert text == "0-3"
    assert cd.open_cube(store).load().equals(undisturbed)
    eventually(live.leaves_nothing, PATIENCE)


@needs_image
def test_parquet_from_s3(live: Live, tmp_path: Path) -> None:
    """The scheduler has no credentials of the store."""
    rng = np.random.default_rng(0)
    scores = rng.random(20_000)
    labels = (rng.random(20_000) < scores).astype(int)
    frame = pd.DataFrame({"label": labels, "score": scores, "day": np.arange(20_000) // 5000})
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=1000)
    url = live.url("rows.parquet")
    with fsspec.open(url, "wb") as file:
        file.write((tmp_path / "rows.parquet").read_bytes())
    command = [*RUN, "evaluate", url, "--by", "day", "--json"]
    with live.driver(tmp_path) as driver:
        run = driver.start([*command, "--cluster", "kubernetes"], "evaluate")
        assert run.wait(PATIENCE) == 0, driver.said("evaluate")
        here = driver.start(command, "threads")
        assert here.wait(PATIENCE) == 0
        # What else is said, on stderr, is in the same file.
        found, expected = (json.loads(said[said.index("{") :]) for said in map(driver.said, ("evaluate", "threads")))
    assert found == expected
    eventually(live.leaves_nothing, PATIENCE)


@needs_image
@pytest.mark.parametrize(("name", "rules"), [("needed", 5), ("whole", None)])
def test_the_role_suffices(name: str, rules: int | None, live: Live, tmp_path: Path, undisturbed: Any) -> None:
    """The rules that are needed, and all with the optional ones.

    Needs an account that may create roles, role bindings and tokens of service accounts.
    """
    role = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "role.yaml").read_text())
    role["metadata"]["name"], role["rules"] = name, role["rules"][:rules]
    live.kubectl("apply", "--filename=-", stdin=yaml.safe_dump(role))
    live.kubectl("create", "serviceaccount", name)
    account = f"{live.kubectl.namespace}:{name}"
    live.kubectl("create", "rolebinding", name, f"--role={name}", f"--serviceaccount={account}")
    token = live.kubectl("create", "token", name, "--duration=2h").strip()
    configuration = json.loads(live.kubectl("config", "view", "--minify", "--flatten", "--raw", "--output=json"))
    (user,) = configuration["users"]
    user["user"] = {"token": token}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(configuration))
    store = live.url(f"role-{name}.zarr")
    with live.driver(tmp_path) as driver:
        driver.environment["KUBECONFIG"] = str(path)
        run = driver.run(STUDY, "--store", store, "--set", PRESET, "--cluster", "kubernetes")
        assert run.wait(PATIENCE) == 0, driver.said("run")
        # Of the optional rules nothing is missing.
        assert rules is not None or "cannot" not in driver.said("run")
    assert cd.open_cube(store).load().equals(undisturbed)
    eventually(live.leaves_nothing, PATIENCE)


def refused(live: Live, folder: Path, **changes: Any) -> tuple[int, str]:
    """The status of a run that cannot start, and what it has said."""
    with live.driver(folder, **changes) as driver:
        begun = time.monotonic()
        # Not in an object store, which need not be reachable where nothing is computed.
        store = str(folder / "nothing.zarr")
        run = driver.run(STUDY, "--store", store, "--set", PRESET, "--cluster", "kubernetes")
        status = run.wait(PATIENCE)
        assert time.monotonic() - begun < EARLY
        said = driver.said("run")
    eventually(live.leaves_nothing, PATIENCE)
    assert f"in the namespace {live.kubectl.namespace}" in said
    return status, said


def test_a_quota(live: Live, tmp_path: Path) -> None:
    """Needs an account that may create quotas; no image, since no pod is created."""
    live.kubectl("create", "quota", "small", "--hard=pods=0")
    # Until then the server has another message.
    live.kubectl("wait", "--for=jsonpath={.status.hard.pods}=0", "resourcequota/small", "--timeout=60s")
    try:
        status, said = refused(live, tmp_path)
    finally:
        live.kubectl("delete", "quota", "small")
    assert status == 1, said
    assert "exceeded quota: small" in said
    assert "to continue: calibdask run" in said


def test_an_image_that_does_not_exist(live: Live, tmp_path: Path) -> None:
    """Needs nodes; whether they reach a registry does not matter."""
    status, said = refused(live, tmp_path, image="registry.invalid/calibdask:none")
    assert status in (1, 2), said
    assert "scheduler: ErrImagePull" in said or "scheduler: ImagePullBackOff" in said


def test_no_room(live: Live, tmp_path: Path) -> None:
    """Needs nodes; none of them has so many processors."""
    huge = {"cpu": "9999", "memory": "1Gi"}
    status, said = refused(live, tmp_path, scheduler=huge, patience=40)
    assert status == 1, said
    assert "scheduler: Unschedulable" in said
    assert "within 40 seconds" in said


def test_a_missing_namespace(live: Live, tmp_path: Path) -> None:
    """Needs nothing else."""
    absent = f"{live.kubectl.namespace}-absent"
    with live.driver(tmp_path, namespace=absent) as driver:
        run = driver.run(STUDY, "--store", str(tmp_path / "nothing.zarr"), "--cluster", "kubernetes")
        assert run.wait(PATIENCE) == 2
        said = driver.said("run")
    # Once, and not for each object.
    assert said.count("not found") == 1
    assert f"kubectl create namespace {absent}" in said
    assert "may still exist" not in said


@needs_image
@pytest.mark.skipif(shutil.which("helm") is None, reason="the command helm is not installed")
def test_helm_upgrades_change_the_job(live: Live) -> None:
    """Needs the command helm, and an image with a tag."""
    repository, _, tag = str(IMAGE).rpartition(":")
    small = {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    values: dict[str, Any] = {
        "image": {"repository": repository, "tag": tag},
        "tls": {"secret": "trial-tls"},
        "store": {"secret": "trial-store"},
        "scheduler": {"resources": small},
        "worker": {"replicas": 1, "resources": small},
        "job": {"enabled": True, "study": STUDY, "resources": small, "arguments": ["--set", PRESET]},
    }

    def names() -> list[str]:
        return live.kubectl("get", "jobs", "--output=name").split()

    helm = ["helm", "--namespace", live.kubectl.namespace]
    jobs = []
    try:
        for verb, name in {"install": "first", "upgrade": "second"}.items():
            values["job"]["store"] = live.url(f"{name}.zarr")
            command = [*helm, verb, "trial", str(ROOT / "deploy" / "helm" / "calibdask"), "--values", "-"]
            subprocess.run(command, input=yaml.safe_dump(values), text=True, check=True)
            eventually(lambda: len(names()) == 1, EARLY)
            jobs += names()
    finally:
        # What was not installed cannot be uninstalled; the error before this one is the one to see.
        subprocess.run([*helm, "uninstall", "trial", "--ignore-not-found"], check=False)
    # The second in place of the first.
    assert len(jobs) == len({*jobs}) == 2

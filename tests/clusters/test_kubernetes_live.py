"""A Kubernetes cluster, where there is one: that of KUBECONFIG, in a namespace of its own that is deleted at the end.

With KUBECONFIG alone the server is asked what it would make of the manifests. Runs need an image of this version in
CALIBDASK_LIVE_IMAGE and an object store that pods and this machine reach, in CALIBDASK_LIVE_STORE (``s3://bucket``),
its credentials and address in the usual variables (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, ...).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
import yaml

import calibdask as cd
from calibdask.cluster.certificates import make_certificates
from calibdask.cluster.kubectl import Kubectl
from calibdask.cluster.kubernetes_settings import Autoscaling, KubernetesSettings, Resources
from calibdask.cluster.manifests import as_yaml, study_run
from calibdask.storage.cube_layout import DONE
from calibdask.study.cube import Cube
from calibdask.study.loading import load_study
from tests.clusters.dask_processes import eventually, processes

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
)
PATIENCE = 1800.0


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
        return (
            {"image": IMAGE or "calibdask:0.1.0", "name": "trial", "namespace": self.kubectl.namespace}
            | sizes
            | secrets
        )

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
        kubectl("create", "secret", "generic", "trial-tls", f"--from-file={tls}")
        known = [f"--from-literal={name}={os.environ[name]}" for name in CREDENTIALS if name in os.environ]
        kubectl("create", "secret", "generic", "trial-store", *known)
        yield Live(kubectl, tls)
    finally:
        kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    store = tmp_path_factory.mktemp("threads") / "cube.zarr"
    cd.run(load_study(STUDY).with_settings(dict([PRESET.split("=")])), store)
    return cd.open_cube(store).load()


@pytest.mark.parametrize("changes", [{}, {"autoscaling": Autoscaling(maximum=3)}], ids=["plain", "scaled"])
def test_the_server_takes_manifests(live: Live, changes: dict[str, Any]) -> None:
    manifests = study_run(live.settings(**changes), STUDY, "s3://calibration/cube.zarr")
    live.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=as_yaml(manifests))


@needs_image
def test_a_worker_pod_deleted_midway(live: Live, tmp_path: Path, undisturbed: Any) -> None:
    store = f"{STORE}/{live.kubectl.namespace}/client.zarr"
    configuration = tmp_path / "dask.yaml"
    configuration.write_text(yaml.safe_dump({"calibdask": {"kubernetes": live.configured}}))
    with processes(tmp_path / "driver") as driver:
        driver.environment = {"DASK_CONFIG": str(configuration)}
        arguments = [STUDY, "--store", store, "--set", PRESET, "--cluster", "kubernetes", "--tls", str(live.tls)]
        run = driver.run(*arguments)
        eventually(lambda: run.poll() is not None or _done(store) > 0, PATIENCE)
        selector = "--selector=app.kubernetes.io/component=worker"
        pods = live.kubectl("get", "pods", selector, "--output=name").split()
        live.kubectl("delete", pods[0], "--grace-period=0", "--force")
        assert run.wait(PATIENCE) == 0, driver.said("run")
    assert cd.open_cube(store).load().equals(undisturbed)
    assert live.kubectl("get", "deployments", "--output=name") == ""


@needs_image
def test_a_job_inside(live: Live, undisturbed: Any) -> None:
    store = f"{STORE}/{live.kubectl.namespace}/job.zarr"
    manifests = study_run(live.settings(), STUDY, store, ["--set", PRESET])
    with live.kubectl.applied(as_yaml(manifests)):
        live.kubectl("wait", "--for=condition=complete", "job/trial-run", f"--timeout={PATIENCE:.0f}s")
    assert cd.open_cube(store).load().equals(undisturbed)


def _done(store: str) -> int:
    try:
        return int((Cube(store).status() == DONE).sum())
    except ValueError:  # not there yet, or being laid out
        return 0

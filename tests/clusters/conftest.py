"""What the tests of Kubernetes share: a stand-in for kubectl, and commands that use it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from calibdask.cluster.certificates import make_certificates
from tests.clusters import fake_kubectl
from tests.clusters.dask_processes import ROOT, Processes, processes
from tests.clusters.fake_kubectl import Fake


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    tls, folder = tmp_path / "certificates", tmp_path / "kubectl"
    make_certificates(tls)
    variables = fake_kubectl.installed(folder, {"trial-tls": str(tls)})
    configured = {"image": "calibdask:1.0.0rc1", "name": "trial", "tls-secret": "trial-tls", "workers": 2}
    (folder / "dask.yaml").write_text(yaml.safe_dump({"calibdask": {"kubernetes": configured}}))
    variables |= {"DASK_CONFIG": str(folder / "dask.yaml")}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FAKE_GRACE", "1")
    # Logs of pods are kept there after errors.
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    yield Fake(folder, tls, variables)
    fake_kubectl.ended(folder)


@pytest.fixture
def driver(tmp_path: Path, fake: Fake) -> Iterator[Processes]:
    with processes(tmp_path / "driver") as running:
        running.environment = fake.variables | {"FAKE_GRACE": "30"}
        yield running
    # Which runs that fail keep where they were started.
    for log in ROOT.glob("trial-*.log"):
        log.unlink(missing_ok=True)

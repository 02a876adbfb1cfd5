"""Clusters by ``--cluster kubernetes`` in this process, for the tests of the stand-in for kubectl."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import dask
import pytest

from calibdask.cluster import cluster_spec
from calibdask.cluster.kubernetes_settings import KubernetesSettings
from tests.clusters.fake_kubectl import Fake

STUDY = "tests.clusters.fault_study:Moments"
ROLE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "role.yaml"
CONFIGURED = {"image": "calibdask:1.0.0rc1", "tls-secret": "trial-tls", "workers": 1}


def opened(fake: Fake, **changes: Any) -> AbstractContextManager[Any]:
    """A cluster with these settings."""

    @contextmanager
    def configured() -> Iterator[Any]:
        with (
            dask.config.set({"calibdask.kubernetes": CONFIGURED | changes}),
            cluster_spec("kubernetes", tls=str(fake.tls)).opened() as client,
        ):
            yield client

    return configured()


def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read and report at once, and fail a moment later."""
    for name, seconds in {"_READ_SECONDS": 0.0, "_QUIET_SECONDS": 0.0, "_FATAL_SECONDS": 1.0}.items():
        monkeypatch.setattr(f"calibdask.cluster.pod_startup.{name}", seconds)


def settings(**changes: Any) -> KubernetesSettings:
    return KubernetesSettings(**{"image": "calibdask:1.0.0rc1", "tls_secret": "trial-tls", **changes})

"""A cluster on Kubernetes, created for one computation and deleted after it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any, ClassVar

from calibdask.cluster.kubectl import Kubectl
from calibdask.cluster.kubernetes_settings import KubernetesSettings
from calibdask.cluster.manifests import as_yaml, cluster
from calibdask.cluster.scheduler import Scheduler
from calibdask.cluster.security import Transport
from calibdask.cluster.spec import ClusterSpec

# Includes pulling images and starting nodes.
_START_TIMEOUT = 600


@dataclass(frozen=True)
class Kubernetes(ClusterSpec):
    """Pods started by kubectl, as configured at ``calibdask.kubernetes`` in Dask's configuration.

    Inside Kubernetes the scheduler is reached by the name of its service, which requires that ``clients`` of the
    configuration admits the pod of this process; from outside by ``kubectl port-forward``, a single connection to one
    pod: when it breaks, the scheduler counts as lost. For studies that take days start a Job inside
    (``deploy/kubernetes``).

    Parameters
    ----------
    transport : Transport
        The certificates in the secret of the pods.
    """

    transport: Transport

    # Pods may wait for resources for hours.
    patience: ClassVar[float] = 86_400.0

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Connect a client to a new cluster, which is deleted at the end."""
        settings = _uniquely_named(KubernetesSettings.from_configuration(**self._insecure))
        # Fails before anything is started if certificates are missing.
        self.transport.security(settings.address)
        kubectl = Kubectl(settings.namespace)
        name = f"{settings.name}-scheduler"
        with kubectl.applied(as_yaml(cluster(settings))):
            kubectl.wait_until_ready(name, _START_TIMEOUT)
            with _forwarded(settings, kubectl, name) as address, Scheduler(address, self.transport).opened() as client:
                yield client

    @property
    def _insecure(self) -> dict[str, Any]:
        return {"insecure": True, "tls_secret": ""} if self.transport.insecure else {}


def _uniquely_named(settings: KubernetesSettings) -> KubernetesSettings:
    """Settings with a unique name, so that concurrent runs do not share, or delete, one cluster."""
    return replace(settings, name=f"{settings.name}-{token_hex(3)}")


@contextmanager
def _forwarded(settings: KubernetesSettings, kubectl: Kubectl, name: str) -> Iterator[str]:
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        yield f"{settings.protocol}://{name}.{settings.namespace}.svc:{settings.PORT}"
        return
    with kubectl.forwarded(f"service/{name}", settings.PORT) as port:
        yield f"{settings.protocol}://127.0.0.1:{port}"

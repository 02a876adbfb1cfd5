"""A cluster on Kubernetes for one piece of work: made, used, deleted."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any, ClassVar

from calibdask.cluster.kubectl import Kubectl
from calibdask.cluster.kubernetes_settings import KubernetesSettings
from calibdask.cluster.manifests import as_yaml, cluster
from calibdask.cluster.places import Place
from calibdask.cluster.scheduler import Scheduler
from calibdask.cluster.security import Transport

__all__ = ["Kubernetes"]

# Images are pulled, and nodes may first be started.
_SECONDS_TO_START = 600


@dataclass(frozen=True)
class Kubernetes(Place):
    """Pods started by kubectl, as Dask's configuration says at ``calibdask.kubernetes``.

    The scheduler is reached by the name of its service from inside Kubernetes, where ``clients`` of the configuration
    has to let the pod of this process through, and by ``kubectl port-forward`` from outside. That way is one connection
    to one pod: when it breaks, the scheduler counts as lost. For work of days start a Job that runs inside
    (``deploy/kubernetes``).

    Parameters
    ----------
    transport : Transport
        The same certificates as in the secret of the pods.
    """

    transport: Transport

    # Pods wait for room, sometimes for hours.
    patience: ClassVar[float] = 86_400.0

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A client of a new cluster, which is deleted at the end."""
        settings = _own(KubernetesSettings.from_configuration(**self._insecure))
        # Whatever can be found wrong here is, before anything is started there.
        self.transport.security(settings.address)
        kubectl = Kubectl(settings.namespace)
        name = f"{settings.name}-scheduler"
        with kubectl.applied(as_yaml(cluster(settings))):
            kubectl.wait_until_ready(name, _SECONDS_TO_START)
            with _reached(settings, kubectl, name) as address, Scheduler(address, self.transport).opened() as client:
                yield client

    @property
    def _insecure(self) -> dict[str, Any]:
        return {"insecure": True, "tls_secret": ""} if self.transport.insecure else {}


def _own(settings: KubernetesSettings) -> KubernetesSettings:
    """A name of its own: two runs at a time have two clusters, and neither deletes that of the other."""
    return replace(settings, name=f"{settings.name}-{token_hex(3)}")


@contextmanager
def _reached(settings: KubernetesSettings, kubectl: Kubectl, name: str) -> Iterator[str]:
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        yield f"{settings.protocol}://{name}.{settings.namespace}.svc:{settings.PORT}"
        return
    with kubectl.forwarded(f"service/{name}", settings.PORT) as port:
        yield f"{settings.protocol}://127.0.0.1:{port}"

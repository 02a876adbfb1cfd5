"""A cluster on Kubernetes, created for one computation and deleted after it."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from calibdask.cluster.kubectl import Kubectl
from calibdask.cluster.kubernetes_settings import KubernetesSettings
from calibdask.cluster.pod_startup import PodStartup
from calibdask.cluster.scheduler import Scheduler
from calibdask.cluster.security import Transport
from calibdask.cluster.spec import ClusterLost, ClusterSpec
from calibdask.errors import Unavailable

# Of each container, in the file that is kept after an error.
_LOG_LINES = 200


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

    @property
    def patience(self) -> float:
        """Seconds to wait: ``patience`` of `KubernetesSettings`."""
        return float(self._settings.patience)

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Connect a client to a new cluster, which is deleted at the end; the first worker has joined.

        Raises
        ------
        ValueError
            If the settings, an image, a secret or a permission is wrong.
        Unavailable
            If Kubernetes does not answer, has no room at present, or the cluster has not started in time.

        Warns
        -----
        UserWarning
            What keeps pods from starting; objects that could not be deleted.
        """
        # Not with this module: python -m calibdask.cluster.manifests would import it twice.
        from calibdask.cluster.manifests import cluster

        settings = _uniquely_named(self._settings)
        # Fails before anything is started if certificates are missing.
        self.transport.security(settings.address)
        kubectl = Kubectl(settings.namespace)
        name = f"{settings.name}-scheduler"
        startup = PodStartup(kubectl, settings.name, settings.patience)
        with kubectl.applied(cluster(settings)), _logs_kept(kubectl, settings.name), ExitStack() as connection:
            with startup.watching():
                startup.wait("scheduler", startup.scheduler_is_ready)
                address = connection.enter_context(_forwarded(settings, kubectl, name))
                client = connection.enter_context(Scheduler(address, self.transport).opened())
                startup.wait("worker", lambda: _has_worker(client))
            yield client

    def answers(self) -> bool:
        """Whether the API server answers."""
        try:
            Kubectl(self._settings.namespace)("get", "pods", "--output=name", "--request-timeout=10s")
        except Unavailable:
            return False
        return True

    @property
    def _settings(self) -> KubernetesSettings:
        insecure = {"insecure": True, "tls_secret": ""} if self.transport.insecure else {}
        return KubernetesSettings.from_configuration(**insecure)


def _uniquely_named(settings: KubernetesSettings) -> KubernetesSettings:
    """Settings with a unique name, so that concurrent runs do not share, or delete, one cluster."""
    return replace(settings, name=f"{settings.name}-{token_hex(3)}")


def _has_worker(client: Any) -> bool:
    try:
        return bool(client.nthreads())
    except OSError as error:
        raise ClusterLost("The scheduler was lost before a worker had joined.") from error


@contextmanager
def _forwarded(settings: KubernetesSettings, kubectl: Kubectl, name: str) -> Iterator[str]:
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        yield f"{settings.protocol}://{name}.{settings.namespace}.svc:{settings.PORT}"
        return
    with kubectl.forwarded(f"service/{name}", settings.PORT) as port:
        yield f"{settings.protocol}://127.0.0.1:{port}"


@contextmanager
def _logs_kept(kubectl: Kubectl, name: str) -> Iterator[None]:
    """Save the last lines of the logs of a cluster when the block fails, and name the file in a note of the error."""
    try:
        yield
    except Exception as error:
        if text := _logs(kubectl, name):
            error.add_note(f"The logs of the pods, before they were deleted, are in {_saved(text, f'{name}.log')}.")
        raise


def _logs(kubectl: Kubectl, name: str) -> str:
    """The logs of all containers, and of those that containers have had before they were restarted; "" without any."""
    selector = f"--selector=app.kubernetes.io/instance={name}"
    options = (selector, f"--tail={_LOG_LINES}", "--prefix", "--all-containers", "--ignore-errors")
    logs: list[str] = []
    for previous in ((), ("--previous",)):
        try:
            text = kubectl("logs", *options, *previous)
        except (ValueError, Unavailable) as error:
            return "".join([*logs, f"{error}\n"])
        # Of most containers there is no previous one, which is an error of its own.
        logs += [line for line in text.splitlines(keepends=True) if not (previous and line.startswith("error: "))]
    return "".join(logs)


def _saved(text: str, name: str) -> str:
    """The file of a text: in the current folder, or where temporary files are if that cannot be written."""
    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        path = folder / name
        try:
            path.write_text(text, encoding="utf-8")
        except OSError:
            continue
        return str(path)
    return f"no file: neither {Path.cwd()} nor {tempfile.gettempdir()} can be written"

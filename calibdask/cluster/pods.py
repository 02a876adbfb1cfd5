"""Pods of a cluster on Kubernetes, as plain data: what runs in them, how it is watched, and what it may do."""

from collections.abc import Mapping, Sequence
from typing import Any

from calibdask.cluster.kubernetes_settings import KubernetesSettings, Resources
from calibdask.cluster.security import AUTHORITY, CERTIFICATE, KEY

__all__ = ["HTTP_PORT", "NANNY_PORT", "WORKER_PORT", "client_pod", "scheduler_pod", "worker_pod"]

HTTP_PORT, WORKER_PORT, NANNY_PORT = 8787, 8788, 8789

_TLS_FOLDER, _SCRATCH_FOLDER = "/etc/calibdask/tls", "/scratch"
# The nanny needs some of the pod's memory too; beyond its share a worker is restarted before the kernel kills it.
_WORKER_SHARE = "0.85"
# What the operator needs to scale workers, and nothing that tells of the work or of addresses.
_OPERATOR_ROUTES = "['distributed.http.scheduler.api', 'distributed.http.health']"
_HEALTH = ["python", "-m", "calibdask.cluster.health"]
_SECONDS_TO_SCHEDULER = 600
_SCHEDULER_GRACE, _WORKER_GRACE, _CLIENT_GRACE = 30, 30, 300


def scheduler_pod(settings: KubernetesSettings) -> dict[str, Any]:
    """The scheduler: it listens on all addresses of its pod, its HTTP server on the loopback only.

    The exception is the HTTP server where the operator scales workers: it asks there, without TLS.
    """
    asked_by_operator = settings.operator and settings.autoscaling is not None
    routes = {"DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES": _OPERATOR_ROUTES} if asked_by_operator else {}
    arguments = [
        *("dask", "scheduler"),
        *("--host", f"{settings.protocol}://", "--port", str(settings.PORT)),
        *_tls(settings),
        # Its server for HTTP is there without the dashboard too, and answers the probes.
        *("--no-dashboard", "--dashboard-address", f":{HTTP_PORT}" if asked_by_operator else f"127.0.0.1:{HTTP_PORT}"),
    ]
    ports = {"tcp-comm": settings.PORT, **({"http-dashboard": HTTP_PORT} if asked_by_operator else {})}
    container = _container(settings, "scheduler", arguments, settings.scheduler, routes)
    return _pod(settings, {**container, "ports": _ports(ports), **_probes()}, _SCHEDULER_GRACE)


def worker_pod(settings: KubernetesSettings) -> dict[str, Any]:
    """A worker with its nanny, which starts it anew when it dies; named as its pod, or as the operator knows it."""
    name = "DASK_WORKER_NAME"
    arguments = [
        *("dask", "worker", settings.address, "--name", f"$({name})"),
        *("--nworkers", "1", "--nthreads", str(settings.threads), "--memory-limit", _WORKER_SHARE),
        *("--worker-port", str(WORKER_PORT), "--nanny-port", str(NANNY_PORT)),
        *_tls(settings),
        *("--no-dashboard", "--dashboard-address", f"127.0.0.1:{HTTP_PORT}"),
        *("--local-directory", _SCRATCH_FOLDER),
    ]
    container = _container(settings, "worker", arguments, settings.worker)
    container |= _store(settings)
    if not settings.operator:
        container["env"].insert(0, {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
    ports = _ports({"worker": WORKER_PORT, "nanny": NANNY_PORT})
    return _pod(settings, {**container, "ports": ports, **_probes(ready=False)}, _WORKER_GRACE)


def client_pod(settings: KubernetesSettings, arguments: Sequence[str]) -> dict[str, Any]:
    """A client of the cluster, which waits for the scheduler before it starts."""
    waiting = [*_HEALTH, f"{settings.name}-scheduler:{settings.PORT}", str(_SECONDS_TO_SCHEDULER)]
    # No probe: it listens to nobody, and ends by itself.
    container = {**_container(settings, "client", arguments, settings.client), **_store(settings)}
    pod = _pod(settings, container, _CLIENT_GRACE)
    pod["initContainers"] = [_container(settings, "wait-for-scheduler", waiting, settings.client)]
    return {**pod, "restartPolicy": "Never"}


def _pod(settings: KubernetesSettings, container: dict[str, Any], grace: int) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = [{"name": "scratch", "emptyDir": {"sizeLimit": settings.scratch}}]
    if settings.tls_secret:
        # 0440: the key is for the group of the processes, and nobody else.
        volumes.append({"name": "tls", "secret": {"secretName": settings.tls_secret, "defaultMode": 0o440}})
    pulled = {"imagePullSecrets": [{"name": settings.pull_secret}]} if settings.pull_secret else {}
    return {
        "serviceAccountName": settings.name,
        "automountServiceAccountToken": False,
        # Variables such as DASK_SCHEDULER_PORT, made of the names of services, would be taken for configuration.
        "enableServiceLinks": False,
        **pulled,
        "terminationGracePeriodSeconds": grace,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": settings.user,
            "runAsGroup": settings.user,
            "fsGroup": settings.user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
    }


def _container(
    settings: KubernetesSettings,
    name: str,
    arguments: Sequence[str],
    resources: Resources,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    mounts: list[dict[str, Any]] = [{"name": "scratch", "mountPath": _SCRATCH_FOLDER}]
    if settings.tls_secret:
        mounts.append({"name": "tls", "mountPath": _TLS_FOLDER, "readOnly": True})
    variables = {**_environment(settings), **(environment or {}), **settings.environment}
    return {
        "name": name,
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        # The entry point of the image, if it has one, is not asked.
        "command": list(arguments),
        "env": [{"name": each, "value": value} for each, value in variables.items()],
        "resources": resources.manifest,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _store(settings: KubernetesSettings) -> dict[str, Any]:
    """Credentials of the object store, for those that use them: the scheduler does not."""
    return {"envFrom": [{"secretRef": {"name": settings.store_secret}}]} if settings.store_secret else {}


def _environment(settings: KubernetesSettings) -> dict[str, str]:
    variables = {
        "HOME": _SCRATCH_FOLDER,
        "TMPDIR": _SCRATCH_FOLDER,
        "NUMBA_CACHE_DIR": f"{_SCRATCH_FOLDER}/numba",
        # A worker that is silent for so long is given up; Dask's own default is 5 minutes.
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "2 minutes",
    }
    if settings.tls_secret:
        variables |= {"CALIBDASK_TLS": _TLS_FOLDER, "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}
    return variables


def _tls(settings: KubernetesSettings) -> list[str]:
    if not settings.tls_secret:
        return []
    files = {"--tls-ca-file": AUTHORITY, "--tls-cert": CERTIFICATE, "--tls-key": KEY}
    return [each for option, name in files.items() for each in (option, f"{_TLS_FOLDER}/{name}")]


def _ports(ports: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports.items()]


def _probes(*, ready: bool = True) -> dict[str, Any]:
    """Commands inside the container, since what answers listens on the loopback.

    Time to start: kernels are compiled, images unpacked. A process that does not answer for three minutes, longer than
    the scheduler waits for a worker, is restarted.
    """
    asked = {"exec": {"command": [*_HEALTH, str(HTTP_PORT)]}, "timeoutSeconds": 10}
    probes = {
        "startupProbe": {**asked, "periodSeconds": 5, "failureThreshold": 60},
        "livenessProbe": {**asked, "periodSeconds": 30, "failureThreshold": 6},
    }
    # Nothing is sent to workers by way of a service, so that their readiness would tell nobody anything.
    return probes | ({"readinessProbe": {**asked, "periodSeconds": 5, "failureThreshold": 3}} if ready else {})

"""Kubernetes pods of a Dask cluster, as plain data: commands, probes, resources and security contexts."""

from collections.abc import Mapping, Sequence
from typing import Any

from calibdask.cluster.kubernetes_settings import KubernetesSettings, Resources
from calibdask.cluster.security import AUTHORITY, CERTIFICATE, KEY

WORKER_PORT, NANNY_PORT = 8788, 8789
_HTTP_PORT = 8787

_TLS_FOLDER, _SCRATCH_FOLDER = "/etc/calibdask/tls", "/scratch"
# Leaves memory for the nanny, which restarts a worker beyond its limit before the kernel kills the pod.
_WORKER_SHARE = "0.85"
_HEALTH = ["python", "-m", "calibdask.cluster.health"]
_SCHEDULER_TIMEOUT = 600
_SCHEDULER_GRACE, _WORKER_GRACE, _CLIENT_GRACE = 30, 30, 300


def scheduler_pod(settings: KubernetesSettings) -> dict[str, Any]:
    """The scheduler, which listens on all addresses of its pod; its HTTP server listens on the loopback only."""
    arguments = [
        *("dask", "scheduler"),
        *("--host", f"{settings.protocol}://", "--port", str(settings.PORT)),
        *_tls(settings),
        # The HTTP server, which answers the probes, runs without the dashboard too.
        *("--no-dashboard", "--dashboard-address", f"127.0.0.1:{_HTTP_PORT}"),
    ]
    container = _container(settings, "scheduler", arguments, settings.scheduler)
    ports = _ports({"tcp-comm": settings.PORT})
    return _pod(settings, {**container, "ports": ports, **_probes()}, _SCHEDULER_GRACE)


def worker_pod(settings: KubernetesSettings) -> dict[str, Any]:
    """A worker, named after its pod, with the nanny that restarts it when it dies."""
    name = "DASK_WORKER_NAME"
    arguments = [
        *("dask", "worker", settings.address, "--name", f"$({name})"),
        *("--nworkers", "1", "--nthreads", str(settings.threads), "--memory-limit", _WORKER_SHARE),
        *("--worker-port", str(WORKER_PORT), "--nanny-port", str(NANNY_PORT)),
        *_tls(settings),
        *("--no-dashboard", "--dashboard-address", f"127.0.0.1:{_HTTP_PORT}"),
        *("--local-directory", _SCRATCH_FOLDER),
    ]
    container = _container(settings, "worker", arguments, settings.worker)
    container |= _store(settings)
    container["env"].insert(0, {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
    ports = _ports({"worker": WORKER_PORT, "nanny": NANNY_PORT})
    return _pod(settings, {**container, "ports": ports, **_probes(ready=False)}, _WORKER_GRACE)


def client_pod(settings: KubernetesSettings, arguments: Sequence[str]) -> dict[str, Any]:
    """A client of the cluster, which starts once the scheduler answers."""
    waiting = [*_HEALTH, f"{settings.name}-scheduler:{settings.PORT}", str(_SCHEDULER_TIMEOUT)]
    # No probes: it does not listen, and ends by itself.
    container = {**_container(settings, "client", arguments, settings.client), **_store(settings)}
    pod = _pod(settings, container, _CLIENT_GRACE)
    pod["initContainers"] = [_container(settings, "wait-for-scheduler", waiting, settings.client)]
    return {**pod, "restartPolicy": "Never"}


def shard_pod(settings: KubernetesSettings, arguments: Sequence[str]) -> dict[str, Any]:
    """One pod of an Indexed Job; ``JOB_COMPLETION_INDEX`` holds its number."""
    container = {**_container(settings, "client", arguments, settings.worker), **_store(settings)}
    # Kubernetes sets it by itself too, but only variables that are declared are replaced in commands.
    index = {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
    container["env"].insert(0, {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": index}})
    return {**_pod(settings, container, _CLIENT_GRACE), "restartPolicy": "Never"}


def _pod(settings: KubernetesSettings, container: dict[str, Any], grace: int) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = [{"name": "scratch", "emptyDir": {"sizeLimit": settings.scratch}}]
    if settings.tls_secret:
        # 0440: only the group of the processes may read the key.
        volumes.append({"name": "tls", "secret": {"secretName": settings.tls_secret, "defaultMode": 0o440}})
    pull_secrets = {"imagePullSecrets": [{"name": settings.pull_secret}]} if settings.pull_secret else {}
    return {
        "serviceAccountName": settings.name,
        "automountServiceAccountToken": False,
        # Dask would take variables made of service names, such as DASK_SCHEDULER_PORT, for configuration.
        "enableServiceLinks": False,
        # The first process of a container would ignore TERM until it handles it, seconds after its start; this way the
        # first process is that of the pod.
        "shareProcessNamespace": True,
        **pull_secrets,
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


def _container(settings: KubernetesSettings, name: str, command: Sequence[str], resources: Resources) -> dict[str, Any]:
    mounts: list[dict[str, Any]] = [{"name": "scratch", "mountPath": _SCRATCH_FOLDER}]
    if settings.tls_secret:
        mounts.append({"name": "tls", "mountPath": _TLS_FOLDER, "readOnly": True})
    variables = {**_environment(settings), **settings.environment}
    return {
        "name": name,
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        # Overrides the entry point of the image, if it has one.
        "command": list(command),
        "env": [{"name": variable, "value": value} for variable, value in variables.items()],
        "resources": resources.manifest,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _store(settings: KubernetesSettings) -> dict[str, Any]:
    """Credentials of the object store, for the pods that use it; the scheduler does not."""
    return {"envFrom": [{"secretRef": {"name": settings.store_secret}}]} if settings.store_secret else {}


def _environment(settings: KubernetesSettings) -> dict[str, str]:
    variables = {
        "HOME": _SCRATCH_FOLDER,
        "TMPDIR": _SCRATCH_FOLDER,
        # How long a worker may be silent before it is given up; the default of Dask is 5 minutes.
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "2 minutes",
    }
    if settings.tls_secret:
        variables |= {"CALIBDASK_TLS": _TLS_FOLDER, "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}
    return variables


def _tls(settings: KubernetesSettings) -> list[str]:
    if not settings.tls_secret:
        return []
    files = {"--tls-ca-file": AUTHORITY, "--tls-cert": CERTIFICATE, "--tls-key": KEY}
    return [word for option, name in files.items() for word in (option, f"{_TLS_FOLDER}/{name}")]


def _ports(ports: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports.items()]


def _probes(*, ready: bool = True) -> dict[str, Any]:
    """Commands inside the container, since the HTTP server listens on the loopback.

    Each starts an interpreter, which takes long on a node whose processors are busy. Startup may take ten minutes. A
    process that does not answer for three minutes, longer than the scheduler waits for a worker, is restarted.
    """
    probe = {"exec": {"command": [*_HEALTH, str(_HTTP_PORT)]}, "timeoutSeconds": 30}
    probes = {
        "startupProbe": {**probe, "periodSeconds": 5, "failureThreshold": 120},
        "livenessProbe": {**probe, "periodSeconds": 30, "failureThreshold": 6},
    }
    # No service routes to workers, so they need no readiness probe.
    return probes | ({"readinessProbe": {**probe, "periodSeconds": 5, "failureThreshold": 12}} if ready else {})

"""Kubernetes manifests of a Dask cluster, as plain data: Deployments, network policies, an account without rights.

``python -m calibdask.cluster.manifests`` writes those of the cluster described by Dask's configuration,
``python -m calibdask.cluster.manifests STUDY STORE [ARGUMENT ...]`` those of a study run on it, and the same with
``--shards N`` before STUDY those of N independent processes without a cluster.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibdask.cluster.kubernetes_settings import KubernetesSettings
from calibdask.cluster.pods import NANNY_PORT, WORKER_PORT, client_pod, scheduler_pod, shard_pod, worker_pod

Manifest = dict[str, Any]

# Exit statuses of calibdask run for bad use and for failed cells: a retry would change neither.
_BAD_USE, _FAILED_CELLS = 2, 3
_RETRIES = 6
# A lull between tasks should not remove workers.
_SCALE_DOWN_SECONDS = 300


def cluster(settings: KubernetesSettings) -> list[Manifest]:
    """A scheduler and its workers.

    Returns
    -------
    list of dict
        ServiceAccount and NetworkPolicies, a Deployment and a Service of the scheduler, a Deployment of the workers
        (and a HorizontalPodAutoscaler).

    Examples
    --------
    >>> settings = KubernetesSettings(image="calibdask:1.0.0rc1", tls_secret="calibdask-tls")
    >>> [manifest["kind"] for manifest in cluster(settings)[-3:]]
    ['Deployment', 'Service', 'Deployment']
    """
    return [_account(settings), *_policies(settings), *_scheduler(settings), *_workers(settings)]


def study_run(settings: KubernetesSettings, study: str, store: str, arguments: Sequence[str] = ()) -> list[Manifest]:
    """A cluster, and a Job that executes ``calibdask run`` on it.

    Parameters
    ----------
    settings : KubernetesSettings
        Settings of the cluster.
    study : str
        The study, as given to ``calibdask run``; it must be in the image.
    store : str
        The cube, at a location that all pods can reach, such as ``s3://...``.
    arguments : sequence of str
        Further arguments of ``calibdask run``.

    Returns
    -------
    list of dict
        Those of the cluster, which outlives the Job, and the Job.
    """
    command = ["calibdask", "run", study, "--store", store, "--cluster", settings.address]
    command += [*(["--insecure"] if settings.insecure else []), *arguments]
    pod = client_pod(settings, command)
    job = {
        "backoffLimit": _RETRIES,
        "podFailurePolicy": {"rules": [_EVICTED, _on_status("FailJob", _BAD_USE, _FAILED_CELLS)]},
        "template": _template(settings, "client", pod),
    }
    return [*cluster(settings), _job(settings, job)]


def sharded_run(
    settings: KubernetesSettings, study: str, store: str, shards: int, arguments: Sequence[str] = ()
) -> list[Manifest]:
    """An Indexed Job; each of its pods executes ``calibdask run --shard INDEX/COUNT``.

    There is no scheduler, and nothing listens: pods need neither certificates nor one another. As many pods
    run at a time as `settings` has workers; each has the size of a worker.

    Parameters
    ----------
    settings : KubernetesSettings
        Its TLS secret is not used.
    study, store, arguments
        As for `study_run`.
    shards : int
        Number of shards.

    Returns
    -------
    list of dict
        ServiceAccount, NetworkPolicy and Job.

    Raises
    ------
    ValueError
        If there is no shard.
    """
    if shards < 1:
        raise ValueError(f"--shards expects a number from 1 on, got {shards}.")
    settings = replace(settings, tls_secret="", insecure=True)
    command = ["calibdask", "run", study, "--store", store, "--shard", f"$(JOB_COMPLETION_INDEX)/{shards}"]
    command += ["--lay-out", "--cluster", f"threads:{settings.threads}", *arguments]
    job = {
        "completionMode": "Indexed",
        "completions": shards,
        "parallelism": min(shards, settings.workers),
        "backoffLimitPerIndex": _RETRIES,
        # Bad use is the same for all shards; the cells of others are computed although some have failed.
        "podFailurePolicy": {
            "rules": [_EVICTED, _on_status("FailJob", _BAD_USE), _on_status("FailIndex", _FAILED_CELLS)]
        },
        "template": _template(settings, "client", shard_pod(settings, command)),
    }
    return [_account(settings), _policy(settings, "client", []), _job(settings, job)]


# The eviction of a pod from its node does not count as an attempt.
_EVICTED: Manifest = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def _on_status(action: str, *statuses: int) -> Manifest:
    return {"action": action, "onExitCodes": {"containerName": "client", "operator": "In", "values": [*statuses]}}


def _job(settings: KubernetesSettings, spec: Manifest) -> Manifest:
    return _object(settings, "Job", "batch/v1", f"{settings.name}-run", spec, "client")


def _account(settings: KubernetesSettings) -> Manifest:
    return {**_object(settings, "ServiceAccount", "v1"), "automountServiceAccountToken": False}


def as_yaml(manifests: Sequence[Mapping[str, Any]]) -> str:
    """One YAML document per manifest, as read by ``kubectl apply -f``."""
    import json

    import yaml  # type: ignore[import-untyped]

    # Copies: PyYAML would write objects that occur more than once as anchors, which are unusual in manifests.
    return str(yaml.safe_dump_all(json.loads(json.dumps(manifests)), sort_keys=False, explicit_start=True, width=120))


def _labels(settings: KubernetesSettings, component: str = "") -> dict[str, str]:
    component_label = {"app.kubernetes.io/component": component} if component else {}
    return {"app.kubernetes.io/name": "calibdask", "app.kubernetes.io/instance": settings.name, **component_label}


def _object(
    settings: KubernetesSettings,
    kind: str,
    version: str,
    name: str = "",
    spec: Mapping[str, Any] | None = None,
    component: str = "",
) -> Manifest:
    metadata = {
        "name": name or settings.name,
        "namespace": settings.namespace,
        "labels": _labels(settings, component),
    }
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **({} if spec is None else {"spec": spec})}


def _template(settings: KubernetesSettings, component: str, pod: Manifest) -> Manifest:
    """A pod with its labels; the autoscaler of nodes may evict workers, but neither the scheduler nor the client."""
    metadata: Manifest = {"labels": _labels(settings, component)}
    if component != "worker":
        metadata["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    return {"metadata": metadata, "spec": pod}


def _policies(settings: KubernetesSettings) -> list[Manifest]:
    """Ingress rules: pods of this cluster reach its scheduler and workers; nothing reaches its clients.

    Egress is not restricted, because the addresses of object stores are not known here.
    """
    own_pods = [{"podSelector": {"matchLabels": _labels(settings)}}]
    clients = [{"podSelector": {"matchLabels": dict(settings.clients)}}] if settings.clients else []
    rules: dict[str, list[Any]] = {
        "scheduler": [{"from": [*own_pods, *clients], "ports": _tcp_ports(settings.PORT)}],
        "worker": [{"from": own_pods, "ports": _tcp_ports(WORKER_PORT, NANNY_PORT)}],
        "client": [],
    }
    return [_policy(settings, component, ingress) for component, ingress in rules.items()]


def _policy(settings: KubernetesSettings, component: str, ingress: Sequence[Any]) -> Manifest:
    spec = {
        "podSelector": {"matchLabels": _labels(settings, component)},
        "policyTypes": ["Ingress"],
        "ingress": list(ingress),
    }
    return _object(settings, "NetworkPolicy", "networking.k8s.io/v1", f"{settings.name}-{component}", spec, component)


def _tcp_ports(*ports: int) -> list[Manifest]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def _scheduler(settings: KubernetesSettings) -> list[Manifest]:
    name = f"{settings.name}-scheduler"
    labels = _labels(settings, "scheduler")
    deployment = {
        "replicas": 1,
        # Two schedulers at a time would split the workers between them.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": _template(settings, "scheduler", scheduler_pod(settings)),
    }
    port = {"name": "tcp-comm", "port": settings.PORT, "targetPort": "tcp-comm", "protocol": "TCP"}
    service = {"type": "ClusterIP", "selector": labels, "ports": [port]}
    return [
        _object(settings, "Deployment", "apps/v1", name, deployment, "scheduler"),
        _object(settings, "Service", "v1", name, service, "scheduler"),
    ]


def _workers(settings: KubernetesSettings) -> list[Manifest]:
    name = f"{settings.name}-worker"
    # The autoscaler owns the number of replicas: `kubectl apply` would reset it.
    replicas = {} if settings.autoscaling else {"replicas": settings.workers}
    deployment = {
        **replicas,
        "selector": {"matchLabels": _labels(settings, "worker")},
        "template": _template(settings, "worker", worker_pod(settings)),
    }
    manifests = [_object(settings, "Deployment", "apps/v1", name, deployment, "worker")]
    if settings.autoscaling:
        target = {"type": "Utilization", "averageUtilization": settings.autoscaling.cpu_percent}
        autoscaler = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": settings.autoscaling.minimum,
            "maxReplicas": settings.autoscaling.maximum,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": _SCALE_DOWN_SECONDS}},
        }
        manifests.append(_object(settings, "HorizontalPodAutoscaler", "autoscaling/v2", name, autoscaler, "worker"))
    return manifests


def _requested(arguments: Sequence[str]) -> list[Manifest]:
    shards, words = "", [*arguments]
    if words[:1] == ["--shards"]:
        shards, words = "".join(words[1:2]), words[2:]
        if not shards.isdecimal():
            raise ValueError(f"--shards expects a number from 1 on, got {shards!r}.")
    settings = KubernetesSettings.from_configuration(**({"tls_secret": "", "insecure": True} if shards else {}))
    if len(words) == 1 or (shards and not words):
        raise ValueError("expected [--shards N] STUDY STORE [ARGUMENT ...], or nothing for a cluster without a study.")
    if not words:
        return cluster(settings)
    study, store, *rest = words
    return sharded_run(settings, study, store, int(shards), rest) if shards else study_run(settings, study, store, rest)


def main(arguments: Sequence[str]) -> int:
    """Write manifests to standard output; the exit status is 2, with a message on standard error, if that fails."""
    try:
        manifests = _requested(arguments)
    except ValueError as error:
        sys.stderr.write(f"manifests: {error}\n")
        return 2
    sys.stdout.write(as_yaml(manifests))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

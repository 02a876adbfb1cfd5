"""Manifests of a cluster on Kubernetes, as plain data: with Deployments, or for Dask's operator.

Both have the same pods (`calibdask.cluster.pods`), the same network policies and an account without rights.

``python -m calibdask.cluster.manifests`` writes those of a cluster as Dask's configuration says it is to be, and
``python -m calibdask.cluster.manifests STUDY STORE [ARGUMENT ...]`` those of a study's run on it.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from calibdask.cluster.kubernetes_settings import KubernetesSettings
from calibdask.cluster.pods import HTTP_PORT, NANNY_PORT, WORKER_PORT, client_pod, scheduler_pod, worker_pod

__all__ = ["as_yaml", "client_labels", "cluster", "main", "study_run"]

Manifest = dict[str, Any]

_PART, _OPERATOR_API = "calibdask", "kubernetes.dask.org/v1"
# Of calibdask run: bad use, and finished with failed cells. Neither gets better when tried again.
_FINAL_STATUSES = [2, 3]
_TRIES = 6
# So that a lull between tasks does not throw workers away.
_SECONDS_BEFORE_FEWER = 300


def cluster(settings: KubernetesSettings) -> list[Manifest]:
    """A scheduler and its workers.

    Returns
    -------
    list of dict
        ServiceAccount and NetworkPolicies; with the operator DaskCluster (and DaskAutoscaler), otherwise a Deployment
        and a Service of the scheduler and a Deployment of the workers (and HorizontalPodAutoscaler).

    Examples
    --------
    >>> settings = KubernetesSettings(image="calibdask:0.1.0", tls_secret="calibdask-tls")
    >>> [manifest["kind"] for manifest in cluster(settings)[-3:]]
    ['Deployment', 'Service', 'Deployment']
    """
    if settings.operator:
        made = [_object(settings, "DaskCluster", _OPERATOR_API, spec=_dask_cluster(settings))]
        return [*_shared(settings), *made, *_dask_autoscaler(settings)]
    return [*_shared(settings), *_scheduler(settings), *_workers(settings)]


def study_run(settings: KubernetesSettings, study: str, store: str, arguments: Sequence[str] = ()) -> list[Manifest]:
    """A cluster, and ``calibdask run`` on it.

    The store must be one that the scheduler's, the workers' and the client's pods all reach, such as ``s3://...``.

    Parameters
    ----------
    settings : KubernetesSettings
        Of the cluster.
    study : str
        As ``calibdask run`` has it; in the image.
    store : str
        The cube.
    arguments : sequence of str
        Further arguments of ``calibdask run``.

    Returns
    -------
    list of dict
        With the operator a DaskJob, which is gone with its cluster when it is done; otherwise the cluster, which stays,
        and a Job.
    """
    command = ["calibdask", "run", study, "--store", store, "--cluster", settings.address]
    command += [*(["--insecure"] if settings.insecure else []), *arguments]
    pod = client_pod(settings, command)
    if settings.operator:
        job: Manifest = {"job": _made(settings, "job-runner", pod), "cluster": {"spec": _dask_cluster(settings)}}
        made = [_object(settings, "DaskJob", _OPERATOR_API, spec=job)]
        return [*_shared(settings), *made, *_dask_autoscaler(settings)]
    rules: list[Manifest] = [
        # A pod that its node gives up was no try.
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {
            "action": "FailJob",
            "onExitCodes": {"containerName": "client", "operator": "In", "values": _FINAL_STATUSES},
        },
    ]
    job = {
        "backoffLimit": _TRIES,
        "podFailurePolicy": {"rules": rules},
        "template": _made(settings, "client", pod),
    }
    return [*cluster(settings), _object(settings, "Job", "batch/v1", f"{settings.name}-run", job, "client")]


def client_labels(settings: KubernetesSettings) -> dict[str, str]:
    """What a pod in the same namespace must be labelled with to reach the cluster."""
    return _labels(settings, "job-runner" if settings.operator else "client")


def as_yaml(manifests: Sequence[Manifest]) -> str:
    """One YAML document for each, as ``kubectl apply -f`` reads them."""
    import json

    import yaml  # type: ignore[import-untyped]

    # Copies: YAML would write what stands in several places as anchors, which readers of manifests do not expect.
    return str(yaml.safe_dump_all(json.loads(json.dumps(manifests)), sort_keys=False, explicit_start=True, width=120))


def _labels(settings: KubernetesSettings, component: str = "") -> dict[str, str]:
    if settings.operator:
        # Those that the operator itself gives to the pods.
        component_label = {"dask.org/component": component} if component else {}
        return {"dask.org/cluster-name": settings.name, **component_label}
    component_label = {"app.kubernetes.io/component": component} if component else {}
    return {"app.kubernetes.io/name": _PART, "app.kubernetes.io/instance": settings.name, **component_label}


def _object(
    settings: KubernetesSettings,
    kind: str,
    version: str,
    name: str = "",
    spec: Mapping[str, Any] | None = None,
    component: str = "",
) -> Manifest:
    labels = {} if settings.operator else _labels(settings, component)
    metadata = {
        "name": name or settings.name,
        "namespace": settings.namespace,
        # The operator copies labels of its own objects to everything that it makes; here they tell where it is from.
        "labels": labels or {"app.kubernetes.io/name": _PART, "app.kubernetes.io/instance": settings.name},
    }
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **({} if spec is None else {"spec": spec})}


def _made(settings: KubernetesSettings, component: str, pod: Manifest) -> Manifest:
    """A pod and its labels; one on which all else depends is not moved to save nodes."""
    kept = {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}} if component != "worker" else {}
    labels = {} if settings.operator else {"labels": _labels(settings, component)}
    metadata = {"metadata": {**labels, **kept}} if labels or kept else {}
    return {**metadata, "spec": pod}


def _shared(settings: KubernetesSettings) -> list[Manifest]:
    account = {**_object(settings, "ServiceAccount", "v1"), "automountServiceAccountToken": False}
    return [account, *_policies(settings)]


def _policies(settings: KubernetesSettings) -> list[Manifest]:
    """Only pods of this cluster reach its scheduler and workers, and nobody its clients.

    What the pods reach themselves is not restricted: where object stores are, only their owner knows.
    """
    of_cluster = [{"podSelector": {"matchLabels": _labels(settings)}}]
    others = [{"podSelector": {"matchLabels": dict(settings.clients)}}] if settings.clients else []
    at_scheduler = [{"from": [*of_cluster, *others], "ports": _protected(settings.PORT)}]
    if settings.operator and settings.autoscaling:
        operator = {"kubernetes.io/metadata.name": settings.operator_namespace}
        at_scheduler.append(
            {"from": [{"namespaceSelector": {"matchLabels": operator}}], "ports": _protected(HTTP_PORT)}
        )
    at_workers = [{"from": of_cluster, "ports": _protected(WORKER_PORT, NANNY_PORT)}]
    rules: dict[str, list[Any]] = {"scheduler": at_scheduler, "worker": at_workers}
    rules["job-runner" if settings.operator else "client"] = []
    return [_policy(settings, component, each) for component, each in rules.items()]


def _policy(settings: KubernetesSettings, component: str, ingress: Sequence[Any]) -> Manifest:
    spec = {
        "podSelector": {"matchLabels": _labels(settings, component)},
        "policyTypes": ["Ingress"],
        "ingress": list(ingress),
    }
    return _object(settings, "NetworkPolicy", "networking.k8s.io/v1", f"{settings.name}-{component}", spec, component)


def _protected(*ports: int) -> list[Manifest]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def _scheduler(settings: KubernetesSettings) -> list[Manifest]:
    name = f"{settings.name}-scheduler"
    labels = _labels(settings, "scheduler")
    deployment = {
        "replicas": 1,
        # Two schedulers at a time would share the workers out between them.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": _made(settings, "scheduler", scheduler_pod(settings)),
    }
    return [
        _object(settings, "Deployment", "apps/v1", name, deployment, "scheduler"),
        _object(settings, "Service", "v1", name, _service(settings), "scheduler"),
    ]


def _service(settings: KubernetesSettings) -> Manifest:
    ports = {"tcp-comm": settings.PORT}
    if settings.operator and settings.autoscaling:
        ports["http-dashboard"] = HTTP_PORT
    return {
        "type": "ClusterIP",
        "selector": _labels(settings, "scheduler"),
        "ports": [{"name": each, "port": port, "targetPort": each, "protocol": "TCP"} for each, port in ports.items()],
    }


def _workers(settings: KubernetesSettings) -> list[Manifest]:
    name = f"{settings.name}-worker"
    # With an autoscaler the number is its own: each `kubectl apply` would set it back.
    replicas = {} if settings.autoscaling else {"replicas": settings.workers}
    deployment = {
        **replicas,
        "selector": {"matchLabels": _labels(settings, "worker")},
        "template": _made(settings, "worker", worker_pod(settings)),
    }
    made = [_object(settings, "Deployment", "apps/v1", name, deployment, "worker")]
    if settings.autoscaling:
        target = {"type": "Utilization", "averageUtilization": settings.autoscaling.cpu_percent}
        scaled = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": settings.autoscaling.minimum,
            "maxReplicas": settings.autoscaling.maximum,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": _SECONDS_BEFORE_FEWER}},
        }
        made.append(_object(settings, "HorizontalPodAutoscaler", "autoscaling/v2", name, scaled, "worker"))
    return made


def _dask_cluster(settings: KubernetesSettings) -> Manifest:
    scheduler = {**_made(settings, "scheduler", scheduler_pod(settings)), "service": _service(settings)}
    worker = {"replicas": settings.workers, **_made(settings, "worker", worker_pod(settings))}
    return {"worker": worker, "scheduler": scheduler}


def _dask_autoscaler(settings: KubernetesSettings) -> list[Manifest]:
    if settings.autoscaling is None:
        return []
    limits = {"minimum": settings.autoscaling.minimum, "maximum": settings.autoscaling.maximum}
    return [_object(settings, "DaskAutoscaler", _OPERATOR_API, spec={"cluster": settings.name, **limits})]


def main(arguments: Sequence[str]) -> int:
    """Write manifests to standard output; exit status 2 with a word on standard error if there are none."""
    try:
        settings = KubernetesSettings.from_configuration()
        if len(arguments) == 1:
            raise ValueError("expected STUDY STORE [ARGUMENT ...], or nothing for a cluster without a study.")
        manifests = study_run(settings, arguments[0], arguments[1], arguments[2:]) if arguments else cluster(settings)
    except ValueError as error:
        sys.stderr.write(f"manifests: {error}\n")
        return 2
    sys.stdout.write(as_yaml(manifests))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

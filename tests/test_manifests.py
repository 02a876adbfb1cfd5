"""Manifests for Kubernetes: taken by its schemas and by the operator's, as secure as they are said to be."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
import yaml

from calibdask.cluster.kubernetes_settings import Autoscaling, KubernetesSettings, Resources
from calibdask.cluster.manifests import as_yaml, client_labels, cluster, main, study_run
from tests.kubernetes_schemas import newest_versions, validate, validate_for_operator

pytestmark = pytest.mark.deploy
FOLDER = Path(__file__).parent.parent / "deploy" / "kubernetes"
STUDY, STORE = "experiments/ece_benchmark", "s3://calibration/ece_benchmark.zarr"

IMAGE: dict[str, Any] = {"image": "registry.example/calibdask:0.1.0"}
SAFE = IMAGE | {"tls_secret": "calibdask-tls"}
SCALED = {"autoscaling": Autoscaling(minimum=1, maximum=20)}
OPERATED = {"operator": True, "operator_namespace": "dask-operator"}
FULL = {
    "name": "trial",
    "namespace": "calibration",
    "store_secret": "calibdask-store",
    "pull_secret": "registry",
    "clients": {"app": "jupyter"},
    "environment": {"AWS_DEFAULT_REGION": "eu-central-1"},
    "worker": Resources(cpu="1500m", memory="6Gi", cpu_limit="2"),
}
VARIANTS = {
    "plain": SAFE,
    "scaled": SAFE | SCALED,
    "full": SAFE | FULL,
    "insecure": IMAGE | {"insecure": True},
    "operator": SAFE | {"operator": True},
    "operator-scaled": SAFE | SCALED | OPERATED,
    "operator-full": SAFE | FULL | {"operator": True},
    "operator-insecure": IMAGE | {"insecure": True, "operator": True},
}


def pods(manifests: Any) -> Iterator[dict[str, Any]]:
    """All pods that are in them, at any depth."""
    if isinstance(manifests, list):
        for each in manifests:
            yield from pods(each)
    elif isinstance(manifests, dict):
        if "containers" in manifests:
            yield manifests
        yield from pods([*manifests.values()])


def containers(manifests: Any) -> Iterator[dict[str, Any]]:
    for pod in pods(manifests):
        yield from [*pod["containers"], *pod.get("initContainers", [])]


@pytest.fixture(params=VARIANTS)
def settings(request: pytest.FixtureRequest) -> KubernetesSettings:
    return KubernetesSettings(**VARIANTS[request.param])


@pytest.mark.parametrize("version", newest_versions() or [None])
def test_schemas_take_them(settings: KubernetesSettings, version: str | None) -> None:
    if version is None:
        pytest.skip("kubernetes-validate is not installed")
    for manifest in [*study_run(settings, STUDY, STORE), *cluster(settings)]:
        validate(manifest, version)


@pytest.mark.parametrize("version", newest_versions() or [None])
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "replicas"), "two"),
        (("spec", "repplicas"), 2),
        (("spec", "template", "spec", "containers", 0, "imag"), "calibdask"),
        (("spec", "template", "spec", "containers", 0, "livenessProbe", "failureThreshold"), "often"),
        (("spec", "template", "spec", "securityContext", "runAsNonRooot"), True),
    ],
)
def test_schemas_refuse_errors(version: str | None, path: tuple[Any, ...], value: Any) -> None:
    validating = pytest.importorskip("kubernetes_validate")
    deployment = next(each for each in cluster(KubernetesSettings(**SAFE)) if each["kind"] == "Deployment")
    _put(deployment, path, value)
    with pytest.raises(validating.ValidationError):
        validate(deployment, str(version))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "worker", "replicas"), "two"),
        (("spec", "worker", "replica"), 2),
        (("spec", "worker", "spec", "containers", 0, "imag"), "calibdask"),
        (("spec", "scheduler", "service"), None),
        (("spec", "scheduler", "spec", "containers", 0, "readinessProbe", "periodSeconds"), "often"),
    ],
)
def test_the_operator_refuses_errors(path: tuple[Any, ...], value: Any) -> None:
    schema = pytest.importorskip("jsonschema")
    (dask_cluster,) = (each for each in cluster(KubernetesSettings(**SAFE, operator=True)) if "Dask" in each["kind"])
    validate_for_operator(dask_cluster)
    _put(dask_cluster, path, value)
    with pytest.raises(schema.ValidationError):
        validate_for_operator(dask_cluster)


def _put(manifest: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        manifest = manifest[key]
    manifest[path[-1]] = value


def test_pods_are_confined(settings: KubernetesSettings) -> None:
    manifests = study_run(settings, STUDY, STORE)
    for pod in pods(manifests):
        context = pod["securityContext"]
        assert context["runAsNonRoot"]
        assert context["runAsUser"] >= 1000
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert pod["serviceAccountName"] == settings.name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert {name for volume in pod["volumes"] for name in volume} <= {"name", "emptyDir", "secret"}
    for container in containers(manifests):
        context = container["securityContext"]
        assert context == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        resources = container["resources"]
        assert set(resources["requests"]) == set(resources["limits"]) == {"cpu", "memory"}
        assert container["image"] == settings.image
        assert "stdin" not in container
    (account,) = (each for each in manifests if each["kind"] == "ServiceAccount")
    assert account["automountServiceAccountToken"] is False


def test_commands_are_explicit_and_secure(settings: KubernetesSettings) -> None:
    commands = {each["name"]: each["command"] for each in containers(study_run(settings, STUDY, STORE))}
    assert commands["scheduler"][:2] == ["dask", "scheduler"]
    assert commands["worker"][:3] == ["dask", "worker", settings.address]
    assert commands["client"][:2] == ["calibdask", "run"]
    assert settings.address in commands["client"]
    assert settings.address.startswith("tcp" if settings.insecure else "tls")
    for name in ("scheduler", "worker"):
        assert ("--tls-ca-file" in commands[name]) == ("--tls-key" in commands[name]) == (not settings.insecure)
        assert "--no-dashboard" in commands[name]
        asked = name == "scheduler" and settings.operator and settings.autoscaling
        listening = commands[name][commands[name].index("--dashboard-address") + 1]
        assert listening == (":8787" if asked else "127.0.0.1:8787")
    assert ("--insecure" in commands["client"]) == settings.insecure


def test_only_the_cluster_reaches_the_cluster(settings: KubernetesSettings) -> None:
    manifests = study_run(settings, STUDY, STORE)
    policies = {each["metadata"]["name"]: each["spec"] for each in manifests if each["kind"] == "NetworkPolicy"}
    client = "job-runner" if settings.operator else "client"
    assert set(policies) == {f"{settings.name}-{each}" for each in ("scheduler", "worker", client)}
    assert policies[f"{settings.name}-{client}"]["ingress"] == []
    for spec in policies.values():
        assert spec["policyTypes"] == ["Ingress"]
        for rule in spec["ingress"]:
            assert rule["from"]
            assert rule["ports"]
            for each in rule["from"]:
                assert set(each) <= {"podSelector", "namespaceSelector"}
                assert next(iter(each.values()))["matchLabels"]
    assert set(client_labels(settings).items()) >= set(
        policies[f"{settings.name}-scheduler"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"].items()
    )
    asked = [rule for rule in policies[f"{settings.name}-scheduler"]["ingress"] if rule["ports"][0]["port"] == 8787]
    assert bool(asked) == bool(settings.operator and settings.autoscaling)
    if settings.operator:
        return
    # Labels and selectors meet: each policy finds the pods that it is for.
    made = {each["metadata"]["name"]: each["spec"] for each in manifests if each["kind"] in ("Deployment", "Job")}
    for component, name in {"scheduler": "scheduler", "worker": "worker", "client": "run"}.items():
        labels = made[f"{settings.name}-{name}"]["template"]["metadata"]["labels"]
        assert policies[f"{settings.name}-{component}"]["podSelector"]["matchLabels"] == labels


def test_the_scheduler_has_no_credentials_of_the_store() -> None:
    manifests = study_run(KubernetesSettings(**SAFE, store_secret="calibdask-store"), STUDY, STORE)
    assert {each["name"] for each in containers(manifests) if "envFrom" in each} == {"worker", "client"}


def test_the_job_is_tried_again_unless_in_vain() -> None:
    job = study_run(KubernetesSettings(**SAFE), STUDY, STORE)[-1]["spec"]
    assert job["backoffLimit"] > 0
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    (failing,) = (rule for rule in job["podFailurePolicy"]["rules"] if rule["action"] == "FailJob")
    assert failing["onExitCodes"] == {"containerName": "client", "operator": "In", "values": [2, 3]}


@pytest.mark.parametrize(
    ("name", "changes"),
    [("plain", {}), ("operator", SCALED | OPERATED)],
)
def test_examples_are_what_is_rendered(name: str, changes: dict[str, Any]) -> None:
    configured = yaml.safe_load((FOLDER / "dask.yaml").read_text(encoding="utf-8"))
    with dask.config.set(configured):
        settings = KubernetesSettings.from_configuration(**changes)
    rendered = as_yaml(study_run(settings, STUDY, STORE))
    text = (FOLDER / "examples" / f"{name}.yaml").read_text(encoding="utf-8")
    assert [*yaml.safe_load_all(text)] == study_run(settings, STUDY, STORE)
    assert text.partition("---\n")[2] == rendered.partition("---\n")[2]


def test_rendering_from_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    with dask.config.set({"calibdask.kubernetes": {"image": "calibdask:0.1.0", "tls-secret": "calibdask-tls"}}):
        assert main([STUDY, STORE, "--set", "seeds=3"]) == 0
        job = [*yaml.safe_load_all(capsys.readouterr().out)][-1]
        assert job["spec"]["template"]["spec"]["containers"][0]["command"][-2:] == ["--set", "seeds=3"]
        assert main([]) == 0
        assert "kind: Job" not in capsys.readouterr().out
        assert main([STUDY]) == 2
        assert "expected STUDY STORE" in capsys.readouterr().err
    assert main([]) == 2
    assert "expects calibdask.kubernetes.image in Dask's configuration" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "expects calibdask.kubernetes.image in Dask's configuration"),
        ({"imag": "x", "image": "x"}, "calibdask.kubernetes has no imag; it has image, name,"),
        ({"image": "x", "tls-secret": "t", "worker": {"gpu": 1}}, r"calibdask.kubernetes.worker has no gpu"),
        ({"image": "x", "tls-secret": "t", "workers": "two"}, "calibdask.kubernetes.workers expects int, got 'two'"),
        ({"image": "x", "tls-secret": "t", "workers": True}, "calibdask.kubernetes.workers expects int, got True"),
        ({"image": "x", "tls-secret": "t", "operator": "yes"}, "operator expects bool, got 'yes'"),
        ({"image": "x", "tls-secret": "t", "environment": ["A"]}, "environment expects names and values"),
        ({"image": "x", "tls-secret": "t", "worker": {"memory": "4 GB"}}, "memory expects a quantity such as"),
        ({"image": "x"}, "tls_secret expects the name of a secret with certificates"),
        ({"image": "x", "tls-secret": "t", "insecure": True}, "insecure expects no tls_secret"),
        ({"image": "x", "tls-secret": "t", "name": "Trial"}, "name expects at most 30"),
        ({"image": "x", "tls-secret": "t", "name": "n" * 31}, "name expects at most 30"),
        ({"image": "x", "tls-secret": "T_"}, "tls_secret expects the name of a secret"),
        ({"image": "x", "tls-secret": "t", "user": 0}, "user that is not root"),
        ({"image": "x", "tls-secret": "t", "workers": 0}, "workers and threads expect at least 1"),
        ({"image": "x", "tls-secret": "t", "autoscaling": {"minimum": 4, "maximum": 2}}, "minimum <= maximum"),
        ({"image": "x", "tls-secret": "t", "autoscaling": {"minimum": 3}}, "workers expects a number between those of"),
        ({"image": "x", "tls-secret": "t", "pull-policy": "Sometimes"}, "pull_policy expects one of Always"),
        ({"image": "x", "tls-secret": "t", "operator": True, "autoscaling": {}}, "operator_namespace expects"),
        ("x", "calibdask.kubernetes expects keys and values, got 'x'"),
    ],
)
def test_bad_configurations_are_refused(given: Any, message: str) -> None:
    with dask.config.set({"calibdask.kubernetes": given}), pytest.raises(ValueError, match=message):
        KubernetesSettings.from_configuration()


def test_configurations_may_write_numbers() -> None:
    given = {
        "image": "x",
        "tls_secret": "t",
        "worker": {"cpu": 2, "memory-limit": "8Gi"},
        "autoscaling": {"maximum": 5},
    }
    with dask.config.set({"calibdask.kubernetes": given}):
        settings = KubernetesSettings.from_configuration()
    assert settings.worker.manifest == {
        "requests": {"cpu": "2", "memory": "4Gi"},
        "limits": {"cpu": "2", "memory": "8Gi"},
    }
    assert settings.autoscaling == Autoscaling(maximum=5)

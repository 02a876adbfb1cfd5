"""Manifests for Kubernetes: valid against its schemas, and as secure as documented."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
import yaml

from calibdask.cluster import health
from calibdask.cluster.kubernetes_settings import Autoscaling, KubernetesSettings, Resources
from calibdask.cluster.manifests import as_yaml, cluster, main, sharded_run, study_run
from tests.clusters.kubernetes_schemas import newest_versions, validate

pytestmark = pytest.mark.deploy
FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
STUDY, STORE = "experiments/ece_benchmark", "s3://calibration/ece_benchmark.zarr"

IMAGE: dict[str, Any] = {"image": "registry.example/calibdask:1.0.0rc1"}
SAFE = IMAGE | {"tls_secret": "calibdask-tls"}
SCALED = {"autoscaling": Autoscaling(minimum=1, maximum=20)}
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
}


def pods(manifests: Any) -> Iterator[dict[str, Any]]:
    """All pods that are in them, at any depth."""
    if isinstance(manifests, list):
        for manifest in manifests:
            yield from pods(manifest)
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
    for manifest in [*study_run(settings, STUDY, STORE), *sharded_run(settings, STUDY, STORE, 100)]:
        validate(manifest, version)
    for name in ("role.yaml", "role-helm.yaml"):
        validate(yaml.safe_load((FOLDER / name).read_text(encoding="utf-8")), version)


def permissions(rules: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


def test_the_guide_names_the_permissions_of_the_roles() -> None:
    """Each table of objects and verbs is that of a file, which the live tests apply."""
    text = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    tables = re.findall(r"\| objects \| verbs \|.*\n\|[-|]+\n((?:\|.*\n)+)", text)
    assert len(tables) == 2
    found = []
    for table in tables:
        named = set()
        for row in table.splitlines():
            objects, verbs = (cell.split(";") for cell in row.split("|")[1:3])
            for some, their in zip(objects, verbs, strict=True):
                named |= {(one.strip().lower(), verb.strip()) for one in some.split(",") for verb in their.split(",")}
        found.append(named)
    # In the order of the guide: Helm comes first.
    for named, name in zip(found, ("role-helm.yaml", "role.yaml"), strict=True):
        assert named == permissions(yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))["rules"]), name


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
    deployment = next(manifest for manifest in cluster(KubernetesSettings(**SAFE)) if manifest["kind"] == "Deployment")
    _put(deployment, path, value)
    with pytest.raises(validating.ValidationError):
        validate(deployment, str(version))


def _put(manifest: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        manifest = manifest[key]
    manifest[path[-1]] = value


@pytest.mark.parametrize("sharded", [False, True])
def test_pods_are_confined(settings: KubernetesSettings, sharded: bool) -> None:
    manifests = sharded_run(settings, STUDY, STORE, 100) if sharded else study_run(settings, STUDY, STORE)
    for pod in pods(manifests):
        context = pod["securityContext"]
        assert context["runAsNonRoot"]
        assert context["runAsUser"] >= 1000
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert pod["serviceAccountName"] == settings.name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        # A container whose process were the first one would ignore TERM until it handles it.
        assert pod["shareProcessNamespace"] is True
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
    (account,) = (manifest for manifest in manifests if manifest["kind"] == "ServiceAccount")
    assert account["automountServiceAccountToken"] is False


def test_commands_are_explicit_and_secure(settings: KubernetesSettings) -> None:
    commands = {container["name"]: container["command"] for container in containers(study_run(settings, STUDY, STORE))}
    assert commands["scheduler"][:2] == ["dask", "scheduler"]
    assert commands["worker"][:3] == ["dask", "worker", settings.address]
    assert commands["client"][:2] == ["calibdask", "run"]
    assert settings.address in commands["client"]
    assert settings.address.startswith("tcp" if settings.insecure else "tls")
    for name in ("scheduler", "worker"):
        assert ("--tls-ca-file" in commands[name]) == ("--tls-key" in commands[name]) == (not settings.insecure)
        assert "--no-dashboard" in commands[name]
        listening = commands[name][commands[name].index("--dashboard-address") + 1]
        assert listening == "127.0.0.1:8787"
    assert ("--insecure" in commands["client"]) == settings.insecure


def test_only_the_cluster_reaches_the_cluster(settings: KubernetesSettings) -> None:
    manifests = study_run(settings, STUDY, STORE)
    policies = {
        manifest["metadata"]["name"]: manifest["spec"] for manifest in manifests if manifest["kind"] == "NetworkPolicy"
    }
    assert set(policies) == {f"{settings.name}-{component}" for component in ("scheduler", "worker", "client")}
    assert policies[f"{settings.name}-client"]["ingress"] == []
    for spec in policies.values():
        assert spec["policyTypes"] == ["Ingress"]
        for rule in spec["ingress"]:
            assert rule["from"]
            assert rule["ports"]
            assert all(peer["podSelector"]["matchLabels"] and len(peer) == 1 for peer in rule["from"])
    admitted = policies[f"{settings.name}-scheduler"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    # Labels and selectors meet: each policy finds the pods that it is for.
    made = {
        manifest["metadata"]["name"]: manifest["spec"]
        for manifest in manifests
        if manifest["kind"] in ("Deployment", "Job")
    }
    for component, name in {"scheduler": "scheduler", "worker": "worker", "client": "run"}.items():
        labels = made[f"{settings.name}-{name}"]["template"]["metadata"]["labels"]
        assert policies[f"{settings.name}-{component}"]["podSelector"]["matchLabels"] == labels
        assert admitted.items() <= labels.items()


def test_the_scheduler_has_no_credentials_of_the_store() -> None:
    manifests = study_run(KubernetesSettings(**SAFE, store_secret="calibdask-store"), STUDY, STORE)
    assert {container["name"] for container in containers(manifests) if "envFrom" in container} == {"worker", "client"}


def test_the_job_is_tried_again_unless_in_vain() -> None:
    job = study_run(KubernetesSettings(**SAFE), STUDY, STORE)[-1]["spec"]
    assert job["backoffLimit"] > 0
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    (failing,) = (rule for rule in job["podFailurePolicy"]["rules"] if rule["action"] == "FailJob")
    assert failing["onExitCodes"] == {"containerName": "client", "operator": "In", "values": [2, 3]}


def test_shards_need_no_cluster() -> None:
    settings = KubernetesSettings(**SAFE, store_secret="calibdask-store", workers=8, threads=2)
    account, policy, job = sharded_run(settings, STUDY, STORE, 100, ["--set", "seeds=3"])
    assert [account["kind"], policy["kind"], job["kind"]] == ["ServiceAccount", "NetworkPolicy", "Job"]
    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 100, 8)
    (container,) = containers(job)
    assert "initContainers" not in spec["template"]["spec"]
    assert container["command"][:2] == ["calibdask", "run"]
    assert "$(JOB_COMPLETION_INDEX)/100" in container["command"]
    # Only variables that are declared are replaced in commands.
    assert "JOB_COMPLETION_INDEX" in {variable["name"] for variable in container["env"]}
    assert container["command"][-4:] == ["--cluster", "threads:2", "--set", "seeds=3"]
    assert container["resources"] == settings.worker.manifest
    # Nothing listens.
    assert policy["spec"]["ingress"] == []
    assert [*spec["template"]["spec"]["volumes"]] == [{"name": "scratch", "emptyDir": {"sizeLimit": "4Gi"}}]
    actions = {rule["action"]: rule["onExitCodes"]["values"] for rule in spec["podFailurePolicy"]["rules"][1:]}
    assert actions == {"FailJob": [2], "FailIndex": [3]}
    # Of fewer shards than workers there are no more pods at a time.
    assert sharded_run(settings, STUDY, STORE, 3)[-1]["spec"]["parallelism"] == 3


def test_probes_leave_room_for_busy_nodes() -> None:
    for container in containers(cluster(KubernetesSettings(**SAFE))):
        probes = {name: container[name] for name in container if name.endswith("Probe")}
        assert {probe["timeoutSeconds"] for probe in probes.values()} == {30}
        # Until a process is restarted that has not started, or has stopped answering.
        seconds = {name: probe["periodSeconds"] * probe["failureThreshold"] for name, probe in probes.items()}
        assert seconds["startupProbe"] == 600
        assert seconds["livenessProbe"] == 180
        # Longer than the probe itself waits for an answer.
        assert health._TIMEOUT < 30


def test_the_module_is_run_without_warnings() -> None:
    """Which Python prints if the package has imported the module before."""
    command = [sys.executable, "-W", "error", "-m", "calibdask.cluster.manifests"]
    configured = {"DASK_CALIBDASK__KUBERNETES__IMAGE": "x", "DASK_CALIBDASK__KUBERNETES__INSECURE": "True"}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | configured, check=True)
    assert done.stderr == ""
    assert "kind: Deployment" in done.stdout


def test_the_configuration_in_the_repository_is_rendered() -> None:
    with dask.config.set(yaml.safe_load((FOLDER / "dask.yaml").read_text(encoding="utf-8"))):
        settings = KubernetesSettings.from_configuration()
    manifests = study_run(settings, STUDY, STORE)
    assert settings.store_secret == "calibdask-store"
    # Without anchors, which readers of manifests do not expect.
    assert "&id" not in as_yaml(manifests)
    assert [*yaml.safe_load_all(as_yaml(manifests))] == manifests


def test_rendering_from_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    with dask.config.set({"calibdask.kubernetes": {"image": "calibdask:1.0.0rc1", "tls-secret": "calibdask-tls"}}):
        assert main([STUDY, STORE, "--set", "seeds=3"]) == 0
        job = [*yaml.safe_load_all(capsys.readouterr().out)][-1]
        assert job["spec"]["template"]["spec"]["containers"][0]["command"][-2:] == ["--set", "seeds=3"]
        assert main([]) == 0
        assert "kind: Job" not in capsys.readouterr().out
        assert main(["--shards", "100", STUDY, STORE, "--set", "seeds=3"]) == 0
        job = [*yaml.safe_load_all(capsys.readouterr().out)][-1]
        assert job["spec"]["completions"] == 100
        assert job["spec"]["template"]["spec"]["containers"][0]["command"][-2:] == ["--set", "seeds=3"]
        for arguments in ([STUDY], ["--shards", "3"], ["--shards", "3", STUDY]):
            assert main(arguments) == 2
            assert "expected [--shards N] STUDY STORE" in capsys.readouterr().err
        for arguments in (["--shards"], ["--shards", STUDY, STORE], ["--shards", "0", STUDY, STORE]):
            assert main(arguments) == 2
            assert "--shards expects a number from 1 on" in capsys.readouterr().err
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
        ({"image": "x", "insecure": "yes"}, "calibdask.kubernetes.insecure expects bool, got 'yes'"),
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
        (
            {"image": "x", "tls-secret": "t", "autoscaling": {"minimum": 3}},
            "workers expects a number between the bounds",
        ),
        ({"image": "x", "tls-secret": "t", "pull-policy": "Sometimes"}, "pull_policy expects one of Always"),
        ({"image": "x", "tls-secret": "t", "operator": True}, "calibdask.kubernetes has no operator"),
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

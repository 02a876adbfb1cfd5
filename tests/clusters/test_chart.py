"""The Helm chart: rendered, it is what the manifests are."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from calibdask.cluster.kubernetes_settings import Autoscaling, KubernetesSettings, Resources
from calibdask.cluster.manifests import cluster, sharded_run, study_run
from tests.clusters.kubernetes_schemas import newest_versions, validate

helm = pytest.importorskip("helm_python", reason="helm-python-sdk is not installed")

pytestmark = pytest.mark.deploy
CHART = Path(__file__).parents[2] / "deploy" / "helm" / "calibdask"
STUDY, STORE = "experiments/ece_benchmark", "s3://calibration/ece_benchmark.zarr"

SAFE: dict[str, Any] = {"tls": {"secret": "calibdask-tls"}}
JOB: dict[str, Any] = {"job": {"enabled": True, "study": STUDY, "store": STORE, "arguments": ["--set", "preset=quick"]}}
SCALED: dict[str, Any] = {"autoscaling": {"enabled": True, "minimum": 2, "maximum": 20}}
FULL: dict[str, Any] = {
    "store": {"secret": "calibdask-store"},
    "image": {
        "repository": "registry.example/calibdask",
        "tag": "1.0",
        "pullPolicy": "Always",
        "pullSecret": "registry",
    },
    "worker": {
        "replicas": 5,
        "threads": 3,
        "resources": {"requests": {"cpu": "3", "memory": "6Gi"}, "limits": {"cpu": "4", "memory": "8Gi"}},
    },
    "networkPolicy": {"clients": {"app": "jupyter"}},
    "environment": {"AWS_DEFAULT_REGION": "eu-central-1"},
    "scratch": "20Gi",
}
FULL_SETTINGS: dict[str, Any] = {
    "store_secret": "calibdask-store",
    "image": "registry.example/calibdask:1.0",
    "pull_policy": "Always",
    "pull_secret": "registry",
    "workers": 5,
    "threads": 3,
    "worker": Resources(cpu="3", memory="6Gi", cpu_limit="4", memory_limit="8Gi"),
    "clients": {"app": "jupyter"},
    "environment": {"AWS_DEFAULT_REGION": "eu-central-1"},
    "scratch": "20Gi",
}
SCALED_SETTINGS: dict[str, Any] = {"autoscaling": Autoscaling(minimum=2, maximum=20)}
INSECURE: dict[str, Any] = {"tls": {"insecure": True}}

SHARDED: dict[str, Any] = {"job": {**JOB["job"], "shards": 40}}

CASES = {
    "cluster": (SAFE, {}),
    "job": (SAFE | JOB, {}),
    "scaled": (SAFE | SCALED | JOB, SCALED_SETTINGS),
    "full": (SAFE | FULL | JOB, FULL_SETTINGS),
    "insecure": (INSECURE | JOB, {"insecure": True, "tls_secret": ""}),
    "sharded": (FULL | SHARDED, FULL_SETTINGS),
    "sharded, with a secret": (SAFE | SHARDED, {}),
}


def rendered(values: dict[str, Any], name: str = "trial") -> list[dict[str, Any]]:
    """All documents of the chart with these values."""
    files = helm.Chart.load(str(CHART)).render(values, name=name, namespace="calibration")
    documents = [
        document for path, text in files.items() if path.endswith(".yaml") for document in yaml.safe_load_all(text)
    ]
    return [document for document in documents if document is not None]


def keyed(manifests: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Without the labels by which Helm knows its own objects; variables by name, since their order is of no account."""
    by_key = {}
    for manifest in copy.deepcopy(manifests):
        labels = manifest["metadata"]["labels"]
        for name in ("helm.sh/chart", "app.kubernetes.io/managed-by"):
            labels.pop(name, None)
        if manifest["kind"] == "Job":
            # The chart adds a digest, since Helm cannot change a Job.
            manifest["metadata"]["name"] = re.sub("-run-[0-9a-f]{8}$", "-run", manifest["metadata"]["name"])
        by_key[manifest["kind"], manifest["metadata"]["name"]] = by_name(manifest)
    return by_key


def by_name(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: by_name(item) for key, item in value.items()}
    if isinstance(value, list) and all(isinstance(item, dict) and "name" in item for item in value):
        return {item["name"]: by_name(item) for item in value}
    return [by_name(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", CASES)
def test_it_renders_the_manifests(case: str) -> None:
    values, changes = CASES[case]
    given = {"image": "calibdask:1.0.0rc1", "name": "trial", "namespace": "calibration", "tls_secret": "calibdask-tls"}
    settings = KubernetesSettings(**given | changes)
    run = (STUDY, STORE, ["--set", "preset=quick"])
    wanted = study_run(settings, *run) if "job" in values else cluster(settings)
    if shards := values.get("job", {}).get("shards"):
        wanted = sharded_run(settings, *run[:2], shards, run[2])
    rendered_by_name, wanted_by_name = keyed(rendered(values)), keyed(wanted)
    assert set(rendered_by_name) == set(wanted_by_name)
    for key, manifest in wanted_by_name.items():
        assert rendered_by_name[key] == manifest, key


@pytest.mark.parametrize("version", newest_versions() or [None])
@pytest.mark.parametrize("case", CASES)
def test_schemas_take_it(case: str, version: str | None) -> None:
    if version is None:
        pytest.skip("kubernetes-validate is not installed")
    for manifest in rendered(CASES[case][0]):
        validate(manifest, version)


@pytest.mark.parametrize("case", CASES)
def test_lint(case: str) -> None:
    report = helm.lint(str(CHART), CASES[case][0], strict=True, namespace="calibration")
    assert report["total_charts_linted"] == 1
    # That a chart has no icon is information (1), and all the linter has to say.
    assert [message for message in report["messages"] if message["severity"] > 1] == []
    assert report["errors"] == []


def test_notes() -> None:
    notes = [
        "".join(
            text for path, text in helm.Chart.load(str(CHART)).render(values, name="trial").items() if "NOTES" in path
        )
        for values in (SAFE, SAFE | JOB, INSECURE, SHARDED | {"tls": {"insecure": True}})
    ]
    assert "--cluster tls://127.0.0.1:8786 --tls FOLDER" in notes[0]
    assert f"logs --follow job/{job_name(SAFE | JOB)}\n" in notes[1]
    assert "WITHOUT TLS" in notes[2]
    assert "trial computes 40 shards, 2 at a time." in notes[3]
    assert "WITHOUT TLS" not in notes[3]


def job_name(values: dict[str, Any]) -> str:
    (name,) = (document["metadata"]["name"] for document in rendered(values) if document["kind"] == "Job")
    return str(name)


def test_upgrades_change_jobs() -> None:
    """A Job that is changed is another one, which Helm creates; one that is not is left as it is."""
    before = job_name(SAFE | JOB)
    assert re.fullmatch("trial-run-[0-9a-f]{8}", before)
    assert job_name(SAFE | JOB | {"worker": {"replicas": 9}}) == before
    changes: list[dict[str, Any]] = [
        {"job": {**JOB["job"], "arguments": ["--set", "preset=full"]}},
        {"job": {**JOB["job"], "store": "s3://calibration/other.zarr"}},
        {"job": {**JOB["job"], "shards": 3}},
        {"image": {"tag": "2.0"}},
        {"environment": {"OPENBLAS_CORETYPE": "Haswell"}},
    ]
    names = {before, *(job_name(SAFE | JOB | change) for change in changes)}
    assert len(names) == 1 + len(changes)


def test_upgrades_of_the_number_of_workers_leave_shards_running() -> None:
    """Of a Job only the number of pods at a time may be changed, which Kubernetes does while it runs."""
    before, after = (
        next(one for one in rendered(SHARDED | INSECURE | {"worker": {"replicas": number}}) if one["kind"] == "Job")
        for number in (2, 9)
    )
    assert (before["spec"].pop("parallelism"), after["spec"].pop("parallelism")) == (2, 9)
    assert before == after
    assert before["metadata"]["name"] == job_name(SHARDED | INSECURE)
    for changes in ({"worker": {"threads": 2}}, {"job": {**SHARDED["job"], "shards": 41}}):
        assert job_name(SHARDED | INSECURE | changes) != before["metadata"]["name"]


def test_pods_go_where_they_are_told() -> None:
    placed = {
        "nodeSelector": {"pool": "work"},
        "tolerations": [{"key": "work", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "networkPolicy": {"enabled": False},
    }
    documents = rendered(SAFE | placed)
    assert "NetworkPolicy" not in {document["kind"] for document in documents}
    for document in documents:
        if document["kind"] == "Deployment":
            pod = document["spec"]["template"]["spec"]
            assert {name: pod[name] for name in ("nodeSelector", "tolerations", "affinity")} == {
                name: placed[name] for name in ("nodeSelector", "tolerations", "affinity")
            }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "tls.secret expects the name of a secret with certificates"),
        (SAFE | {"tls": {"secret": "calibdask-tls", "insecure": True}}, "leave out one of the two"),
        (SAFE | {"worker": {"replica": 3}}, "replica"),
        (SAFE | {"worker": {"replicas": "three"}}, "replicas"),
        (SAFE | {"wrokers": {}}, "wrokers"),
        (SAFE | {"podSecurityContext": {"runAsNonRoot": False}}, "runAsNonRoot"),
        (SAFE | {"job": {"enabled": True, "store": STORE}}, "job.study expects a study"),
        (SAFE | {"job": {"enabled": True, "study": STUDY}}, "job.store expects the cube"),
    ],
)
def test_bad_values_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        rendered(values)


def test_long_names_are_refused() -> None:
    with pytest.raises(Exception, match="at most 30 letters"):
        rendered(SAFE, name="n" * 31)

"""What Kubernetes and Dask's operator accept, offline: schemas that packages ship, with unknown keys refused."""

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

OPERATOR_GROUP = "kubernetes.dask.org/"
NEWEST = 3


def newest_versions() -> list[str]:
    """The three newest versions of Kubernetes whose schemas are there; empty without the package."""
    spec = find_spec("kubernetes_validate")
    if spec is None or spec.origin is None:
        return []
    from kubernetes_validate.version import __version__ as newest

    major, minor, *_ = newest.split(".")
    return [f"{major}.{int(minor) - older}" for older in range(NEWEST)]


def validate(manifest: dict[str, Any], version: str) -> None:
    """Raise if Kubernetes, or the operator, would not take it."""
    if manifest["apiVersion"].startswith(OPERATOR_GROUP):
        validate_for_operator(manifest)
        return
    import kubernetes_validate

    kubernetes_validate.validate(manifest, version, strict=True)


def validate_for_operator(manifest: dict[str, Any]) -> None:
    """Raise jsonschema's ValidationError if it is not as the operator's own definitions say."""
    pytest.importorskip("jsonschema")
    _validator(manifest["kind"]).validate(manifest)


@cache
def _validator(kind: str) -> Any:
    from jsonschema import Draft202012Validator

    spec = find_spec("dask_kubernetes")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("dask-kubernetes, which has the operator's definitions, is not installed")
    folder = Path(spec.submodule_search_locations[0]) / "operator/deployment/helm/dask-kubernetes-operator/crds"
    definition = yaml.safe_load((folder / f"{kind.lower()}.yaml").read_text(encoding="utf-8"))
    (version,) = definition["spec"]["versions"]
    schema = _closed(version["schema"]["openAPIV3Schema"])
    schema["properties"] |= {"apiVersion": {"const": f"{OPERATOR_GROUP}{version['name']}"}, "kind": {"const": kind}}
    schema["properties"]["metadata"] = {"type": "object"}
    schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
    return Draft202012Validator(schema)


def _closed(schema: Any) -> Any:
    """The same, in JSON Schema: keys that are not known are refused."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    closed = {key: value if key in ("enum", "required") else _closed(value) for key, value in schema.items()}
    known = isinstance(schema.get("properties"), dict)
    if known and not schema.get("x-kubernetes-preserve-unknown-fields") and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return json.loads(json.dumps(closed))

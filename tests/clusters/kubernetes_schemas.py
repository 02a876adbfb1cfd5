"""Validation of manifests against the schemas of Kubernetes, offline; unknown keys are refused."""

from importlib.util import find_spec
from typing import Any

NEWEST = 3


def newest_versions() -> list[str]:
    """The three newest versions of Kubernetes whose schemas are installed; empty without the package."""
    spec = find_spec("kubernetes_validate")
    if spec is None or spec.origin is None:
        return []
    from kubernetes_validate.version import __version__ as newest

    major, minor, *_ = newest.split(".")
    return [f"{major}.{int(minor) - older}" for older in range(NEWEST)]


def validate(manifest: dict[str, Any], version: str) -> None:
    """Raise if Kubernetes would refuse the manifest."""
    import kubernetes_validate

    kubernetes_validate.validate(manifest, version, strict=True)

"""Versions of Python and packages, which must be the same in this process and on all workers."""

import platform
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

# Packages that numbers, or their transport between processes, depend on.
COMPUTING = ("calibdask", "dask", "distributed", "numba", "numpy", "scipy", "scikit-learn", "xarray", "zarr")


def installed(packages: Iterable[str] = COMPUTING) -> dict[str, str]:
    """Versions of Python and of packages."""
    return {"python": platform.python_version(), **{package: _version(package) for package in packages}}


@cache
def _version(package: str) -> str:
    """Cached, because every task on a worker asks."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def version_mismatch(here: Mapping[str, str], there: Mapping[str, str], where: str) -> str:
    """A message that names all differences; empty where there are none."""
    pairs = [
        f"{name} {there.get(name)} there and {here[name]} here"
        for name in here
        if _compared(name, there.get(name)) != _compared(name, here[name])
    ]
    return f"The worker {where} has other versions: {', '.join(pairs)}. Install the same on both." if pairs else ""


def check_versions(client: Any) -> None:
    """Raise ValueError if the versions of a connected worker differ from those of this process."""
    here = installed()
    for where, there in client.run(installed, on_error="return").items():
        if isinstance(there, BaseException):
            raise ValueError(f"The worker {where} cannot report its versions: {there}. Install calibdask there.")
        if problem := version_mismatch(here, there, where):
            raise ValueError(problem)


def _compared(name: str, version: str | None) -> Any:
    """Of Python major and minor only: patch releases change neither numbers nor pickles."""
    return version.split(".")[:2] if name == "python" and version else version

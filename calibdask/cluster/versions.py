"""Which versions compute: the same here and on all workers, or none do."""

import platform
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

__all__ = ["COMPUTING", "check_versions", "installed", "unlike"]

# What numbers, or their way between processes, depend on.
COMPUTING = ("calibdask", "dask", "distributed", "numba", "numpy", "scipy", "scikit-learn", "xarray", "zarr")


def installed(packages: Iterable[str] = COMPUTING) -> dict[str, str]:
    """Versions of Python and of packages, as far as they are there."""
    return {"python": platform.python_version(), **{package: _version(package) for package in packages}}


@cache
def _version(package: str) -> str:
    """Looked for once a process: every task on a worker asks."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def unlike(here: Mapping[str, str], there: Mapping[str, str], where: str) -> str:
    """A sentence on all that differs; empty where nothing does."""
    pairs = [
        f"{name} {there.get(name)} there and {here[name]} here"
        for name in here
        if _compared(name, there.get(name)) != _compared(name, here[name])
    ]
    return f"The worker {where} has other versions: {', '.join(pairs)}. Install the same on both." if pairs else ""


def check_versions(client: Any) -> None:
    """Raise ValueError if a worker that is there has other versions than this process."""
    here = installed()
    for where, there in client.run(installed, on_error="return").items():
        if isinstance(there, BaseException):
            raise ValueError(f"The worker {where} cannot tell its versions: {there}. Install calibdask there.")
        if problem := unlike(here, there, where):
            raise ValueError(problem)


def _compared(name: str, version: str | None) -> Any:
    """Of Python major and minor only: its patches change neither numbers nor what travels."""
    return version.split(".")[:2] if name == "python" and version else version

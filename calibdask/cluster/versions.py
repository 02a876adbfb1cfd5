"""Versions of Python, packages and BLAS kernels, which must agree wherever one result is computed."""

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


@cache
def blas_kernels() -> str:
    """The libraries that multiply matrices in this process, and the processor whose instructions each of them uses.

    With other kernels products are rounded differently. So models that are trained on other processors differ, and with
    them what is estimated of the models; metrics of given scores do not. ``OPENBLAS_CORETYPE=Haswell`` in the
    environment of all processes makes OpenBLAS use the same kernels on all processors of x86-64 since 2013.
    """
    # Libraries are found once they are loaded: NumPy and SciPy have one each.
    import numpy  # noqa: F401
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    parts = ("internal_api", "version", "architecture")
    return ", ".join(sorted({" ".join(str(library.get(part) or "") for part in parts) for library in libraries}))


def other_kernels(here: str, there: str, where: str) -> str:
    """Message if a worker's BLAS kernels differ from the cube's; empty otherwise."""
    if there == here:
        return ""
    return (
        f"The worker {where} has other BLAS kernels: {there} there, and {here} where other cells are computed. Models "
        "that are trained with other kernels differ slightly. Set OPENBLAS_CORETYPE=Haswell in the environment of all "
        "workers (deploy/README.md, BLAS kernels), or use nodes with equal processors."
    )


def version_mismatch(here: Mapping[str, str], there: Mapping[str, str], where: str) -> str:
    """A message that names all differences; empty where there are none."""
    pairs = [
        f"{name} {there.get(name)} there and {here[name]} here"
        for name in here
        if _compared(name, there.get(name)) != _compared(name, here[name])
    ]
    return f"The worker {where} has other versions: {', '.join(pairs)}. Install the same on both." if pairs else ""


def check_versions(client: Any) -> None:
    """Raise ValueError if a connected worker has versions that differ from this process."""
    here = installed()
    for where, there in client.run(installed, on_error="return").items():
        if isinstance(there, BaseException):
            raise ValueError(f"The worker {where} cannot report its versions: {there}. Install calibdask there.")
        if problem := version_mismatch(here, there, where):
            raise ValueError(problem)


def _compared(name: str, version: str | None) -> Any:
    """Of Python major and minor only: patch releases change neither numbers nor pickles."""
    return version.split(".")[:2] if name == "python" and version else version

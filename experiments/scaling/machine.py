"""The machine and the versions used for the measurements."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from experiments.scaling.peers import PACKAGES

_TOOLS = ("calibdask", "numpy", "scipy", "numba", "dask", "zarr", *PACKAGES.values())


def surroundings(clock: str, rounds: int) -> dict[str, str | int]:
    """Machine, versions, clock and number of rounds."""
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {_memory()}",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": ", ".join(f"{name} {number}" for name in _TOOLS if (number := _version(name))),
        "clock": {"cores": "CPU seconds of all threads", "wall": "elapsed seconds"}[clock],
        "rounds": rounds,
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"


def _memory() -> str:
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""

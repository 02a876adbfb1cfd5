"""Races as a Dataset, a Markdown table and a page; and on what machine they were run."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from experiments.scaling.peers import LEFT_OUT, PACKAGES, missing

__all__ = ["markdown", "surroundings", "write"]

_TOOLS = ("calibdask", "numpy", "scipy", "numba", "dask", "zarr", *PACKAGES.values())


def surroundings(clock: str, rounds: int) -> dict[str, Any]:
    """Machine, versions, and who could not take part."""
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {_memory()}",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": ", ".join(f"{name} {number}" for name in _TOOLS if (number := _version(name))),
        "missing": ", ".join(missing()) or "none",
        "left out": f"{', '.join(LEFT_OUT)} (minutes a call)",
        "clock": {"cores": "seconds of all cores", "wall": "seconds that went by"}[clock],
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


_COLUMNS = ("ms", "ns a unit", "ratio", "goal")
# What goals are given in.
_UNITS = {"ratio": (1, " x"), "nanoseconds": (1, " ns"), "seconds": (1e3, " ms")}


def markdown(result: xr.Dataset) -> str:
    """All races as tables, with where they were run."""
    lines = [f"- {name}: {value}" for name, value in result.attrs.items()]
    lines += ["", "Medians; ratios are medians of those within a round, smallest and largest in brackets.", ""]
    for race in result.race.values.tolist():
        one = result.sel(race=race).dropna("entrant", subset=["seconds"])
        lines += [f"### {race}", "", f"| | {' | '.join(_COLUMNS)} |", "|---" * (len(_COLUMNS) + 1) + "|"]
        lines += [f"| {name} | {' | '.join(_cells(one.sel(entrant=name)))} |" for name in one.entrant.values.tolist()]
        lines += [""]
    return "\n".join(lines)


def _cells(one: xr.Dataset) -> tuple[str, ...]:
    """What stands in the columns for one entrant."""
    seconds, unit, ratio, low, high, goal = (
        float(one[name]) for name in ("seconds", "nanoseconds", "ratio", "ratio_low", "ratio_high", "goal")
    )
    measure = one.measure.item()
    found = float(one[measure])
    factor, sign = _UNITS[measure]
    aim = "" if goal != goal else f"{goal * factor:g}{sign}: {'met' if found <= goal else 'missed'}"
    return f"{seconds * 1e3:.4g}", f"{unit:.3g}", f"{ratio:.3g} [{low:.3g}, {high:.3g}]", aim


def write(result: xr.Dataset, folder: Path) -> None:
    """``results.nc``, ``results.md`` and ``index.html``."""
    folder.mkdir(parents=True, exist_ok=True)
    result.to_netcdf(folder / "results.nc", engine="scipy")
    (folder / "results.md").write_text(markdown(result), encoding="utf-8")
    rows = {
        (race, name): _cells(result.sel(race=race, entrant=name))
        for race in result.race.values.tolist()
        for name in result.sel(race=race).dropna("entrant", subset=["seconds"]).entrant.values.tolist()
    }
    about = "".join(f"<li>{name}: {value}</li>" for name, value in result.attrs.items())
    places = pd.MultiIndex.from_tuples(list(rows), names=["race", "entrant"])
    table = pd.DataFrame(list(rows.values()), places, list(_COLUMNS)).to_html()
    page = f"<!doctype html><meta charset='utf-8'><title>Races</title><ul>{about}</ul>{table}"
    (folder / "index.html").write_text(page, encoding="utf-8")

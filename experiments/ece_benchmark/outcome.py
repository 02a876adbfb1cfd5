"""The outcome of the benchmark: a summary of its cubes, tables, the claims of the paper, a page and figures."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import xarray as xr

import calibdask as cd
from calibdask.storage.atomic_replace import atomic_replacement, write_text
from calibdask.study.cube import Cube
from calibdask.study.fingerprint import differences
from experiments.ece_benchmark import claims, figures, tables
from experiments.ece_benchmark.summaries import KEPT, LEVEL, combined, summarised

_STUDY, _MEANS = "EceBenchmark", "means"
_BAD = 2


def summary_of(paths: Sequence[str]) -> xr.Dataset:
    """The summary of some cubes, or one that was written before.

    Raises
    ------
    ValueError
        If something is no cube of the benchmark, or cubes differ in more than their means, or not in these.
    """
    if len(paths) == 1 and paths[0].endswith(".nc"):
        return _written(paths[0])
    # All of them before the first is summarised, which takes minutes.
    chosen: dict[str, tuple[str, dict[str, Any]]] = {}
    for path in paths:
        parameters = _parameters(path)
        means = str(parameters.pop(_MEANS))
        if means in chosen:
            raise ValueError(f"{path} has the same means as {chosen[means][0]}: {means}.")
        for other, known in chosen.values():
            if unlike := "; ".join(differences(known, parameters)):
                raise ValueError(f"{path} and {other} (there) differ in more than their means: {unlike}.")
        chosen[means] = path, parameters
    parts = {}
    for means, (path, parameters) in chosen.items():
        part = summarised(cd.open_cube(path), kept=KEPT, level=parameters.get("level", LEVEL))
        parts[means] = claims.with_stability(part)
    return combined(parts).assign_attrs(study=_STUDY)


def _parameters(path: str) -> dict[str, Any]:
    """The parameters of a cube of the benchmark."""
    fingerprint = Cube(path).fingerprint
    if fingerprint.get("study") != _STUDY or _MEANS not in fingerprint.get("parameters", {}):
        raise ValueError(f"{path} is a cube of the study {fingerprint.get('study')}, expected one of {_STUDY}.")
    return dict(fingerprint["parameters"])


def _written(path: str) -> xr.Dataset:
    """A summary that was written before."""
    try:
        summary = xr.load_dataset(path, engine="scipy")
    except TypeError as error:
        raise ValueError(f"{path} is no NetCDF file: {error}") from error
    if summary.attrs.get("study") != _STUDY:
        raise ValueError(f"{path} is no summary of cubes of {_STUDY}, or one of an earlier version.")
    return summary


def main(arguments: Sequence[str] | None = None) -> int:
    """Write everything into a folder, and say how far the cubes are; 0 done, 2 bad input, told in a line on stderr."""
    parser = argparse.ArgumentParser("python -m experiments.ece_benchmark.outcome", description=__doc__)
    parser.add_argument("cubes", nargs="+", metavar="CUBE", help="cubes of the study; or one summary.nc of before")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    chosen = parser.parse_args(arguments)
    try:
        summary = summary_of(chosen.cubes)
        chosen.out.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        print(f"{parser.prog}: {' '.join(str(error).split())}", file=sys.stderr)
        return _BAD
    with atomic_replacement(chosen.out / "summary.nc") as part:
        summary.to_netcdf(part, engine="scipy")
    write_text(chosen.out / "results.md", tables.markdown(summary))
    write_text(chosen.out / "claims.md", claims.markdown(summary))
    figures.save_all(figures.pictures(summary), chosen.out)
    print("\n".join(tables.told_cells(summary)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

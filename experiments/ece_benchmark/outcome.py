"""The outcome of the benchmark: a small summary of its cubes, tables, the paper's claims, a page and pictures."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import xarray as xr

import calibdask as cd
from calibdask.study.cube import Cube
from experiments.ece_benchmark import claims, figures, tables
from experiments.ece_benchmark.summaries import combined, summarised

__all__ = ["main", "summary_of"]


def summary_of(paths: Sequence[str]) -> xr.Dataset:
    """The summary of some cubes, or one that was written before."""
    if len(paths) == 1 and paths[0].endswith(".nc"):
        return xr.load_dataset(paths[0], engine="scipy")
    parts: dict[str, xr.Dataset] = {}
    for path in paths:
        means = str(Cube(path).fingerprint["parameters"]["means"])
        if means in parts:
            raise ValueError(f"{path} has the same means as a cube before it: {means}.")
        parts[means] = summarised(cd.open_cube(path))
    return combined(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write everything into a folder, and say how far the cubes are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cubes", nargs="+", metavar="CUBE", help="cubes of the study; or one summary.nc of before")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    chosen = parser.parse_args(arguments)
    summary = summary_of(chosen.cubes)
    chosen.out.mkdir(parents=True, exist_ok=True)
    summary.to_netcdf(chosen.out / "summary.nc", engine="scipy")
    (chosen.out / "results.md").write_text(tables.markdown(summary), encoding="utf-8")
    (chosen.out / "claims.md").write_text(claims.markdown(summary), encoding="utf-8")
    figures.save_all(figures.pictures(summary), chosen.out)
    print("\n".join(tables.told_cells(summary)))


if __name__ == "__main__":
    main()

"""The outcome of the studies of recalibration: summaries of their cubes, tables, published orderings and figures."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import xarray as xr

import calibdask as cd
from calibdask.storage.atomic_replace import atomic_replacement, write_text
from calibdask.study.cube import Cube
from experiments.recalibration import figures, tables
from experiments.recalibration.summaries import of_known_truth, of_real_models

# The file of the summary of each study.
_FILES = {"Recalibration": "truth.nc", "RealModels": "models.nc"}
_SUMMARISED = {"Recalibration": of_known_truth, "RealModels": of_real_models}
_BAD = 2


def summaries_of(paths: Sequence[str]) -> dict[str, xr.Dataset]:
    """The summaries of cubes, or ones that were written before, by the name of the study.

    Raises
    ------
    ValueError
        If something is no cube or summary of these studies, or there are two of one.
    """
    found: dict[str, xr.Dataset] = {}
    for path in paths:
        if path.endswith(".nc"):
            summary = xr.load_dataset(path, engine="scipy")
            study = summary.attrs.get("study")
        else:
            study = Cube(path).fingerprint.get("study")
            summary = _SUMMARISED[study](cd.open_cube(path)) if study in _FILES else xr.Dataset()
        if study not in _FILES or study in found:
            raise ValueError(f"Expected one cube or summary of {' and one of '.join(_FILES)}, got {study} in {path}.")
        found[study] = summary.assign_attrs(study=study)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Write everything into a folder; 0 done, 2 bad input, told in a line on stderr."""
    parser = argparse.ArgumentParser("python -m experiments.recalibration.outcome", description=__doc__)
    parser.add_argument("cubes", nargs="+", metavar="CUBE", help="cubes of the studies, or summaries of before")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    chosen = parser.parse_args(arguments)
    try:
        found = summaries_of(chosen.cubes)
        chosen.out.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        print(f"{parser.prog}: {' '.join(str(error).split())}", file=sys.stderr)
        return _BAD
    for study, summary in found.items():
        with atomic_replacement(chosen.out / _FILES[study]) as part:
            summary.to_netcdf(part, engine="scipy")
    truth, real = found.get("Recalibration"), found.get("RealModels")
    lines = ["# Recalibration: which calibrator to trust at which number of rows", ""]
    lines += tables.known_truth(truth) if truth is not None else []
    lines += tables.real_models(real) if real is not None else []
    write_text(chosen.out / "results.md", "\n".join(lines))
    write_text(chosen.out / "claims.md", "\n".join(tables.claims(truth, real)))
    if truth is not None:
        figures.save_all(truth, chosen.out)
        print("\n".join(f"{size:,} rows: {name}" for size, name in tables.best_by_size(truth).items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

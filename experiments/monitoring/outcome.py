"""The outcome of the study of watching: a summary of its cube, tables and figures."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import xarray as xr

import calibdask as cd
from calibdask.storage.atomic_replace import atomic_replacement, write_text
from calibdask.study.cube import Cube
from experiments.monitoring import figures, tables
from experiments.monitoring.summaries import of_monitoring

_STUDY = "Monitoring"
_BAD = 2


def summary_at(path: str) -> xr.Dataset:
    """The summary of a cube, or one that was written before.

    Raises
    ------
    ValueError
        If this is no cube or summary of the study, or nothing of it is done.
    """
    if path.endswith(".nc"):
        summary = xr.load_dataset(path, engine="scipy")
        study = summary.attrs.get("study")
    else:
        fingerprint = Cube(path).fingerprint
        study = fingerprint.get("study")
        parameters = fingerprint.get("parameters", {})
        summary = of_monitoring(cd.open_cube(path), parameters) if study == _STUDY else xr.Dataset()
    if study != _STUDY:
        raise ValueError(f"Expected a cube or a summary of {_STUDY}, got {study} in {path}.")
    if not summary.attrs["cells_done"]:
        raise ValueError(f"No cell of {path} is done; run the study first.")
    return summary.assign_attrs(study=study)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write everything into a folder; 0 done, 2 bad input, told in a line on stderr."""
    parser = argparse.ArgumentParser("python -m experiments.monitoring.outcome", description=__doc__)
    parser.add_argument("cube", metavar="CUBE", help="the cube of the study, or a summary of before")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    chosen = parser.parse_args(arguments)
    try:
        summary = summary_at(chosen.cube)
        chosen.out.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        print(f"{parser.prog}: {' '.join(str(error).split())}", file=sys.stderr)
        return _BAD
    with atomic_replacement(chosen.out / "summary.nc") as part:
        summary.to_netcdf(part, engine="scipy")
    write_text(chosen.out / "results.md", "\n".join(tables.results(summary)))
    figures.save_all(summary, chosen.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())

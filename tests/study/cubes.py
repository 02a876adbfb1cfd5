"""Cubes of the sample study and what tells them apart."""

from pathlib import Path

import xarray as xr

import calibdask as cd

NAME = "tests.study.sample_study:Walks"


def cube_of(path: Path) -> xr.Dataset:
    return cd.open_cube(str(path)).load()


def computed(log: Path) -> list[str]:
    return [line.rsplit(" ", 1)[0] for line in log.read_text().splitlines()] if log.exists() else []


def same_cubes(a: xr.Dataset, b: xr.Dataset) -> None:
    """Bit for bit, NaN and all."""
    xr.testing.assert_identical(a.drop_attrs(), b.drop_attrs())
    for name in ("end", "path", "longest"):
        assert a[name].values.tobytes() == b[name].values.tobytes()


def raise_it(error: BaseException) -> None:
    raise error


LENGTHS = tuple(range(2, 9))

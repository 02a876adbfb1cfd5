"""A cube with a failed cell."""

import pytest
import xarray as xr

import calibdask as cd
from tests.explore.explored_study import Estimates


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A cube of nine cells, of which one has failed."""
    path = tmp_path_factory.mktemp("cubes") / "estimates.zarr"
    assert cd.run(Estimates(broken="linear"), path).failed == 1
    return str(path)


@pytest.fixture
def cube(store: str) -> xr.Dataset:
    return cd.open_cube(store)

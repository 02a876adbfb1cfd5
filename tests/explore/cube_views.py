"""A view of the cube of `explored_study`, and the same by xarray."""

import warnings

import xarray as xr

from calibdask.explore.cubes.aggregates import Step
from calibdask.explore.cubes.views import CubeView, Reference

L1 = Reference("truth", (("norm", "l1"),))
FIGURE = CubeView(
    "estimate",
    "size",
    ("estimator",),
    (),
    (Step("quantile", ("replicate",), 0.95), Step("median", ("model", "draw"))),
    reference=L1,
)


def whole(cube: xr.Dataset, norm: str = "l1") -> xr.DataArray:
    """Absolute errors, all of them in memory."""
    error = abs(cube.load().estimate.astype(float) - cube.truth.sel(norm=norm, drop=True))
    return error.where(cube.status == 1)


def quantiles(values: xr.DataArray, share: float, dims: tuple[str, ...]) -> xr.DataArray:
    """Of values that there are; NumPy warns where there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return values.quantile(share, dims, skipna=True).drop_vars("quantile")

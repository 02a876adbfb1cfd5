"""Aggregates of views are those of NumPy."""

import numpy as np
import pytest
import xarray as xr

from calibdask.explore.cubes.aggregates import HOWS, Step, aggregated, described
from tests.explore.cube_views import FIGURE


def by_numpy(how: str, values: np.ndarray, number: float) -> float:
    """One number of values without NaN."""
    if not values.size:
        return np.nan
    return {
        "median": lambda: np.median(values),
        "mean": lambda: values.mean(),
        "quantile": lambda: np.quantile(values, number),
        "standard deviation": lambda: values.std(ddof=1) if values.size > 1 else np.nan,
        "root mean square": lambda: np.sqrt((values**2).mean()),
        "smallest": lambda: values.min(),
        "largest": lambda: values.max(),
        "share at most": lambda: (values <= number).mean(),
    }[how]()


@pytest.mark.parametrize("how", HOWS)
def test_aggregates_are_those_of_numpy(how: str) -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(4, 3, 5, 2)).round(1)
    values[random.random(values.shape) < 0.3] = np.nan
    values[0, 0] = np.nan
    values[1, 0, 1:] = np.nan
    result = aggregated(xr.DataArray(values, dims=("a", "b", "c", "d")), Step(how, ("b", "d"), 0.37))
    assert result.dims == ("a", "c")
    for a in range(4):
        for c in range(5):
            group = values[a, :, c].ravel()
            expected = by_numpy(how, group[~np.isnan(group)], 0.37)
            np.testing.assert_allclose(result.values[a, c], expected, rtol=1e-12)


def test_aggregates_of_infinite_values() -> None:
    values = xr.DataArray([[1.0, 2.0, np.inf], [np.inf, np.inf, np.inf]], dims=("a", "b"))
    assert aggregated(values, Step("median", ("b",))).values.tolist() == [2.0, np.inf]
    assert aggregated(values, Step("largest", ("b",))).values.tolist() == [np.inf, np.inf]


@pytest.mark.parametrize("share", [-0.05, 1.05])
def test_quantiles_are_shares(share: float) -> None:
    with pytest.raises(ValueError, match="a number from 0 to 1"):
        aggregated(xr.DataArray([1.0, 2.0], dims="draw"), Step("quantile", ("draw",), share))


def test_the_order_of_steps_is_told() -> None:
    assert FIGURE.text() == (
        "|estimate − truth (norm l1)|: 95th percentile over replicate, then median over model, draw"
    )
    assert described(FIGURE.steps[::-1]) == "median over model, draw, then 95th percentile over replicate"

"""The ways in which dimensions are aggregated: one number out of many."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from calibdask.study.quantiles import quantiles

Values = np.ndarray[Any, np.dtype[np.float64]]

NUMBERED = {"quantile": "quantile (0 to 1)", "share at most": "limit"}


@dataclass(frozen=True)
class Step:
    """An aggregation of some dimensions at once.

    Parameters
    ----------
    how : str
        One of `HOWS`.
    dims : tuple of str
    number : float
        The quantile, or the limit of "share at most".

    Examples
    --------
    >>> Step("quantile", ("replicate",), 0.95).text()
    '95th percentile over replicate'
    >>> Step("share at most", ("set", "batch"), 0.05).text()
    'share at most 0.05 over set, batch'
    """

    how: str
    dims: tuple[str, ...]
    number: float = 0.5

    def text(self) -> str:
        """Description of the step with its dimensions."""
        return f"{self.name} over {', '.join(self.dims)}"

    @property
    def name(self) -> str:
        """Description of the step without its dimensions."""
        if self.how == "quantile":
            return percentile_text(self.number)
        return f"{self.how} {self.number:g}" if self.how in NUMBERED else self.how


def percentile_text(share: float) -> str:
    """The name of a quantile.

    Examples
    --------
    >>> percentile_text(0.95), percentile_text(0.025), percentile_text(0.11), percentile_text(0.01)
    ('95th percentile', '2.5th percentile', '11th percentile', '1st percentile')
    """
    number = f"{100 * share:g}"
    last = (
        "th"
        if "." in number or number[-2:] in ("11", "12", "13")
        else {"1": "st", "2": "nd", "3": "rd"}.get(number[-1], "th")
    )
    return f"{number}{last} percentile"


def aggregated(values: xr.DataArray, step: Step) -> xr.DataArray:
    """Values with the dimensions of a step aggregated; NaN are ignored, where there are others.

    Examples
    --------
    >>> values = xr.DataArray([[1.0, 2.0], [4.0, np.nan]], dims=("model", "replicate"))
    >>> aggregated(values, Step("largest", ("replicate",))).values
    array([2., 4.])
    """
    numbers, coords, kept = _flattened(values, step.dims)
    return xr.DataArray(HOWS[step.how](numbers, step.number), coords, kept)


def spread(values: xr.DataArray, dims: Sequence[str], shares: Sequence[float]) -> list[xr.DataArray]:
    """Several quantiles over dimensions at once, each as `aggregated` gives it.

    Examples
    --------
    >>> values = xr.DataArray([[1.0, 2.0], [4.0, np.nan]], dims=("model", "replicate"))
    >>> [quantile.values.tolist() for quantile in spread(values, ("replicate",), (0.0, 1.0))]
    [[1.0, 4.0], [2.0, 4.0]]
    """
    numbers, coords, kept = _flattened(values, dims)
    return [xr.DataArray(values_of_share, coords, kept) for values_of_share in quantiles(numbers, shares)]


def _flattened(
    values: xr.DataArray, dims: Sequence[str]
) -> tuple[Values, dict[Hashable, xr.DataArray], list[Hashable]]:
    """All numbers over some dimensions along the last axis; coordinates and names of the others."""
    kept = [dim for dim in values.dims if dim not in dims]
    ordered = values.transpose(*kept, *dims)
    shape = ordered.shape[: len(kept)]
    numbers = ordered.values.astype(np.float64).reshape(*shape, int(np.prod(ordered.shape[len(kept) :], dtype=int)))
    return numbers, {dim: values.coords[dim] for dim in kept if dim in values.coords}, kept


def _quantile(values: Values, share: float) -> Values:
    return quantiles(values, (share,))[0]


def _mean(values: Values) -> Values:
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(known, values, 0).sum(-1) / known.sum(-1)


def _deviation(values: Values) -> Values:
    """Of a sample: NaN for a single value."""
    known = ~np.isnan(values)
    number = known.sum(-1)
    squares = np.where(known, (values - _mean(values)[..., None]) ** 2, 0).sum(-1)
    return np.sqrt(squares / np.where(number > 1, number - 1, np.nan))


def _share(values: Values, limit: float) -> Values:
    return _mean(np.where(np.isnan(values), np.nan, values <= limit))


# Each takes values along the last axis, and the number of the step.
HOWS: dict[str, Callable[[Values, float], Values]] = {
    "median": lambda values, _: _quantile(values, 0.5),
    "mean": lambda values, _: _mean(values),
    "quantile": _quantile,
    "standard deviation": lambda values, _: _deviation(values),
    "root mean square": lambda values, _: np.sqrt(_mean(values**2)),
    "smallest": lambda values, _: _quantile(values, 0.0),
    "largest": lambda values, _: _quantile(values, 1.0),
    "share at most": _share,
}


def described(steps: Sequence[Step]) -> str:
    """All steps in their order, as text.

    Examples
    --------
    >>> described([Step("quantile", ("replicate",), 0.95), Step("median", ("draw", "model"))])
    '95th percentile over replicate, then median over draw, model'
    """
    return ", then ".join(step.text() for step in steps)

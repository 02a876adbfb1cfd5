"""Slices in the order of how bad they are."""

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.estimators.checks import check_whole
from calibdask.results.values import Results
from calibdask.safe_text import listed, visible

__all__ = ["worst_order", "worst_slices", "worst_strata"]

Array = npt.NDArray[np.float64]

_SHOWN = ("low", "high", "pvalue", "pvalue_holm", "pvalue_bh")


def worst_order(values: Array, low: Array | None = None) -> npt.NDArray[np.int64]:
    """Positions of the slices that have a value, the worst first: by the lower ends, without them by the values.

    Slices whose lower end is not known come after those where it is.

    Examples
    --------
    >>> worst_order(np.array([0.1, 0.3, np.nan, 0.2]), np.array([0.05, np.nan, np.nan, 0.01])).tolist()
    [0, 3, 1]
    """
    # Stable for equal keys; NaN comes last.
    order = np.lexsort((-values, -(values if low is None else low)))
    return order[np.isfinite(values[order])]


def worst_slices(result: xr.Dataset, metric: str, n: int = 10) -> xr.Dataset:
    """The slices where a number is largest, the worst first.

    Parameters
    ----------
    result : xarray.Dataset
        What `calibdask.evaluate` or `calibdask.compare` gave, with ``by``. Other dimensions than those of slices, such
        as models, must have been selected away.
    metric : str
        Name of a variable, such as ``"ece"`` or ``"brier_score_difference"``; not that of an end of an interval.
    n : int, default 10
        Number of slices at most.

    Returns
    -------
    xarray.Dataset
        The variable, and what belongs to it (``_low``, ``_high``, ``_pvalue``, ...), along the dimension ``slice``,
        with the labels of the slices as coordinates.

    Raises
    ------
    ValueError
        If there is no such variable, or it is a bound of another one, if it has no slices, or dimensions beside them.

    Notes
    -----
    With intervals (``ci``), slices are in the order of the lower end: how bad they are for certain. By the values alone
    small slices would come first, whose estimates are the noisiest. Slices without a value are left out.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> scores, day = rng.random(3000), rng.choice(["mon", "tue", "wed"], 3000)
    >>> labels = (rng.random(3000) < np.where(day == "tue", scores**3, scores)).astype(int)
    >>> result = cd.evaluate(labels, scores, cd.ECE(), by={"day": day}, ci=0.95)
    >>> cd.worst_slices(result, "ece", n=1).day.values.tolist()
    ['tue']
    """
    if not isinstance(result, xr.Dataset):
        raise TypeError(f"result expects the Dataset of cd.evaluate or cd.compare, got {type(result).__name__}.")
    check_whole("n", n, 1)
    results = Results(result)
    parts = {part.variable: part for part in results}
    if metric not in result.data_vars or (metric not in parts and "bound" in result[metric].attrs):
        raise ValueError(f"metric expects one of {listed(parts)}, got {metric!r}.")
    dims = [dim for dim in results.slices if dim in result[metric].dims]
    if not dims:
        raise ValueError("The result has no slices; evaluate with by=... .")
    others = [str(dim) for dim in result[metric].dims if dim not in dims]
    if others:
        raise ValueError(
            f"{visible(metric)} has the dimensions {listed(others)} beside its slices; select one place, for example "
            f"result.isel({others[0]}=0)."
        )
    if "slice" in dims:
        raise ValueError("The slices are put along a dimension 'slice', and a name in by is that already; rename it.")
    ranked = parts.get(metric)
    bounds = {} if ranked is None else {name: bound.name for name, bound in ranked.bounds.items() if name in _SHOWN}
    flat = result[[metric, *bounds.values()]].stack(slice=dims).reset_index("slice")
    low = flat[bounds["low"]].values if "low" in bounds else None
    return flat.isel(slice=worst_order(flat[metric].values, low)[:n])


def worst_strata(results: Results, n: int) -> list[int]:
    """Positions, among all combinations of slices and models, of those where the first error is largest; worst first.

    With intervals by the end that is nearer to the best value; without an error by the first number. Slices without a
    value are left out.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 0], [0.2, 0.9, 0.6, 0.8], cd.ECE(), by={"day": [1, 1, 2, 2]})
    >>> worst_strata(Results(result), 1)
    [1]
    """
    part = next((part for part in results.shown if part.kind == "error"), results.shown[0])
    dims, sizes = results.shared_dims, results.dataset.sizes

    def flat(variable: xr.DataArray) -> np.ndarray:
        spread = variable.variable.set_dims({dim: sizes[dim] for dim in dims}).transpose(*dims)
        return np.asarray(spread.values, np.float64).ravel()

    value = flat(part.values)
    low, high = (flat(part.bounds[end]) for end in ("low", "high")) if part.has_interval else (value, value)
    if part.kind == "difference":
        badness = np.maximum(np.maximum(low, -high), 0.0)
    elif part.kind == "pvalue" or part.direction == "higher":
        badness = -high
    else:
        badness = low
    order = np.lexsort((-np.abs(value), -badness))
    return [int(place) for place in order if np.isfinite(value[place])][:n]

"""Slices in the order of how bad they are."""

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.estimators.checks import check_whole
from calibdask.results.values import Results

__all__ = ["worst_order", "worst_slices"]

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
        raise ValueError(f"metric expects one of {', '.join(parts)}, got {metric!r}.")
    dims = [dim for dim in results.slices if dim in result[metric].dims]
    if not dims:
        raise ValueError("The result has no slices; evaluate with by=... .")
    others = [str(dim) for dim in result[metric].dims if dim not in dims]
    if others:
        raise ValueError(
            f"{metric} has the dimensions {', '.join(others)} beside its slices; select one place, for example "
            f"result.isel({others[0]}=0)."
        )
    if "slice" in dims:
        raise ValueError("The slices are put along a dimension 'slice', and a name in by is that already; rename it.")
    ranked = parts.get(metric)
    bounds = {} if ranked is None else {name: bound.name for name, bound in ranked.bounds.items() if name in _SHOWN}
    flat = result[[metric, *bounds.values()]].stack(slice=dims).reset_index("slice")
    low = flat[bounds["low"]].values if "low" in bounds else None
    return flat.isel(slice=worst_order(flat[metric].values, low)[:n])

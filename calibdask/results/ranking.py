"""Slices ranked by their distance from the ideal value, using the bound nearest to it where there are intervals."""

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.estimators.checks import check_choice, check_whole
from calibdask.inference.simultaneous import certain_error, stretched
from calibdask.results.decisions import requires_evidence
from calibdask.results.format import counted
from calibdask.results.values import PartResult, Results
from calibdask.safe_text import listed, visible

Adjust = Literal["bonferroni"]

Array = npt.NDArray[np.float64]

# By what numbers are ranked that are not simply better the smaller, or the larger, they are.
_MEASURES = {"ratio": "|log {}|", "slope": "|{} - 1|", "offset": "|{}|", "difference": "|{}|"}
_ENDS = ("low", "high")
_SHOWN = (*_ENDS, "pvalue", "pvalue_holm", "pvalue_bh")


def worst_order(values: Array, *lows: Array) -> npt.NDArray[np.int64]:
    """Positions of the slices that have a value, the worst first: by the lower ends, without them by the values.

    Of several lower ends the later ones, and last the values, decide between slices that are alike by the earlier ones.
    Slices whose lower end is not known come after those where it is.

    Examples
    --------
    >>> worst_order(np.array([0.1, 0.3, np.nan, 0.2]), np.array([0.05, np.nan, np.nan, 0.01])).tolist()
    [0, 3, 1]
    """
    # Stable for equal keys; NaN comes last.
    order = np.lexsort((-values, *(-low for low in reversed(lows))))
    return order[np.isfinite(values[order])]


def distances(part: PartResult, low: Array, high: Array) -> Array:
    """The least distance from the ideal value of any value in an interval; with equal ends that of the value.

    Of a ratio it is ``|log ratio|``, of a slope ``|slope - 1|``. Of errors and losses, whose smallest value is best, it
    is the lower end; of numbers whose largest value is best, the negative upper end.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 0], [0.2, 0.9, 0.6, 0.8], cd.ObservedExpected())
    >>> (ratio, *_) = Results(result)
    >>> distances(ratio, np.array([0.5, 0.8, 1.5]), np.array([0.8, 1.1, 2.0])).round(2).tolist()
    [0.22, 0.0, 0.41]
    """
    if part.quantity == "ratio":
        # Without outcomes the ratio is 0, farther away than any other.
        low, high = (np.log(np.maximum(end, np.finfo(np.float64).tiny)) for end in (low, high))
    elif part.quantity == "slope":
        low, high = low - 1, high - 1
    elif part.kind != "difference" and part.quantity != "offset":
        return -high if part.kind == "pvalue" or part.direction == "higher" else low
    # Not `maximum`, since an end that is not known leaves the other one.
    return np.asarray(np.where(np.isnan(low) & np.isnan(high), np.nan, np.fmax(np.fmax(low, -high), 0.0)))


def judged(values: npt.ArrayLike) -> int:
    """The number of slices that are judged: those that have a value."""
    return int(np.isfinite(np.asarray(values, np.float64)).sum())


def certain_ends(part: PartResult, level: float, numbers: int) -> tuple[Array, Array]:
    """The ends of intervals of a part, moved so that they hold for so many numbers at a time.

    Of mean gaps the lower end is that of `certain_error`, at any number of rows: replicates of few rows, or of few
    events, are no guide so far from the estimate. It needs the rows, events and mean score of each slice in the setting
    of the part, without weights. Other ends are stretched as those of a normal interval, which is approximate.
    """
    variables = (part.values, part.bounds["low"], part.bounds["high"])
    value, low, high = (np.asarray(variable.values, np.float64) for variable in variables)
    ends = [stretched(value, end, level, numbers) for end in (low, high)]
    if part.quantity == "ratio":
        # Intervals of ratios are computed on the log scale, where 0 has no value.
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = [np.exp(stretched(np.log(value), np.log(end), level, numbers)) for end in (low, high)]
        known = [(value > 0) & (end > 0) for end in (low, high)]
        ends = [np.where(is_known, log, end) for is_known, log, end in zip(known, logs, ends, strict=True)]
        ends[0] = np.maximum(ends[0], 0.0)
    if part.kind in ("error", "score"):
        # What cannot be negative stays so.
        ends[0] = np.where(low >= 0, np.maximum(ends[0], 0.0), ends[0])
    totals = _totals(part)
    if totals is not None:
        alpha = (1 - level) / 2 / max(1, numbers)
        of_bins = part.choices.get("norm") == "l1" and part.choices.get("mapping") == "hard"
        bins = _most_bins(part.choices["bins"]) if of_bins else 1.0
        ends[0] = np.minimum(low, certain_error(value if of_bins else None, *totals, alpha, bins))
    return ends[0], ends[1]


def _most_bins(bins: Any) -> float:
    """The number of bins, of ``bins`` of `calibdask.ECE`; infinite where it depends on the rows."""
    if isinstance(bins, str):
        return np.inf
    return float(len(bins) - 1 if isinstance(bins, list | tuple) else bins)


def _totals(part: PartResult) -> tuple[Array, Array, Array] | None:
    """Mean score, frequency and rows in the shape of the values; None if they describe another setting."""
    coords = part.values.coords
    if not requires_evidence(part) or not {"rows", "events", "mean_score", "frequency"} <= set(coords):
        return None
    # Sums of weights are no numbers of events.
    if coords["mean_score"].attrs.get("setting") != part.setting or coords["events"].dtype.kind not in "iu":
        return None
    if not set(coords["mean_score"].dims) <= set(part.values.dims):
        return None
    totals = (coords[name].variable for name in ("mean_score", "frequency", "rows"))
    sizes = dict(part.values.sizes)
    score, outcome, rows = (np.asarray(total.set_dims(sizes).transpose(*sizes).values, np.float64) for total in totals)
    return score, outcome, rows


def worst_slices(result: xr.Dataset, metric: str, n: int = 10, *, adjust: Adjust | None = "bonferroni") -> xr.Dataset:
    """The slices with the worst values of a number (largest, or farthest from the ideal value), worst first.

    Parameters
    ----------
    result : xarray.Dataset
        The result of `calibdask.evaluate` or `calibdask.compare` with ``by``. Select a single value along any other
        dimension, such as models, first.
    metric : str
        Name of a variable, such as ``"ece"`` or ``"brier_score_difference"``; not that of an end of an interval.
    n : int, default 10
        Maximum number of slices.
    adjust : {"bonferroni"} or None
        Adjustment of the ends so that they hold simultaneously for all slices; None: pointwise ends.

    Returns
    -------
    xarray.Dataset
        The variable and its companions (``_low``, ``_high``, ``_pvalue``, ...), along the dimension ``slice``,
        with the labels of the slices as coordinates. The attribute ``judged`` is the number of slices that have a
        value, and the attribute ``adjusted`` of the ends says how they were adjusted for it.

    Raises
    ------
    ValueError
        If the variable does not exist, is a bound of another one, has no slices, or has further dimensions.

    Notes
    -----
    With intervals (``ci``), slices are ordered by the lower end, the error that is certain. Ordering by the values
    alone would put small slices first, as their estimates are the noisiest. Slices without a value are left out.

    Ratios such as O:E are ranked by ``|log ratio|``, slopes by ``|slope - 1|``, intercepts and mean gaps by their
    absolute value, and with intervals by the smallest such value in the interval.

    With 100 calibrated slices and pointwise intervals, some error appears significant in 9 of 10 data sets. The
    probability that any adjusted lower end of a mean gap exceeds the true error is at most (1 - ci) / 2, for any number
    of rows: see ``calibdask.inference.simultaneous.certain_error``. That needs rows, events and mean scores in the
    setting of the metric, without weights; other ends, including those of scores and differences, are widened like a
    normal interval, which is unreliable with few rows. Slices with the same adjusted end, such as 0, are ordered by
    their unadjusted end.

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
    if adjust is not None:
        check_choice("adjust", adjust, get_args(Adjust))
    ranked = parts.get(metric)
    bounds = {} if ranked is None else {name: bound.name for name, bound in ranked.bounds.items() if name in _SHOWN}
    number = judged(result[metric])
    flat = result[[metric, *bounds.values()]].assign_attrs(judged=number)
    intervals = [tuple(flat[bounds[end]] for end in _ENDS)] if "low" in bounds else []
    if ranked is not None and ranked.has_interval and adjust is not None:
        if results.level is None:
            raise ValueError("adjust expects intervals of a known level, the attribute 'ci' of the result; or None.")
        for end, values in zip(_ENDS, certain_ends(ranked, results.level, number), strict=True):
            adjusted = flat[bounds[end]].copy(data=values).assign_attrs(adjusted=adjust)
            flat = flat.assign({bounds[end]: adjusted})
        intervals.insert(0, tuple(flat[bounds[end]] for end in _ENDS))
    (value,), *ends = ([one.stack(slice=dims).values for one in pair] for pair in ((flat[metric],), *intervals))
    if ranked is not None and _is_two_sided(ranked):
        keys = [distances(ranked, value, value), *(distances(ranked, low, high) for low, high in ends)]
    else:
        keys = [value, *(low for low, _ in ends)]
    return flat.stack(slice=dims).reset_index("slice").isel(slice=worst_order(*keys)[:n])


def _is_two_sided(part: PartResult) -> bool:
    """Whether values are better the nearer they are to a value between others; of two models the larger is worse."""
    return part.quantity in ("ratio", "slope", "offset") or (part.kind == "difference" and not part.part)


def worst_strata(results: Results, n: int, adjust: Adjust | None = "bonferroni") -> list[int]:
    """Positions, among all combinations of slices and models, of those where the first error is largest; worst first.

    Of the values in each interval the one nearest to the ideal value counts, adjusted for all these combinations;
    without intervals the value itself. Without an error the first number counts. Slices without a value are left out.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 0], [0.2, 0.9, 0.6, 0.8], cd.ECE(), by={"day": [1, 1, 2, 2]})
    >>> worst_strata(Results(result), 1)
    [1]
    """
    part = _ranking_part(results)
    dims, sizes = results.shared_dims, results.dataset.sizes

    def flat(variable: xr.DataArray) -> Array:
        spread = variable.variable.set_dims({dim: sizes[dim] for dim in dims}).transpose(*dims)
        return np.asarray(spread.values, np.float64).ravel()

    value = flat(part.values)
    keys = [np.abs(distances(part, value, value))]
    if part.has_interval:
        ends = [part.bounds[end] for end in ("low", "high")]
        keys.append(distances(part, *map(flat, ends)))
        if adjust is not None and results.level is not None:
            certain = certain_ends(part, results.level, judged(value))
            keys.append(
                distances(part, *(flat(end.copy(data=values)) for end, values in zip(ends, certain, strict=True)))
            )
    else:
        keys.append(distances(part, value, value))
    order = np.lexsort([-key for key in keys])
    return [int(place) for place in order if np.isfinite(value[place])][:n]


def order_text(results: Results, adjust: Adjust | None = "bonferroni", what: str = "slice") -> str:
    """What `worst_strata` orders by, with the number of slices, or classes, judged.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 0], [0.2, 0.9, 0.6, 0.8], cd.ECE(), by={"day": [1, 1, 2, 2]}, ci=0.95)
    >>> order_text(Results(result))
    'By the ends of ece, adjusted so that they hold for all 2 slices at a time; the intervals shown are not adjusted.'
    """
    part = _ranking_part(results)
    slices = counted(judged(part.values), what, "classes" if what == "class" else "")
    if not judged(part.values):
        return f"No {what} has a value of {part.variable}."
    measure = _MEASURES.get(part.quantity or part.kind, "").format(part.variable)
    if not part.has_interval:
        return f"By {measure or part.variable}, of {slices}."
    ends = f"the ends of {part.variable}" + (f", the least {measure} between them" if measure else "")
    if adjust is None:
        return f"By {ends}, pointwise for {slices}."
    return f"By {ends}, adjusted so that they hold for all {slices} at a time; the intervals shown are not adjusted."


def _ranking_part(results: Results) -> PartResult:
    """The number that slices are ordered by: the first error, or the first number."""
    return next((part for part in results.shown if part.kind == "error"), results.shown[0])

"""Small summaries of cubes: medians over score distributions, with intervals that resample data distributions."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from calibdask.storage.cube_layout import DONE
from calibdask.study.quantiles import quantiles
from experiments.ece_benchmark.estimators import PAPER

# The largest size in the published figure.
PUBLISHED = 500
# The best truth: this many bins, posterior labels; flagged where half of its bracket exceeds this part of it.
BINS, TOLERANCE = 500, 0.05
PAPER_BINS = 2000
TAIL, BAND, DRAWS, SEED = 0.95, (5, 95), 1000, 0
# Resamples that verdicts are judged on again, and the level of the study's intervals, unless a cube tells another.
KEPT, LEVEL = 200, 0.9
GROUPS = ("model", "classes")
# What is computed of each score distribution, estimator and size, and the name of its median over distributions.
MEDIANS = {"median": "median_absolute", "bias": "bias", "spread": "spread", "rmse": "rmse"}
_WITHIN = ("model", "setting", "estimator", "size")
_EQUAL = 1 + 1e-9


def norm_of(estimator: str) -> str:
    """The norm of the calibration error that an estimator estimates."""
    return "l2" if estimator.startswith("rms-") else "l1"


def done_cells(cube: xr.Dataset) -> list[dict[str, int]]:
    """Indices of the cells that are done."""
    status = cube["status"]
    names = [str(name) for name in status.dims]
    return [dict(zip(names, map(int, index), strict=True)) for index in np.argwhere(status.values == DONE)]


def truths(cube: xr.Dataset) -> xr.Dataset:
    """The true error for each estimator: the best estimate, whether it is flagged, and that of the paper."""
    names = cube["estimator"].values
    norms = xr.DataArray([norm_of(name) for name in names], dims="estimator", coords={"estimator": names})
    truth = cube["truth"]
    bracket = truth.sel(outcome="posterior", bins=BINS, drop=True)
    high, low = (bracket.sel(kind=kind, drop=True) for kind in ("plug-in", "cross-fit"))
    paper = truth.sel(outcome="label", bins=PAPER_BINS, kind="plug-in", drop=True)
    chosen = xr.Dataset({"best": (high + low) / 2, "flagged": wide(high, low), "paper": paper})
    return chosen.sel(norm=norms).drop_vars("norm")


def wide(high: xr.DataArray, low: xr.DataArray) -> xr.DataArray:
    """Whether the half-width of a bracket exceeds 5 % of its midpoint or is missing: the true error is then unknown."""
    known: xr.DataArray = (abs(high - low) <= TOLERANCE * (high + low)) & (high + low > 0)
    return ~known


def cell_statistics(
    estimate: NDArray[np.float64], truth: NDArray[np.float64], paper: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Errors over the replicates, the last axis of the estimates; NaN estimates are excluded and counted."""
    missing = np.isnan(estimate)
    with np.errstate(invalid="ignore", divide="ignore"):
        count = (~missing).sum(-1).astype(float)
        mean = np.where(missing, 0, estimate).sum(-1) / count
        squares = np.where(missing, 0, (estimate - mean[..., None]) ** 2).sum(-1)
        spread, bias = np.sqrt(squares / np.where(count > 1, count - 1, np.nan)), mean - truth
        rmse = np.sqrt(squares / count + bias**2)
    tail, median = quantiles(np.abs(estimate - truth[..., None]), (TAIL, 0.5))
    (paper_tail,) = quantiles(np.abs(estimate - paper[..., None]), (TAIL,))
    return {
        "tail": tail,
        "median": median,
        "paper_tail": paper_tail,
        "bias": bias,
        "spread": spread,
        "rmse": rmse,
        "missing": missing.mean(-1),
    }


def distributions(cube: xr.Dataset, truth: xr.Dataset) -> xr.Dataset:
    """Statistics of all score distributions (cell, model, setting, estimator, size); one cell in memory at a time."""
    cells = done_cells(cube)
    if not cells:
        raise ValueError("The cube has no cell that is done.")
    statistics: dict[str, list[NDArray[np.float64]]] = {}
    for at in cells:
        estimate = cube["estimate"].isel(at).transpose(*_WITHIN, "replicate").values.astype(np.float64, copy=False)
        here = truth.isel(at).transpose(*_WITHIN[:-1])
        best, paper = (here[name].values[..., None] for name in ("best", "paper"))
        for name, values in cell_statistics(estimate, best, paper).items():
            statistics.setdefault(name, []).append(values)
    coords = {name: cube[name].values for name in _WITHIN} | {
        name: ("cell", cube[name].values[[at[name] for at in cells]]) for name in cells[0]
    }
    return xr.Dataset({name: (("cell", *_WITHIN), np.stack(values)) for name, values in statistics.items()}, coords)


def clusters(per: xr.Dataset) -> NDArray[np.int64]:
    """The number of the data distribution of each cell: splits and models of one belong together."""
    keys = np.stack([per[name].values for name in ("classes", "features", "draw")], -1)
    number: NDArray[np.int64] = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
    return number


def resampled_medians(
    values: NDArray[np.float64], cluster: NDArray[np.int64], draws: int = DRAWS, seed: int = SEED
) -> NDArray[np.float64]:
    """Medians of values (member, series), excluding NaN, with whole clusters resampled.

    Parameters
    ----------
    values : array of shape (members, series)
    cluster : int array of shape (members,)
        Numbers from 0.
    draws, seed : int
        All series see the same draws.

    Returns
    -------
    array of shape (draws, series)
    """
    total = int(cluster.max()) + 1
    counts = np.random.default_rng(seed).multinomial(total, np.full(total, 1 / total), draws).astype(np.int32)
    medians = np.full((draws, values.shape[1]), np.nan)
    for i, series in enumerate(values.T):
        order = np.argsort(series)[: np.isfinite(series).sum()]
        if order.size:
            medians[:, i] = _weighted_medians(series[order], counts[:, cluster[order]])
    return medians


def interval(medians: NDArray[np.float64]) -> NDArray[np.float64]:
    """Percentile interval (end, series) of resampled medians (draw, series); NaN where all of them are."""
    ends = np.full((len(BAND), medians.shape[1]), np.nan)
    known = np.isfinite(medians).any(0)
    ends[:, known] = np.nanpercentile(medians[:, known], BAND, axis=0)
    return ends


def _weighted_medians(ordered: NDArray[np.float64], counts: NDArray[np.int32]) -> NDArray[np.float64]:
    """The weighted median of sorted values in each draw; NaN if there are none."""
    reached = np.cumsum(counts, axis=1)
    half = reached[:, -1:] / 2
    lower, upper = (reached >= half).argmax(1), (reached > half).argmax(1)
    return np.where(half[:, 0] > 0, (ordered[lower] + ordered[upper]) / 2, np.nan)


def summarised(cube: xr.Dataset, *, draws: int = DRAWS, kept: int = 0, level: float = LEVEL) -> xr.Dataset:
    """The summary of one cube: medians over score distributions, what is best, coverage, brackets of the truth.

    Parameters
    ----------
    cube : xarray.Dataset
    draws : int
        Resamples of data distributions for the intervals of medians.
    kept : int
        Of so many resamples the medians themselves are there, with a dimension ``resample``.
    level : float
        Of the intervals in the cube.
    """
    truth = truths(cube).load()
    per = distributions(cube, truth)
    cells = done_cells(cube)
    at = {name: xr.DataArray([cell[name] for cell in cells], dims="cell") for name in cells[0]}
    truth = truth.isel(at)
    relative = (per["tail"] / truth["best"]).where(~truth["flagged"]).transpose("cell", *_WITHIN)
    names = [*(name for name in PAPER if name in per.estimator), *(n for n in per.estimator.values if n not in PAPER)]
    variables = {
        **_with_interval("absolute", per["tail"], clusters(per), draws, kept),
        **_with_interval("relative", relative, clusters(per), draws, kept),
        **{new: _median(per[old]) for old, new in MEDIANS.items()},
        "median_relative": _median((per["median"] / truth["best"]).where(~truth["flagged"])),
        "relative_bias": _median((per["bias"] / truth["best"]).where(~truth["flagged"])),
        "absolute_paper_truth": _median(per["paper_tail"]),
        "relative_paper_truth": _median(per["paper_tail"] / truth["paper"]),
        "best": best_shares(per["tail"], [name for name in PAPER if name in per.estimator]),
        "best_all": _best_of_all(per["tail"], [name for name in names if norm_of(name) == "l1"]),
        "missing": per["missing"].mean(("cell", "model")),
        **{f"relative_by_{group}": _by(relative, group) for group in GROUPS},
        **coverage(cube["interval"].isel(at).load(), truth["best"]),
        **brackets(cube["truth"].isel(at).load()),
        "cells_done": xr.DataArray(per.sizes["cell"]),
        "cells": xr.DataArray(cube["status"].size),
        "level": xr.DataArray(level),
    }
    return xr.Dataset({name: values.astype(np.float32) for name, values in variables.items()})


def _median(values: xr.DataArray) -> xr.DataArray:
    return values.median(("cell", "model"))


def _with_interval(
    name: str, values: xr.DataArray, cluster: NDArray[np.int64], draws: int, kept: int
) -> dict[str, xr.DataArray]:
    """The median over distributions, the ends of its interval, and the medians of some resamples."""
    middle = _median(values)
    members = values.transpose("cell", "model", ...).values
    flat = members.reshape(members.shape[0] * members.shape[1], -1)
    medians = resampled_medians(flat, np.repeat(cluster, members.shape[1]), draws)
    variables = {name: middle}
    for end, series in zip(("low", "high"), interval(medians), strict=True):
        variables[f"{name}_{end}"] = middle.copy(data=series.reshape(middle.shape))
    if kept:
        shown = medians[:kept].reshape(-1, *middle.shape)
        variables[f"{name}_draws"] = xr.DataArray(shown, middle.coords, ("resample", *middle.dims))
    return variables


def best_shares(tail: xr.DataArray, names: Sequence[str]) -> xr.DataArray:
    """Share of the distributions in which each estimator has the smallest error; ties are divided equally."""
    chosen = tail.sel(estimator=list(names))
    ties = chosen <= chosen.min("estimator") * _EQUAL
    return (ties / ties.sum("estimator")).mean(("cell", "model")).reindex(estimator=tail.estimator)


def _best_of_all(tail: xr.DataArray, names: Sequence[str]) -> xr.DataArray:
    """The same for all estimators; duplicates of another estimator in a setting are NaN."""
    parts = []
    for setting in tail.setting.values.tolist():
        here = tail.sel(setting=[setting])
        twice = doubles(here, names)
        parts.append(best_shares(here, [name for name in names if name not in twice]))
    return xr.concat(parts, "setting")


def doubles(tail: xr.DataArray, names: Sequence[str]) -> set[str]:
    """Estimators whose errors equal those of an earlier one for all distributions and sizes."""
    errors = [tail.sel(estimator=name).values for name in names]
    return {
        name
        for i, name in enumerate(names)
        if any(np.allclose(errors[i], other, rtol=_EQUAL - 1, atol=0, equal_nan=True) for other in errors[:i])
    }


def _by(relative: xr.DataArray, group: str) -> xr.DataArray:
    """Medians within each model, or within each number of classes."""
    if group in relative.dims:
        return relative.median("cell")
    values = np.unique(relative[group].values)
    medians = [_median(relative.isel(cell=np.flatnonzero(relative[group] == value))) for value in values]
    return xr.concat(medians, dim=xr.DataArray(values, dims=group, name=group))


def coverage(interval: xr.DataArray, truth: xr.DataArray) -> dict[str, xr.DataArray]:
    """Coverage of the best true error by the intervals of single evaluation sets."""
    estimate, low, high = (interval.sel(end=end, drop=True) for end in ("estimate", "low", "high"))
    reach = np.maximum(high - estimate, estimate - low)
    ends = {"percentile": (low, high), "corrected": (estimate - reach, estimate + reach)}
    there = np.isfinite(estimate + low + high + truth)
    shares = {}
    for kind, (lower, upper) in ends.items():
        held = ((lower <= truth) & (truth <= upper)).where(there)
        shares[f"coverage_{kind}"] = held.mean(("cell", "model")).transpose("setting", "estimator", "interval_size")
    return shares


def brackets(truth: xr.DataArray) -> dict[str, xr.DataArray]:
    """Medians of the plug-in and the cross-fitted truth, half of the bracket between over its middle, and flags."""
    high, low = (truth.sel(kind=kind, drop=True) for kind in ("plug-in", "cross-fit"))
    best = truth.sel(outcome="posterior", bins=BINS, drop=True).mean("kind", skipna=False)
    excess = truth.sel(outcome="label", bins=PAPER_BINS, kind="plug-in", drop=True) / best - 1
    unknown = wide(high, low)
    return {
        "truth": _median(truth),
        "half_width": _median(abs(high - low) / (high + low)),
        "wide": unknown.mean(("cell", "model")),
        "flagged": unknown.sel(outcome="posterior", bins=BINS, drop=True).sum(("cell", "model")),
        "paper_truth_excess": _median(excess),
        "paper_truth_off": (abs(excess) > TOLERANCE).mean(("cell", "model")),
        "distributions": xr.DataArray(truth.sizes["cell"] * truth.sizes["model"]),
    }


def combined(parts: dict[str, xr.Dataset]) -> xr.Dataset:
    """Summaries by the name of their means as one, with all estimators that any of them has, the paper's first."""
    known = dict.fromkeys(name for part in parts.values() for name in part.estimator.values.tolist())
    names = [*(name for name in PAPER if name in known), *(name for name in known if name not in PAPER)]
    aligned = [part.reindex(estimator=names).expand_dims(means=[means]) for means, part in parts.items()]
    return xr.concat(aligned, dim="means", data_vars="all", coords="minimal", compat="override", join="outer")

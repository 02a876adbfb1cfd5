"""Tables of a summary as Markdown."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import xarray as xr

from experiments.ece_benchmark.summaries import GROUPS, PAPER_BINS, PUBLISHED, TOLERANCE

# Without the marks of Markdown: the page of the figures has them too.
CONVEX_NOTE = (
    "The paper's convex entries (ECE_c and ECE_ac: euranova-c and euranova-ac) have the inverted mapping of its "
    "authors' code, which gives the larger part of a score to the farther of its two bins; the proper one is that of "
    "uniform-convex and equal-mass-convex."
)
ISJ_NOTE = (
    "density-isj and residual-isj compute their bandwidth on a grid of 600 cells (step=1/600), so that it is never "
    "below 1/600 of the support; with the default step of calibdask it can be smaller, and the estimate larger."
)
_DOUBLE = "double"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table, and an empty one."""
    return [*(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)), ""]


def markdown(summary: xr.Dataset) -> str:
    """All tables."""
    lines = ["# Errors of estimators of the calibration error", "", f"{CONVEX_NOTE} {ISJ_NOTE}", ""]
    lines += [*told_cells(summary), *_truths(summary)]
    for means in summary.means.values.tolist():
        for setting in summary.setting.values.tolist():
            one = summary.sel(means=means, setting=setting)
            one = one.isel(estimator=np.flatnonzero(one["absolute"].notnull().any("size")))
            lines += [f"## Means {means}, {setting}", "", *_errors(one), *_parts(one), *_groups(one), *_coverages(one)]
    return "\n".join(lines)


def told_cells(summary: xr.Dataset) -> list[str]:
    """How many cells there are, how many of their truths are flagged, and estimates that are missing."""
    lines = []
    for means in summary.means.values.tolist():
        one = summary.sel(means=means)
        done, total, members = (int(one[name]) for name in ("cells_done", "cells", "distributions"))
        flags = ", ".join(
            f"{int(one.flagged.sel(setting=setting, norm=norm))} {setting} {norm}"
            for setting in one.setting.values
            for norm in one.norm.values
        )
        left = "" if done == total else f"; **{total - done} are not done and left out**"
        lines.append(
            f"- means {means}: {done} of {total} cells{left}; {members} score distributions; truth not known to "
            f"{TOLERANCE:.0%}: {flags}"
        )
        for name in one.estimator.values[(one["missing"] > 0).any(("setting", "size")).values]:
            most = float(one["missing"].sel(estimator=name).max())
            lines.append(f"- means {means}: up to {most:.1%} of the estimates of {name} are missing")
    return [*lines, ""]


def _truths(summary: xr.Dataset) -> list[str]:
    """Medians of the brackets of the true error, and the deviation of the paper's true error from the best one."""
    first, rows, excesses = ["means", "setting", "norm"], [], []
    for labels in product(*(summary[dim].values.tolist() for dim in first)):
        one = summary.sel(dict(zip(first, labels, strict=True)))
        excesses.append([*labels, f"{float(one.paper_truth_excess):+.2%}", f"{float(one.paper_truth_off):.1%}"])
        for outcome, bins in product(one.outcome.values.tolist(), one.bins.values.tolist()):
            here = one.sel(outcome=outcome, bins=bins)
            ends = [f"{float(here.truth.sel(kind=kind)):.5f}" for kind in ("cross-fit", "plug-in")]
            widths = [f"{float(here.half_width):.2%}", f"{float(here.wide):.1%}"]
            rows.append([*labels, outcome, str(bins), *ends, *widths])
    return [
        "## The truth",
        "",
        *table([*first, "outcome", "bins", "cross-fit", "plug-in", "half-width / middle", "above 5 %"], rows),
        f"The paper's truth (labels, {PAPER_BINS} bins, plug-in) over the best one, less 1:",
        "",
        *table([*first, "median", "off by more than 5 %"], excesses),
    ]


def _chosen(one: xr.Dataset) -> list[int]:
    """A few sizes: about 30, 100, 300, the last that is published, 1300 and 5000."""
    sizes = one["size"].values
    wanted = [int(sizes[np.abs(np.log(sizes / target)).argmin()]) for target in (30, 100, 300, 1300, 5000)]
    return sorted({*wanted, *sizes[sizes <= PUBLISHED][-1:].tolist()})


def _errors(one: xr.Dataset) -> list[str]:
    """Absolute and relative errors with their intervals, and how often an estimator is the best."""
    lines, sizes = [], _chosen(one)
    published = one.isel(size=np.flatnonzero(one["size"] <= PUBLISHED))
    for kind, form in (("absolute", ".4f"), ("relative", ".0%")):
        rows = []
        for name in one.estimator.values.tolist():
            at = one.sel(estimator=name, size=sizes)
            ends = zip(at[kind].values, at[f"{kind}_low"].values, at[f"{kind}_high"].values, strict=True)
            words = [_share(published[best].sel(estimator=name)) for best in ("best", "best_all")]
            words[1] = words[1] or ("" if name.startswith("rms-") else _DOUBLE)
            rows.append([name, *(f"{v:{form}} [{low:{form}}, {high:{form}}]" for v, low, high in ends), *words])
        lines += [f"### {kind.capitalize()} error", ""]
        lines += table(["estimator", *map(str, sizes), "best of the paper's", "best of all"], rows)
    if any(row[-1] == _DOUBLE for row in rows):
        lines += [f"Best of all: a {_DOUBLE} equals an estimator above it everywhere, and does not count again.", ""]
    return lines


def _share(best: xr.DataArray) -> str:
    share = float(best.mean("size"))
    return "" if np.isnan(share) else f"{share:.1%}"


def _parts(one: xr.Dataset) -> list[str]:
    """Bias, spread and root mean square error at the smallest, the largest published and the largest size."""
    every = one["size"].values.tolist()
    sizes = sorted({every[0], *[n for n in every if n <= PUBLISHED][-1:], every[-1]})
    names = {"bias": "+.4f", "relative_bias": "+.0%", "spread": ".4f", "rmse": ".4f"}
    rows = [
        [
            str(name),
            *(f"{float(one[v].sel(estimator=name, size=n)):{form}}" for n in sizes for v, form in names.items()),
        ]
        for name in one.estimator.values
    ]
    header = [f"{variable.replace('_', ' ')}, {n}" for n in sizes for variable in names]
    return ["### Bias and spread", "", *table(["estimator", *header], rows)]


def _groups(one: xr.Dataset) -> list[str]:
    """Relative errors by model and by number of classes at the largest published size."""
    size = one["size"].values[one["size"].values <= PUBLISHED][-1:]
    if not size.size:
        return []
    parts = [one[f"relative_by_{group}"].sel(size=size[0]) for group in GROUPS]
    header = [str(v) if group == "model" else f"{v} classes" for group in GROUPS for v in one[group].values]
    rows = [
        [str(name), *(f"{value:.0%}" for part in parts for value in part.sel(estimator=name).values)]
        for name in one.estimator.values
    ]
    return [f"### Relative error by model and classes, {size[0]} rows", "", *table(["estimator", *header], rows)]


def _coverages(one: xr.Dataset) -> list[str]:
    """Share of the distributions whose interval from one evaluation set holds the best truth."""
    both = [one[f"coverage_{kind}"].transpose("estimator", "interval_size") for kind in ("percentile", "corrected")]
    rows = [
        [name, *(f"{first:.2f} / {second:.2f}" for first, second in zip(*shares, strict=True))]
        for name, *shares in zip(one.estimator.values.tolist(), *(shares.values for shares in both), strict=True)
    ]
    header = ["estimator", *map(str, one["interval_size"].values)]
    level, cells = float(one["level"]), int(one["cells_done"])
    note = (
        "Corrected: as far on both sides as the percentile interval reaches on the farther one. The default interval "
        "of calibdask besides is clipped at 0, and has 0 as its lower end where calibrated models have errors as large "
        "by chance; that is not computed here, and the coverage of that interval is at least this. A share rests on "
        f"{cells} evaluation sets that the four models share: the standard error of a share of {level:g} from as many "
        f"independent sets is {np.sqrt(level * (1 - level) / cells):.3f}."
    )
    heading = f"### Coverage of {100 * level:.3g} % intervals, percentile / corrected"
    return [heading, "", note, "", *table(header, rows)]

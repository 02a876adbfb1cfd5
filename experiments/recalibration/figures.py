"""What remains of the miscalibration, and how often recalibration does harm, over the number of rows."""

import importlib
from pathlib import Path
from typing import Any

import xarray as xr

from calibdask.plot import save
from calibdask.storage.atomic_replace import atomic_replacement
from experiments.recalibration.calibrators import NONE, ON_PROBABILITIES
from experiments.recalibration.summaries import remaining, win_rates
from experiments.recalibration.tables import LOG

# Okabe and Ito's colours, told apart by colour-blind readers; dashes tell variants of one calibrator apart.
STYLES = {
    NONE: ("#000000", "dotted"),
    ON_PROBABILITIES: ("#999999", "dashed"),
    "platt": ("#0072B2", "solid"),
    "platt, smoothed": ("#0072B2", "dashed"),
    "temperature": ("#0072B2", "dotted"),
    "quadratic": ("#E69F00", "solid"),
    "beta": ("#D55E00", "solid"),
    "spline": ("#CC79A7", "solid"),
    "isotonic": ("#009E73", "dotted"),
    "isotonic, bounded": ("#009E73", "dashed"),
    "isotonic, centred": ("#009E73", "solid"),
    "venn-abers": ("#56B4E9", "solid"),
    "histogram": ("#999999", "dotted"),
    "histogram, equal-mass": ("#999999", "solid"),
    "lce": ("#F0E442", "dashed"),
    "lce, monotone": ("#F0E442", "solid"),
}
_LEAST, _MOST = 0.01, 10.0


def panels(summary: xr.Dataset) -> dict[str, tuple[str, xr.DataArray]]:
    """What is shown over the number of rows, with the label of its axis."""
    log = summary.sel(loss=LOG)
    over = ["density", "curve"]
    others = [curve for curve in summary["curve"].values if curve != "calibrated"]
    return {
        "What remains of the miscalibration": (
            "excess log loss / that without recalibration",
            remaining(log).median(over),
        ),
        "One sample in ten is worse than this": (
            "excess log loss / that without recalibration",
            remaining(log, "tail").median(over),
        ),
        "Samples made worse": ("share", log["worse"].sel(curve=others).mean(over)),
        "Win rates": ("mean over all other calibrators", win_rates(log["wins"])),
    }


def save_all(summary: xr.Dataset, folder: Path) -> None:
    """Write the page ``index.html`` and ``remaining.png``."""
    shown = panels(summary)
    page = {title: _panel(title, label, values) for title, (label, values) in shown.items()}
    save(page, folder / "index.html", title="Which calibrator to trust, by number of rows?", lead=_LEAD)
    _save_png(shown, folder / "remaining.png")


_LEAD = (
    "Medians over distributions that are not calibrated and over samples of the log loss in excess of that of the true "
    "frequencies, as a part of what it is without recalibration. Click on an entry of a legend to fade its curve."
)


def _panel(title: str, label: str, values: xr.DataArray) -> Any:
    import holoviews as hv

    importlib.import_module("holoviews.plotting.bokeh")
    is_ratio = label.startswith("excess")
    curves = []
    for name, (color, dash) in STYLES.items():
        if name in values["calibrator"].values:
            line = values.sel(calibrator=name)
            curve = hv.Curve(
                (line["size"].values, line.values), hv.Dimension("rows"), hv.Dimension("value", label=label), label=name
            )
            curves.append(curve.opts(color=color, line_dash=dash, line_width=2, tools=["hover"], muted_alpha=0.08))
    limits = {"logy": True, "ylim": (_LEAST, _MOST)} if is_ratio else {"ylim": (0, 1)}
    return hv.Overlay(curves).opts(
        logx=True, title=title, show_grid=True, legend_position="right", width=820, height=460, **limits
    )


def _save_png(shown: dict[str, tuple[str, xr.DataArray]], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(2, 2, figsize=(11, 8.6), sharex=True)
    for axes, (title, (label, values)) in zip(grid.flat, shown.items(), strict=True):
        for name, (color, dash) in STYLES.items():
            if name in values["calibrator"].values:
                axes.plot(values["size"], values.sel(calibrator=name), color=color, linestyle=dash, label=name)
        axes.set(xscale="log", title=title, ylabel=label)
        if label.startswith("excess"):
            axes.set(yscale="log", ylim=(_LEAST, _MOST))
        else:
            axes.set_ylim(0, 1)
        axes.grid(visible=True, color="#e4e4e4", linewidth=0.7)
        axes.set_axisbelow(True)
    for axes in grid[-1]:
        axes.set_xlabel("rows that the calibrator is fitted to")
    handles, names = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="center left", bbox_to_anchor=(0.99, 0.5), frameon=False, handlelength=3.2)
    figure.tight_layout()
    with atomic_replacement(path) as part:
        figure.savefig(part, dpi=110, bbox_inches="tight", format="png")
    plt.close(figure)

"""Figures 1 and 2, reproduced: histograms of estimates, and test errors over the significance level."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from calibdask.plot import save

_LABELS = {
    "ece": "ECE",
    "ece_product": "ECE as published",
    "skce_b": "SKCE_b",
    "skce_uq": "SKCE_uq",
    "skce_ul": "SKCE_ul",
    "C_product": "C as published",
}
_MODELS = {"M1": "M1: calibrated", "M2": "M2: half of the labels class 1", "M3": "M3: uniform labels"}
# Okabe and Ito's colours, told apart by colour-blind readers. Each curve is thinner than those beneath it, so that
# equal ones can be seen.
_CURVES = (("#56B4E9", 5.0), ("#D55E00", 3.4), ("#009E73", 2.0), ("#000000", 0.9))
_BARS, _MEAN, _TRUTH, _DIAGONAL = "#9fb3c8", "#D55E00", "#000000", "#8c8c8c"
_LEAD = (
    "After Widmann, Lindsten & Zachariah, Calibration tests in multi-class classification, 2019. Figure 1: estimates "
    "of all data sets, their mean (solid line) and the true value (dashed; for the SKCE 0 or the mean of all SKCE_uq). "
    "Figure 2: of M1 the share of data sets whose p-value is at most the level, of M2 and M3 the share of those above "
    "it. 'As published' are the cells that the authors' code made at first: those with the same product of bins."
)
# Tests that resample: expensive where classes are many.
_RESAMPLED = ("A_uq", "C", "C_product")


@dataclass(frozen=True)
class _Look:
    """Names of the options of a HoloViews backend, and the options of all panels."""

    width: str
    dash: str
    face: str
    edge: str
    frame: Mapping[str, Any]
    layout: Mapping[str, Any]
    hover: Mapping[str, Any] = field(default_factory=dict)
    legend: Mapping[str, Any] = field(default_factory=dict)


_LOOKS = {
    "bokeh": _Look(
        "line_width",
        "line_dash",
        "fill_color",
        "line_color",
        {
            "width": 400,
            "height": 190,
            "toolbar": None,
            "fontsize": {"title": "10pt"},
            # Equal borders, or panels with words and without would differ in size.
            "backend_opts": {"plot.min_border_left": 62, "plot.min_border_right": 8},
        },
        {"shared_axes": False, "toolbar": None},
        {
            "tools": ["hover"],
            "hover_tooltips": [("classes", "@classes"), ("level", "@level{0.00}"), ("error", "@error{0.0000}")],
        },
        {
            "legend_opts": {
                "background_fill_alpha": 0,
                "border_line_alpha": 0,
                "label_text_font_size": "8pt",
                "spacing": 0,
                "padding": 2,
            }
        },
    ),
    "matplotlib": _Look(
        "linewidth",
        "linestyle",
        "facecolor",
        "edgecolor",
        {"aspect": 1.9, "fontsize": {"title": 10, "labels": 9, "ticks": 8, "legend": 8}},
        {
            "shared_axes": False,
            "sublabel_format": "",
            "fig_inches": 3.4,
            "aspect_weight": 1,
            "hspace": 0.2,
            "vspace": 0.3,
        },
    ),
}


@dataclass(frozen=True)
class _Position:
    """Where a panel stands, and so which words it needs."""

    title: str
    left: bool
    bottom: bool
    corner: bool

    def words(self, name: str) -> str:
        """Label of the y axis; HoloViews takes dimensions of equal labels for one, this blank is not another's."""
        return name if self.left else "  "


def estimates_figure(summary: xr.Dataset, backend: str) -> Any:
    """Figure 1 for one number of classes: a line of panels for each estimator, a column for each model."""
    return _figure(summary, "estimator", _histogram, backend)


def errors_figure(summary: xr.Dataset, backend: str) -> Any:
    """Figure 2: a line of panels for each test, a column for each model, a curve for each number of classes."""
    return _figure(summary, "test", _curves, backend)


def save_all(summary: xr.Dataset, folder: Path) -> None:
    """Write the page ``index.html``, a Figure 1 for each number of classes and Figure 2 as PNG files."""
    known = summary.isel(classes=np.flatnonzero(summary["sets"] > 0))
    numbers = known["classes"].values.tolist()
    page = {f"Figure 1, {number} classes": estimates_figure(known.sel(classes=number), "bokeh") for number in numbers}
    page["Figure 2"] = errors_figure(known, "bokeh")
    save(page, folder / "index.html", title="Calibration errors and tests of known models", lead=_lead(known))
    for number in numbers:
        _save_png(estimates_figure(known.sel(classes=number), "matplotlib"), folder / f"figure1-{number}-classes.png")
    _save_png(errors_figure(known, "matplotlib"), folder / "figure2.png")


def _lead(summary: xr.Dataset) -> str:
    """The contents, and the tests with fewer data sets: C and, by the same rule, A_uq with many classes."""
    few = summary["pvalues"].sel(test=[name for name in _RESAMPLED if name in summary["test"]]).max(("model", "test"))
    parts = [_LEAD]
    for classes, sets, count in zip(
        *(array.values.tolist() for array in (few["classes"], summary["sets"], few)), strict=True
    ):
        if count < sets:
            parts.append(f"With {classes} classes A_uq and C rest on {count:,} of the {sets:,} data sets.")
    return " ".join(parts)


def _save_png(figure: Any, path: Path) -> None:
    # Not by `calibdask.plot.save`, which gives pictures the axes of its own diagrams.
    import holoviews as hv

    hv.save(figure, path, fmt="png", backend="matplotlib", dpi=120)


def _figure(summary: xr.Dataset, lines: str, panel: Callable[..., Any], backend: str) -> Any:
    """Panels by the values of one dimension and by model."""
    import holoviews as hv

    # Importing a backend registers it; options of one that is not registered are refused.
    importlib.import_module(f"holoviews.plotting.{'mpl' if backend == 'matplotlib' else backend}")
    names, models = summary[lines].values.tolist(), summary["model"].values.tolist()
    panels = []
    for name in names:
        for model in models:
            title = _MODELS.get(model, model) if name == names[0] else ""
            left, bottom = model == models[0], name == names[-1]
            position = _Position(title, left, bottom, corner=bottom and model == models[-1])
            panels.append(panel(summary.sel({lines: name, "model": model}), position, backend))
    return hv.Layout(panels).cols(len(models)).opts(**_LOOKS[backend].layout, backend=backend)


def _histogram(one: xr.Dataset, position: _Position, backend: str) -> Any:
    """Estimates, their mean and the true value."""
    import holoviews as hv

    look = _LOOKS[backend]
    name, model = one["estimator"].item(), one["model"].item()
    edges, mean, truth = one["edge"].values, float(one["mean"]), float(one["truth"])
    x = hv.Dimension(f"{name} {model}", label="estimate")
    y = hv.Dimension("runs", label=position.words(_LABELS.get(name, name)))
    bars = hv.Histogram((edges, one["count"].values), kdims=[x], vdims=[y])
    parts = [
        bars.opts(**{look.face: _BARS, look.edge: _BARS}, backend=backend),
        hv.VLine(mean).opts(color=_MEAN, **{look.width: 1.6}, backend=backend),
        hv.VLine(truth).opts(color=_TRUTH, **{look.width: 1.4, look.dash: "dashed"}, backend=backend),
    ]
    low, high = min(edges[0], truth), max(edges[-1], truth)
    room = 0.04 * (high - low)
    limits = {"xlim": (low - room, high + room), "ylim": (0, 1.05 * max(1.0, float(one["count"].max())))}
    return _framed(parts, {**limits, "xticks": 4, "yticks": 3, "xlabel": "", "title": position.title}, look, backend)


def _curves(one: xr.Dataset, position: _Position, backend: str) -> Any:
    """Error of one test in one model."""
    import holoviews as hv

    look = _LOOKS[backend]
    name = one["test"].item()
    x = hv.Dimension("level", label="significance level")
    y = hv.Dimension("error", label=position.words(f"error of {_LABELS.get(name, name)}"))
    parts: list[Any] = []
    for (color, width), classes in zip(_CURVES, one["classes"].values.tolist(), strict=False):
        line = one["error"].sel(classes=classes)
        data = (line["level"].values, line.values, [classes] * line.size)
        curve = hv.Curve(data, x, [y, "classes"], label=f"{classes} classes")
        parts.append(curve.opts(color=color, **{look.width: width}, **look.hover, backend=backend))
    if one["model"] == "M1":
        diagonal = hv.Slope(1, 0, kdims=[x, y])
        parts.append(diagonal.opts(color=_DIAGONAL, **{look.width: 1.2, look.dash: "dashed"}, backend=backend))
    frame = {
        "xlim": (-0.02, 1.02),
        "ylim": (-0.06, 1.06),
        "xticks": [0, 0.25, 0.5, 0.75, 1],
        "yticks": [0, 0.5, 1],
        "xlabel": "significance level" if position.bottom else "",
        "title": position.title,
        "show_legend": position.corner,
        **(look.legend if position.corner else {}),
    }
    return _framed(parts, frame, look, backend)


def _framed(parts: Sequence[Any], frame: Mapping[str, Any], look: _Look, backend: str) -> Any:
    import holoviews as hv

    return hv.Overlay(parts).opts(**{"show_grid": True, "show_legend": False, **look.frame, **frame}, backend=backend)

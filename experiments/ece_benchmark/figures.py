"""Figure 2 of the paper, reproduced and extended to our estimators: errors over the size of the evaluation set."""

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr

from calibdask.plot import save
from calibdask.storage.atomic_replace import atomic_replacement
from experiments.ece_benchmark.estimators import PAPER
from experiments.ece_benchmark.rules import FAMILIES, SILVERMAN
from experiments.ece_benchmark.summaries import PUBLISHED
from experiments.ece_benchmark.tables import CONVEX_NOTE, ISJ_NOTE

Dash = Literal["solid", "dashed", "dotted", "dashdot"]
SETTINGS = {"confidence": "confidence", "classwise": "class-wise"}
MEANS = {"code": "means on [-1, 1] (the authors' code)", "text": "means on [0, 1] (the paper's text)"}
# Okabe and Ito's colours, told apart by colour-blind readers.
_COLORS = {"l": "#4d4d4d", "a": "#E69F00", "c": "#0072B2", "ac": "#009E73", "d": "#D55E00"}
_DASHES: dict[str, Dash] = {
    "10": "solid",
    "30": "dashed",
    "sqrt": "dotted",
    "silverman": "solid",
    "0.1": "dashed",
    "0.033": "dotted",
}
_OUR_COLORS = {
    "uniform": "#0072B2",
    "equal": "#009E73",
    "density": "#D55E00",
    "residual": "#CC79A7",
    "smooth": "#E69F00",
}
_OUR_DASHES: dict[str, Dash] = {"hard": "dashed", "inverted": "dotted"}
# Bands of more than a few hide one another.
_BANDS = ("euranova-l-10", "euranova-ac-10", SILVERMAN)
_TICKS = (30, 50, 100, 200, 300, 500, 1000, 2000, 5000)
_FEW = 5


@dataclass(frozen=True)
class Entry:
    """An estimator and how its curve looks."""

    name: str
    label: str
    color: str
    dash: Dash
    width: float = 1.6
    band: bool = False


@dataclass(frozen=True)
class Quantity:
    """A variable of the summary and the axis that it is drawn along."""

    variable: str
    label: str
    log: bool = True
    percent: bool = False
    along: str = "size"


ABSOLUTE = Quantity("absolute", "absolute error")
RELATIVE = Quantity("relative", "relative error", percent=True)
BIAS = Quantity("bias", "bias", log=False)
SPREAD = Quantity("spread", "standard deviation")
COVERAGE = tuple(
    Quantity(f"coverage_{kind}", f"coverage, {kind}", log=False, percent=True, along="interval_size")
    for kind in ("percentile", "corrected")
)


def paper_entries(summary: xr.Dataset) -> list[Entry]:
    """The paper's estimators: colours by family, dashes by bins or bandwidth."""
    entries = []
    for name in _there(summary, PAPER):
        parts = name.split("-")
        family, choice = parts[1] if parts[1] in FAMILIES else "d", parts[-1]
        words = {"sqrt": "√n bins", "silverman": "Silverman"}
        kind = words.get(choice, f"h {choice}" if family == "d" else f"{choice} bins")
        width = 2.4 if name == SILVERMAN else 1.6
        entries.append(
            Entry(name, f"ECE_{family}, {kind}", _COLORS[family], _DASHES[choice], width, band=name in _BANDS)
        )
    return entries


def best_of_families(summary: xr.Dataset, variable: str = "absolute") -> list[Entry]:
    """The best estimator of each of our families, and the best of the paper's: smallest mean of log errors."""
    levels = xr.ufuncs.log(summary[variable]).mean(("setting", "size"))
    families: dict[str, list[str]] = {}
    for name in _there(summary, summary.estimator.values.tolist()):
        if not name.startswith(("euranova", "rms")):
            families.setdefault(_family(name), []).append(name)
    entries = []
    for family, names in families.items():
        begin, _, mapping = family.rpartition("-")
        color = _OUR_COLORS.get(family.split("-")[0], "#777777")
        dash: Dash = _OUR_DASHES.get(mapping, "solid") if begin else "solid"
        best = _least(levels, names)
        entries.append(Entry(best, best, color, dash, 1.8, band=family == "residual"))
    reference = _least(levels, _there(summary, PAPER))
    return [*entries, Entry(reference, f"best of the paper: {reference}", "#000000", "dashdot", 1.8)]


def _family(name: str) -> str:
    """An estimator's name without its number of bins or bandwidth."""
    begin, _, choice = name.rpartition("-")
    return begin if re.fullmatch(r"[\d.]+|sqrt|silverman|isj", choice) else name


def _least(levels: xr.DataArray, names: Sequence[str]) -> str:
    return str(names[int(levels.sel(estimator=list(names)).fillna(np.inf).values.argmin())])


def _there(summary: xr.Dataset, names: Sequence[str]) -> list[str]:
    """The names that the summary has numbers for."""
    known = summary["absolute"].dropna("estimator", how="all").estimator.values.tolist()
    return [name for name in names if name in known]


def drawn(summary: xr.Dataset, entries: Sequence[Entry], quantities: Sequence[Quantity], backend: str) -> Any:
    """A line of panels for each quantity, one for each setting, in the words of a backend of HoloViews.

    Parameters
    ----------
    summary : xarray.Dataset
        Of one choice of means.
    entries : sequence of Entry
    quantities : sequence of Quantity
    backend : {"bokeh", "matplotlib"}
    """
    import holoviews as hv

    # Importing a backend registers it; options of one that is not registered are refused.
    importlib.import_module(f"holoviews.plotting.{'mpl' if backend == 'matplotlib' else backend}")
    settings = [name for name in SETTINGS if name in summary.setting]
    panels = [
        _panel(summary.sel(setting=setting), entries, quantity, backend, setting, legend=setting == settings[-1])
        for quantity in quantities
        for setting in settings
    ]
    words: dict[str, Any] = {"shared_axes": False}
    if backend == "matplotlib":
        words |= {"sublabel_format": "", "fig_inches": 5.4, "aspect_weight": 1, "hspace": 0.25, "vspace": 0.25}
    return hv.Layout(panels).cols(len(settings)).opts(**words, backend=backend)


def _panel(
    summary: xr.Dataset, entries: Sequence[Entry], quantity: Quantity, backend: str, setting: str, *, legend: bool
) -> Any:
    """Curves and bands of one quantity in one setting."""
    import holoviews as hv

    values = summary[quantity.variable].sel(estimator=list(dict.fromkeys(entry.name for entry in entries)))
    values = values.dropna(quantity.along, how="all")
    x = hv.Dimension(quantity.along, label="rows of the evaluation set")
    y = hv.Dimension(quantity.variable, label=quantity.label)
    bands, lines, shown = [], [], []
    for entry in entries:
        one = summary.sel(estimator=entry.name)
        size, line = values[quantity.along].values, values.sel(estimator=entry.name).values
        if not np.isfinite(line).any():
            continue
        low, high = (
            one.get(f"{quantity.variable}_{end}", one[quantity.variable]).reindex({quantity.along: size}).values
            for end in ("low", "high")
        )
        shown.append(line)
        if entry.band and f"{quantity.variable}_low" in summary:
            shown += [low, high]
            bands.append(hv.Area((size, low, high), x, [y, "above"]).opts(**_fill(entry, backend), backend=backend))
        data = (size, line, low, high, [entry.name] * len(size))
        curve = hv.Curve(data, x, [y, "low", "high", "estimator"], label=entry.label)
        lines.append(curve.opts(**_stroke(entry, quantity, backend), backend=backend))
    if not quantity.log and lines:
        # A curve, since HoloViews takes the names of axes from the first element, and HLine has none.
        level = float(summary["level"]) if quantity.along == "interval_size" else 0
        mark = hv.Curve([(size[0], level), (size[-1], level)], x, y)
        bands.append(mark.opts(color="#999999", show_legend=False, **_thin(backend), backend=backend))
    overlay = hv.Overlay([*bands, *lines])
    frame = _frame(values[quantity.along].values, shown, quantity, backend, SETTINGS[setting], legend=legend)
    return overlay.opts(**frame, backend=backend)


def _stroke(entry: Entry, quantity: Quantity, backend: str) -> dict[str, Any]:
    if backend == "matplotlib":
        return {"color": entry.color, "linestyle": entry.dash, "linewidth": entry.width}
    form = "{0 %}" if quantity.percent else "{0.0000}"
    name = quantity.variable
    numbers = [("", "@estimator"), ("rows", f"@{quantity.along}"), (quantity.label, f"@{name}{form}")]
    if quantity.variable in ("absolute", "relative"):
        numbers.append(("90 % interval", f"@low{form} to @high{form}"))
    dash = {"dashdot": "dotdash"}.get(entry.dash, entry.dash)
    return {
        "color": entry.color,
        "line_dash": dash,
        "line_width": entry.width,
        "tools": ["hover"],
        "hover_tooltips": numbers,
        "muted_alpha": 0.08,
    }


def _fill(entry: Entry, backend: str) -> dict[str, Any]:
    if backend == "matplotlib":
        return {"color": entry.color, "facecolor": entry.color, "alpha": 0.15, "linewidth": 0, "show_legend": False}
    return {"color": entry.color, "fill_alpha": 0.15, "line_width": 0, "show_legend": False}


def _thin(backend: str) -> dict[str, Any]:
    return {"linewidth": 0.9} if backend == "matplotlib" else {"line_width": 0.9}


def _frame(
    sizes: Any, shown: Sequence[Any], quantity: Quantity, backend: str, title: str, *, legend: bool
) -> dict[str, Any]:
    """Axes, title and legend of a panel that has room for all that is shown."""
    words: dict[str, Any] = {
        "logx": True,
        "logy": quantity.log,
        "title": title,
        "xlim": (sizes.min() / 1.03, sizes.max() * 1.03) if sizes.size else (1, 10),
        "xticks": [(int(tick), str(tick)) for tick in _marked(sizes)],
        "show_grid": True,
        "show_legend": legend,
        "legend_position": "right",
    }
    values = np.concatenate([np.zeros(0), *shown])
    finite = values[np.isfinite(values)]
    if quantity.log and (finite > 0).any():
        low, high = finite[finite > 0].min() / 1.08, finite.max() * 1.08
        words |= {"ylim": (low, high), "yticks": _ticks(low, high, percent=quantity.percent)}
    elif quantity.percent:
        words |= {"ylim": (-0.02, 1.02), "yticks": [(share / 10, f"{10 * share} %") for share in range(0, 11, 2)]}
    if backend == "matplotlib":
        return {**words, "show_legend": False, "aspect": "auto"}
    legend_words = {"click_policy": "mute", "label_text_font_size": "9pt", "spacing": 0, "padding": 4}
    # HoloViews calls plots with a given frame fixed, and Bokeh warns that such plots need a width and a height.
    sized = {"frame_width": 430, "frame_height": 360, "backend_opts": {"plot.sizing_mode": None}}
    return {**words, **sized, "legend_opts": legend_words if legend else {}}


def _marked(sizes: Any) -> list[int]:
    """Ticks of the sizes: each of a few, otherwise round ones."""
    if len(sizes) <= _FEW:
        return [int(size) for size in sizes]
    return [tick for tick in _TICKS if sizes.min() <= tick <= sizes.max()]


def _ticks(low: float, high: float, *, percent: bool) -> list[tuple[float, str]]:
    """Ticks 1, 2 and 5 of each decade of a logarithmic axis."""
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    return [(tick, f"{100 * tick:g} %" if percent else f"{tick:g}") for tick in ticks if low <= tick <= high]


@dataclass(frozen=True)
class Picture:
    """What one file, or one heading of the page, shows."""

    heading: str
    summary: xr.Dataset
    entries: list[Entry]
    quantities: Sequence[Quantity]


def pictures(summary: xr.Dataset) -> dict[str, Picture]:
    """All pictures by the name of their file."""
    drawn: dict[str, Picture] = {}
    for means in summary.means.values.tolist():
        every = summary.sel(means=means)
        published = every.isel(size=np.flatnonzero(every["size"] <= PUBLISHED))
        paper, where = paper_entries(every), MEANS.get(means, means)
        ours, errors, level = best_of_families(every), (ABSOLUTE, RELATIVE), 100 * float(every["level"])
        drawn |= {
            f"figure2-{means}": Picture(f"Figure 2 at the published sizes, {where}", published, paper, errors),
            f"figure2-{means}-all": Picture(f"Figure 2 at all sizes, {where}", every, paper, errors),
            f"ours-{means}": Picture(f"Our estimators, the best of each family, {where}", every, ours, errors),
        }
        for kind, entries, whose in (("paper", paper, "the paper's estimators"), ("ours", ours, "our estimators")):
            drawn |= {
                f"bias-{kind}-{means}": Picture(
                    f"Bias and spread of {whose}, {where}", published, entries, (BIAS, SPREAD)
                ),
                f"coverage-{kind}-{means}": Picture(
                    f"Coverage of {level:.3g} % intervals of {whose}, {where}", every, entries, COVERAGE
                ),
            }
    # A curve of a single point cannot be seen.
    return {name: picture for name, picture in drawn.items() if picture.summary.sizes[picture.quantities[0].along] > 1}


def save_all(made: Mapping[str, Picture], folder: Path) -> None:
    """Write the page ``index.html`` and a PNG of each picture."""
    page = {p.heading: drawn(p.summary, p.entries, p.quantities, "bokeh") for p in made.values()}
    save(page, folder / "index.html", title="How well is the expected calibration error estimated?", lead=_LEAD)
    for name, picture in made.items():
        _save_png(picture, folder / f"{name}.png")


_LEAD = (
    "Errors are medians over score distributions of the 95th percentile over replicates of |estimate - truth|, as it "
    "is (absolute: what the published figure shows) or divided by the truth (relative: what its caption says), without "
    "distributions whose truth is not known to 5 %. Bands are 90 % intervals that resample data distributions. Point "
    f"at a curve for its numbers; click on an entry of a legend to fade its curve. {CONVEX_NOTE} {ISJ_NOTE}"
)


def _save_png(picture: Picture, path: Path) -> None:
    """One legend for all panels, which HoloViews cannot draw by itself."""
    import holoviews as hv
    from matplotlib.lines import Line2D

    figure = hv.render(drawn(picture.summary, picture.entries, picture.quantities, "matplotlib"), backend="matplotlib")
    rows = len(picture.quantities)
    figure.set_size_inches(10, 0.5 + 4.2 * rows)
    figure.subplots_adjust(left=0.08, right=0.98, bottom=0.1 / rows, top=1 - 0.18 / rows, hspace=0.3, wspace=0.22)
    for axes in figure.axes:
        axes.minorticks_off()
        axes.grid(visible=True, color="#e4e4e4", linewidth=0.7)
        axes.set_axisbelow(True)
    lines = [
        Line2D([], [], color=entry.color, linestyle=entry.dash, linewidth=entry.width, label=entry.label)
        for entry in picture.entries
    ]
    figure.legend(handles=lines, loc="center left", bbox_to_anchor=(0.99, 0.5), frameon=False, handlelength=3.2)
    figure.suptitle(picture.heading, fontsize=13)
    with atomic_replacement(path) as part:
        figure.savefig(part, dpi=110, bbox_inches="tight")

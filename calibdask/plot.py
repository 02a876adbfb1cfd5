"""Pictures of results: functions from a dataset to a HoloViews object, and saving them as HTML, PNG or SVG."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

__all__ = ["FORMATS", "reliability_diagram", "save"]

# Suffixes that `save` knows.
FORMATS = (".html", ".png", ".svg")

# Okabe and Ito's colours, told apart by colour-blind readers.
_OVER, _UNDER = "#D55E00", "#0072B2"
_LINE, _BARS, _DIAGONAL, _INK = "#8c8c8c", "#9fb3c8", "#6e6e6e", "#333333"
_MOST_PANELS = 60
_MOST_COLUMNS = 5
_FEW_COLUMNS = 2
# A little room for points at 0 and 1.
_LIMITS = (-0.02, 1.02)
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class _Panel:
    """One curve: the bins that hold rows."""

    title: str
    score: np.ndarray
    outcome: np.ndarray
    count: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    error: float


def reliability_diagram(dataset: xr.Dataset, *, title: str = "") -> Any:
    """Reliability diagram: frequency of the outcome against the mean score by bin, rows by bin beneath.

    Points below the diagonal (orange) promise more than they keep, points above (blue) less; the stick between is the
    gap, the size of a point grows with its number of rows. The calibration error written inside is that of the bins
    shown: the mean of the gaps, weighted by rows.

    Parameters
    ----------
    dataset : xarray.Dataset
        What `calibdask.reliability_diagram` returns, or the result of `calibdask.evaluate` with one
        `calibdask.ReliabilityDiagram`. Classes, slices and other dimensions get a panel each.
    title : str, optional
        Heading of a single panel, or first words of the heading of each panel.

    Returns
    -------
    holoviews.Layout
        For `save`, a notebook or further composition.

    Raises
    ------
    ValueError
        If the dataset holds no diagram, several, or more than 60 curves.

    Examples
    --------
    >>> import calibdask as cd
    >>> from calibdask.plot import reliability_diagram
    >>> diagram = reliability_diagram(cd.reliability_diagram([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2))
    >>> len(diagram)
    2
    """
    import holoviews as hv

    panels = list(_panels(_plain(dataset), title))
    lines = ceil(len(panels) / _MOST_COLUMNS)
    columns = ceil(len(panels) / lines)
    parts: list[Any] = []
    for start in range(0, len(panels), columns):
        line = panels[start : start + columns]
        # A short last line is filled up, or its histograms would move up beside its curves.
        gap = [hv.Empty() for _ in range(columns - len(line))]
        parts += [_curve(panel, first=i == 0) for i, panel in enumerate(line)] + gap
        parts += [_histogram(panel, first=i == 0) for i, panel in enumerate(line)] + gap
    return _styled(hv.Layout(parts).cols(columns), "bokeh", columns)


def save(plot: Any, path: str | Path, *, title: str = "calibdask", lead: str = "") -> None:
    """Write a plot: ``.html`` is one page that opens without a network, ``.png`` and ``.svg`` need matplotlib.

    Parameters
    ----------
    plot : holoviews object, or mapping from heading to holoviews object
        Several plots make one page, ``.html`` only.
    path : str or Path
    title, lead : str
        Title and first paragraph of the page.

    Raises
    ------
    ValueError
        If the suffix is none of these, or does not fit, or matplotlib is not there.

    Examples
    --------
    >>> import os, tempfile
    >>> import calibdask as cd
    >>> from calibdask.plot import reliability_diagram, save
    >>> diagram = reliability_diagram(cd.reliability_diagram([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(diagram, os.path.join(folder, "page.html"))
    ...     os.listdir(folder)
    ['page.html']
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"A plot expects a file name that ends in one of {', '.join(FORMATS)}, got {str(path)!r}.")
    import holoviews as hv

    if suffix == ".html":
        Path(path).write_text(_page(plot if isinstance(plot, Mapping) else {"": plot}, title, lead), encoding="utf-8")
        return
    if isinstance(plot, Mapping):
        raise ValueError(f"Several plots expect an .html file, got {str(path)!r}.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ValueError(f"{suffix} files expect matplotlib; install it, or write an .html file.") from None
    hv.save(_styled(plot, "matplotlib", plot._max_cols), path, fmt=suffix[1:], backend="matplotlib", dpi=120)


_PAGE = """
{% block postamble %}
<style>
  body { margin: 2rem auto; max-width: 1450px; padding: 0 1.5rem; height: auto; color: #222;
         font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
  h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 1.8rem 0 .4rem; }
  p { max-width: 60rem; margin: .3rem 0 1rem; } figure { margin: 0; overflow-x: auto; }
  .over { color: OVER; font-weight: 600; } .under { color: UNDER; font-weight: 600; }
</style>
{% endblock %}
{% block contents %}
{% from macros import embed %}
<h1>{{ title | e }}</h1>
{% if lead %}<p>{{ lead | e }}</p>{% endif %}
<p>Each point is a bin: how often the outcome came true, against the mean score. On the dashed line both agree;
<span class="over">below it</span> the scores promise more than comes true, <span class="under">above it</span> less.
Larger points hold more rows; the bars beneath count them. Point at anything for its numbers.</p>
{% for root in docs[0].roots %}
{% if headings[loop.index0] %}<h2>{{ headings[loop.index0] | e }}</h2>{% endif %}
<figure>{{ embed(root) }}</figure>
{% endfor %}
{% endblock %}
""".replace("OVER", _OVER).replace("UNDER", _UNDER)


def _page(plots: Mapping[str, Any], title: str, lead: str) -> str:
    """One page with its scripts inside."""
    import holoviews as hv
    from bokeh.embed import file_html
    from bokeh.resources import INLINE

    models = [hv.render(plot, backend="bokeh") for plot in plots.values()]
    variables = {"headings": list(plots), "lead": lead}
    return str(file_html(models, INLINE, title, template=_PAGE, template_variables=variables))


def _plain(dataset: xr.Dataset) -> xr.Dataset:
    """The variables of the one diagram in a dataset, with plain names."""
    names = ["score", "outcome", "count", "weight", "lower", "upper"]
    prefixes = [
        str(name).removesuffix("outcome")
        for name in dataset.data_vars
        if str(name).endswith("outcome")
        and {str(name).removesuffix("outcome") + n for n in names} <= set(map(str, dataset.data_vars))
    ]
    if len(prefixes) != 1:
        raise ValueError(
            f"A reliability diagram expects a dataset with {', '.join(names)} of one cd.ReliabilityDiagram, "
            f"got {len(prefixes)} diagrams among {', '.join(map(str, dataset.data_vars))}."
        )
    prefix = prefixes[0]
    return dataset[[prefix + name for name in names]].rename({prefix + name: name for name in names if prefix})


def _panels(diagram: xr.Dataset, title: str) -> Iterator[_Panel]:
    """One panel for each class, slice and other dimension."""
    bins = diagram["outcome"].dims[-1]
    dims = [dim for dim in diagram["outcome"].dims if dim != bins]
    total = int(np.prod([diagram.sizes[dim] for dim in dims], dtype=np.int64))
    if total > _MOST_PANELS:
        sizes = ", ".join(f"{dim}: {diagram.sizes[dim]}" for dim in dims)
        raise ValueError(
            f"A reliability diagram expects at most {_MOST_PANELS} curves, got {total} ({sizes}); select some of them."
        )
    for place in product(*(range(diagram.sizes[dim]) for dim in dims)):
        at = dict(zip(dims, place, strict=True))
        one = diagram.isel(at)
        words = [f"{dim} {one[dim].item() if dim in one.coords else at[dim]}" for dim in dims]
        filled = one["count"].values > 0
        values = {name: np.asarray(one[name].values, np.float64)[filled] for name in ("score", "outcome", "count")}
        weight = one["weight"].values[filled]
        gaps = np.abs(values["outcome"] - values["score"])
        yield _Panel(
            title=" · ".join(([title] if title else []) + words),
            lower=one["lower"].values[filled],
            upper=one["upper"].values[filled],
            error=float((weight * gaps).sum() / weight.sum()) if weight.sum() > 0 else np.nan,
            **values,
        )


def _curve(panel: _Panel, *, first: bool) -> Any:
    """Diagonal, gaps and points."""
    import holoviews as hv

    gap = panel.outcome - panel.score
    color = np.where(gap < 0, _OVER, _UNDER)
    share = np.sqrt(panel.count / panel.count.max()) if panel.count.size else panel.count
    x, y = hv.Dimension("score", label="mean score"), _labelled("outcome", "frequency of the outcome", first)
    sticks = (panel.score, panel.score, panel.score, panel.outcome, color)
    points = (panel.score, panel.outcome, gap, panel.count, share, color)
    error = "no rows" if np.isnan(panel.error) else f"ECE {panel.error:.4f}"
    overlay = (
        hv.Slope(1, 0, kdims=[x, y])
        * hv.Curve((panel.score, panel.outcome), x, y)
        * hv.Segments(sticks, [x, y, "x1", "y1"], "color")
        * hv.Points(points, [x, y], ["gap", "rows", "share", "color"])
        * hv.Text(0.03, 0.94, error, fontsize=9, halign="left", kdims=[x, y])
    )
    return overlay.relabel(panel.title)


def _histogram(panel: _Panel, *, first: bool) -> Any:
    """Rows by bin."""
    import holoviews as hv

    bars = (panel.lower, np.zeros_like(panel.count), panel.upper, panel.count)
    x, y = hv.Dimension("left", label="score"), _labelled("bottom", "rows", first)
    return hv.Rectangles(bars, [x, y, "right", "top"])


def _labelled(name: str, label: str, shown: bool) -> Any:
    """A dimension whose label only the first panel of a line shows."""
    import holoviews as hv

    return hv.Dimension(name, label=label if shown else " ")


def _styled(layout: Any, backend: str, columns: int) -> Any:
    """The look, in the words of each backend."""
    import importlib

    # Importing a backend registers it; options of one that is not registered are refused.
    importlib.import_module(f"holoviews.plotting.{'mpl' if backend == 'matplotlib' else backend}")
    look = _matplotlib_look(columns) if backend == "matplotlib" else _bokeh_look(columns)
    return layout.options(look, backend=backend, clone=False)


def _bokeh_look(columns: int) -> dict[str, dict[str, Any]]:
    from holoviews import dim

    size = {1: 460, 2: 380, 3: 320}.get(columns, 220)
    # Equal borders, or a curve and its histogram would not stand exactly one above the other.
    left, right, title, axis = 60, 12, 28, 40
    frame = {
        "width": size + left + right,
        "xlim": _LIMITS,
        "xticks": _TICKS,
        "toolbar": None,
        "fontsize": {"title": "10pt", "labels": "9pt", "ticks": "8pt"},
    }
    borders = {
        "plot.min_border_left": left,
        "plot.min_border_right": right,
        "plot.outline_line_color": None,
        "xaxis.minor_tick_line_color": None,
        "yaxis.minor_tick_line_color": None,
        "xaxis.major_tick_in": 0,
        "yaxis.major_tick_in": 0,
    }
    return {
        "Slope": {"color": _DIAGONAL, "line_dash": "dashed", "line_width": 1.2},
        "Curve": {"color": _LINE, "line_width": 1.2},
        "Segments": {"color": "color", "line_width": 3, "alpha": 0.55},
        "Points": {
            "color": "color",
            "size": 5 + dim("share") * (9 if columns <= _FEW_COLUMNS else 5),
            "line_color": "white",
            "tools": ["hover"],
            "hover_tooltips": [
                ("mean score", "@score{0.0000}"),
                ("frequency", "@outcome{0.0000}"),
                ("gap", "@gap{+0.0000}"),
                ("rows", "@rows{0,0}"),
            ],
        },
        "Text": {"text_color": _INK},
        "Overlay": {
            **frame,
            "height": size + title + axis // 2,
            "ylim": _LIMITS,
            "yticks": _TICKS,
            "backend_opts": borders,
            "xlabel": "",
            "show_legend": False,
            "show_grid": True,
        },
        "Rectangles": {
            **frame,
            "height": max(60, size // 5) + axis + 5,
            "ylim": (0, None),
            "backend_opts": borders,
            "color": _BARS,
            "line_color": "white",
            "yticks": 3,
            "tools": ["hover"],
            "hover_tooltips": [("scores", "@left{0.0000} to @right{0.0000}"), ("rows", "@top{0,0}")],
        },
        "Layout": {"shared_axes": False, "toolbar": None},
    }


def _matplotlib_look(columns: int) -> dict[str, dict[str, Any]]:
    from holoviews import dim

    few = columns <= _FEW_COLUMNS
    frame = {"xlim": _LIMITS, "fontsize": {"title": 9.5, "labels": 8.5, "ticks": 8}, "show_grid": True}
    return {
        "Slope": {"color": _DIAGONAL, "linestyle": "dashed", "linewidth": 1.0},
        "Curve": {"color": _LINE, "linewidth": 1.0},
        "Segments": {"color": "color", "linewidth": 2.5, "alpha": 0.55},
        "Points": {"color": "color", "s": (5 + dim("share") * (7 if few else 3)) ** 2, "edgecolors": "white"},
        "Text": {"color": _INK},
        "Overlay": {
            **frame,
            "ylim": _LIMITS,
            "xticks": list(_TICKS),
            "yticks": list(_TICKS),
            "xlabel": "",
            "aspect": 1,
            "show_legend": False,
        },
        "Rectangles": {
            **frame,
            "show_grid": False,
            "ylim": (0, None),
            "xticks": list(_TICKS),
            "yticks": 3,
            "color": _BARS,
            "edgecolor": "white",
            "aspect": 4,
        },
        "Layout": {
            "shared_axes": False,
            "sublabel_format": "",
            "aspect_weight": 1,
            "fig_inches": 4.5 if few else 3.0,
            "vspace": 0.25,
            "hspace": 0.25,
            "tight": True,
        },
    }

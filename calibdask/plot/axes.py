"""Reliability diagrams and curves on Matplotlib axes, where the caller may draw more."""

from collections.abc import Mapping
from dataclasses import replace
from textwrap import wrap
from typing import Any

import numpy as np
import xarray as xr

from calibdask.plot.frame import Frame, interval_name, notes
from calibdask.plot.naming import axes_in
from calibdask.plot.panels import Panel, panels
from calibdask.plot.style import DIAGONAL, GRID, ROWS
from calibdask.results.reliability import BinnedReliability, SmoothReliability, only_metric

_MOST_LINES = 10
_SIZE = (5.0, 5.6)
# Marks the axes of rows that belong to those of a diagram.
_ROWS_BENEATH = "calibdask-rows"
_CALIBRATED = "calibrated"
_LONGEST = 62


def drawn(
    result: xr.Dataset,
    kind: str,
    name: str,
    ax: Any,
    *,
    ref_line: bool,
    size: tuple[float, float] | None,
    dpi: float | None,
    style: Mapping[str, Any],
) -> list[Any]:
    """Draw the diagrams, or the curves, of a result as lines of one axes; the lines.

    Raises
    ------
    ValueError
        If there is none, or more than can be told apart.
    """
    read: Any = BinnedReliability if kind == "diagram" else SmoothReliability
    metric = only_metric(result, read.kind)
    shown: list[Panel[Any]] = panels(result, read, metric)
    if len(shown) > _MOST_LINES:
        raise ValueError(f"One axes shows at most {_MOST_LINES} {kind}s, got {len(shown)}; select some of them.")
    if ax is None:
        ax = _axes_with_rows(size, dpi)
    frame = Frame.of([panel.shown for panel in shown])
    _prepare(ax, frame, axes_in(result, read.kind, metric))
    lines = []
    for panel in shown:
        # Matplotlib would read what is between two dollar signs as a formula.
        label = " · ".join(filter(None, (name, panel.heading))).replace("$", r"\$")
        lines.append(_line(ax, frame, panel.shown, label, dict(style)))
        _note(ax, panel.shown, label)
    if ref_line and _CALIBRATED not in ax.get_legend_handles_labels()[1]:
        ends = [1e-9, 1 - 1e-9]
        ax.plot(ends, ends, color=DIAGONAL, linestyle="dashed", linewidth=1, label=_CALIBRATED, zorder=1, scalex=False)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc="upper left", frameon=False, fontsize="small")
    return lines


def _axes_with_rows(size: tuple[float, float] | None, dpi: float | None) -> Any:
    """Axes of a new figure, with histogram axes below."""
    import matplotlib.pyplot as plt

    _, (ax, beneath) = plt.subplots(
        2, 1, sharex=True, height_ratios=[5, 1], figsize=size or _SIZE, dpi=dpi, layout="constrained"
    )
    beneath.set_gid(_ROWS_BENEATH)
    beneath.set_ylabel(ROWS)
    beneath.spines[["top", "right"]].set_visible(False)
    return ax


def _beneath(ax: Any) -> Any:
    """The axes of rows that belong to these, if there are any."""
    siblings = ax.get_shared_x_axes().get_siblings(ax)
    return next((other for other in siblings if other.get_gid() == _ROWS_BENEATH), None)


def _prepare(ax: Any, frame: Frame, names: tuple[str, str]) -> None:
    """Scale, ends, grid and names of the axes; axes that hold something already are only lengthened."""
    across, upward = (frame.axis.scores(np.array(ends)) if frame.axis.logit else ends for ends in _ends(frame))
    if ax.has_data():
        across, upward = _united(across, ax.get_xlim()), _united(upward, ax.get_ylim())
    else:
        if frame.axis.logit:
            ax.set_xscale("logit")
            ax.set_yscale("logit")
        (_beneath(ax) or ax).set_xlabel(names[0])
        ax.set_ylabel(names[1])
        ax.grid(visible=True, color=GRID, linewidth=0.8)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlim(across)
    ax.set_ylim(upward)
    if ax.get_xscale() == "logit":
        from matplotlib.ticker import NullFormatter

        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.yaxis.set_minor_formatter(NullFormatter())


def _ends(frame: Frame) -> tuple[tuple[float, float], tuple[float, float]]:
    return frame.across, frame.upward


def _united(ends: Any, others: Any) -> tuple[float, float]:
    return min(ends[0], others[0]), max(ends[1], others[1])


def _line(
    ax: Any, frame: Frame, shown: BinnedReliability | SmoothReliability, label: str, style: dict[str, Any]
) -> Any:
    """The line, its intervals and the rows beneath."""
    on = np.isfinite(frame.x(shown.score))
    is_logit = ax.get_xscale() == "logit"

    def upward(frequencies: Any) -> Any:
        # Frequencies of 0 and 1 have no logits: they stand at the edge.
        return np.clip(frequencies[on], *ax.get_ylim()) if is_logit else frequencies[on]

    is_bins = isinstance(shown, BinnedReliability)
    usual = {"marker": "o", "markersize": 4.5, "linewidth": 1.0} if is_bins else {"linewidth": 1.8}
    values = shown.outcome if isinstance(shown, BinnedReliability) else shown.reliability
    (line,) = ax.plot(shown.score[on], upward(values), **{**usual, "label": label or None, **style})
    color, kind = line.get_color(), interval_name(shown)
    if kind:
        caption = kind if kind not in ax.get_legend_handles_labels()[1] else None
        low, high = upward(shown.low), upward(shown.high)
        if is_bins:
            ax.vlines(shown.score[on], low, high, color=color, linewidth=1.2, alpha=0.8, label=caption)
        else:
            ax.fill_between(shown.score[on], low, high, color=color, alpha=0.2, linewidth=0, label=caption)
    beneath = _beneath(ax)
    if beneath is not None:
        _rows(beneath, shown, color)
    return line


def _rows(beneath: Any, shown: BinnedReliability | SmoothReliability, color: str) -> None:
    """The rows by even part of the axis, or by bin."""
    if shown.drawn is not None:
        borders = shown.drawn.axis.spread(shown.drawn.bars.size + 1)
        beneath.stairs(shown.drawn.bars, borders, fill=True, color=color, alpha=0.35)
    elif isinstance(shown, BinnedReliability):
        widths = shown.upper - shown.lower
        beneath.bar(shown.lower, shown.count, widths, align="edge", color=color, alpha=0.35, edgecolor="white")
    else:
        beneath.set_ylabel("density")
        beneath.fill_between(shown.score, shown.density, color=color, alpha=0.35, linewidth=0)
    beneath.set_ylim(0, None)


def _note(ax: Any, shown: BinnedReliability | SmoothReliability, label: str) -> None:
    """Add the note on omitted data below the axis name."""
    axis = _beneath(ax) or ax
    if shown.drawn is not None and shown.drawn.axis.logit and ax.get_xscale() != "logit":
        # The axes held something already, and their scale is that of the first.
        shown = replace(shown, drawn=shown.drawn._replace(axis=shown.drawn.axis._replace(logit=False)))
    caption = " ".join(notes(shown))
    lines = wrap(f"{label}: {caption}" if label else caption, _LONGEST) if caption else []
    axis.set_xlabel("\n".join((axis.get_xlabel(), *lines)), fontsize="small")

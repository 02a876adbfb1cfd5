"""How seconds and memory grow with the rows, drawn from the races of several sizes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibdask.storage.atomic_replace import atomic_replacement
from experiments.scaling.tables import Table

# Okabe and Ito's colours by contestant; dashes for what is measured by slice.
_COLORS = {"calibdask": "#0072B2", "DuckDB": "#D55E00", "polars": "#009E73", "NumPy": "#000000"}
_MARKERS = "os^DvP"
_QUANTITIES = {"processor": "processor seconds, imports included", "peak_mb": "peak memory of the process, MB"}


def save(races: Mapping[int, Table], path: Path) -> None:
    """Processor seconds and peak memory by rows, both axes logarithmic, a line for each contestant."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    panels: Any = figure.subplots(1, len(_QUANTITIES))
    names = list(dict.fromkeys(row["contestant"] for table in races.values() for row in table.rows))
    of_tool = {tool: [name for name in names if name.startswith(tool)] for tool in _COLORS}
    for axes, (key, title) in zip(panels, _QUANTITIES.items(), strict=True):
        for name in names:
            tool = next(tool for tool in _COLORS if name.startswith(tool))
            points = {
                rows: row[key] for rows, table in races.items() for row in table.rows if row["contestant"] == name
            }
            axes.plot(
                list(points),
                list(points.values()),
                color=_COLORS[tool],
                marker=_MARKERS[of_tool[tool].index(name)],
                linestyle="dashed" if "slice" in name else "solid",
                label=name,
            )
        axes.set(xscale="log", yscale="log", xlabel="rows", title=title)
        axes.grid(color="#dddddd")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    with atomic_replacement(path) as unfinished:
        figure.savefig(unfinished, dpi=120, format="png")

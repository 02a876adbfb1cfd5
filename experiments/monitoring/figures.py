"""False signals over looks, and delays over the number of rows a day."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from calibdask.storage.atomic_replace import atomic_replacement
from experiments.monitoring.kinds import KINDS
from experiments.monitoring.study import DETECTOR, DETECTOR_TOLERANCE, DETECTOR_YEAR, E_PROCESS, E_TOLERANCE
from experiments.monitoring.tables import TITLES

# Okabe and Ito's colours, told apart by colour-blind readers; dashes tell variants of one monitor apart.
STYLES = {
    E_PROCESS: ("#0072B2", "solid"),
    E_TOLERANCE: ("#0072B2", "dashed"),
    DETECTOR_YEAR: ("#D55E00", "solid"),
    DETECTOR_TOLERANCE: ("#D55E00", "dashed"),
    DETECTOR: ("#D55E00", "dotted"),
    "daily test": ("#000000", "dotted"),
    "daily test, Bonferroni": ("#000000", "solid"),
    "cusum": ("#009E73", "solid"),
    "cusum, Brier": ("#009E73", "dashed"),
    "moving ece, 95 %": ("#CC79A7", "dotted"),
    "moving ece, 99 %": ("#CC79A7", "solid"),
    "psi 0.1": ("#999999", "dotted"),
    "psi 0.25": ("#999999", "solid"),
}
# Delays are shown of those that keep a level over all looks, or nearly.
_DELAYS = (E_PROCESS, E_TOLERANCE, DETECTOR_YEAR, DETECTOR_TOLERANCE, "daily test, Bonferroni", "cusum", "cusum, Brier")
_COLUMNS = 3


def save_all(summary: xr.Dataset, folder: Path) -> None:
    """Write ``false_alarms.png`` and ``delays.png``."""
    _save(_false_alarms(summary), folder / "false_alarms.png")
    _save(_delays(summary), folder / "delays.png")


def _false_alarms(summary: xr.Dataset) -> Any:
    kinds = [kind for kind in summary["kind"].values if not KINDS[kind].changes]
    figure, grid = _grid(len(kinds))
    for axes, kind in zip(grid, kinds, strict=False):
        for monitor, (color, dash) in STYLES.items():
            line = summary["by_look"].sel(kind=kind, monitor=monitor)
            axes.plot(line["look"], line, color=color, linestyle=dash, label=monitor)
        axes.axhline(summary.attrs["alpha"], color="#bbbbbb", linewidth=4, alpha=0.5, zorder=0)
        axes.set(title=TITLES[kind], ylim=(-0.02, 1.02))
        if kind == "other people":
            axes.axvline(summary.attrs["change"], color="#bbbbbb", linewidth=1)
    _finish(figure, grid, len(kinds), "share of streams that have had a signal", "look")
    return figure


def _delays(summary: xr.Dataset) -> Any:
    kinds = [kind for kind in summary["kind"].values if KINDS[kind].changes]
    figure, grid = _grid(len(kinds))
    most = summary.attrs["looks"] - summary.attrs["change"]
    missed = 1.8 * most
    for axes, kind in zip(grid, kinds, strict=False):
        for number, monitor in enumerate(_DELAYS):
            color, dash = STYLES[monitor]
            line = summary["delay"].sel(kind=kind, monitor=monitor)
            # Lines that coincide stay visible beside each other.
            height = np.where(np.isinf(line), missed, line) * 1.03 ** (number - len(_DELAYS) // 2)
            axes.plot(line["rows"], height, color=color, linestyle=dash, marker=".", label=monitor)
        axes.axhspan(1.3 * most, 2.5 * most, color="#f0f0f0", zorder=0)
        axes.set(title=TITLES[kind], xscale="log", yscale="log", ylim=(0.8, 2.5 * most))
        ticks = [number for number in (1, 3, 10, 30, 100) if number < most]
        axes.set_yticks([*ticks, missed], [*map(str, ticks), "none"])
        axes.minorticks_off()
    _finish(figure, grid, len(kinds), "looks until half of the streams have a signal", "rows a day")
    return figure


def _grid(panels: int) -> tuple[Any, Any]:
    import matplotlib.pyplot as plt

    lines = -(-panels // _COLUMNS)
    figure, grid = plt.subplots(
        lines, _COLUMNS, figsize=(11, 0.6 + 3.1 * lines), sharex=True, sharey=True, squeeze=False
    )
    return figure, grid.ravel()


def _finish(figure: Any, grid: Any, panels: int, label: str, below: str) -> None:
    for number, axes in enumerate(grid):
        axes.set_visible(number < panels)
        axes.grid(visible=True, color="#e4e4e4", linewidth=0.7)
        axes.set_axisbelow(True)
        # The lowest panel of each column has the numbers.
        lowest = number + _COLUMNS >= panels
        axes.tick_params(labelbottom=lowest)
        axes.set_xlabel(below if lowest else "")
    figure.supylabel(label)
    handles, names = grid[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="center left", bbox_to_anchor=(0.99, 0.5), frameon=False, handlelength=3.2)
    figure.tight_layout()


def _save(figure: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    with atomic_replacement(path) as part:
        figure.savefig(part, dpi=100, bbox_inches="tight", format="png")
    plt.close(figure)

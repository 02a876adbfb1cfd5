"""Tables of the summary as Markdown."""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from experiments.monitoring.kinds import KINDS

# How streams are called in tables.
TITLES = {
    "calibrated": "Calibrated",
    "other people": "Other people, same behaviour",
    "rare": "Rare outcomes of 1 %, calibrated",
    "repeated rows": "Five rows with one outcome, calibrated",
    "within tolerance": "Off by 0.005 from the first look on",
    "shift 0.005": "Shift by 0.005",
    "shift 0.01": "Shift by 0.01",
    "shift 0.02": "Shift by 0.02",
    "shift 0.05": "Shift by 0.05",
    "slope": "Overconfident, slope 0.8",
    "one group": "One group of scores, off by 0.1",
    "gradual": "Gradual, to 0.05 in 100 days",
    "bad day": "A single bad day, off by 0.2",
    "rare, doubled": "Rare outcomes, doubled",
}


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table, and an empty one."""
    return [*(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)), ""]


def percent(value: float) -> str:
    """A share in percent; nothing of NaN."""
    return "" if np.isnan(value) else f"{100 * value:.0f} %"


def results(summary: xr.Dataset) -> list[str]:
    """All tables."""
    at = summary.attrs
    changing = [kind for kind in summary["kind"].values if KINDS[kind].changes]
    missing = at["cells"] - at["cells_done"]
    lines = [
        "# Watching calibration: false alarms and delays",
        "",
        f"{at['streams']} streams of {at['looks']} looks of each kind and number of rows a day; alpha "
        f"{at['alpha']:g}, tolerance {at['tolerance']:g}. Changes begin on look {at['change'] + 1}."
        + (f" **{missing} of {at['cells']} cells are not done and left out.**" if missing else ""),
        "",
        "## Share of streams that ever raise a signal",
        "",
        "Of streams that are calibrated (off by 0.005: within the tolerance) all of these signals are false.",
        "",
    ]
    for kind in summary["kind"].values:
        if not KINDS[kind].changes:
            lines += [f"### {TITLES[kind]}", "", *_by_rows(summary["ever"].sel(kind=kind), percent)]
    if "calibrated" in summary["kind"]:
        lines += [
            "## False signals in 100 looks",
            "",
            "Of calibrated streams; the e-process does not fall silent after its alarm.",
            "",
            *_by_rows(100 * summary["often"].sel(kind="calibrated"), "{:.1f}".format),
        ]
    lines += [
        "## Looks until a change is signalled",
        "",
        "Within so many looks half of the streams / 90 % of them have a signal; the first look with the change is "
        f"number 1; –: not within the {at['looks'] - at['change']} looks that remain. What raises false signals every "
        "few days has small numbers here whatever happens: compare with those of calibrated streams.",
        "",
    ]
    for kind in [*(["calibrated"] if "calibrated" in summary["kind"] else []), *changing]:
        lines += [f"### {TITLES[kind]}", "", *_delays(summary.sel(kind=kind))]
    lines += [
        "## When the change began",
        "",
        "By the e-process, in days after the true day: median of the streams with an alarm in the end.",
        "",
        *_kinds_by_rows(summary["since"].sel(kind=changing), lambda days: f"{round(days):+d}"),
        "## Confidence sequences of the gap",
        "",
        "Share of streams in which the mean offset was outside on any look; promised is 5 % at most where rows are "
        "independent.",
        "",
        *_kinds_by_rows(summary["outside"], percent),
    ]
    return lines


def _by_rows(values: xr.DataArray, form: Callable[[float], str]) -> list[str]:
    """A row for each monitor, a column for each number of rows."""
    body = [
        [str(monitor), *(form(float(values.sel(monitor=monitor, rows=rows))) for rows in values["rows"].values)]
        for monitor in values["monitor"].values
    ]
    return table(_header(values), body)


def _kinds_by_rows(values: xr.DataArray, form: Callable[[float], str]) -> list[str]:
    body = []
    for kind in values["kind"].values:
        numbers = [float(values.sel(kind=kind, rows=rows)) for rows in values["rows"].values]
        body.append([TITLES[kind], *("" if np.isnan(number) else form(number) for number in numbers)])
    return table(_header(values), body)


def _delays(summary: xr.Dataset) -> list[str]:
    body = []
    for monitor in summary["monitor"].values:
        cells = [str(monitor)]
        for rows in summary["rows"].values:
            at = summary.sel(monitor=monitor, rows=rows)
            missed = float(at["missed"])
            ends = [_look(float(at[name])) for name in ("delay", "delay_90")]
            text = ends[0] if ends[0] == ends[1] else " / ".join(ends)
            cells.append(f"{text} ({percent(missed)} missed)" if missed > 0 else text)
        body.append(cells)
    return table(_header(summary["delay"]), body)


def _look(number: float) -> str:
    if np.isnan(number):
        return ""
    return "–" if np.isinf(number) else f"{number:.0f}"


def _header(values: xr.DataArray) -> list[str]:
    return ["rows a day", *(f"{rows:,}" for rows in values["rows"].values)]

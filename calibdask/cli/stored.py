"""Stored summaries as the DATA of ``calibdask evaluate``."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

__all__ = ["extra_dims", "panel", "pooled", "refuse_row_options", "with_extra_dims"]

# Attribute that names, as JSON, the dimensions of a summary that are no slices: models, replicates.
_EXTRA = "extra_dims"


def with_extra_dims(summary: Any, slices: Sequence[str]) -> Any:
    """The summary with a note of which of its dimensions are no slices and must not be added up."""
    extra = [str(dim) for dim in summary["rows"].dims if dim not in slices]
    return summary.assign_attrs({_EXTRA: json.dumps(extra)}) if extra else summary


def extra_dims(summary: Any) -> list[str]:
    """Dimensions noted by `with_extra_dims`."""
    noted = json.loads(summary.attrs.get(_EXTRA, "[]"))
    return [name for name in noted if name in summary["rows"].dims]


def refuse_row_options(data: str, options: Mapping[str, str | None]) -> None:
    """Raise UsageError for options that only rows have a use for."""
    for option, value in options.items():
        if value is not None:
            raise click.UsageError(f"{option} means nothing to {data}: it is a stored summary, which holds no rows.")


def pooled(summary: Any, by: Sequence[str], data: str) -> Any:
    """The summary with these slices, in this order; all others are added up.

    Raises
    ------
    click.UsageError
        If it has no such slices.
    ValueError
        If this version cannot read it.
    """
    from calibdask.engine.summaries import read_summary

    names = [axis.name for axis in read_summary(summary).by]
    extra = extra_dims(summary)
    slices = [name for name in names if name not in extra]
    for name in by:
        if name not in slices:
            there = ", ".join(map(str, slices)) or "none"
            raise click.UsageError(f"--by {name} expects a slice of the summary {data}; it has {there}.")
    gone = [name for name in slices if name not in by]
    kept = [*(name for name in names if name in extra), *dict.fromkeys(by)]
    # Missing weights stay visible as such: nothing is skipped.
    return (summary.sum(gone, skipna=False) if gone else summary).transpose(*kept, ...)


def panel(summary: Any, setting: str | int | None) -> dict[str, Any]:
    """The metrics to compute when none are named: those of the library's panel for which the summary has histograms."""
    from calibdask.estimators.panel import summary_metrics

    classes, vector = int(summary["classes"]), bool(summary["vector"])
    there = {str(name).removesuffix("_count") for name in summary.data_vars}
    told = there | ({f"class_{k}" for k in range(classes)} if "classwise" in there else set())
    usual = _word(setting, "class_1" if vector else "confidence")
    metrics: dict[str, Any] = {**summary_metrics(classes, vector)}
    # With nothing of the panel known, the library says what there is.
    return {name: each for name, each in metrics.items() if _word(each.setting, usual) in told} or metrics


def _word(setting: str | int | None, usual: str) -> str:
    """What variables of a summary are called after."""
    if setting is None:
        return usual
    return "class_1" if setting == "binary" else f"class_{setting}" if isinstance(setting, int) else setting

"""Stored summaries as the DATA of ``calibdask evaluate``."""

from collections.abc import Sequence
from typing import Any

import click

from calibdask.cli.rows import RowsRequest

__all__ = ["panel", "pooled", "refuse_row_options", "refuse_summary"]


def refuse_row_options(request: RowsRequest) -> None:
    """Raise UsageError for options that only rows have a use for."""
    for option, value in {"--label": request.label, "--score": request.score, "--weight": request.weight}.items():
        if value is not None:
            raise click.UsageError(
                f"{option} means nothing to {request.data}: it is a stored summary, which holds no rows."
            )


def refuse_summary(data: str, mended: str) -> None:
    """Raise UsageError if this is a summary, saying what is expected instead."""
    from calibdask.engine.summary_files import open_summary

    summary = open_summary(data)
    if summary is not None:
        summary.close()
        raise click.UsageError(f"{data} is a stored summary already; {mended}")


def pooled(summary: Any, by: Sequence[str], data: str) -> Any:
    """The summary with these slices, in this order; all others are added up.

    Raises
    ------
    click.UsageError
        If it has no such slices.
    ValueError
        If this version cannot read it.
    """
    from calibdask.engine.summaries import extra_dims, read_summary

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
    """The metrics to compute when none are named, for those that name no setting with this one."""
    from calibdask.engine.summaries import read_summary
    from calibdask.evaluation import usual_metrics

    return {**usual_metrics(read_summary(summary).source, setting)}

"""Stored summaries as the DATA of ``calibdask evaluate`` and ``calibdask report``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.rows_request import RowsRequest

if TYPE_CHECKING:
    from calibdask.storage.summary import Summary


def refuse_row_options(request: RowsRequest) -> None:
    """Raise UsageError for options that only rows have a use for."""
    given = {"label": request.label, "score": request.score, "weight": request.weight, **request.reading}
    given |= {"groups": request.groups}
    given |= {"skip_missing": request.skip_missing or None}
    if request.missing_chunks != "error":
        given["missing_chunks"] = request.missing_chunks
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value is not None:
            raise click.UsageError(
                f"{option} has no effect on {request.data}: it is a stored summary, which holds no rows."
            )


def pooled(summary: "Summary", by: Sequence[str]) -> "Summary":
    """The summary with these slices, in this order; all others are added up.

    Raises
    ------
    click.UsageError
        If it has no such slices.
    """
    from calibdask.engine.axes import slice_dimension

    for name in by:
        # Columns whose names results need for themselves, such as rows, are slices of other names.
        if not {name, slice_dimension(name)} & {*summary.slices}:
            there = ", ".join(summary.slices) or "none"
            raise click.UsageError(f"--by {name} expects a slice of the summary {summary.url}; it has {there}.")
    return summary.pooled(by)


def panel(summary: "Summary", setting: str | int | None, *, full: bool = False) -> dict[str, Any]:
    """The metrics to compute when none are named, for those that name no setting with this one."""
    from calibdask.analyses.clustered import clustered_panel
    from calibdask.analyses.evaluation import usual_metrics

    metrics, layout = usual_metrics(summary.source, setting, full=full), summary.source.layout
    return clustered_panel(metrics, layout) if layout.clustered else {**metrics}

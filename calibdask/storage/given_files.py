"""What the user gave to `calibdask.evaluate` and `calibdask.summarize`: arrays, a frame, a file, or its rows."""

import os
from collections.abc import Mapping
from typing import Any

from calibdask.engine.inputs.frames import GivenRows, given_rows
from calibdask.storage.readers import Table


def given_rows_or_file(
    y_true: Any,
    y_prob: Any,
    by: Any,
    sample_weight: Any,
    dims: tuple[str, str],
    *,
    label: Any = None,
    score: Any = None,
    skip_missing: bool = False,
) -> GivenRows:
    """As `given_rows`, with the columns of a file in place of its path.

    Raises
    ------
    ValueError
        If the file cannot be read, columns do not exist, or several could be meant; if metrics are in the place of
        scores.
    """
    if _are_metrics(y_prob):
        raise ValueError(
            "The second argument is y_prob, the scores, got metrics; name them where frames and files replace labels "
            "and scores, as in evaluate(data, metrics=...)."
        )
    if y_prob is None and isinstance(y_true, Table):
        if any(given is not None for given in (label, score, by, sample_weight)) or skip_missing:
            raise ValueError(
                "Rows that were read have their labels, scores, slices and weights; name the columns in read_rows."
            )
        return _of_table(y_true)
    if y_prob is not None or not isinstance(y_true, str | os.PathLike):
        return given_rows(y_true, y_prob, by, sample_weight, dims, label=label, score=score, skip_missing=skip_missing)
    from calibdask.storage.open_store import read_rows

    slicing = (
        dict(by) if isinstance(by, Mapping) else {name: name for name in ([by] if isinstance(by, str) else by or ())}
    )
    if not all(isinstance(name, str) for name in (*slicing.values(), "" if sample_weight is None else sample_weight)):
        raise ValueError("by and sample_weight of a file expect names of its columns.")
    columns = list(slicing.values())
    table = read_rows(
        os.fspath(y_true), label=label, score=score, by=columns, weight=sample_weight, skip_missing=skip_missing
    )
    rows = _of_table(table)
    by_name = {name: table.by[column] for name, column in slicing.items()}
    return GivenRows(rows.y_true, rows.y_prob, by_name or None, rows.sample_weight, rows.guess, rows.skipped)


def _are_metrics(given: Any) -> bool:
    """Whether something is a metric, the name of one, or several of these."""
    some = list(given.values()) if isinstance(given, Mapping) else given if isinstance(given, list | tuple) else [given]
    return any(isinstance(one, str) or hasattr(type(one), "estimate") for one in some)


def _of_table(table: Table) -> GivenRows:
    return GivenRows(table.labels, table.scores, table.by or None, table.weights, table.names.guess, table.skipped)

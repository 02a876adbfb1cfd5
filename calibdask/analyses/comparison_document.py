"""The document of a comparison: which model is better, and the difference of each metric by model and slice."""

from collections.abc import Sequence
from typing import Any

import xarray as xr

from calibdask.engine.axes import column_name
from calibdask.render.text_table import MOST_SLICES, clusters_text, label_of
from calibdask.results.cautions import of_metrics
from calibdask.results.comparison import Comparison, Difference, comparisons, metrics_without_differences, verdicts
from calibdask.results.document import Cell, Document, Element, Section, Sentence, Table, number, numeric, text
from calibdask.results.format import named, plain, rests_on, shown_texts
from calibdask.results.values import Results

_ENDS = ("baseline", "model", "difference", "low", "high")


def comparison_document(result: xr.Dataset) -> Document:
    """The document of a result of `calibdask.compare`.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> scores = np.linspace(0, 1, 100)
    >>> result = cd.compare(scores > 0.5, {"old": scores, "new": scores**2}, metrics=cd.BrierScore(), n_boot=20)
    >>> table = list(comparison_document(result).elements())[-2]
    >>> [heading for heading, _ in table.columns]
    ['metric', 'old', 'new', 'difference', 'low', 'high', 'p']
    """
    elements: list[Element] = [Sentence(verdict, lead=True, name="verdict") for verdict in verdicts(result)]
    every = list(comparisons(result))
    models = dict.fromkeys(comparison.model for comparison in every)
    elements += [_table([comparison for comparison in every if comparison.model == model]) for model in models]
    if without := metrics_without_differences(result):
        elements.append(
            Sentence(f"No differences of {named(without)}: they have no number or fixed point.", quiet=True)
        )
    elements += [Sentence(caution, quiet=True) for caution in of_metrics(Results(result))]
    # All models have the same rows and clusters.
    facts = [*rests_on(result.attrs), clusters_text(result.isel(model=0))]
    elements.append(Sentence(", ".join(filter(None, facts)), quiet=True, name="rows"))
    return Document("Comparison of models", "", [Section("comparison", "", elements)], name="compare")


def _table(of_model: Sequence[Comparison]) -> Table:
    """One model against the baseline, by slice and metric."""
    first = of_model[0]
    shown = of_model[:MOST_SLICES]
    differences = [difference for comparison in shown for difference in comparison.differences]
    is_adjusted = any("pvalue_holm" in difference.pvalues for difference in differences)
    columns = [(label_of(column_name(dim)), False) for dim in first.labels]
    if first.labels:
        columns.append(("rows", True))
    names = (label_of(first.baseline), label_of(first.model), "difference", "low", "high")
    columns += [("metric", False), *((name, True) for name in names)]
    columns.append(("p, adjusted" if is_adjusted else "p", True))
    hidden = len(of_model) - len(shown)
    note = f"... and {hidden:,} more slices; --out or --json give them all." if hidden else ""
    rows = [
        [*_slice_cells(comparison, is_first=not place), *_difference_cells(difference)]
        for comparison in shown
        for place, difference in enumerate(comparison.table_rows)
    ]
    if left := first.hidden_count:
        note = " ".join(filter(None, (note, f"{left:,} more points and classes: --out or --json give them all.")))
    if any(difference.of_class is not None for difference in first.differences):
        note = " ".join(filter(None, (note, "P-values of classes are not adjusted for the number of classes.")))
    return Table("", columns, rows, note, name=f"{label_of(first.model)} against {label_of(first.baseline)}")


def _slice_cells(comparison: Comparison, *, is_first: bool) -> list[Cell]:
    """Labels and rows of a slice, in its first line."""
    if not comparison.labels:
        return []
    labels = [text(label_of(label) if is_first else "") for label in comparison.labels.values()]
    (count,) = shown_texts(comparison.rows, kind="count")
    return [*labels, number(comparison.rows, count) if is_first else Cell(numeric=True)]


def _difference_cells(difference: Difference) -> list[Cell]:
    """The metric of both models, their difference with its interval, and the p-value."""
    (pvalue,) = shown_texts(difference.pvalue, kind="pvalue")
    numbers = [
        numeric(value, shown)
        for value, shown in zip((getattr(difference, end) for end in _ENDS), difference.texts, strict=True)
    ]
    return [text(difference.name), *numbers, numeric(difference.pvalue, pvalue)]


def comparison_records(result: xr.Dataset) -> list[dict[str, Any]]:
    """A record for each model and slice."""
    level = float(result.attrs["ci"])
    return [
        {
            "by": {dim: plain(label) for dim, label in comparison.labels.items()},
            "model": comparison.model,
            "rows": comparison.rows,
            "better": None if comparison.decisive is None else comparison.decisive.better(level),
            "metrics": {difference.name: _numbers(difference) for difference in comparison.differences},
        }
        for comparison in comparisons(result)
    ]


def _numbers(difference: Difference) -> dict[str, Any]:
    values = {end: plain(getattr(difference, end)) for end in _ENDS}
    return {**values, **{name: plain(value) for name, value in difference.pvalues.items()}}


def comparison_lines(result: xr.Dataset) -> list[dict[str, Any]]:
    """A record for each slice, model and metric: the lines of a table."""
    return [
        {**record["by"], "challenger": record["model"], "rows": record["rows"], "metric": name, **numbers}
        for record in comparison_records(result)
        for name, numbers in record["metrics"].items()
    ]

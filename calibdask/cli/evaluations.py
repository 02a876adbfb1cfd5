"""The numbers of ``calibdask evaluate``: of scored rows, of a summary, or of several of them as models."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.evaluate_request import EvaluateRequest
from calibdask.cli.option_names import shown_warnings
from calibdask.cli.reporting import models_of_rows, models_of_summary
from calibdask.cli.rows_request import rows_of, stem_of
from calibdask.cli.tests_panel import TESTS
from calibdask.safe_text import visible_address

if TYPE_CHECKING:
    from calibdask.data.soft_labels import SoftRows
    from calibdask.statistics.layout import Layout
    from calibdask.storage.open_store import Store
    from calibdask.storage.readers import StoredRows
    from calibdask.storage.row_table import RowTable
    from calibdask.storage.summary import Summary


@dataclass(frozen=True)
class Evaluation:
    """The result, the metrics that it is of, whether scores are a vector of P(y = 1), and the models of a report."""

    dataset: Any
    chosen: Mapping[str, Any]
    vector: bool
    models: Mapping[str, Any]


def _of_rows(request: EvaluateRequest, rows: "StoredRows", columns: "RowTable | None", pictured: bool) -> Evaluation:
    """The evaluation of scored rows, with the models of its report."""
    import calibdask as cd
    from calibdask.progress import shown_progress
    from calibdask.results.build import METRICS_LEFT_OUT
    from calibdask.statistics.layout import Layout

    with request.connected(columns), shown_progress("evaluating"), shown_warnings():
        table = request.table(rows) if columns is None else columns
        shape = request.shape(table)
        layout = Layout(classes=shape.classes, vector=shape.vector)
        tests = request.tests
        unsupported: list[str] = []
        if tests is None:
            left_out: dict[str, str] = {}
            soft = _soft_rows(request, table)
            chosen = request.chosen(request.panel(shape.classes, shape.vector, soft))
            if soft is None or soft.are_hard:
                chosen, unsupported = _supported(request, chosen, layout)
            if soft is not None and not request.metrics:
                from calibdask.analyses.soft_evaluation import floors_left_out

                unsupported += floors_left_out(soft)
        else:
            left_out = tests.reasons(_row_count(table.labels), vector=shape.vector)
            chosen = {name: metric for name, metric in tests.metrics.items() if name not in left_out}
        if pictured:
            chosen = {**request.diagram(chosen), **chosen}
        models: Mapping[str, Any] = {}
        if request.report is not None:
            options = request.report_options(chosen)
            # Classes that are problems of their own are shown together, and reported one by one.
            options |= {"shown": None} if shape.multilabel else {}
            models = models_of_rows(stem_of(request.data), request, table, **options)
        if models and not shape.multilabel:
            (result,) = (model.shown for model in models.values())
        else:
            result = cd.evaluate(request.data_of(table), metrics=chosen, **request.intervals)
            request.note_excluded(result.attrs)
        if tests is not None:
            result = tests.described(result, left_out, layout)
        if unsupported:
            result = result.assign_attrs({METRICS_LEFT_OUT: unsupported})
        request.warn_of_rows_of_the_fit(rows, result.attrs.get("rows"))
    return Evaluation(result, chosen, shape.vector, models)


def _supported(request: EvaluateRequest, chosen: dict[str, Any], layout: "Layout") -> tuple[dict[str, Any], list[str]]:
    """The metrics that support weights and clusters, and sentences on the others; all of them, if none does."""
    from calibdask.analyses.clustered import refusal_of

    layout = replace(layout, weighted=request.weight is not None, clustered=request.groups is not None)
    reasons = {name: words for name, metric in chosen.items() if (words := refusal_of(metric, layout))}
    if len(reasons) == len(chosen):
        # Evaluation refuses them.
        return chosen, []
    kept = {name: metric for name, metric in chosen.items() if name not in reasons}
    return kept, [f"{name} is left out: {words}" for name, words in reasons.items()]


def _of_summary(request: EvaluateRequest, summary: "Summary", pictured: bool) -> Evaluation:
    """Evaluate a stored summary."""
    import calibdask as cd
    from calibdask.cli.rows_request import panel, pooled, refuse_row_options
    from calibdask.cluster import connected
    from calibdask.estimators.smooth.adaptive import Adaptive
    from calibdask.progress import shown_progress

    if request.tests is not None:
        raise click.UsageError(f"{request.data} is a stored summary; --panel {TESTS} expects scored rows.")
    refuse_row_options(request)
    with summary.dataset:
        kept = pooled(summary, request.by)
        chosen = request.chosen(panel(summary, request.options["setting"], full=request.full))
        layout = kept.source.layout
        if pictured:
            # A summary may lack the histogram of a picture that nobody has asked for.
            diagram = {
                name: metric
                for name, metric in request.diagram(chosen).items()
                if request.text_plot or kept.has_histogram(layout.setting(metric.setting, metric.k))
            }
            chosen = {**diagram, **chosen}
        # Pictures are drawn from the cells that the summary has.
        chosen = {
            name: replace(metric, step=kept.step) if isinstance(metric, Adaptive) else metric
            for name, metric in chosen.items()
        }
        models: dict[str, Any] = {}
        with connected(request.cluster), shown_progress("evaluating"), shown_warnings():
            if request.report is not None:
                options = request.report_options(chosen)
                # Models are shown together, and reported one by one.
                options |= {"shown": None} if summary.batch else {}
                models = models_of_summary(stem_of(request.data), request, summary, **options)
            if models and not summary.batch:
                (result,) = (model.shown for model in models.values())
            else:
                result = cd.evaluate(kept, metrics=chosen, **request.intervals)
    return Evaluation(result, chosen, layout.vector, models)


def evaluated(
    request: EvaluateRequest, stores: "Mapping[str, Store]", tables: "Mapping[str, RowTable]", pictured: bool
) -> Evaluation:
    """Evaluate the opened data; several stores become models side by side.

    ``tables``: rows whose columns were looked up already, by the name of the model.

    Raises
    ------
    ValueError
        If their numbers do not belong side by side; the message of a file that cannot be evaluated names it.
    """
    if len(stores) == 1:
        ((name, store),) = stores.items()
        return _of_store(request, store, tables.get(name), pictured)
    from calibdask.results.models import joined_models

    single = {}
    for name, store in stores.items():
        path = request.files[name]
        try:
            single[name] = _of_store(request.of_file(name), store, tables.get(name), pictured)
        except ValueError as error:
            shown = visible_address(path)
            raise ValueError(str(error) if shown in str(error) else f"{shown}: {error}") from error
    first = next(iter(single.values()))
    models = {name: model for name, one in single.items() for model in one.models.values()}
    if sum(len(one.models) for one in single.values()) > len(models):
        raise click.UsageError("A summary of several models makes a separate report; give it alone.")
    joined = joined_models({name: one.dataset for name, one in single.items()})
    return Evaluation(joined, first.chosen, first.vector, models)


def _of_store(request: EvaluateRequest, store: "Store", columns: "RowTable | None", pictured: bool) -> Evaluation:
    from calibdask.storage.summary import Summary

    if isinstance(store, Summary):
        return _of_summary(request, store, pictured)
    return _of_rows(request, rows_of(store), columns, pictured)


def _row_count(labels: Any) -> int:
    """The number of rows; where chunks do not know their size they are counted, in a pass of its own."""
    import numpy as np

    if not np.isnan(labels.shape[0]):
        return int(labels.shape[0])
    from calibdask.engine.workers import scheduler

    labels = labels if labels.ndim == 1 else labels[:, 0]
    counts = labels.map_blocks(
        _lengths, dtype=np.int64, meta=np.empty(0, np.int64), chunks=((1,) * labels.numblocks[0],)
    )
    return int(counts.sum().compute(scheduler=scheduler()))


def _soft_rows(request: EvaluateRequest, table: "RowTable") -> "SoftRows | None":
    """The rows if their labels are soft, which say what the default metrics are."""
    if not request.soft_labels:
        return None
    from calibdask.data.soft_labels import SoftRows

    return SoftRows.of(request.data_of(table))


def _lengths(block: Any) -> Any:
    import numpy as np

    return np.array([len(block)])

"""``calibdask evaluate``: scored rows in, calibration figures out."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.calibration_tests import TESTS, TESTS_HELP, refuse_tests_options, run_tests, tests_options
from calibdask.cli.metric_options import MetricCommand
from calibdask.cli.metrics import CURVE, DIAGRAM, chosen_metrics
from calibdask.cli.param_types import MetricType, is_whole
from calibdask.cli.reporting import evaluation_options, model_of_rows, models_of_summary, write_models
from calibdask.cli.results import RESULTS, write_result
from calibdask.cli.row_options import RowsRequest, noted, row_options, rows_of, stem_of
from calibdask.estimators.expression import Expression

if TYPE_CHECKING:
    from calibdask.storage.open_store import Store
    from calibdask.storage.readers import StoredRows, Table
    from calibdask.storage.summary import Summary
    from calibdask.storage.writers import Output

__all__ = ["evaluate"]

_SCHEMA = Path(__file__).with_name("evaluate.schema.json")
_EPILOG = f"""{TESTS_HELP}
\b
JSON (--json, --out FILE.json):
  {{"format": 1, "rows": int, "passes": int, "calibdask_version": str,
   "metrics": {{NAME: {{"value": float, "estimator": str, "label": str, "kind": str,
                     "setting": str, "meaning": str}}}},
   "slices": []}}
\b
A metric of several numbers has their names in place of "value", and "kind" and
"meaning" have those names in turn. With --by the numbers move to
"slices": [{{"by": {{COLUMN: value}}, "metrics": {{NAME: {{...}}}}}}]. Tests have
"statistic" and "pvalue", skce-test also "estimate"; "assumes" says what a
p-value rests on. A number that does not exist (a slice without rows) is null;
values for each class (the bandwidths of smooth-ece) are a list. With --ci there are
"low" and "high" beside "value" (PART_low and PART_high beside each PART), and
"ci": float, "n_boot": int, "seed": int beside "rows". A summary takes 0 passes.
Within a "format" names stay and keep their meaning; others may join them.
--json-schema prints all this as a JSON Schema.
\b
Exit status: 0 success; 2 invalid use or input, explained in one line on stderr,
with nothing written; 130 interrupted.
"""


@dataclass(frozen=True, kw_only=True)
class _Request(RowsRequest):
    """What the user asked for."""

    metrics: tuple[Expression, ...]
    ci: float | None
    ci_method: str | None
    n_boot: int | None
    seed: int | None
    as_text: bool
    out: str | None
    plot: str | None
    report: str | None
    curve: bool
    text_plot: bool | None
    overwrite: bool
    # Choices of the metrics.
    options: Mapping[str, Any]

    @classmethod
    def of(cls, given: dict[str, Any]) -> "_Request":
        own = {field.name: given.pop(field.name) for field in fields(cls) if field.name in given}
        own["metrics"] = tuple(expression for expressions in own["metrics"] for expression in expressions)
        return cls(**own, options=given)

    @property
    def picture(self) -> str | None:
        if self.plot is None:
            return None
        return CURVE if self.curve else DIAGRAM

    @property
    def intervals(self) -> dict[str, Any]:
        given = {
            "ci": self.ci,
            "ci_method": self.ci_method,
            "n_boot": self.n_boot,
            "seed": self.seed if self.ci is not None else None,
        }
        return {name: value for name, value in given.items() if value is not None}

    @property
    def has_one_curve(self) -> bool:
        """Whether there is one reliability diagram: no slices, and one score of each row."""
        setting = self.options["setting"]
        return not (self.by or setting == "classwise" or is_whole(setting))

    def is_pictured(self, *, terminal: bool) -> bool:
        """Whether a diagram in characters is printed: if asked for, or on a terminal if there is one to print."""
        if self.text_plot is None:
            return terminal and self.has_one_curve and not self.as_text
        return self.text_plot

    def diagram(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """What that diagram is of, if it is not among the metrics yet."""
        from calibdask.cli.text_plot import suited

        return {} if DIAGRAM in chosen else {DIAGRAM: suited(chosen, self.options["setting"], self.options["k"])}

    def check(self) -> None:
        """Refuse options that have no effect without, or with, another one."""
        if self.text_plot and self.as_text:
            raise click.UsageError("--text-plot has no effect with --json.")
        if self.text_plot and not self.has_one_curve:
            raise click.UsageError(
                "--text-plot shows one curve; it has no effect with --by, or with a --setting of all classes."
            )
        needed = {
            "--n-boot": (self.n_boot, self.ci),
            "--ci-method": (self.ci_method, self.ci),
            "--curve": (self.curve, self.plot),
        }
        for option, (value, other) in needed.items():
            if value not in (None, False) and other is None:
                raise click.UsageError(f"{option} has no effect without {'--plot' if option == '--curve' else '--ci'}.")
        if self.seed is not None and self.ci is None and not any("seed" in metric.takes for metric in self.metrics):
            raise click.UsageError("--seed has no effect without --ci, or a metric such as skce that draws at random.")

    def panel(self, classes: int, vector: bool) -> dict[str, Any]:
        """The metrics of data when none are named."""
        from calibdask.estimators.panel import default_metrics

        return {**default_metrics(classes, vector)}

    def report_options(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Options of a report that shows these metrics."""
        return evaluation_options(self, chosen, self.options, self.intervals)

    def chosen(self, panel: Mapping[str, Any]) -> dict[str, Any]:
        options = {**self.options, "seed": self.seed if self.ci is None else None}
        return chosen_metrics(self.metrics, options, panel=panel, picture=self.picture)


def _print_schema(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(_SCHEMA.read_text(encoding="utf-8"), nl=False)
        context.exit()


@click.command(cls=MetricCommand, epilog=_EPILOG)
@click.argument("data", metavar="DATA...", nargs=-1, required=True)
@click.option(
    "--metric",
    "metrics",
    type=MetricType(),
    metavar="NAME[(CHOICE=VALUE,...)][,...]",
    multiple=True,
    help="A metric, with choices of its own; several between commas or repeated. Names are below.",
)
@click.option(
    "--panel",
    type=click.Choice(["default", TESTS]),
    default="default",
    help="The metrics where none are named; tests: see below.  [default: default]",
)
@click.option("--ci", type=float, metavar="LEVEL", help="Add intervals of this level, such as 0.95.")
@click.option(
    "--ci-method",
    type=click.Choice(["corrected", "percentile", "bca"]),
    help="Method of the intervals.  [default: corrected for calibration errors, else percentile]",
)
@click.option("--n-boot", type=int, metavar="N", help="Bootstrap replicates of the intervals.  [default: 200]")
@click.option("--seed", type=int, metavar="S", help="Seed of random numbers.  [default: 0]")
@tests_options
@row_options
@click.option("--json", "as_text", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--json-schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON Schema of that JSON, and exit.",
)
@click.option("--out", metavar="FILE", help=f"Write the result: {', '.join(RESULTS)}.")
@click.option("--plot", metavar="FILE", help="Write a reliability diagram: .html, .png, .svg.")
@click.option(
    "--text-plot/--no-text-plot",
    default=None,
    help="Print a reliability diagram in characters.  [default: on a terminal, where there is one curve]",
)
@click.option(
    "--curve", is_flag=True, help="Plot the reliability curve instead (with --plot), with its bands if --ci is given."
)
@click.option(
    "--report",
    metavar="FILE",
    help="Also write a report: .html. It slices by each --by column separately; intervals have level 0.95 unless --ci "
    "is given.",
)
@click.option("--overwrite", is_flag=True, help="Replace existing --out, --plot and --report files.")
def evaluate(**given: Any) -> None:
    """Measure the calibration of the scored rows in DATA; with --panel tests, of several DATA side by side.

    DATA is a local path or a URL: .npz, .zarr or .nc with arrays "labels" and "scores"; .parquet (a file or a folder)
    or .csv with a column "label" and either "score", P(y = 1), or "score_0 ... score_{K-1}". Or a summary of such rows
    that "calibdask summarize" wrote; its slices are pooled, except those that --by names.

    Intervals (--ci) cost next to nothing for metrics that are computed from a histogram of the scores, such as ece and
    density-ece, and N times the metric itself for others; tests have none.

    The choices below apply to all metrics that have them; those in parentheses, as in --metric "ece(bins=10), skce",
    to one metric, and come first.
    """
    if given.pop("panel") == TESTS:
        run_tests(given)
        return
    refuse_tests_options(given)
    from calibdask.storage.readers import StoredRows
    from calibdask.storage.writers import replacing

    given["data"] = _one(given["data"])
    request = _Request.of(given)
    request.check()
    result_path, plot_path, report_path = _outputs(request)
    store = request.opened()
    table = None
    if isinstance(store, StoredRows):
        # Columns that are not there are found before estimators are imported, which takes longer.
        with noted():
            table = request.table(store) if store.holds == "column" else None
        # Bad metrics and options are found before the data is touched; what the panel holds does not matter yet.
        request.chosen(request.panel(2, vector=True))

    from calibdask.cli.tables import as_json, console, show
    from calibdask.results.values import Results

    shown = console()
    pictured = request.is_pictured(terminal=shown.is_terminal)
    begun = perf_counter()
    evaluation = _evaluated(request, store, table, pictured)
    dataset = evaluation.dataset
    seconds = perf_counter() - begun
    names = [name for name in evaluation.chosen if name not in (DIAGRAM, CURVE)]
    figures = Results(dataset).only(names)
    text = as_json(figures, names)
    with ExitStack() as written:
        if report_path is not None:
            part = written.enter_context(replacing(report_path))
            write_models(part, evaluation.models)
        if plot_path is not None:
            _plot(dataset, written, plot_path, request)
        if result_path is not None:
            write_result(figures, text, written, result_path)
    if request.as_text:
        click.echo(text)
        return
    show(figures, shown, seconds=seconds)
    if pictured:
        _picture(evaluation, shown, asked=request.text_plot is True)
    for path in (result_path, plot_path, report_path):
        if path is not None:
            shown.print(f"wrote {path}", style="dim", markup=False)


def _one(data: tuple[str, ...]) -> str:
    """The one path that is given."""
    if len(data) > 1:
        raise click.UsageError(
            f"Several DATA expect --panel {TESTS}, or calibdask report; got {', '.join(data)} without either."
        )
    return data[0]


def _outputs(request: _Request) -> "tuple[Output | None, Output | None, Output | None]":
    """Where the result, the picture and the report go, checked."""
    from calibdask.storage.writers import check_apart, checked_output

    check_apart(request.data, {"--out": request.out, "--plot": request.plot, "--report": request.report})
    result_path = None if request.out is None else checked_output(request.out, RESULTS, overwrite=request.overwrite)
    plot_path = None
    if request.plot is not None:
        from calibdask.plot.export import FORMATS, check_format

        plot_path = checked_output(request.plot, FORMATS, overwrite=request.overwrite)
        check_format(str(plot_path))
    report_path = None
    if request.report is not None:
        from calibdask.report.writing import FORMATS as REPORTS

        report_path = checked_output(request.report, REPORTS, overwrite=request.overwrite)
    return result_path, plot_path, report_path


@dataclass(frozen=True)
class _Evaluation:
    """The result, the metrics that it is of, whether scores are a vector of P(y = 1), and the models of a report."""

    dataset: Any
    chosen: Mapping[str, Any]
    vector: bool
    models: Mapping[str, Any]


def _evaluated(request: _Request, store: "Store", table: "Table | None", pictured: bool) -> _Evaluation:
    from calibdask.storage.summary import Summary

    if isinstance(store, Summary):
        return _of_summary(request, store, pictured)
    return _of_data(request, rows_of(store), table, pictured)


def _of_data(request: _Request, rows: "StoredRows", opened: "Table | None", pictured: bool) -> _Evaluation:
    """The evaluation of scored rows, with the models of its report."""
    import calibdask as cd
    from calibdask.cluster import connected
    from calibdask.progress import shown_progress

    with connected(request.cluster), shown_progress("evaluating"), noted():
        table = request.table(rows) if opened is None else opened
        chosen = request.chosen(request.panel(table.classes, table.vector))
        if pictured:
            chosen = {**request.diagram(chosen), **chosen}
        if request.report is not None:
            model = model_of_rows(request, table, **request.report_options(chosen))
            return _Evaluation(model.shown, chosen, table.vector, {stem_of(request.data): model})
        options = {"by": table.by or None, "sample_weight": table.weights, **request.intervals}
        result = cd.evaluate(table.labels, table.scores, chosen, **options)
    return _Evaluation(result, chosen, table.vector, {})


def _of_summary(request: _Request, summary: "Summary", pictured: bool) -> _Evaluation:
    """The same from a stored summary."""
    import calibdask as cd
    from calibdask.cli.summary_input import panel, pooled, refuse_row_options
    from calibdask.cluster import connected
    from calibdask.progress import shown_progress

    refuse_row_options(request)
    with summary.dataset:
        kept = pooled(summary, request.by)
        chosen = request.chosen(panel(summary, request.options["setting"]))
        layout = kept.source.layout
        if pictured:
            # A summary may lack the histogram of a picture that nobody has asked for.
            diagram = {
                name: metric
                for name, metric in request.diagram(chosen).items()
                if request.text_plot or kept.tells(layout.setting(metric.setting, metric.k))
            }
            chosen = {**diagram, **chosen}
        models: dict[str, Any] = {}
        with connected(request.cluster), shown_progress("evaluating"), noted():
            if request.report is not None:
                options = request.report_options(chosen)
                # Models are shown together, and reported one by one.
                options |= {"shown": None} if summary.batch else {}
                models = models_of_summary(stem_of(request.data), request, summary, **options)
            if models and not summary.batch:
                (result,) = (model.shown for model in models.values())
            else:
                result = cd.evaluate(kept, metrics=chosen, **request.intervals)
    return _Evaluation(result, chosen, layout.vector, models)


def _picture(evaluation: _Evaluation, shown: Any, *, asked: bool) -> None:
    """Print the diagram, if the data have one."""
    from calibdask.cli.tables import has_signs, print_lines
    from calibdask.cli.text_plot import PLAIN, SIGNS, heading_of, picture_lines
    from calibdask.results.reliability import Bins, reliability_variables

    if DIAGRAM not in reliability_variables(evaluation.dataset, "diagram") or Bins.dims_of(evaluation.dataset, DIAGRAM):
        # As where there are several models; one that was asked for is missed.
        if asked:
            click.echo("calibdask: --text-plot shows one curve, and there are several", err=True)
        return
    bins = Bins.of(evaluation.dataset, DIAGRAM)
    title, axis = heading_of(evaluation.chosen[DIAGRAM], vector=evaluation.vector)
    print_lines([(), *picture_lines(bins, title, axis, shown.width, SIGNS if has_signs(shown) else PLAIN)], shown)


def _plot(dataset: Any, written: ExitStack, path: "Output", request: _Request) -> None:
    from calibdask.plot import reliability_curve, reliability_diagram, save
    from calibdask.results.values import Results
    from calibdask.storage.writers import replacing

    name, drawn = (CURVE, reliability_curve) if request.curve else (DIAGRAM, reliability_diagram)
    picture = drawn(Results(dataset).only([name]))
    save(picture, written.enter_context(replacing(path)), title=f"Reliability of {request.data}")

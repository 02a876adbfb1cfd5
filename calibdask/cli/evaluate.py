"""``calibdask evaluate``: scored rows in, calibration figures out."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.evaluate_request import EvaluateRequest
from calibdask.cli.gates import checked_receipt, receipt_of_metrics, write_receipt
from calibdask.cli.github_summary import GithubSummary, github_option
from calibdask.cli.importing import importing
from calibdask.cli.metric_options import MetricCommand
from calibdask.cli.metrics import CHARTS, CURVE, DIAGRAM, PICTURES
from calibdask.cli.model_data import model_places, side_by_side
from calibdask.cli.option_names import shown_warnings
from calibdask.cli.param_types import MetricType
from calibdask.cli.reporting import write_models
from calibdask.cli.results import RESULTS, write_result
from calibdask.cli.row_options import (
    check_every,
    cluster_check_option,
    data_argument,
    key_option,
    map_option,
    period_options,
    population_options,
    row_options,
    soft_label_options,
)
from calibdask.cli.tests_panel import BANDWIDTH, TESTS, TESTS_HELP, refuse_without_effect, tests_options
from calibdask.markup import in_markdown
from calibdask.safe_text import visible, visible_address

if TYPE_CHECKING:
    from calibdask.cli.evaluations import Evaluation
    from calibdask.results.values import Results
    from calibdask.storage.atomic_replace import Output

_SCHEMA = Path(__file__).with_name("evaluate.schema.json")
_EPILOG = f"""{TESTS_HELP}
\b
JSON (--json, --out FILE.json):
  {{"format": 2, "rows": int, "passes": int, "calibdask_version": str,
   "events": int, "mean_score": float, "frequency": float,
   "metrics": {{NAME: {{"value": float, "estimator": str, "label": str, "kind": str,
                     "direction": str, "setting": str, "meaning": str,
                     "definition": str}}}},
   "slices": []}}
\b
A metric with several numbers has their names instead of "value", and "kind",
"direction" and "meaning" are objects by these names. With --by, or several DATA, the
numbers are in "slices": [{{"by": {{COLUMN: value}}, "rows": int, "events": int,
"mean_score": float, "frequency": float, "metrics": {{NAME: {{...}}}}}}]; several DATA
appear as column "model". For one score column, events are y = 1 and mean_score is the
mean of P(y = 1); for several, events are correct predictions and mean_score is the mean
confidence. Tests have "statistic" and "pvalue", skce-test also "estimate"; "assumes"
states the assumptions of a p-value. Missing numbers (a slice without rows) are null;
values by class (the bandwidths of smooth-ece) are a list. With --ci there are
"low" and "high" beside "value" (PART_low and PART_high beside each PART), and
"ci": float, "n_boot": int, "seed": int beside "rows"; with --ignore-label
"rows_ignored": int; with --map "map": str. A summary takes 0 passes. "score_cautions":
str says why scores are probably not those that are meant, such as decisions instead of
probabilities. Within a "format", names keep their meaning, and new names may be added.
--json-schema prints the JSON Schema.
\b
Exit status: 0 success; 2 invalid use or input, explained in one line on stderr,
with nothing written; 130 interrupted.
"""


def _print_schema(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(_SCHEMA.read_text(encoding="utf-8"), nl=False)
        context.exit()


_EXAMPLES = (
    ("calibdask evaluate rows.parquet", "six numbers and a reliability diagram"),
    ("calibdask evaluate rows.parquet --by country --ci 0.95", "by country, with intervals"),
    ("calibdask evaluate old=a.parquet new=b.parquet --metric ece,brier", "two models side by side"),
    ("calibdask evaluate rows.parquet --receipt receipt.json", "a receipt that a second party can verify"),
)


# The options of the short help.
_USUAL = (
    *("label", "score", "weight", "task", "logits", "pos_label", "skip_missing"),
    *("metrics", "full", "setting", "bins", "map_path"),
    *("by", "period", "every", "groups", "worst", "ci"),
    *("as_text", "out", "plot", "report", "overwrite", "cluster"),
)


@click.command(cls=MetricCommand, epilog=_EPILOG, examples=_EXAMPLES, usual=_USUAL)
@data_argument("DATA...")
@click.option(
    "--metric",
    "metrics",
    type=MetricType(),
    metavar="NAME[(CHOICE=VALUE,...)][,...]",
    multiple=True,
    help="Metric with its options; separate several by commas, or repeat. Names are below.",
)
@click.option(
    "--panel",
    type=click.Choice(["default", TESTS]),
    default="default",
    help="Metrics if none are named; tests: see below.  [default: default]",
)
@click.option("--all", "full", is_flag=True, help="Compute all metrics of the panel instead of the first six.")
@click.option("--ci", type=float, metavar="LEVEL", help="Add confidence intervals of this level, such as 0.95.")
@click.option(
    "--ci-method",
    type=click.Choice(["corrected", "percentile", "bca"]),
    help="Method of the intervals.  [default: corrected for calibration errors, else percentile]",
)
@click.option("--n-boot", type=int, metavar="N", help="Bootstrap replicates of the intervals.  [default: 200]")
@click.option("--seed", type=int, metavar="S", help="Seed of random numbers.  [default: 0]")
@tests_options
@click.option("--period", metavar="COLUMN", help="Slice by the periods of this date or timestamp column.")
@period_options
@population_options
@key_option
@row_options
@cluster_check_option
@map_option
@click.option(
    "--worst",
    type=click.IntRange(min=1),
    metavar="N",
    help="Print the N slices, or classes, farthest from the ideal value of the first error or number; with --ci, of "
    "its interval. Files hold all.",
)
@click.option(
    "--adjust",
    type=click.Choice(["bonferroni", "none"]),
    help="Adjust the bounds of --worst for the number of slices, or not.  [default: bonferroni]",
)
@soft_label_options
@click.option(
    "--shrink",
    is_flag=True,
    help="Shrink the mean gaps of many small slices (--by) by empirical Bayes; see calibdask shrink.",
)
@click.option("--json", "as_text", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--json-schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON Schema of --json and exit.",
)
@click.option("--out", metavar="FILE", help=f"Write the result: {', '.join(RESULTS)}.")
@click.option("--plot", metavar="FILE", help="Write a reliability diagram: .html, .png or .svg.")
@click.option(
    "--text-plot/--no-text-plot",
    default=None,
    help="Print a reliability diagram as text.  [default: on a terminal, if there is one curve]",
)
@click.option("--curve", is_flag=True, help="With --plot: plot the reliability curve, with bands if --ci is given.")
@click.option(
    "--chart", type=click.Choice(list(CHARTS)), help="With --plot: plot this chart, with intervals if --ci is given."
)
@click.option(
    "--report",
    metavar="FILE",
    help="Also write a report, .html, sliced by each --by column. Intervals have level 0.95 unless --ci is given.",
)
@click.option(
    "--receipt",
    metavar="FILE",
    help=(
        "Also write a receipt, .json, with the fingerprint of the rows and the numbers; see verify. Intervals "
        "have level 0.95 unless --ci is given."
    ),
)
@github_option
@click.option("--overwrite", is_flag=True, help="Replace existing --out, --plot, --report and --receipt files.")
def evaluate(**given: Any) -> None:
    """Measure the calibration of scored rows.

    DATA is a local path or a URL: .npz, .zarr or .nc with arrays "labels" and "scores"; .npy of scores with --label
    y.npy, or without DATA by --score p.npy; .parquet, .csv, .jsonl or .arrow with a column "label" and either "score",
    P(y = 1), or "score_0 ... score_{K-1}"; a folder or a quoted pattern of such files; a Delta table; or - for standard
    input. A summary written by "calibdask summarize" also serves; its slices are pooled unless --by names them. Several
    DATA, or NAME=DATA, are models side by side.

    Intervals (--ci) are cheap for metrics that are computed from a histogram of the scores, such as ece and density-
    ece, and take N times as long as the metric for others; tests have none.

    The options of metrics below apply to all metrics that have them. Options in parentheses, as in --metric
    "ece(bins=10), skce", apply to one metric and take precedence.
    """
    summary = GithubSummary.asked(given.pop("github"))
    if given["panel"] == TESTS:
        refuse_without_effect(given)
    if given.pop("shrink"):
        _refuse_summary(summary, "--shrink; calibdask shrink has it")
        from calibdask.cli.shrunken_slices import show_shrunken

        show_shrunken(given)
        return
    period = given["period"]
    check_every(period, given["every"], given["zone"])
    if period is not None:
        given["by"] = tuple(dict.fromkeys((*given["by"], period)))
    with importing():
        from calibdask.storage.atomic_replace import atomic_replacement
        from calibdask.storage.readers import StoredRows

        places = model_places(given["data"], given["score"])
        first = next(iter(places.values()))
        files = {name: place.path for name, place in places.items()}
        scores = {name: place.score for name, place in places.items()}
        own = {"files": files, "scores": scores, "data": first.path, "score": first.score}
        request = EvaluateRequest.of({**given, **own})
        request.check()
        result_path, plot_path, report_path = _outputs(request)
        receipt_path = checked_receipt(request.receipt, overwrite=request.overwrite)
        _ = request.map_attributes
        stores = {name: request.of_file(name).opened() for name in files}
        # Columns that are not there are found before estimators are imported, which takes longer.
        with shown_warnings():
            tables = side_by_side("evaluate", {name: request.of_file(name) for name in files}, stores) or {
                name: request.of_file(name).table(store)
                for name, store in stores.items()
                if isinstance(store, StoredRows) and store.holds == "column"
            }
        # Bad metrics and options are found before the data is touched; what the panel holds does not matter yet.
        if request.tests is None and any(isinstance(store, StoredRows) for store in stores.values()):
            request.chosen(request.panel(2, vector=True))

        from calibdask.analyses.soft_evaluation import DISAGREEMENT
        from calibdask.cli.evaluations import evaluated
        from calibdask.cli.tables import as_json, console, show
        from calibdask.results.build import DEFAULT_PANEL
        from calibdask.results.ranking import order_text, worst_strata
        from calibdask.results.values import Results

    shown = console()
    pictured = request.is_pictured(terminal=shown.is_terminal)
    begun = perf_counter()
    evaluation = evaluated(request, stores, tables, pictured)
    dataset = evaluation.dataset
    seconds = perf_counter() - begun
    names = [name for name in evaluation.chosen if name not in PICTURES]
    if request.tests is not None:
        names = [BANDWIDTH, *request.tests.metrics]
    names += [DISAGREEMENT] if DISAGREEMENT in dataset else []
    figures = Results(dataset).only(names)
    figures = figures.assign_attrs(request.map_attributes)
    if request.weight is not None:
        figures = figures.assign_attrs(weights=request.weight)
    if not (request.metrics or request.full or request.tests is not None):
        figures = figures.assign_attrs(panel=DEFAULT_PANEL)
    strata, order = None, ""
    results = Results(figures)
    if request.worst is not None and results.numbers and results.shared_dims:
        strata = worst_strata(results, request.worst, request.adjustment)
        order = order_text(results, request.adjustment)
    elif request.worst is not None and not any(results.class_dim in part.own_dims for part in results):
        click.echo("calibdask: --worst has no effect: these metrics have neither slices nor classes", err=True)
    with ExitStack() as written:
        if report_path is not None:
            part = written.enter_context(atomic_replacement(report_path))
            write_models(part, evaluation.models)
        if plot_path is not None:
            _plot(dataset, written, plot_path, request)
        if receipt_path is not None:
            write_receipt(receipt_path, receipt_of_metrics(request, stores), written)
        if result_path is not None:
            write_result(figures, partial(as_json, figures, names), written, result_path)
    summary.append(lambda: _markdown(request, results))
    if request.as_text:
        click.echo(as_json(figures, names, strata))
        return
    if request.tests is not None:
        from calibdask.analyses.calibration_tests import document_of_tests
        from calibdask.cli.tables import print_document

        print_document(document_of_tests(figures))
        shown.print(f"{seconds:.2f} s", style="dim")
    else:
        show(figures, shown, seconds=seconds, strata=strata, order=order, classes=request.worst)
    if pictured:
        _picture(evaluation, shown, asked=request.text_plot is True)
    for path in (result_path, plot_path, report_path, receipt_path):
        if path is not None:
            shown.print(f"wrote {visible(path)}", style="dim", markup=False)


def _markdown(request: EvaluateRequest, results: "Results") -> str:
    """The table of the numbers under the names of the files."""
    names = in_markdown(", ".join(map(visible_address, request.files.values())))
    if request.tests is not None:
        from calibdask.analyses.calibration_tests import document_of_tests

        return f"### Calibration tests of {names}\n\n{document_of_tests(results.dataset).to_markdown()}"
    text = "These metrics are curves, which have no line in a table."
    if results.numbers:
        text = results.dataset.calib.table().to_markdown()
    return f"### Calibration of {names}\n\n{text}"


def _refuse_summary(summary: GithubSummary, what: str) -> None:
    if summary.path is not None:
        raise click.UsageError(f"--github has no effect with {what}.")


def _outputs(request: EvaluateRequest) -> "tuple[Output | None, Output | None, Output | None]":
    """Where the result, the picture and the report go, checked."""
    from calibdask.storage.writers import check_apart, checked_output

    named = {"--out": request.out, "--plot": request.plot, "--report": request.report}
    outputs: dict[str, str | None] = {**named, "--receipt": request.receipt}
    for path in request.files.values():
        check_apart(path, outputs)
    if request.map_path is not None:
        check_apart(request.map_path, outputs)
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


def _picture(evaluation: "Evaluation", shown: Any, *, asked: bool) -> None:
    """Print the diagram, if the data have one."""
    from calibdask.cli.tables import has_signs, print_lines
    from calibdask.cli.text_plot import PLAIN, SIGNS, heading_of, picture_lines
    from calibdask.results.reliability import BinnedReliability, reliability_variables

    if DIAGRAM not in reliability_variables(evaluation.dataset, "diagram") or BinnedReliability.dims_of(
        evaluation.dataset, DIAGRAM
    ):
        # As where there are several models; one that was asked for is missed.
        if asked:
            click.echo("calibdask: --text-plot shows one curve, and there are several", err=True)
        return
    bins = BinnedReliability.of(evaluation.dataset, DIAGRAM)
    title, axis = heading_of(evaluation.chosen[DIAGRAM], bins.score.size, vector=evaluation.vector)
    print_lines([(), *picture_lines(bins, title, axis, shown.width, SIGNS if has_signs(shown) else PLAIN)], shown)


def _plot(dataset: Any, written: ExitStack, path: "Output", request: EvaluateRequest) -> None:
    from calibdask import plot
    from calibdask.results.values import Results
    from calibdask.storage.atomic_replace import atomic_replacement

    name = request.picture
    assert name is not None
    drawn = {CURVE: plot.reliability_curve, DIAGRAM: plot.reliability_diagram}
    drawn |= {f"plotted_{word}": getattr(plot, function) for word, (_, function) in CHARTS.items()}
    names = ", ".join(map(visible_address, request.files.values()))
    what = "Reliability" if request.chart is None else "Decisions"
    picture = drawn[name](Results(dataset).only([name]))
    plot.save(picture, written.enter_context(atomic_replacement(path)), title=f"{what} of {names}")

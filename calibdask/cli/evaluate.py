"""``calibdask evaluate``: scored rows in, calibration figures out."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from textwrap import fill
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.choices import BandwidthType, BinsType, CostsType, SettingType, is_whole, kernel_options
from calibdask.cli.metrics import CURVE, DIAGRAM, METRICS, chosen_metrics, takes
from calibdask.cli.reporting import Remembering, write_evaluation
from calibdask.cli.results import RESULTS, write_result
from calibdask.cli.rows import RowsRequest, noted, row_options

if TYPE_CHECKING:
    from calibdask.engine.writers import Output

__all__ = ["evaluate"]

_SCHEMA = Path(__file__).with_name("evaluate.schema.json")
_NAMES = fill(", ".join(METRICS), 80, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
_EPILOG = f"""\b
Metrics:
{_NAMES}
"""
_EPILOG += """
\b
JSON (--json, --out FILE.json):
  {"format": 1, "rows": int, "passes": int, "calibdask_version": str,
   "metrics": {NAME: {"value": float, "estimator": str, "meaning": str}},
   "slices": []}
\b
A metric of several numbers has their names in place of "value", and "meaning"
has those names in turn. With --by the
numbers move to "slices": [{"by": {COLUMN: value}, "metrics": {NAME: {...}}}].
Tests have "statistic" and "pvalue", skce-test also "estimate"; what a p-value
rests on is said in "assumes".
A number that does not exist (a slice without rows) is null; what each class has
for itself (the bandwidths of smooth-ece) is a list. With --ci there are
"low" and "high" beside "value" (PART_low and PART_high beside each PART), and
"ci": float, "n_boot": int, "seed": int beside "rows". A summary takes 0 passes.
Within a "format" names stay and keep what they mean; others may join them.
--json-schema prints all this as a JSON Schema.
\b
Exit status: 0 done; 2 bad use or bad input, said in one line on stderr, with
nothing written; 130 interrupted.
"""


@dataclass(frozen=True, kw_only=True)
class _Request(RowsRequest):
    """What the user asked for."""

    metrics: tuple[str, ...]
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
        own["metrics"] = tuple(name.strip() for names in own["metrics"] for name in names.split(","))
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
        """Refuse options that mean nothing without, or with, another one."""
        if self.text_plot and self.as_text:
            raise click.UsageError("--text-plot means nothing with --json.")
        if self.text_plot and not self.has_one_curve:
            raise click.UsageError(
                "--text-plot shows one curve; it means nothing with --by, or with a --setting of all classes."
            )
        needed = {
            "--n-boot": (self.n_boot, self.ci),
            "--ci-method": (self.ci_method, self.ci),
            "--curve": (self.curve, self.plot),
        }
        for option, (value, other) in needed.items():
            if value not in (None, False) and other is None:
                raise click.UsageError(f"{option} means nothing without {'--plot' if option == '--curve' else '--ci'}.")
        if self.seed is not None and self.ci is None and not any(takes(name, "seed") for name in self.metrics):
            raise click.UsageError("--seed means nothing without --ci, or a metric such as skce that draws at random.")

    def panel(self, classes: int, vector: bool) -> dict[str, Any]:
        """The metrics of data when none are named."""
        from calibdask.estimators.panel import default_metrics

        return {**default_metrics(classes, vector)}

    def chosen(self, panel: Mapping[str, Any]) -> dict[str, Any]:
        options = {**self.options, "seed": self.seed if self.ci is None else None}
        return chosen_metrics(self.metrics, options, panel=panel, picture=self.picture)


def _print_schema(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(_SCHEMA.read_text(encoding="utf-8"), nl=False)
        context.exit()


@click.command(cls=Remembering, epilog=_EPILOG)
@click.argument("data")
@click.option(
    "--metric", "metrics", metavar="NAME[,NAME...]", multiple=True, help="Those below, between commas or repeated."
)
@click.option(
    "--setting",
    type=SettingType("confidence", "classwise", "binary", "top-k", "multiclass", "largest-K"),
    help="Which scores are measured.",
)
@click.option("--k", type=int, metavar="K", help="Number of classes of --setting top-k.")
@click.option("--bins", type=BinsType(), help="Bins: how many, or their edges.")
@click.option("--binning", type=click.Choice(["uniform", "equal-mass"]), help="How bins are chosen.")
@click.option("--mapping", type=click.Choice(["hard", "convex", "inverted"]), help="How rows go to bins.")
@click.option("--norm", type=click.Choice(["l1", "l2", "max"]), help="How gaps are pooled.")
@click.option("--closed", type=click.Choice(["right", "left"]), help="Which end belongs to a bin.")
@click.option("--debias", is_flag=True, default=None, help="Subtract the sampling variance (--norm l2).")
@click.option(
    "--kernel",
    type=click.Choice(["triweight", "gaussian", "epanechnikov", "cosine", "beta", "exponential"]),
    help="Kernel of density estimates; gaussian or exponential: of kernel errors and tests.",
)
@click.option(
    "--bandwidth",
    type=BandwidthType("silverman", "isj", "median", "median-full", "likelihood"),
    help="Its width, or a rule for it.",
)
@click.option("--step", type=float, metavar="WIDTH", help="Largest width of a cell of the grid.  [default: 0.0003]")
@click.option(
    "--estimator",
    type=click.Choice(["unbiased", "biased", "linear", "block", "features", "features-biased"]),
    help="How pairs of rows are averaged by skce, mmce and skce-test.",
)
@click.option("--method", type=click.Choice(["asymptotic", "distribution-free"]), help="Which p-value skce-test gives.")
@click.option("--delta", type=float, metavar="X", help="Let skce-test show that the error is smaller than this.")
@click.option("--draws", type=int, metavar="N", help="Draws of its bootstrap.  [default: 1000]")
@click.option("--locations", type=int, metavar="J", help="Test locations of cme-test.  [default: 10]")
@click.option(
    "--predictions", type=click.Choice(["fixed", "resampled"]), help="Those of replicates of consistency-test."
)
@kernel_options
@click.option("--rule", type=click.Choice(["brier", "log"]), help="The score that corp decomposes.")
@click.option("--kind", type=click.Choice(["mad", "range"]), help="Largest deviation or range, of ecce.")
@click.option("--costs", type=CostsType(), help="Costs of actions by class, for excess-cost.")
@click.option(
    "--calibration", type=click.Choice(["multiclass", "classwise"]), help="What excess-cost takes for calibrated."
)
@click.option(
    "--compat",
    type=click.Choice(["scikit-learn", "netcal", "torchmetrics", "euranova"]),
    help="Choices of that tool where none is given.",
)
@click.option("--ci", type=float, metavar="LEVEL", help="Add intervals of this level, such as 0.95.")
@click.option(
    "--ci-method",
    type=click.Choice(["corrected", "percentile", "bca"]),
    help="How.  [default: corrected for calibration errors, else percentile]",
)
@click.option("--n-boot", type=int, metavar="N", help="Replicates behind the intervals.  [default: 200]")
@click.option("--seed", type=int, metavar="S", help="Of random numbers.  [default: 0]")
@row_options
@click.option("--json", "as_text", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--json-schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON Schema of that JSON, and stop.",
)
@click.option("--out", metavar="FILE", help=f"Write the result: {', '.join(RESULTS)}.")
@click.option("--plot", metavar="FILE", help="Write a reliability diagram: .html, .png, .svg.")
@click.option(
    "--text-plot/--no-text-plot",
    default=None,
    help="Print a reliability diagram in characters.  [default: on a terminal, where there is one curve]",
)
@click.option("--curve", is_flag=True, help="Let --plot draw the reliability curve; with --ci, its bands.")
@click.option(
    "--report",
    metavar="FILE",
    help="Write a report: .html; passes of its own. Each --by by itself; intervals of 0.95 but for --ci.",
)
@click.option("--overwrite", is_flag=True, help="Replace --out, --plot and --report files that are there.")
def evaluate(**given: Any) -> None:
    """Measure the calibration of the scored rows in DATA.

    DATA is a local path or a URL: .npz, .zarr or .nc with arrays "labels" and "scores"; .parquet (a file or a folder)
    or .csv with a column "label" and either "score", P(y = 1), or "score_0 ... score_{K-1}". Or a summary of such rows
    that "calibdask summarize" wrote; its slices are added up, but those that --by names.

    Intervals (--ci) cost next to nothing where a histogram of the scores tells the metric, such as ece, density-ece or
    the curve, and N times the metric itself elsewhere; tests have none.
    """
    from calibdask.engine.summary_files import open_summary
    from calibdask.engine.writers import replacing

    request = _Request.of(given)
    request.check()
    result_path, plot_path, report_path = _outputs(request)
    summary = open_summary(request.data)
    # Bad metrics and options are found before the data is touched; what the panel holds does not matter yet.
    if summary is None:
        request.chosen(request.panel(2, vector=True))

    from calibdask.cli.tables import as_json, console, show

    shown = console()
    pictured = request.is_pictured(terminal=shown.is_terminal)
    begun = perf_counter()
    found = _of_data(request, pictured) if summary is None else _of_summary(request, summary, pictured)
    dataset = found.dataset
    seconds = perf_counter() - begun
    figures = dataset[[name for name in dataset.data_vars if not str(name).startswith((DIAGRAM, CURVE))]]
    text = as_json(figures, [name for name in found.chosen if name not in (DIAGRAM, CURVE)])
    with ExitStack() as written:
        if report_path is not None:
            part = written.enter_context(replacing(report_path))
            write_evaluation(part, request, found.chosen, request.options, request.intervals)
        if plot_path is not None:
            _plot(dataset, written, plot_path, request)
        if result_path is not None:
            write_result(figures, text, written, result_path)
    if request.as_text:
        click.echo(text)
        return
    show(figures, shown, seconds=seconds)
    if pictured:
        _picture(found, shown, asked=request.text_plot is True)
    for path in (result_path, plot_path, report_path):
        if path is not None:
            shown.print(f"wrote {path}", style="dim", markup=False)


def _outputs(request: _Request) -> "tuple[Output | None, Output | None, Output | None]":
    """Where the result, the picture and the report go, checked."""
    from calibdask.engine.writers import check_apart, checked_output
    from calibdask.plot.saving import FORMATS, check_format

    check_apart(request.data, {"--out": request.out, "--plot": request.plot, "--report": request.report})
    result_path = None if request.out is None else checked_output(request.out, RESULTS, overwrite=request.overwrite)
    plot_path = None if request.plot is None else checked_output(request.plot, FORMATS, overwrite=request.overwrite)
    if plot_path is not None:
        check_format(str(plot_path))
    report_path = None
    if request.report is not None:
        from calibdask.report.writing import FORMATS as REPORTS

        report_path = checked_output(request.report, REPORTS, overwrite=request.overwrite)
    return result_path, plot_path, report_path


@dataclass(frozen=True)
class _Found:
    """The result, the metrics that it is of, and whether scores are a vector of P(y = 1)."""

    dataset: Any
    chosen: Mapping[str, Any]
    vector: bool


def _of_data(request: _Request, pictured: bool) -> _Found:
    """What the rows tell."""
    import calibdask as cd
    from calibdask.cluster import connected
    from calibdask.progress import shown_progress

    with connected(request.cluster), shown_progress("evaluating"), noted():
        table = request.table()
        chosen = request.chosen(request.panel(table.classes, table.vector))
        if pictured:
            chosen = {**request.diagram(chosen), **chosen}
        options = {"by": table.by or None, "sample_weight": table.weights, **request.intervals}
        result = cd.evaluate(table.labels, table.scores, chosen, **options)
    return _Found(result, chosen, table.vector)


def _of_summary(request: _Request, summary: Any, pictured: bool) -> _Found:
    """The same from a stored summary."""
    import calibdask as cd
    from calibdask.cli.stored import panel, pooled, refuse_row_options
    from calibdask.cluster import connected
    from calibdask.engine.summaries import read_summary
    from calibdask.progress import shown_progress

    refuse_row_options(request)
    with summary:
        kept = pooled(summary, request.by, request.data)
        chosen = request.chosen(panel(summary, request.options["setting"]))
        source: Any = read_summary(kept).source
        if pictured:
            # A summary may lack the histogram of a picture that nobody has asked for.
            diagram = {
                name: each
                for name, each in request.diagram(chosen).items()
                if request.text_plot or source.tells(source.layout.setting(each.setting, each.k))
            }
            chosen = {**diagram, **chosen}
        with connected(request.cluster), shown_progress("evaluating"), noted():
            result = cd.evaluate(kept, metrics=chosen, **request.intervals)
    return _Found(result, chosen, source.layout.vector)


def _picture(found: _Found, shown: Any, *, asked: bool) -> None:
    """Print the diagram, if the data have one."""
    from calibdask.cli.tables import has_signs, print_lines
    from calibdask.cli.text_plot import PLAIN, SIGNS, heading_of, picture_lines

    diagram = found.dataset[[name for name in found.dataset.data_vars if str(name).startswith(f"{DIAGRAM}_")]]
    if not diagram or diagram[f"{DIAGRAM}_count"].ndim > 1:
        # As where there are several models; one that was asked for is missed.
        if asked:
            click.echo("calibdask: --text-plot shows one curve, and there are several", err=True)
        return
    diagram = diagram.rename({name: str(name).removeprefix(f"{DIAGRAM}_") for name in diagram.data_vars})
    title, axis = heading_of(found.chosen[DIAGRAM], vector=found.vector)
    print_lines([(), *picture_lines(diagram, title, axis, shown.width, SIGNS if has_signs(shown) else PLAIN)], shown)


def _plot(dataset: Any, written: ExitStack, path: "Output", request: _Request) -> None:
    from calibdask.engine.writers import replacing
    from calibdask.plot import reliability_curve, reliability_diagram, save

    picture = (reliability_curve if request.curve else reliability_diagram)(dataset)
    save(picture, written.enter_context(replacing(path)), title=f"Reliability of {request.data}")

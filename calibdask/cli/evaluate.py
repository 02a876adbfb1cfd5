"""``calibdask evaluate``: scored rows in, calibration figures out."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from calibdask.cli.metrics import DIAGRAM, METRICS, BinsType, SettingType, chosen_metrics

__all__ = ["evaluate"]

_RESULTS = (".json", ".csv", ".nc", ".zarr")
_EPILOG = """\b
JSON (--json, --out FILE.json):
  {"rows": int, "passes": int, "calibdask_version": str,
   "metrics": {NAME: {"value": float, "estimator": str}},
   "slices": []}
\b
A metric of several numbers has their names in place of "value". With --by the
numbers move to "slices": [{"by": {COLUMN: value}, "metrics": {NAME: {...}}}].
A number that does not exist (a slice without rows) is null.
\b
Exit status: 0 done; 2 bad use or bad input, said in one line on stderr, with
nothing written; 130 interrupted.
"""


@dataclass(frozen=True)
class _Request:
    """What the user asked for."""

    data: str
    metrics: tuple[str, ...]
    by: tuple[str, ...]
    weight: str | None
    label: str | None
    score: str | None
    cluster: str
    as_text: bool
    out: str | None
    plot: str | None
    overwrite: bool
    # Choices of the metrics.
    options: Mapping[str, Any]

    @classmethod
    def of(cls, given: dict[str, Any]) -> "_Request":
        own = {field.name: given.pop(field.name) for field in fields(cls) if field.name in given}
        return cls(**own, options=given)

    def metrics_for(self, classes: int, vector: bool) -> dict[str, Any]:
        return chosen_metrics(self.metrics, self.options, diagram=self.plot is not None, classes=classes, vector=vector)


@click.command(epilog=_EPILOG)
@click.argument("data")
@click.option("--metric", "metrics", metavar="NAME", multiple=True, help=f"One of {', '.join(METRICS)}; repeatable.")
@click.option("--setting", type=SettingType(), help="Which scores are measured.")
@click.option("--k", type=int, metavar="K", help="Number of classes of --setting top-k.")
@click.option("--bins", type=BinsType(), help="Bins: how many, or their edges.")
@click.option("--binning", type=click.Choice(["uniform", "equal-mass"]), help="How bins are chosen.")
@click.option("--mapping", type=click.Choice(["hard", "convex", "inverted"]), help="How rows go to bins.")
@click.option("--norm", type=click.Choice(["l1", "l2", "max"]), help="How gaps are pooled.")
@click.option("--closed", type=click.Choice(["right", "left"]), help="Which end belongs to a bin.")
@click.option("--debias", is_flag=True, default=None, help="Subtract the sampling variance (--norm l2).")
@click.option(
    "--compat",
    type=click.Choice(["scikit-learn", "netcal", "torchmetrics", "euranova"]),
    help="Choices of that tool where none is given.",
)
@click.option("--by", metavar="COLUMN", multiple=True, help="Slice by this column or array; repeatable.")
@click.option("--weight", metavar="COLUMN", help="Column or array of sample weights.")
@click.option("--label", metavar="NAME", help="Column or array of labels.  [default: label, or labels in array files]")
@click.option("--score", metavar="NAME", help="Column, first part of columns, or array of scores.")
@click.option("--cluster", metavar="WHERE", default="threads", help="threads, local[:N], tcp://..., tls://..., FILE.")
@click.option("--json", "as_text", is_flag=True, help="Print JSON instead of a table.")
@click.option("--out", metavar="FILE", help=f"Write the result: {', '.join(_RESULTS)}.")
@click.option("--plot", metavar="FILE", help="Write a reliability diagram: .html, .png, .svg.")
@click.option("--overwrite", is_flag=True, help="Replace --out and --plot files that are there.")
def evaluate(**given: Any) -> None:
    """Measure the calibration of the scored rows in DATA.

    DATA is a local path or a URL: .npz, .zarr or .nc with arrays "labels" and "scores"; .parquet (a file or a folder)
    or .csv with a column "label" and either "score", P(y = 1), or "score_0 ... score_{K-1}".
    """
    from calibdask.engine.writers import check_apart, checked_output
    from calibdask.plot.saving import FORMATS, check_format

    request = _Request.of(given)
    check_apart(request.data, {"--out": request.out, "--plot": request.plot})
    result_path = None if request.out is None else checked_output(request.out, _RESULTS, overwrite=request.overwrite)
    plot_path = None if request.plot is None else checked_output(request.plot, FORMATS, overwrite=request.overwrite)
    if plot_path is not None:
        check_format(plot_path)
    # Bad metrics and options are found before the data is touched; what the panel holds does not matter yet.
    request.metrics_for(classes=2, vector=True)

    from calibdask.cli.tables import as_json, console, show

    begun = perf_counter()
    dataset, names = _evaluated(request)
    seconds = perf_counter() - begun
    figures = dataset[[name for name in dataset.data_vars if not str(name).startswith(DIAGRAM)]]
    text = as_json(figures, names)
    with ExitStack() as written:
        if plot_path is not None:
            _plot(dataset, written, plot_path, request.data)
        if result_path is not None:
            _write(figures, text, written, result_path)
    if request.as_text:
        click.echo(text)
        return
    shown = console()
    show(figures, shown, seconds=seconds)
    for path in (result_path, plot_path):
        if path is not None:
            shown.print(f"wrote {path}", style="dim", markup=False)


def _evaluated(request: _Request) -> tuple[Any, list[str]]:
    """The result, and the names of its metrics."""
    import calibdask as cd
    from calibdask.cluster import connected
    from calibdask.engine.readers import read
    from calibdask.progress import shown_progress

    with connected(request.cluster), shown_progress("evaluating"):
        table = read(request.data, label=request.label, score=request.score, by=request.by, weight=request.weight)
        chosen = request.metrics_for(table.classes, table.vector)
        result = cd.evaluate(table.labels, table.scores, chosen, by=table.by or None, sample_weight=table.weights)
    return result, [name for name in chosen if name != DIAGRAM]


def _plot(dataset: Any, written: ExitStack, path: Path, data: str) -> None:
    from calibdask.engine.writers import replacing
    from calibdask.plot import reliability_diagram, save

    save(reliability_diagram(dataset), written.enter_context(replacing(path)), title=f"Reliability of {data}")


def _write(figures: Any, text: str, written: ExitStack, path: Path) -> None:
    from calibdask.engine.writers import replacing, write_dataset

    part = written.enter_context(replacing(path))
    if path.suffix.lower() == ".json":
        part.write_text(text + "\n", encoding="utf-8")
    else:
        write_dataset(figures, part)

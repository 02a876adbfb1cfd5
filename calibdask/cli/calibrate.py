"""``calibdask calibrate``: scored rows in, a map out that corrects their scores."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.analysis_command import run_with_defaults
from calibdask.cli.help_groups import GroupedCommand
from calibdask.cli.model_data import check_one_model
from calibdask.cli.option_names import shown_warnings
from calibdask.cli.param_types import MethodType
from calibdask.cli.row_options import data_argument, features_option, refused_share_options, row_options
from calibdask.cli.rows_request import RowsRequest, feature_names, rows_of
from calibdask.estimators.expression import Expression, parse_method
from calibdask.estimators.signatures import calibrator_signatures
from calibdask.safe_text import listed, visible

if TYPE_CHECKING:
    from calibdask.calibrators.base import Calibrator
    from calibdask.storage.open_store import Store
    from calibdask.storage.readers import StoredRows

_STDOUT = "-"
_MATRIX = "a column for each class"
_BY_FEATURES = "multicalibrated"
# Lines of the table; the map has all.
_MOST_LINES = 40
_EXAMPLES = (
    ("calibdask calibrate holdout.parquet --out map.json", "the default method"),
    (
        'calibdask calibrate holdout.parquet --method "platt(smooth_targets=true)" --out map.json',
        "a method with options",
    ),
    ("calibdask calibrate holdout.parquet --compare", "compare methods and recommend one"),
    ("calibdask calibrate holdout.parquet --by country --out map.json", "a map for each country"),
    ("calibdask calibrate holdout.parquet --features all --out map.json", "correct the subgroups that an audit finds"),
    ("calibdask calibrate summary.zarr --method platt --out map.json", "from a summary, without the rows"),
    ("calibdask evaluate fresh.parquet --map map.json", "evaluate the map on other rows"),
    ("calibdask apply map.json fresh.parquet --out calibrated.parquet", "write calibrated scores"),
)
_EPILOG = """\b
In Python: cd.Calibrator.from_dict(json.load(open("map.json"))).predict_proba(y_prob).
\b
Exit status: 0 success; 2 invalid use or input, explained in one line on stderr,
with nothing written; 130 interrupted.
"""


class _CalibrateCommand(GroupedCommand):
    """Command whose help lists the library's calibration methods."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The methods before all else."""
        with formatter.section("Methods"):
            formatter.write_dl([(word, _text(word)) for word in calibrator_signatures()])
        super().format_epilog(ctx, formatter)


def _text(word: str) -> str:
    signature = calibrator_signatures()[word]
    choices = ", ".join(signature.choices)
    return signature.summary.replace("`", "") + (f"  [choices: {choices}]" if choices else "")


@click.command(cls=_CalibrateCommand, epilog=_EPILOG, examples=_EXAMPLES)
@data_argument()
@click.option("--out", metavar="FILE", help="Map to write: .json, or - for standard output.")
@click.option(
    "--compare",
    is_flag=True,
    help="Compare all usual methods by cross-validation and recommend one, instead of --out.",
)
@click.option(
    "--method",
    type=MethodType(),
    metavar="NAME[(CHOICE=VALUE,...)]",
    help=(
        "Calibration method with its options; names are below.  [default: platt for one score column and for "
        "summaries, temperature for one column per class if available, multicalibrated with --features]"
    ),
)
@features_option("With multicalibrated: columns that describe subgroups")
@click.option(
    "--min-rows",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --by: use the map of all rows for smaller slices.  [default: 100]",
)
@click.option(
    "--shrink",
    is_flag=True,
    help="With --by, for many small slices: shrink their intercepts by empirical Bayes, with the slope of all rows.",
)
@row_options
@refused_share_options
@click.option("--overwrite", is_flag=True, help="Replace an existing map.")
def calibrate(
    data: str,
    out: str | None,
    compare: bool,
    method: Expression | None,
    features: tuple[str, ...],
    min_rows: int | None,
    shrink: bool,
    overwrite: bool,
    **where: Any,
) -> None:
    """Fit a calibration map to the scored rows in DATA.

    DATA is as for evaluate; a summary suffices for maps of a single score. With --by, every slice gets its own map in
    the same pass; with --features, the subgroups that an audit finds miscalibrated are corrected, and the cross-fitted
    improvement is printed. Evaluate a map on rows that it was not fitted to.
    """
    from calibdask.storage.atomic_replace import write_text
    from calibdask.storage.writers import check_apart, checked_output

    request = RowsRequest(data=data, **where)
    check_one_model("calibrate", request)
    _check_features(features, method, request, compare=compare)
    if min_rows is not None and not request.by:
        choice = f'; --method "{_BY_FEATURES}(min_rows={min_rows})" is of groups' if features else ""
        raise click.UsageError(f"--min-rows has no effect without --by: there are no slices{choice}.")
    if shrink:
        method = _shrinking(method, request, min_rows, features=features, compare=compare)
    if compare:
        if out is not None or method is not None or request.by:
            raise click.UsageError(
                "--compare does not write a map, and tries the usual methods on all rows: omit --out, --method and "
                "--by."
            )
        run_with_defaults("compare-maps", request)
        return
    if out is None:
        raise click.UsageError("Missing option '--out', the map to write; --compare only compares methods.")
    target = None
    if out != _STDOUT:
        check_apart(data, {"--out": out})
        target = checked_output(out, (".json",), overwrite=overwrite)
    store = request.opened()
    options = {} if min_rows is None else {"min_rows": min_rows}
    calibrator, why, fingerprint = _fitted(request, store, method, features, options)
    stored = calibrator.to_dict()
    if fingerprint:
        from calibdask.calibrators.stored import with_fingerprint

        stored = with_fingerprint(stored, fingerprint)
    text = json.dumps(stored, indent=1, ensure_ascii=False) + "\n"
    if target is None:
        click.echo(text, nl=False)
    else:
        write_text(target, text)
    _show(calibrator, why, to_stderr=target is None)
    if target is not None:
        click.echo(f"wrote {visible(target)}")


def _check_features(
    features: tuple[str, ...], method: Expression | None, request: RowsRequest, *, compare: bool
) -> None:
    """Refuse features without a map by them, such a map without features, and both with slices."""
    by_features = method is not None and method.keyword == _BY_FEATURES
    if by_features and not features:
        raise click.UsageError(
            f"--method {_BY_FEATURES} expects --features: name columns that describe groups, or all."
        )
    if features and compare:
        raise click.UsageError(
            "--features has no effect with --compare, which only tries maps of scores; a map by features prints its "
            "own cross-fitted improvement."
        )
    if features and method is not None and not by_features:
        raise click.UsageError(
            f"--features has no effect with --method {method.keyword}: only {_BY_FEATURES} maps scores by features."
        )
    if features and request.by:
        raise click.UsageError("--by has no effect with --features: name the column among them.")


def _shrinking(
    method: Expression | None, request: RowsRequest, min_rows: int | None, *, features: Sequence[str], compare: bool
) -> Expression:
    """The method with shrunken intercepts."""
    if not request.by:
        raise click.UsageError("--shrink expects slices: --by COLUMN.")
    for option, is_given in {"--compare": compare, "--features": features}.items():
        if is_given:
            raise click.UsageError(f"{option} cannot be combined with --shrink.")
    if min_rows is not None:
        raise click.UsageError(
            "--min-rows has no effect with --shrink: small slices are shrunk, not replaced by the map of all rows."
        )
    if method is not None and method.keyword != "platt":
        raise click.UsageError(
            f"--shrink has no effect with --method {method.keyword}: only platt has intercepts by slice that shrink."
        )
    return replace(method or parse_method("platt"), choices={**(method.choices if method else {}), "shrink": True})


def _fitted(
    request: RowsRequest,
    store: "Store",
    method: Expression | None,
    features: tuple[str, ...],
    options: dict[str, int],
) -> "tuple[Calibrator, str, str]":
    """The fitted calibrator, why it is this one where none was named, and the fingerprint of rows."""
    from calibdask.calibrators.map_table import rows_behind
    from calibdask.calibrators.stored_map import fit_to_data
    from calibdask.cli.rows_request import pooled, refuse_row_options
    from calibdask.cluster import connected
    from calibdask.data.data import Data
    from calibdask.progress import shown_progress
    from calibdask.storage.summary import Summary

    if isinstance(store, Summary):
        if features:
            raise click.UsageError(f"A map by --features expects rows; {store.url} is a summary.")
        refuse_row_options(request)
        with store.dataset, connected(request.cluster), shown_progress("calibrating"), shown_warnings():
            pooled(store, request.by)
            chosen, why = (method, "") if method is not None else _usual("scores alone, of a summary")
            return fit_to_data(chosen.make(), Data.of(store, by=request.by), **options), why, ""
    with connected(request.cluster), shown_progress("calibrating"), shown_warnings():
        rows = rows_of(store)
        table = _with_features(request, rows, features).table(rows)
        scores = "a column of scores" if request.shape(table).vector else _MATRIX
        chosen, why = (method, "") if method is not None else _usual("features" if features else scores)
        calibrator = chosen.make().set_params(logits=request.logits)
        data = request.data_of(table)
        fit_to_data(calibrator, data, **options)
        fingerprint = request.fingerprint_of(table)
        request.note_excluded(calibrator.excluded_, rows_behind(calibrator))
    return calibrator, why, fingerprint


def _with_features(request: RowsRequest, rows: "StoredRows", features: tuple[str, ...]) -> RowsRequest:
    """The request; features travel in the place of slices."""
    return replace(request, feature_columns=feature_names(request, rows, features)) if features else request


def _usual(scores: str) -> tuple[Expression, str]:
    """The method for such scores."""
    words = {_MATRIX: "temperature", "features": _BY_FEATURES}
    word = words.get(scores, "platt")
    return parse_method(word), f"the usual one for {scores}; --method names others"


def _show(calibrator: "Calibrator", why: str, *, to_stderr: bool) -> None:
    """Print the fitted map and its notes."""
    from calibdask.analyses.multicalibration.improvement_table import improvement_lines
    from calibdask.analyses.multicalibration.scaling import MulticalibratedScaling
    from calibdask.calibrators.map_table import MapTable, shrunken_notes
    from calibdask.render.text_layout import plain_columns

    if isinstance(calibrator, MulticalibratedScaling):
        for line in (f"{type(calibrator).__name__}{f' ({why})' if why else ''}", "", *improvement_lines(calibrator)):
            click.echo(visible(line), err=to_stderr)
        return
    table = MapTable.of(calibrator)
    rows = [table.heads, *table.lines[-_MOST_LINES:]]
    lines = [f"{type(calibrator).__name__}{f' ({why})' if why else ''}", "", *plain_columns(rows)]
    left = len(table.lines) - _MOST_LINES
    notes = [f"{left:,} lines before these are in the map."] if left > 0 else []
    notes += [f"Further numbers, in the map: {listed(table.further)}."] if table.further else []
    notes += shrunken_notes(calibrator)
    notes += ["Standard errors are in parentheses."] if any("(" in cell for row in table.lines for cell in row) else []
    for line in (*lines, *([""] if notes else []), *notes):
        click.echo(visible(line), err=to_stderr)
    for caution in calibrator.cautions_:
        click.echo(f"calibdask: {visible(caution)}", err=True)

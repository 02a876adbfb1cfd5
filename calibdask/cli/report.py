"""``calibdask report``: one page for the approval of models, or about a study."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from calibdask.cli.analysis_command import field_option
from calibdask.cli.command_line import Remembering, repeatable_command
from calibdask.cli.data_names import named_data
from calibdask.cli.gates import checked_receipt, limits_file, limits_option, write_receipt
from calibdask.cli.model_data import model_requests, side_by_side
from calibdask.cli.option_names import shown_warnings
from calibdask.cli.reporting import compared_models, measured, with_audit, with_periods, write_models
from calibdask.cli.row_options import (
    check_every,
    cluster_check_option,
    data_argument,
    features_option,
    key_option,
    period_options,
    population_options,
    refused_share_options,
    row_options,
)
from calibdask.estimators.signatures import analysis_signatures
from calibdask.safe_text import visible

if TYPE_CHECKING:
    from pathlib import Path

    from calibdask.analyses.gating.limits import Limits
    from calibdask.report.over_time import Watching
    from calibdask.storage.atomic_replace import Output
    from calibdask.storage.open_store import Store, StoredCube

# Replicates of the intervals that decide, as by check.
_GATE_BOOT = 1000
# Limits of a kind that are named on the terminal, of each model.
_MOST_LINES = 5
_EPILOG = """\b
Examples:
  calibdask report holdout.parquet --by country --out report.html
  calibdask report holdout.parquet --by country --limit 0.03 --out report.html
  calibdask report holdout.parquet --profile clinical --limits limits.toml --receipt receipt.json --out report.html
  calibdask report holdout.parquet --limit ece=0.03 --fact version=2.1 --fact author="A. Doe" --out report.html
  calibdask report old=a.csv new=b.csv --weight w --out report.html
  calibdask report summary.zarr --out report.html
  calibdask report summary.zarr --period day --by country --out report.html
  calibdask report cube.zarr --out study.html
\b
Exit status: 0 success, whatever the decisions; 2 invalid use or input, explained in
one line on stderr, with nothing written; 130 interrupted.
"""

_CHECK = analysis_signatures()["check"]
_WATCHING = ("period", "tolerance", "alpha", "model_version", "due", "now")


@click.command(cls=Remembering, epilog=_EPILOG)
@data_argument("DATA...")
@click.option("--out", metavar="FILE", required=True, help="Report to write: .html.")
@click.option("--title", help="Title of the report.")
@click.option(
    "--ci", type=float, metavar="LEVEL", default=0.95, show_default=True, help=("Confidence level of the intervals.")
)
@click.option(
    "--n-boot", type=int, metavar="N", default=200, show_default=True, help=("Bootstrap replicates of the intervals.")
)
@click.option("--seed", type=int, metavar="S", default=0, show_default=True, help="Seed of random numbers.")
@field_option(_CHECK.choices["limits"])
@field_option(_CHECK.choices["slice_limits"])
@limits_option
@field_option(_CHECK.choices["profile"])
@click.option(
    "--receipt",
    metavar="FILE",
    help=("Write a receipt, .json; its hash is printed at the end of the report. See verify."),
)
@click.option(
    "--fact",
    "own_facts",
    metavar="NAME=TEXT",
    multiple=True,
    help="State a fact about the model: model, version, purpose, outcome, period, limits, author; repeatable.",
)
@click.option(
    "--facts", "facts_path", metavar="FILE", help=("Read facts from a TOML file with lines such as version = '2.1'.")
)
@features_option("Add an audit of the subgroups by these columns")
@click.option(
    "--period",
    metavar="COLUMN",
    help="Add calibration over time by this column of periods, such as days.",
)
@period_options
@click.option(
    "--tolerance",
    type=float,
    metavar="X",
    default=0.0,
    show_default=True,
    help="With --period: allowed difference of observed rate and mean prediction, as a fraction.",
)
@click.option(
    "--alpha",
    type=float,
    metavar="A",
    default=0.05,
    show_default=True,
    help="With --period: false-alarm rate.",
)
@click.option(
    "--model-version",
    metavar="COLUMN",
    help="With --period: column or coordinate of the model version, whose changes are marked.",
)
@click.option(
    "--due",
    metavar="TIME",
    help=(
        "With --period: delay until outcomes are known, such as 30d or 12m (months); until then a period is pending."
    ),
)
@click.option("--now", metavar="DATE", help="With --due: current time in UTC.  [default: now]")
@key_option
@population_options
@row_options
@refused_share_options
@cluster_check_option
@click.option("--overwrite", is_flag=True, help="Replace an existing report.")
def report(
    data: tuple[str, ...],
    out: str,
    title: str | None,
    features: tuple[str, ...],
    limits: tuple[str, ...],
    slice_limits: tuple[str, ...],
    limits_path: str | None,
    profile: str | None,
    receipt: str | None,
    own_facts: tuple[str, ...],
    facts_path: str | None,
    overwrite: bool,
    **given: Any,
) -> None:
    """Write a self-contained HTML report.

    The page works offline and prints. DATA are scored rows or summaries, as for evaluate; several DATA are several
    models, named after their files or as NAME in NAME=FILE. DATA may also be one study cube. Each --by column gives its
    own table of slices; a summary shows all its slices, or those of --by.

    The report opens with the facts about the model, a verdict for each model, and a table of slices by model; models of
    the same rows are compared with the first. Numbers, tests, warnings, instructions to reproduce the page, and an
    appendix follow. Rows are read once or twice per model (up to three times for equal-mass bins of large data), and
    once more for each --by column.

    --period adds calibration over time, for all rows and by each --by column: gaps, evidence that stays valid however
    often one looks, the onset of a change, and whether the population or the model's behaviour changed.

    --features adds an audit of the subgroups by these columns; a summary with features is always audited.

    --limit and --limits test each model as check does. --profile adds the numbers of a profession under its own names.
    """
    from dataclasses import replace

    from calibdask.inference.choice import check_interval
    from calibdask.storage.atomic_replace import atomic_replacement
    from calibdask.storage.open_store import StoredCube
    from calibdask.storage.summary import Summary

    intervals = {name: given.pop(name) for name in ("ci", "n_boot", "seed")}
    check_interval(*intervals.values())
    declared = limits_file(limits_path)
    check = _CHECK.constructor(limits, slice_limits, profile, n_boot=_GATE_BOOT, seed=intervals["seed"])
    check = check.with_file(declared)
    check = replace(check, confidence=check.confidence or intervals["ci"])
    has_limits = bool(check.limits or check.slice_limits)
    facts = _origin(limits_path, declared, given=bool(limits or slice_limits)) if has_limits else {}
    facts |= _facts(facts_path, own_facts)
    if receipt is not None and given["due"] is not None:
        raise click.UsageError(
            "--receipt covers all rows, but --due excludes pending ones; omit one of them, or report a file of the due "
            "rows alone."
        )
    given["by"] = tuple(dict.fromkeys((*declared.by, *given["by"])))
    given["groups"] = given["groups"] or declared.groups or None
    target = _checked(data, {"--out": out, "--receipt": receipt}, overwrite=overwrite)
    kept = checked_receipt(receipt, overwrite=overwrite)
    watched = [given.pop(name) for name in _WATCHING]
    check_every(watched[0], given["every"], given["zone"])
    requests = model_requests(data, {**given, "period": watched[0]})
    stores = {name: request.opened() for name, request in requests.items()}
    stored_periods = {store.period for store in stores.values() if isinstance(store, Summary)} - {None}
    if watched[0] is None and len(stored_periods) == 1:
        (watched[0],) = stored_periods
    watching = _watching(*watched)
    cubes = [store for store in stores.values() if isinstance(store, StoredCube)]
    if cubes:
        _check_alone(cubes[0], stores)
    elif kept is not None and len(stores) > 1:
        raise click.UsageError("--receipt covers a single model; run report or check for each model.")
    _check_slices(stores.values(), given["by"], bool(check.slice_limits))
    if not check.decides:
        check = replace(check, n_boot=intervals["n_boot"])
    deciding = {"check": check, "with_receipt": kept is not None}
    models: dict[str, Any] = {}
    with ExitStack() as written:
        part = written.enter_context(atomic_replacement(target))
        if cubes:
            _write_cube(cubes[0], part, title)
        else:
            first = next(iter(requests.values()))
            with first.connected(), shown_warnings():
                of_rows = {
                    name: request if isinstance(stores[name], Summary) else with_periods(request, watching)
                    for name, request in requests.items()
                }
                tables = side_by_side("report", of_rows, stores)
            for name, store in stores.items():
                request = requests[name]
                table = tables.get(name)
                own = measured(name, request, store, table, watching=watching, **deciding, **intervals)
                own = with_audit(own, request, store, features, watching)
                models |= {f"{name} {model}" if model in models else model: one for model, one in own.items()}
            if kept is not None and len(models) > 1:
                raise click.UsageError("--receipt covers a single model; select one.")
            write_models(part, models, title, facts, compared_models(requests, stores, watching, **intervals))
            if kept is not None:
                (model,) = models.values()
                write_receipt(kept, model.receipt, written)
    for line in _lines(models):
        click.echo(visible(line))
    for path in filter(None, (target, kept)):
        click.echo(f"wrote {visible(path)}")


def _origin(path: str | None, limits: "Limits", *, given: bool) -> dict[str, str]:
    """Where the limits come from: the file with its owner and day, and options beside it."""
    from pathlib import Path

    declared = [f"declared by {limits.owner}" if limits.owner else "owner not stated"]
    declared += [f"on {limits.declared}"] if limits.declared else []
    places = [] if path is None else [f"{Path(path).name}, {' '.join(declared)}"]
    places += ["options of the command, owner not stated"] if given else []
    return {"limits": "; ".join(places)}


def _facts(path: str | None, given: tuple[str, ...]) -> dict[str, str]:
    """Facts for the page, from a file and from options, which take precedence."""
    from calibdask.storage.documents import read_toml

    facts: dict[str, str] = {}
    if path is not None:
        try:
            read = read_toml(path)
        except OSError as error:
            raise click.UsageError(f"--facts {path} cannot be read: {error.strerror}.") from error
        except ValueError as error:
            raise click.UsageError(f"--facts {path} is not a TOML file: {error}.") from error
        if nested := [name for name, value in read.items() if isinstance(value, dict | list)]:
            raise click.UsageError(
                f"--facts {path} expects a text for each name, as in version = '2.1'; see {nested[0]}."
            )
        facts = {name: str(value) for name, value in read.items()}
    for words in given:
        name, equals, text = words.partition("=")
        if not (name.strip() and equals and text.strip()):
            raise click.UsageError(f"--fact expects NAME=TEXT, such as version=2.1, got {words!r}.")
        facts[name.strip().lower()] = text.strip()
    return facts


def _lines(models: Mapping[str, Any]) -> Iterator[str]:
    """Decision on each model: one line, and one for each limit that is broken or needs rows."""
    from calibdask.analyses.gating.gate import headline, sentence, wanting

    for name, model in models.items():
        if model.gate is not None and model.gate.judgements:
            yield f"{name}: {headline(model.gate)}"
            yield from _first([f"{sentence(one)}." for one in model.gate.of("broken")])
            yield from _first(list(wanting(model.gate)))


def _first(lines: Sequence[str]) -> Iterator[str]:
    """The first of these lines; the page has them all."""
    yield from (f"  {line}" for line in lines[:_MOST_LINES])
    if (left := len(lines) - _MOST_LINES) > 0:
        yield f"  {left:,} more such limits: see the page."


def _watching(
    period: str | None, tolerance: float, alpha: float, version: str | None, due: str | None, now: str | None
) -> "Watching | None":
    """How calibration is watched over time, if it is."""
    from calibdask.report.over_time import Watching

    if period is not None:
        return Watching(period, tolerance, alpha, version, due, now)
    source = click.get_current_context().get_parameter_source
    for option in _WATCHING[1:]:
        if source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{option.replace('_', '-')} has no effect without --period.")
    return None


def _check_slices(stores: "Iterable[Store]", by: Sequence[str], has_limits: bool) -> None:
    """Refuse a limit of slices that nobody asked for; summaries have their own."""
    from calibdask.storage.summary import Summary

    if not has_limits or by:
        return
    for store in stores:
        if not isinstance(store, Summary):
            raise click.UsageError(f"--slice-limit has no effect without --by: {store.url} holds rows.")
        if not store.slices:
            raise click.UsageError(f"--slice-limit has no effect on {store.url}: it is a summary without slices.")


def _checked(data: tuple[str, ...], outputs: dict[str, str | None], *, overwrite: bool) -> "Output":
    """Where the page goes, checked before anything is read."""
    from calibdask.report.writing import FORMATS
    from calibdask.storage.writers import check_apart, checked_output

    for path in named_data(data).values():
        check_apart(path, outputs)
    return checked_output(str(outputs["--out"]), FORMATS, overwrite=overwrite)


def _check_alone(cube: "StoredCube", stores: "Sized") -> None:
    """Refuse what has no effect on a cube."""
    if len(stores) > 1:
        raise click.UsageError(f"{cube.url} is the cube of a study, which has its own report; give it alone.")
    source = click.get_current_context().get_parameter_source
    rows = (
        "by",
        *_WATCHING,
        "features",
        "weight",
        "label",
        "score",
        "task",
        "logits",
        "labels",
        "pos_label",
        "ignore_label",
    )
    names = {"limits": "limit", "slice_limits": "slice_limit", "limits_path": "limits", "own_facts": "fact"}
    of_page = ("profile", "receipt", "facts_path")
    for option in (*rows, "ci", "n_boot", "seed", *names, *of_page):
        if source(option) is ParameterSource.COMMANDLINE:
            option_name = names.get(option, option.removesuffix("_path")).replace("_", "-")
            raise click.UsageError(f"--{option_name} has no effect on {cube.url}: it is the cube of a study.")


def _write_cube(cube: "StoredCube", part: "Path", title: str | None) -> None:
    from calibdask.report import write_cube_report

    write_cube_report(part, cube, title=title, command=repeatable_command())

"""Gates of scored rows and their receipts, as `check`, `report` and `evaluate` make them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.option_names import shown_warnings
from calibdask.cli.rows_request import rows_of

if TYPE_CHECKING:
    from calibdask.analyses.gating.gate import Gate
    from calibdask.analyses.gating.limits import Limit, Limits
    from calibdask.cli.evaluate_request import EvaluateRequest
    from calibdask.data.options import PopulationKeywords
    from calibdask.report import Measured
    from calibdask.report.over_time import Watching
    from calibdask.storage.atomic_replace import Output
    from calibdask.storage.open_store import Store
    from calibdask.storage.row_table import RowTable
    from calibdask.storage.summary import Summary

# The panels of `calibdask evaluate`, as metrics are written.
_USUAL = ("ece", "smooth-ece", "cutoff-error", "mean-gap", "brier-score", "log-loss")
_FULL = ("ece(binning=equal-mass)", "density-ece", "ece(norm=l2, debias=true)", "mce")
_OF_MATRICES, _OF_VECTORS = ("ece(setting=classwise)",), ("brier-decomposition",)
_LEVEL, _N_BOOT = 0.95, 200
_CLOSE = 1e-9

PROFILES = ("default", "ml", "clinical", "credit", "ads", "forecast")
_LIMIT: dict[str, Any] = {"metavar": "X|METRIC[.PART]=X|X..Y", "multiple": True}
_OPTIONS: tuple[Callable[..., Any], ...] = (
    click.option(
        "--limit",
        "limits_of_all",
        help="Limit for all rows: a maximum error or loss, or a range; X alone means ece=X; repeatable.",
        **_LIMIT,
    ),
    click.option("--slice-limit", "of_slices", help="Limit for each slice; repeatable.  [default: --limit]", **_LIMIT),
    click.option(
        "--limits", "limits_path", metavar="FILE", help=("Read limits from a TOML file; options take precedence.")
    ),
    click.option("--profile", type=click.Choice(PROFILES), help="Add the numbers that this profession reports."),
)


def limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of decisions: limits of all rows and of slices, a limits file, a profile."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def limits_of_options(path: str | None, given: Sequence[str], of_slices: Sequence[str]) -> "Limits":
    """Limits from the file and from options, which take precedence."""
    from dataclasses import replace

    from calibdask.analyses.gating.limits import Limits, limits_of

    try:
        of_file = Limits() if path is None else Limits.read(path)
        of_all, each = _of_ece("limit", given), _of_ece("slice-limit", of_slices)
        own = (*limits_of(of_all), *limits_of(each, of_slices=True))
    except OSError as error:
        raise click.UsageError(f"--limits {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    chosen: dict[tuple[str, bool], Limit] = {(limit.text, limit.of_slices): limit for limit in (*of_file.limits, *own)}
    return replace(of_file, limits=tuple(chosen.values()))


def _of_ece(option: str, given: Sequence[str]) -> tuple[str, ...]:
    """Limits; a number alone is one of the ECE."""
    texts = []
    for words in given:
        try:
            limit = float(words)
        except ValueError:
            texts.append(words)
            continue
        if not 0 < limit < 1:
            raise click.UsageError(
                f"--{option} expects a fraction between 0 and 1, such as 0.03 for 3 percentage points, got {words}."
            )
        texts.append(f"ece={words}")
    return tuple(texts)


def gate_options(limits: "Limits", profile: str | None, **intervals: Any) -> dict[str, Any]:
    """Arguments of `calibdask.check` for these limits."""
    return {
        "limits": [limit for limit in limits.limits if not limit.of_slices],
        "slice_limits": [limit for limit in limits.limits if limit.of_slices] or None,
        "profile": profile or limits.profile,
        **intervals,
    }


@dataclass(frozen=True)
class Gating:
    """Decisions of a report: arguments of `calibdask.check`, empty without decisions, and whether to write a receipt.

    The receipt is kept as ``document`` once it is made.
    """

    options: Mapping[str, Any]
    with_receipt: bool = False
    document: dict[str, Any] = field(default_factory=dict)


def gated_rows(
    measured: "Measured",
    labels: Any,
    scores: Any,
    table: "RowTable",
    reading: "PopulationKeywords",
    gating: Gating,
    watching: "Watching | None",
) -> "Measured":
    """A model of rows with its decisions, and the fingerprint of the rows or the hash of their receipt."""
    from dataclasses import replace

    import calibdask as cd
    from calibdask.data.data import Data
    from calibdask.data.options import InputOptions
    from calibdask.report.over_time import due_rows

    periods = () if watching is None else watching.names
    by = {name: codes for name, codes in table.by.items() if name not in periods}
    own = replace(table, labels=labels, scores=scores, by=by)
    options = InputOptions(**reading)
    data = Data.of(own, options=options)
    every_slice = Data.of(replace(own, by=table.by), options=options)
    settled = due_rows(every_slice, watching).sliced(by)
    if gating.with_receipt:
        document, gate = receipt_and_gate_of(own, gating.options, reading)
        gating.document.update(document)
    else:
        gate = cd.check(settled, **gating.options) if gating.options else None
    if drawn := _pictures(gating.options):
        level = gating.options["confidence"]
        pictures = cd.evaluate(settled.sliced(()), metrics=drawn, ci=level)
        measured = replace(measured, pictures=pictures)
    if not gating.with_receipt:
        return replace(measured, gate=gate, fingerprint=cd.fingerprint(data))
    rows_document, digest = gating.document["data"], gating.document["hash"]
    return replace(measured, gate=gate, fingerprint=rows_document["fingerprint"], receipt=digest)


def _pictures(options: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics whose curves the profile draws."""
    from calibdask.analyses.gating.profiles import profile_of
    from calibdask.estimators.expression import parse_metrics

    texts = profile_of(options.get("profile", "")).pictures
    return {str(one): one.make() for text in texts for one in parse_metrics(text)}


def gated_summary(measured: "Measured", summary: "Summary", by: Sequence[str], gating: Gating) -> "Measured":
    """A model of a summary with its decisions."""
    from dataclasses import replace

    import calibdask as cd

    if gating.with_receipt:
        raise click.UsageError("--receipt needs rows; a summary has none.")
    if not gating.options:
        return measured
    drawn = _pictures(gating.options)
    # A summary tells the rows above a threshold at the borders of its cells only.
    cells = 0.01 / summary.step
    on_borders = drawn and abs(cells - round(cells)) < _CLOSE
    pictures = cd.evaluate(summary.pooled(()), metrics=drawn, ci=gating.options["confidence"]) if on_borders else None
    return replace(measured, gate=cd.check(summary, by=list(by) or None, **gating.options), pictures=pictures)


def receipt_and_gate_of(
    table: "RowTable", options: Mapping[str, Any], reading: "PopulationKeywords"
) -> "tuple[dict[str, Any], Gate | None]":
    """A gate and its receipt: the metrics of its limits and its profile, or the usual ones, and its decisions."""
    from calibdask.analyses.gating.profiles import profile_of
    from calibdask.analyses.receipts.receipt import receipt_and_gate
    from calibdask.data.data import Data
    from calibdask.data.options import InputOptions
    from calibdask.estimators.expression import parse_metrics

    named = [str(limit.metric) for limit in (*options.get("limits", ()), *(options.get("slice_limits") or ()))]
    expressions = [one for text in profile_of(options.get("profile", "")).names for one in parse_metrics(text)]
    known = [str(one) for one in expressions if table.weights is None or one.make().supports_weights]
    levels: dict[str, Any] = {"confidence": _LEVEL, "n_boot": _N_BOOT, "seed": 0}
    own = {**levels, **options}
    metrics = list(dict.fromkeys((*named, *known))) or list(_USUAL)
    data = Data.of(table, options=InputOptions(**reading))
    return receipt_and_gate(data, metrics, **{**own, "limits": own.get("limits") or None})


def receipt_of_metrics(request: "EvaluateRequest", stores: Mapping[str, "Store"]) -> dict[str, Any]:
    """Receipt of an evaluation: the metrics with the options set for all of them."""
    import calibdask as cd
    from calibdask.estimators.expression import parse_metrics
    from calibdask.progress import shown_progress

    if request.population is not None:
        raise click.UsageError("--receipt is of the rows as they are; leave out --prevalence and its like.")
    (store,) = stores.values()
    table = request.table(rows_of(store, "leave out --receipt, which needs rows."))
    panel = _USUAL + (_FULL + (_OF_VECTORS, _OF_MATRICES)[table.scores.ndim > 1] if request.full else ())
    expressions = request.metrics or [one for text in panel for one in parse_metrics(text)]
    given = {name: value for name, value in request.options.items() if value is not None}
    metrics = [str(expression.with_choices(given)) for expression in expressions]
    intervals = {"confidence": request.ci or _LEVEL, "n_boot": request.n_boot or _N_BOOT, "seed": request.seed or 0}
    arguments: dict[str, Any] = {**request.reading, **intervals}
    with request.connected(table), shown_progress("making the receipt"), shown_warnings():
        return cd.receipt(table, None, metrics, **arguments)


def checked_receipt(path: str | None, *, overwrite: bool) -> "Output | None":
    """Where the receipt goes; None without one."""
    from calibdask.storage.writers import checked_output

    if path is None:
        return None
    return checked_output(path, (".json",), overwrite=overwrite)


def write_receipt(target: "Output", document: dict[str, Any], written: ExitStack) -> None:
    """The document as JSON that people can read; it appears when ``written`` closes."""
    import json

    from calibdask.storage.atomic_replace import atomic_replacement

    part = written.enter_context(atomic_replacement(target))
    part.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

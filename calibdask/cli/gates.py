"""Limits of a file, and receipts, as `check`, `report` and `evaluate` have them."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.option_names import shown_warnings
from calibdask.cli.rows_request import rows_of

if TYPE_CHECKING:
    from calibdask.analyses.gating.limits import Limits
    from calibdask.cli.evaluate_request import EvaluateRequest
    from calibdask.storage.atomic_replace import Output
    from calibdask.storage.open_store import Store

# The panels of `calibdask evaluate`, as metrics are written.
_USUAL = ("ece", "smooth-ece", "cutoff-error", "mean-gap", "brier-score", "log-loss")
_FULL = ("ece(binning=equal-mass)", "density-ece", "ece(norm=l2, debias=true)", "mce")
_OF_MATRICES, _OF_VECTORS = ("ece(setting=classwise)",), ("brier-decomposition",)
_LEVEL, _N_BOOT = 0.95, 200

limits_option = click.option(
    "--limits", "limits_path", metavar="FILE", help="Read limits from a TOML file; options take precedence."
)


def limits_file(path: str | None) -> "Limits":
    """The limits of a file; none without one."""
    from calibdask.analyses.gating.limits import Limits

    try:
        return Limits() if path is None else Limits.read(path)
    except OSError as error:
        raise click.UsageError(f"--limits {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def receipt_of_metrics(request: "EvaluateRequest", stores: Mapping[str, "Store"]) -> dict[str, Any]:
    """Receipt of an evaluation: the metrics with the options set for all of them."""
    import calibdask as cd
    from calibdask.estimators.expression import parse_metrics
    from calibdask.progress import shown_progress

    if request.population is not None:
        raise click.UsageError("--receipt describes the rows themselves; omit --prevalence and similar options.")
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
    from calibdask.storage.atomic_replace import atomic_replacement

    part = written.enter_context(atomic_replacement(target))
    part.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

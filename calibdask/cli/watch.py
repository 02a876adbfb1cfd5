"""``calibdask watch``: calibration over time from a stored summary, for a job that runs every day."""

import json
import os
import shlex
import shutil
import subprocess
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import click

from calibdask.cli.data_names import named_data
from calibdask.cli.help_groups import GroupedCommand
from calibdask.cli.param_types import SUMMARY_SETTING, ChoiceType
from calibdask.cli.results import write_result
from calibdask.cli.row_options import shown_warnings
from calibdask.safe_text import message, visible

if TYPE_CHECKING:
    from calibdask.analyses.monitoring.alarms import Alarm
    from calibdask.analyses.monitoring.watch_run import WatchRun
    from calibdask.cli.watch_state import WatchState
    from calibdask.storage.summary import Summary

_ALARM = 1
_FORMAT = 1
# Bytes of the output of a command that failed in which its last line is looked for.
_MOST_SAID = 4096
_TABLES = (".csv", ".parquet", ".nc", ".zarr")
_EPILOG = """\b
One line of JSON per alarm (--json, and standard input of --on-alarm):
  {"format": 1, "summary": NAME, "setting": str, "tolerance": float, "alpha": float,
   "by": {COLUMN: value}, "period": value, "since": value, "rows": int,
   "log_e": float, "pvalue": float, "gap": float, "gap_low": float, "gap_high": float,
   "error": float, "error_low": float, "error_high": float, "new": bool}
Numbers refer to all rows of the slice up to the end of the period of the alarm.
\b
Alarms persist: every later run exits with status 1 until monitoring restarts without
the state, for example after the model was repaired. With --state, each alarm is "new"
once, and --on-alarm runs once for it.
\b
Exit status: 0 no alarm; 1 alarm; 2 an error, explained in one line on stderr: invalid
use or input, an unreadable summary, periods that changed since they were monitored, or
a failed COMMAND; 130 interrupted.
"""
_EXAMPLES = (
    ("calibdask watch summary.zarr --dry-run", "show past alarms; write nothing"),
    ("calibdask watch summary.zarr --by country --tolerance 0.01", "each country, with a tolerance of 0.01"),
    ("calibdask watch summary.zarr --state watch.json --on-alarm 'mail -s alarm me@example.org'", "a daily job"),
    ("calibdask watch summary.zarr --features", "each value of each feature"),
    (
        "calibdask watch summary.zarr --state watch.json --due 30d --metrics-file model.prom",
        "outcomes known after 30 days",
    ),
)


@click.command(cls=GroupedCommand, epilog=_EPILOG, examples=_EXAMPLES)
@click.argument("summary", metavar="[NAME=]SUMMARY")
@click.option("--period", "period_name", metavar="COLUMN", help="Dimension of periods.  [default: as stored, else day]")
@click.option("--by", metavar="COLUMN", multiple=True, help="Monitor each value of this slice dimension; repeatable.")
@click.option("--features", is_flag=True, help="Monitor each value of the columns given to summarize --features.")
@click.option(
    "--setting", type=ChoiceType(SUMMARY_SETTING), help="Setting to monitor.  [default: the usual one, or the first]"
)
@click.option(
    "--tolerance",
    type=float,
    metavar="X",
    default=0.0,
    show_default=True,
    help=("Allowed difference of observed rate and mean prediction."),
)
@click.option(
    "--alpha",
    type=float,
    metavar="A",
    default=0.05,
    show_default=True,
    help=("Share of calibrated models that ever raise a false alarm."),
)
@click.option(
    "--due",
    metavar="TIME",
    help=("Delay until the outcomes of a period are known, such as 30d; until then it is pending."),
)
@click.option("--now", metavar="DATE", help="With --due: current time in UTC.  [default: now]")
@click.option(
    "--state",
    metavar="FILE",
    help=("State file, .json: resume from it and update it, so that each period counts once."),
)
@click.option(
    "--on-alarm",
    metavar="COMMAND",
    help=("Run this command on new alarms, with their JSON lines on its standard input."),
)
@click.option("--dry-run", is_flag=True, help="Show the result, but write and run nothing.")
@click.option("--json", "as_text", is_flag=True, help="Print one line of JSON per alarm instead of a table.")
@click.option("--out", metavar="FILE", help=f"Write the numbers of each period of this run: {', '.join(_TABLES)}.")
@click.option("--metrics-file", metavar="FILE", help="Write gauges for the textfile collector of Prometheus: .prom.")
@click.option(
    "--overwrite", is_flag=True, help="Replace an existing --out file; --state and --metrics-file are always replaced."
)
def watch(
    summary: str,
    period_name: str | None,
    by: tuple[str, ...],
    features: bool,
    setting: str | int | None,
    tolerance: float,
    alpha: float,
    due: str | None,
    now: str | None,
    state: str | None,
    on_alarm: str | None,
    dry_run: bool,
    as_text: bool,
    out: str | None,
    metrics_file: str | None,
    overwrite: bool,
) -> int:
    """Monitor calibration with a guaranteed false-alarm rate.

    The share of models calibrated within the tolerance that ever raise a false alarm is at most alpha, however often
    one looks. With several slices or classes, alarms are discoveries of e-BH.
    """
    from calibdask.analyses.monitoring.alarms import raised_alarms
    from calibdask.analyses.monitoring.exposition import exposition
    from calibdask.analyses.monitoring.watch_run import WatchRun
    from calibdask.cli.watch_state import WatchState
    from calibdask.storage.atomic_replace import atomic_replacement
    from calibdask.storage.writers import check_apart, checked_output

    ((name, path),) = named_data([summary]).items()
    check_apart(path, {"--state": state, "--out": out, "--metrics-file": metrics_file})
    command = None if on_alarm is None else _command(on_alarm)
    target = None if out is None else checked_output(out, _TABLES, overwrite=overwrite)
    metrics = None if metrics_file is None else checked_output(metrics_file, (".prom",), overwrite=True)
    before = WatchState.read(None if state is None else checked_output(state, (".json",), overwrite=True))
    store = _opened(path)
    with store.dataset, shown_warnings():
        period = period_name or store.period or "day"
        run = WatchRun.of(store, period, by, tolerance, alpha, setting, before.processes, due, now, features)
        alarms = raised_alarms(run, before.alarm_keys)
        kept = before.after(run.saved.to_dict(), alarms, {alarm.key for alarm in alarms})
        new = kept.untold
        if not dry_run:
            with ExitStack() as written:
                if target is not None:
                    write_result(run.result, str, written, target)
                if metrics is not None:
                    part = written.enter_context(atomic_replacement(metrics))
                    part.write_text(exposition(name, run, kept.alarm_keys), encoding="utf-8")
                # Fails where another run has written it, and then no output appears.
                kept = kept.written()
    lines = {alarm.key: _line(name, run, alarm, new=alarm.key in new) for alarm in kept.alarms}
    failure = ""
    if command and new and not dry_run:
        failure = _failure(command, [line for key, line in lines.items() if key in new])
        # Killed before this, the next run tells them again: none is lost.
        kept = kept if failure else kept.acknowledged().written()
    if as_text:
        click.echo("".join(f"{line}\n" for line in lines.values()), nl=False)
    else:
        _show(name, run, kept, new, dry_run=dry_run)
    if failure:
        rest = (
            "" if state is None else f"; the alarms are kept in {visible(state)}, and the next run reports them again"
        )
        raise ValueError(f"--on-alarm {on_alarm!r} {failure}{rest}.")
    if not dry_run:
        kept.acknowledged().written()
    return _ALARM if kept.alarms else 0


def _opened(path: str) -> "Summary":
    from calibdask.storage.open_store import open_store
    from calibdask.storage.summary import Summary

    store = open_store(path)
    if not isinstance(store, Summary):
        raise click.UsageError(f"{path} is {store.kind}; watch expects a summary that calibdask summarize wrote.")
    return store


def _command(text: str) -> list[str]:
    """The words of a command that can be found."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise click.UsageError(f"--on-alarm expects a command, got {text!r}: {error}.") from error
    if not words or shutil.which(words[0]) is None:
        raise click.UsageError(
            f"--on-alarm expects a program and its arguments, got {text!r}: there is no such program. No shell runs "
            "it; where one is needed, write sh -c '...'."
        )
    return words


def _line(name: str, run: "WatchRun", alarm: "Alarm", *, new: bool) -> str:
    watched = run.saved.watched
    head = {"format": _FORMAT, "summary": name, "setting": watched.setting}
    head |= {"tolerance": watched.tolerance, "alpha": watched.alpha}
    return json.dumps({**head, **alarm.to_dict(), "new": new}, allow_nan=False)


def _show(name: str, run: "WatchRun", kept: "WatchState", new: frozenset[str], *, dry_run: bool) -> None:
    from calibdask.analyses.monitoring.watch_document import watch_document
    from calibdask.cli.tables import print_document

    print_document(watch_document(name, run, kept.alarms, new))
    if dry_run:
        click.echo("dry run: nothing was written or run")


def _failure(command: list[str], lines: list[str]) -> str:
    """Run the command once, with the alarms as its input; in words how it failed, if its status says so.

    Files in the place of pipes: whatever it prints, leaves unread or has left running is its own affair.
    """
    with TemporaryFile() as given, TemporaryFile() as output:
        given.write("".join(f"{line}\n" for line in lines).encode())
        given.seek(0)
        try:
            status = subprocess.run(command, stdin=given, stdout=output, stderr=output, check=False).returncode
        except (OSError, ValueError) as error:
            return f"failed: {message(error)}"
        if not status:
            return ""
        output.seek(max(0, output.seek(0, os.SEEK_END) - _MOST_SAID))
        last = output.read().decode(errors="replace").strip().splitlines()[-1:]
        return f"ended with status {status}" + "".join(f" ({message(line)})" for line in last)

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
_TABLES = (".csv", ".nc", ".zarr")
_EPILOG = """\b
A line of JSON for each alarm (--json, and on the standard input of --on-alarm):
  {"format": 1, "summary": NAME, "setting": str, "tolerance": float, "alpha": float,
   "by": {COLUMN: value}, "period": value, "since": value, "rows": int,
   "log_e": float, "pvalue": float, "gap": float, "gap_low": float, "gap_high": float,
   "error": float, "error_low": float, "error_high": float, "new": bool}
Numbers are those of all rows of the slice at the end of the period of the alarm.
\b
An alarm stands: the exit status is 1 in every run that follows, until a watch begins
without the state (a repaired model is another one). With --state a run is told of
alarms that are "new" once, by --on-alarm too; the same alarm is never new again.
\b
Exit status: 0 quiet; 1 an alarm stands; 2 trouble, explained in one line on stderr:
invalid use or input, a summary that cannot be read, periods that have changed since
they were watched, a COMMAND that failed; 130 interrupted.
"""
_EXAMPLES = (
    ("calibdask watch summary.zarr --dry-run", "when it would have alarmed; writes nothing"),
    ("calibdask watch summary.zarr --by country --tolerance 0.01", "each country, errors up to 0.01 allowed"),
    ("calibdask watch summary.zarr --state watch.json --on-alarm 'mail -s alarm me@example.org'", "a daily job"),
    ("calibdask watch summary.zarr --features", "each value of each column that describes the rows"),
    ("calibdask watch summary.zarr --state watch.json --due 30d --metrics-file model.prom", "outcomes after 30 days"),
)


@click.command(cls=GroupedCommand, epilog=_EPILOG, examples=_EXAMPLES)
@click.argument("summary", metavar="[NAME=]SUMMARY")
@click.option(
    "--period", "period_name", metavar="COLUMN", help="Slice of periods.  [default: that of the store, else day]"
)
@click.option("--by", metavar="COLUMN", multiple=True, help="Watch each value of this slice; repeatable.")
@click.option("--features", is_flag=True, help="Watch each value of the columns that summarize --features cut.")
@click.option(
    "--setting", type=ChoiceType(SUMMARY_SETTING), help="Setting to watch.  [default: the usual one, or the first]"
)
@click.option(
    "--tolerance", type=float, metavar="X", default=0.0, show_default=True, help="Errors of probabilities to allow."
)
@click.option(
    "--alpha", type=float, metavar="A", default=0.05, show_default=True, help="Calibrated models that ever alarm."
)
@click.option("--due", metavar="TIME", help="When outcomes of a period are known, such as 30d; before it is pending.")
@click.option("--now", metavar="DATE", help="With --due: the moment, in universal time.  [default: the present one]")
@click.option("--state", metavar="FILE", help="Go on from this file, .json, and write it: each period counts once.")
@click.option("--on-alarm", metavar="COMMAND", help="Run this on new alarms, with their JSON lines as its input.")
@click.option("--dry-run", is_flag=True, help="Show what would be, and write and run nothing.")
@click.option("--json", "as_text", is_flag=True, help="Print a line of JSON for each alarm instead of a table.")
@click.option("--out", metavar="FILE", help=f"Write the numbers of each period of this run: {', '.join(_TABLES)}.")
@click.option("--metrics-file", metavar="FILE", help="Write gauges for Prometheus' textfile collector: .prom.")
@click.option(
    "--overwrite", is_flag=True, help="Replace an existing --out file; --state and --metrics-file always are."
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
    """Watch calibration over time, from a summary by day: evidence that grows, and alarms that keep their word.

    At most a share alpha of the models that are calibrated within the tolerance ever raises an alarm, whenever and
    however often one looks. With several slices, or classes, alarms are the discoveries of e-BH.
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
        rest = "" if state is None else f"; the alarms are kept in {visible(state)}, and the next run tells them again"
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
    from calibdask.cli.tables import console, print_lines, rule_of
    from calibdask.cli.watch_table import watch_lines

    shown = console()
    print_lines(watch_lines(name, run, kept.alarms, new, shown.width, rule_of(shown)), shown)
    if dry_run:
        shown.print("dry run: nothing was written or run", style="dim", markup=False)


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

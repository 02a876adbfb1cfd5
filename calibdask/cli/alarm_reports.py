"""Alarms of an analysis that runs again and again: a state file, a command for new alarms, gauges for Prometheus."""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import click

from calibdask.safe_text import message, visible

if TYPE_CHECKING:
    import xarray as xr

    from calibdask.analyses.analysis import Analysis
    from calibdask.cli.watch_state import WatchState
    from calibdask.storage.atomic_replace import Output

REPORT_OPTIONS = (
    click.option(
        "--state",
        metavar="FILE",
        help="State file, .json: resume from it and update it, so that each period counts once.",
    ),
    click.option(
        "--on-alarm",
        metavar="COMMAND",
        help="Run this command on new alarms, with their JSON lines on its standard input.",
    ),
    click.option("--dry-run", is_flag=True, help="Show the result, but write and run nothing."),
    click.option(
        "--metrics-file", metavar="FILE", help="Write gauges for the textfile collector of Prometheus: .prom."
    ),
)
REPORT_NAMES = ("state", "on_alarm", "dry_run", "metrics_file")
# Bytes of the output of a command that failed in which its last line is looked for.
_MOST_SAID = 4096


@dataclass
class AlarmReports:
    """The state of earlier runs, and where alarms are reported. Other analyses have none of these."""

    state: "WatchState | None" = None
    metrics: "Output | None" = None
    on_alarm: str = ""
    is_dry: bool = False
    run: str = ""
    failure: str = ""

    @classmethod
    def of(cls, state: str | None, on_alarm: str | None, metrics_file: str | None, *, dry_run: bool) -> "AlarmReports":
        """Reports from the options of a command.

        Raises
        ------
        ValueError
            If there is no such command, files have other suffixes, or the state is damaged.
        """
        from calibdask.cli.watch_state import WatchState
        from calibdask.storage.atomic_replace import owned_name
        from calibdask.storage.writers import checked_output

        if on_alarm is not None:
            _check_command(on_alarm)
        metrics = None if metrics_file is None else checked_output(metrics_file, (".prom",), overwrite=True)
        target = None if state is None else checked_output(state, (".json",), overwrite=True)
        return cls(WatchState.read(target), metrics, on_alarm or "", dry_run, owned_name())

    def resumed(self, analysis: Any) -> Any:
        """The analysis that goes on from the state."""
        return analysis if self.state is None else replace(analysis, state=self.state.processes)

    def with_earlier(self, result: "xr.Dataset") -> "xr.Dataset":
        """The result with the alarms of earlier runs; those are new that this run reports."""
        from calibdask.analyses.monitoring.alarms import Alarm

        if self.state is None:
            return result
        raised = [Alarm.from_dict(record) for record in json.loads(result.attrs["alarms"])]
        further = [alarm for alarm in raised if alarm.key not in self.state.alarm_keys]
        state = self.state.after(json.loads(result.attrs["state"]), further, {alarm.key for alarm in further})
        self.state = state.claimed(self.run)
        new = self.state.claimed_by(self.run)
        records = [alarm.to_dict() | {"new": alarm.key in new} for alarm in self.state.alarms]
        return result.assign_attrs(alarms=json.dumps(records))

    def write(self, result: "xr.Dataset", written: ExitStack) -> None:
        """Write gauges and the state; it fails where another run has written the state, and then no file appears."""
        from calibdask.storage.atomic_replace import atomic_replacement

        if self.metrics is not None:
            from calibdask.analyses.monitoring.exposition import exposition

            part = written.enter_context(atomic_replacement(self.metrics))
            part.write_text(exposition(result), encoding="utf-8")
        if self.state is not None:
            self.state = self.state.written()

    @contextmanager
    def reporting(self, analysis: "Analysis", result: "xr.Dataset") -> Iterator[None]:
        """Run the command on new alarms, print them, and say in the state that they are reported, or that it failed.

        If it is killed meanwhile, the next run reports them.

        Raises
        ------
        ValueError
            If the command has failed.
        """
        if self.state is None or self.is_dry:
            yield
            return
        try:
            self._tell(analysis, result)
            yield
        except BaseException:
            with suppress(Exception):
                self.state.settled(self.run, reported=False)
            raise
        self.state.settled(self.run, reported=not self.failure)
        if self.failure:
            kept = (
                ""
                if self.state.target is None
                else (f"; the alarms are kept in {visible(self.state.target)}, and the next run reports them again")
            )
            raise ValueError(f"--on-alarm {self.on_alarm!r} {self.failure}{kept}.")

    def _tell(self, analysis: "Analysis", result: "xr.Dataset") -> None:
        """Run the command once for all new alarms."""
        new = [record for record in analysis.to_json_lines(result) if record["new"]] if self.on_alarm else []
        if not new or self.state is None:
            return
        self.failure = _failure(shlex.split(self.on_alarm), new)
        if not self.failure:
            self.state = self.state.settled(self.run, reported=True)


def _check_command(text: str) -> None:
    """Refuse a command that cannot be found."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise click.UsageError(f"--on-alarm expects a command, got {text!r}: {error}.") from error
    if not words or shutil.which(words[0]) is None:
        raise click.UsageError(
            f"--on-alarm expects a program and its arguments, got {text!r}: there is no such program. It does not run "
            "in a shell; if you need one, write sh -c '...'."
        )


def _failure(command: list[str], records: list[dict[str, Any]]) -> str:
    """Run the command once, with the alarms as its input; in words how it failed, if its status says so.

    Files in the place of pipes: whatever it prints, leaves unread or has left running is its own affair.
    """
    with TemporaryFile() as given, TemporaryFile() as output:
        given.write("".join(f"{json.dumps(record, allow_nan=False)}\n" for record in records).encode())
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

"""The command ``calibdask``: what a shell user sees; all heavy imports wait for a command that needs them."""

import shlex
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import click

from calibdask import __version__
from calibdask.cli.analysis_command import analysis_command
from calibdask.cli.apply import apply as _apply
from calibdask.cli.calibrate import calibrate as _calibrate
from calibdask.cli.certificates import certs as _certs
from calibdask.cli.completion import completion as _completion
from calibdask.cli.completion import with_completions
from calibdask.cli.demo import demo as _demo
from calibdask.cli.evaluate import evaluate as _evaluate
from calibdask.cli.explore import explore as _explore
from calibdask.cli.merge import merge as _merge
from calibdask.cli.option_names import as_options, options_of
from calibdask.cli.report import report as _report
from calibdask.cli.studies import run as _run
from calibdask.cli.studies import status as _status
from calibdask.cli.summarize import summarize as _summarize
from calibdask.cli.terminals import discard_output, open_closed_streams, print_to_stderr, substitute_characters
from calibdask.cli.verify import verify as _verify
from calibdask.cli.warm import warm as _warm
from calibdask.errors import NotInstalled, Unavailable, with_notes
from calibdask.estimators.signatures import analysis_signatures
from calibdask.safe_text import message, visible_lines, without_credentials

__all__ = ["main"]

_STOPPED = 1
_BAD = 2
_INTERRUPTED = 130
# As shells report it of a process that the signal PIPE has ended.
_UNREAD = 141
# Commands whose status 1 says what they have found in the data, and nothing else.
_FINDERS = frozenset(
    {"verify"} | {name for name, analysis in analysis_signatures().items() if "found" in analysis.statuses}
)


class _Hidden(Exception):
    """Caused by an error that click would end a command for by itself: without a word, or with status 1."""


class _Commands(click.Group):
    """The command group; an unknown command that names a file suggests ``evaluate``."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except (EOFError, BrokenPipeError) as error:
            raise _Hidden from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by what they are for, each on one line."""
        width = max(map(len, self.commands))
        limit = formatter.width - width - 6
        for heading, commands in _commands().items():
            with formatter.section(heading):
                formatter.write_dl([(one.name.ljust(width), one.get_short_help_str(limit)) for one in commands])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if args[0] == "test":
                moved = "test is a panel of evaluate now: calibdask evaluate DATA --panel tests"
                raise click.UsageError(moved, ctx) from error
            if not Path(args[0]).exists():
                raise
            raise click.UsageError(f"{args[0]} is a file, not a command: calibdask evaluate {args[0]}", ctx) from error


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="calibdask")
@click.option(
    "--debug", is_flag=True, expose_value=False, help=("Show the traceback of an error; may also follow COMMAND.")
)
@click.pass_context
def cli(context: click.Context) -> None:
    """Calibration of classifiers, measured exactly on data of any size."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cache
def _commands() -> dict[str, list[Any]]:
    """All commands by the headings of the help text; commands of analyses derive their heading."""
    headings: dict[str, list[Any]] = {
        "Measure": [_evaluate, _summarize, _merge, _report, _explore],
        "Decide": [_verify],
        "Find and watch": [],
        "Fix": [_calibrate, _apply],
        "Studies": [_run, _status],
        "More": [_certs, _completion, _demo, _warm],
    }
    for signature in analysis_signatures().values():
        headings[signature.heading].append(analysis_command(signature.word))
    return headings


for _command in chain.from_iterable(_commands().values()):
    cli.add_command(_command)
with_completions(cli)
for command in cli.commands.values():
    # `main` looks for it.
    command.params.append(click.Option(["--debug"], is_flag=True, expose_value=False, hidden=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0 done, 1 stopped by circumstances or a defect, 2 bad use or bad input, 3 finished with failed cells or without a
    threshold, 130 interrupted, 141 nobody reads the output, 143 stopped by the signal TERM. Of ``check`` 1 is a broken
    limit, and 3 an undecided one; of ``verify`` 1 is a difference; of ``audit`` 1 is a segment that is found, and 3
    that none has enough rows; of ``watch`` 1 is an alarm. Whatever stops these four is 2.

    Whatever is wrong is one line on stderr; ``--debug`` shows before it where it was raised.
    """
    given = sys.argv[1:] if arguments is None else [*arguments]
    open_closed_streams()
    substitute_characters()
    try:
        status = cli.main(given, "calibdask", standalone_mode=False)
    except click.Abort:
        return _INTERRUPTED
    except click.ClickException as error:
        return _print_error(_with_hint(error), _BAD)
    except Exception as error:
        if "--debug" in given:
            print_to_stderr(visible_lines(without_credentials(traceback.format_exc())))
        hidden = error.__cause__ if isinstance(error, _Hidden) else None
        return _failed(hidden or error, given)
    return status if isinstance(status, int) else 0


def _with_hint(error: click.ClickException) -> str:
    """The message of an error, with the command that helps where the usage is wrong."""
    message = error.format_message()
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return message
    # Some sentences of Click end without a full stop.
    end = "" if message.endswith((".", "?", "?)")) else "."
    if isinstance(error, click.NoSuchOption):
        end += _commands_with(error.option_name)
    return f"{message}{end} Try '{error.ctx.command_path} --help'."


def _commands_with(option: str) -> str:
    """A sentence on the commands that have an option; empty if none has it."""
    options = {name: [word for one in command.params for word in one.opts] for name, command in cli.commands.items()}
    names = sorted(name for name, words in options.items() if option in words)
    return f" {option} is an option of {', '.join(names)}." if names else ""


def _failed(error: BaseException, given: Sequence[str]) -> int:
    """The status of an error, which is said."""
    if isinstance(error, BrokenPipeError):
        discard_output(sys.stdout)
        return _UNREAD
    if isinstance(error, OSError) and error.strerror and error.filename is None:
        # Files have a name.
        discard_output(sys.stdout)
        return _print_error(f"The standard output, or a connection, failed: {error.strerror}", _BAD)
    stopped = _BAD if next((word for word in given if word in cli.commands), "") in _FINDERS else _STOPPED
    if isinstance(error, Unavailable):
        _print_error(with_notes(error), stopped)
        return _print_error(f"to continue: {shlex.join(['calibdask', *given])}", stopped)
    if isinstance(error, ValueError | OSError | NotInstalled):
        command = next((cli.commands[word] for word in given if word in cli.commands), None)
        return _print_error(as_options(with_notes(error), options_of(command)), _BAD)
    if isinstance(error, MemoryError):
        return _print_error(f"The memory of this machine does not suffice: {error}", stopped)
    kind = type(error).__name__
    return _print_error(
        f"This should not have happened: {kind}: {with_notes(error)} (calibdask --debug shows where)", stopped
    )


def _print_error(text: str, status: int) -> int:
    print_to_stderr(f"calibdask: {message(text)}\n")
    return status

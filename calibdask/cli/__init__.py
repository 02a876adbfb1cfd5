"""The command ``calibdask``: what a shell user sees; all heavy imports wait for a command that needs them."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from calibdask import __version__
from calibdask.cli.certificates import certs as _certs
from calibdask.cli.compare import compare as _compare
from calibdask.cli.completion import completion as _completion
from calibdask.cli.completion import with_completions
from calibdask.cli.demo import demo as _demo
from calibdask.cli.evaluate import evaluate as _evaluate
from calibdask.cli.explore import explore as _explore
from calibdask.cli.merge import merge as _merge
from calibdask.cli.report import report as _report
from calibdask.cli.studies import run as _run
from calibdask.cli.studies import status as _status
from calibdask.cli.summarize import summarize as _summarize
from calibdask.cli.test_alias import alias as _test
from calibdask.cli.warm import warm as _warm
from calibdask.errors import Unavailable

__all__ = ["main"]

_STOPPED = 1
_BAD = 2
_INTERRUPTED = 130


class _Commands(click.Group):
    """The commands; what is no command may be a file that evaluate was meant for."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if not Path(args[0]).exists():
                raise
            raise click.UsageError(f"{args[0]} is no command, but a file: calibdask evaluate {args[0]}", ctx) from error


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="calibdask")
@click.pass_context
def cli(context: click.Context) -> None:
    """Calibration of classifiers, measured exactly on data of any size."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


cli.add_command(_evaluate)
cli.add_command(_compare)
cli.add_command(_summarize)
cli.add_command(_merge)
cli.add_command(_report)
cli.add_command(_explore)
cli.add_command(_run)
cli.add_command(_status)
cli.add_command(_certs)
cli.add_command(_demo)
cli.add_command(_completion)
cli.add_command(_test)
cli.add_command(_warm)
with_completions(cli)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0 done, 1 stopped by circumstances, 2 bad use or bad input, 3 finished with failed cells, 130 interrupted,
    143 stopped by the signal TERM.

    What is wrong with the use or the input is one line on stderr; anything else is a defect and keeps its traceback.
    """
    try:
        status = cli.main(None if arguments is None else list(arguments), "calibdask", standalone_mode=False)
    except click.Abort:
        return _INTERRUPTED
    except click.ClickException as error:
        hint = f" Try '{error.ctx.command_path} --help'." if isinstance(error, click.UsageError) and error.ctx else ""
        return _refused(error.format_message() + hint)
    except Unavailable as error:
        _refused(str(error))
        given = sys.argv[1:] if arguments is None else arguments
        sys.stderr.write(f"calibdask: to continue: {shlex.join(['calibdask', *given])}\n")
        return _STOPPED
    except (ValueError, OSError) as error:
        return _refused(str(error))
    return status if isinstance(status, int) else 0


def _refused(message: str) -> int:
    sys.stderr.write(f"calibdask: {' '.join(message.split())}\n")
    return _BAD

"""Completion by the shell: the script that asks for it, and what parameters are completed to."""

from collections.abc import Callable
from functools import partial
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from calibdask.cli.param_types import completions

_PLACES = ("threads", "local", "local:2", "slurm", "kubernetes")
_FILES = frozenset(
    {
        "data",
        "append",
        "map_path",
        "out",
        "plot",
        "report",
        "store",
        "summary",
        "state",
        "metrics_file",
        "path",
        "baseline",
        "cuts",
        "receipt",
        "limits_path",
        "facts_path",
    }
)
_FOLDERS = frozenset({"study", "folder", "tls"})

_EPILOG = """\b
To install it:
  bash  add to ~/.bashrc  eval "$(calibdask completion bash)"
  zsh   add to ~/.zshrc   eval "$(calibdask completion zsh)"
  fish  run once  calibdask completion fish > ~/.config/fish/completions/calibdask.fish
\b
Then start a new shell. In zsh, put the line after compinit.
"""

Items = list[Any]


@click.command(epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    Once it is installed, the tab key completes commands, options, metrics with their options, and paths; see below.
    """
    made = get_completion_class(shell)
    if made is None:
        raise click.ClickException(
            f"This version of click does not support completion for {shell}; install click 8.1.7 or later."
        )
    click.echo(made(context.find_root().command, {}, "calibdask", "_CALIBDASK_COMPLETE").source())


def with_completions(command: click.Command) -> None:
    """Give the parameters of a command, and of those in it, what they are completed to."""
    for parameter in command.params:
        complete = _completer(parameter)
        # Other types than texts know it themselves.
        if complete is not None and isinstance(parameter.type, click.types.StringParamType):
            parameter.type = _Completed(complete)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            with_completions(below)


class _Completed(click.types.StringParamType):
    """A text that says what its beginning is completed to."""

    def __init__(self, complete: Callable[[str], Items]) -> None:
        self._complete = complete

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        """The completions of an incomplete text."""
        return self._complete(incomplete)


def _completer(parameter: click.Parameter) -> Callable[[str], Items] | None:
    """Completion function of a parameter, by its name; None if there is none."""
    if parameter.name == "cluster":
        return _places
    if parameter.name in _FOLDERS:
        return partial(_paths, "dir")
    return partial(_paths, "file") if parameter.name in _FILES else None


def _places(begun: str) -> Items:
    """Words for places, or the file of a scheduler."""
    return completions(_PLACES, begun) or _paths("file", begun)


def _paths(kind: str, begun: str) -> Items:
    """Whatever the shell itself finds."""
    return [CompletionItem(begun, type=kind)]

"""The command that is running, as it was typed, for pages that name how they were made."""

import shlex
from collections.abc import Sequence

import click

from calibdask.safe_text import visible, without_credentials

_WORDS = "calibdask.words"
# Options whose files are written.
_OUTPUTS = ("--out", "--report", "--receipt")


class Remembering(click.Command):
    """A command that remembers its arguments, so that reports can name the command that made them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep them, and read them."""
        ctx.meta[_WORDS] = tuple(args)
        return super().parse_args(ctx, args)


def command_line() -> str:
    """The command that is running, as it was typed."""
    return _shell_text(click.get_current_context().meta[_WORDS])


def repeatable_command() -> str:
    """The command that is running, writing beside the files that it has written: it runs again as it is printed."""
    words = list(click.get_current_context().meta[_WORDS])
    for place, word in enumerate(words):
        option, equals, path = word.partition("=")
        if option not in _OUTPUTS:
            continue
        if equals:
            words[place] = f"{option}={_again(path)}"
        elif place + 1 < len(words):
            words[place + 1] = _again(words[place + 1])
    return _shell_text(words)


def _shell_text(words: Sequence[str]) -> str:
    name = str(click.get_current_context().info_name)
    return visible(shlex.join(map(without_credentials, ["calibdask", name, *words])))


def _again(path: str) -> str:
    """The name of another file beside this one."""
    stem, dot, suffix = path.rpartition(".")
    return f"{stem}-again.{suffix}" if dot else f"{path}-again"

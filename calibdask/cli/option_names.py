"""Messages of the library at the shell: arguments are called as the options are, and each warning is one line."""

import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import click

from calibdask.safe_text import message as one_line

# A call of a function, whose arguments are no options.
_CALL = re.compile(r"[\w.]+\((?:[^()]|\([^()]*\))*\)")
# What is for Python alone, and what is for the shell, which needs no mark here.
_PYTHON = re.compile(r",? ?\b(?:or )?in Python\b[^.;]*(?:\.\w[^.;]*)*|\s*\((?:\w+=,?\s*)+\)")
_SHELL = re.compile(r"\s*At the shell: [^.]*\.")
# How to mend by an argument that no command has.
_WITHOUT_OPTION = re.compile(r"; [^;.]*\b(?:sum_tolerance|sample_dim|class_dim)\b[^;.]*")
_VALUE = r"(True|\.\.\.|'[^']*'|\d+|)"
_BOTH = re.compile(rf"\b([a-z_]+)={_VALUE} \((--[a-z][a-z-]*)(?: at the shell)?\)")
# The argument that a message opens with.
_SUBJECT = re.compile(r"^([a-z_]+)()(?= expects )")
_ARGUMENT = re.compile(rf"(?<![\w.-])([a-z_]+)={_VALUE}(?![\w(\[])")


def options_of(command: click.Command | None) -> set[str]:
    """The options of a command."""
    return set() if command is None else {name for parameter in command.params for name in parameter.opts}


def as_options(text: str, options: Collection[str]) -> str:
    """A message in which arguments are called as the options are; those without an option stay.

    Examples
    --------
    >>> as_options("leave them out by skip_missing=True (--skip-missing)", {"--skip-missing"})
    'leave them out by --skip-missing'
    >>> as_options("n_boot expects a number", {"--n-boot"})
    '--n-boot expects a number'
    >>> as_options("say task='binary'; give scores.astype(float, copy=True)", {"--task", "--copy"})
    'say --task binary; give scores.astype(float, copy=True)'
    """
    if not options:
        return text

    def written(match: re.Match[str]) -> str:
        option = f"--{match[1].replace('_', '-')}"
        if option not in options:
            return match[0]
        value = match[2].strip("'")
        return option if value in ("True", "") else f"{option} {value}"

    def translated(part: str) -> str:
        return _ARGUMENT.sub(written, _BOTH.sub(written, _SUBJECT.sub(written, part)))

    short = _WITHOUT_OPTION.sub("", _PYTHON.sub("", _SHELL.sub("", text)))
    pieces, start = [], 0
    for call in _CALL.finditer(short):
        pieces += [translated(short[start : call.start()]), call[0]]
        start = call.end()
    return "".join([*pieces, translated(short[start:])])


@dataclass(frozen=True)
class _Notes:
    """Shows each user warning of the library once, on one line, and other warnings unchanged."""

    show: Callable[..., None]
    lines: list[str] = field(default_factory=list)

    def __call__(self, message: Warning | str, category: type[Warning], *where: Any, **options: Any) -> None:
        """Show a warning."""
        context = click.get_current_context(silent=True)
        line = one_line(as_options(str(message), options_of(context.command if context else None)))
        if not issubclass(category, UserWarning):
            self.show(line, category, *where, **options)
        elif line not in self.lines:
            self.lines.append(line)
            sys.stderr.write(f"calibdask: {line}\n")


@contextmanager
def shown_warnings() -> Iterator[list[str]]:
    """Show user warnings on one line without code locations; yields the lines shown so far."""
    with warnings.catch_warnings():
        shown = warnings.showwarning
        notes = shown if isinstance(shown, _Notes) else _Notes(shown)
        warnings.showwarning = notes
        yield notes.lines

"""Messages of the library at the shell: arguments of functions are called as the options of the command are."""

import re
from collections.abc import Collection

import click

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

"""Options for the choices of metrics: one for each name of a choice that any metric has."""

import re
from collections.abc import Sequence
from functools import cache
from textwrap import wrap
from typing import Any

import click

from calibdask.cli.help_groups import GroupedCommand
from calibdask.cli.param_types import ChoiceType
from calibdask.estimators.choice import Choice
from calibdask.estimators.signatures import signatures

# A choice that so few metrics have says which they are.
_FEW = 3
# Ends the first clause of a description; marks of references and of code are dropped.
_CLAUSE = re.compile(r"[.;:](?=\s|$)")
_MARKS = re.compile(r"\s*\[\d+\]_|``|`")


@cache
def choice_options() -> tuple[click.Option, ...]:
    """An option for each choice, which applies to all metrics that have it.

    Examples
    --------
    >>> next(option.help for option in choice_options() if option.name == "rule")
    'Score of a prediction s and an outcome o (corp, refinement).'
    """
    merged: dict[str, Choice] = {}
    metrics: dict[str, list[str]] = {}
    for signature in signatures().values():
        for name, choice in signature.choices.items():
            merged[name] = merged[name] | choice if name in merged else choice
            metrics.setdefault(name, []).append(signature.keyword)
    return tuple(_option(choice, metrics[name]) for name, choice in merged.items())


def first_clause(description: str) -> str:
    """The first clause of a description, without marks of code and references.

    Examples
    --------
    >>> first_clause("Most rows of a ``block`` [1]_; more are an error.")
    'Most rows of a block'
    """
    return _MARKS.sub("", _CLAUSE.split(description, maxsplit=1)[0])


def _option(choice: Choice, metrics: list[str]) -> click.Option:
    description = first_clause(choice.description)
    of = f" ({', '.join(metrics)})" if len(metrics) <= _FEW else ""
    default = "" if choice.default in (None, False) else f"  [default: {choice.default}]"
    names = [f"--{choice.name.replace('_', '-')}", choice.name]
    text = f"{description}{of}.{default}"
    if choice.is_flag:
        return click.Option(names, is_flag=True, default=None, help=text)
    return click.Option(names, type=ChoiceType(choice), metavar=option_metavar(choice), help=text)


def option_metavar(choice: Choice) -> str:
    """Words between brackets, as click has them; a placeholder alone without."""
    name = ChoiceType(choice).name
    return f"[{name}]" if choice.words else name


# Set where the whole help is asked for.
WHOLE_HELP = "calibdask.whole_help"


def _print_whole_help(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked:
        context.meta[WHOLE_HELP] = True
        click.echo(context.get_help())
        context.exit()


class MetricCommand(GroupedCommand):
    """A command with the options for choices of metrics, which are read when they are needed: most commands have none.

    Its own options come first where both have the same name. ``--help`` has the options of ``usual`` and the names of
    the metrics, on two screens; ``--help-all`` has everything.

    Parameters
    ----------
    usual : sequence of str
        Names of the parameters that ``--help`` shows.
    """

    def __init__(self, *arguments: Any, usual: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.usual = (*usual, "help_all")
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_print_whole_help,
                help="Show all options, the metrics with their meanings, and the JSON.",
            )
        )

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Own parameters and the options of metrics."""
        return [*super().get_params(ctx), *self._choices(ctx)]

    def _choices(self, ctx: click.Context) -> list[click.Option]:
        own = {parameter.name for parameter in super().get_params(ctx)}
        return [option for option in choice_options() if option.name not in own]

    def shown_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Parameters that are no options of metrics; unless the whole help is asked for, the usual ones."""
        own = super().get_params(ctx)
        if ctx.meta.get(WHOLE_HELP):
            return own
        helping = {*ctx.help_option_names}
        return [one for one in self.get_params(ctx) if one.name in self.usual or helping & {*one.opts}]

    def help_paragraphs(self, ctx: click.Context) -> list[str]:
        """All paragraphs; the short help has the first two."""
        return super().help_paragraphs(ctx)[: None if ctx.meta.get(WHOLE_HELP) else 2]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Its own in groups, and the choices under a heading of their own."""
        super().format_options(ctx, formatter)
        if not ctx.meta.get(WHOLE_HELP):
            return
        records = [record for option in self._choices(ctx) if (record := option.get_help_record(ctx)) is not None]
        with formatter.section("Choices of metrics"):
            formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The metrics before all else; the short help has their names alone."""
        if not ctx.meta.get(WHOLE_HELP):
            with formatter.section("Names of metrics"):
                indent = " " * formatter.current_indent
                # Names with hyphens stay whole, so that they can be copied.
                wrapped = wrap(", ".join(signatures()), formatter.width - len(indent), break_on_hyphens=False)
                formatter.write("".join(f"{indent}{line}\n" for line in wrapped))
            return
        with formatter.section("Metrics"):
            formatter.write_dl([(word, _MARKS.sub("", signature.summary)) for word, signature in signatures().items()])
        super().format_epilog(ctx, formatter)

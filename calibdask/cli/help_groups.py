"""Help of commands: examples first, then options in groups."""

from collections.abc import Iterable, Sequence
from inspect import cleandoc
from typing import Any

import click

from calibdask.cli.command_line import Remembering

_OTHERS = "Options"
# Headings, with the names of the parameters beneath them.
_GROUPS = {
    "Data": (
        *("label", "score", "weight", "task", "logits", "labels", "pos_label", "ignore_label", "skip_missing"),
        "missing_chunks",
        "text",
        *("settings", "step", "buckets"),
    ),
    "Metrics": ("metrics", "full", "setting", "bins", "panel", "baseline", "conventions", "consistency"),
    "Groups": ("features", "depth", "values", "cuts", "one_way"),
    "Limits": ("risk", "limits", "slice_limits", "limits_path", "profile", "not_worse"),
    "Calibration": ("method", "compare", "min_rows", "map_path", "maps", "score_name"),
    "Slices and intervals": (
        "by",
        "period",
        "every",
        "zone",
        "groups",
        "cluster_check",
        "worst",
        "adjust",
        "confidence",
        "alpha",
        "ci",
        "ci_method",
        "n_boot",
        "seed",
        "limit",
        "slice_limit",
    ),
    "Watching": ("before", "after", "tolerance", "due", "now", "state", "on_alarm", "dry_run"),
    "Output": (
        *(
            "as_text",
            "json_schema",
            "out",
            "title",
            "plot",
            "curve",
            "chart",
            "text_plot",
            "report",
            "receipt",
            "github",
            "overwrite",
        ),
        *("append", "replace", "reason", "expire", "into", "metrics_file"),
    ),
    "Population": ("prevalence", "train_prevalence", "sampling_rate"),
    "Cluster": ("cluster", "tls", "insecure"),
}


class GroupedCommand(Remembering):
    """A command whose help opens with examples and has its options in groups.

    Parameters
    ----------
    examples : sequence of (str, str)
        Commands, and what each does.
    """

    def __init__(self, *arguments: Any, examples: Sequence[tuple[str, str]] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.examples = examples

    def help_paragraphs(self, ctx: click.Context) -> list[str]:
        """The paragraphs of the text that the help shows."""
        return cleandoc(self.help or "").split("\n\n")

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The first paragraph of the text, the examples, and the rest."""
        text = "\n\n".join(self.help_paragraphs(ctx))
        first, _, rest = text.partition("\n\n")
        with formatter.indentation():
            formatter.write_paragraph()
            formatter.write_text(first)
        if self.examples:
            with formatter.section("Examples"):
                # One beneath the other: long commands leave no room beside them.
                for command, does in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{command}\n")
                    formatter.write(f"{'':{formatter.current_indent + 4}}{does}\n")
        if rest:
            with formatter.indentation():
                formatter.write_paragraph()
                formatter.write_text(rest)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Its own options by group; those that belong to none come last."""
        own = [parameter for parameter in self.shown_params(ctx) if isinstance(parameter, click.Option)]
        known = {name for names in _GROUPS.values() for name in names}
        groups = {heading: [o for o in own if o.name in names] for heading, names in _GROUPS.items()}
        groups[_OTHERS] = [option for option in own if option.name not in known]
        for heading, options in groups.items():
            _write_options(heading, options, ctx, formatter)

    def shown_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters that stand in groups."""
        return self.get_params(ctx)


def _write_options(
    heading: str, options: Iterable[click.Option], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """A section, unless it is empty."""
    records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
    if records:
        with formatter.section(heading):
            formatter.write_dl(records)

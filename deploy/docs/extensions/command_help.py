"""The directive ``command-help``: what ``--help`` says of each command, as the shell shows it."""

from collections.abc import Iterator
from importlib import import_module
from typing import ClassVar

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from calibdask.cli.metric_options import WHOLE_HELP

_COLUMNS = 88


class CommandHelp(SphinxDirective):
    """``.. command-help:: module:group name``: a section for each command of a group of click."""

    required_arguments: ClassVar[int] = 2

    def run(self) -> list[nodes.Node]:
        """Sections with the help in literal blocks."""
        place, name = self.arguments
        module, attribute = place.split(":")
        group = getattr(import_module(module), attribute)
        return [self._section(name, command) for name, command in _commands(name, group)]

    def _section(self, name: str, command: click.Command) -> nodes.section:
        context = click.Context(
            command, info_name=name, terminal_width=_COLUMNS, max_content_width=_COLUMNS, help_option_names=["--help"]
        )
        context.meta[WHOLE_HELP] = True
        block = nodes.literal_block(text=command.get_help(context), language="none")
        section = nodes.section("", nodes.title(text=name), block, ids=[nodes.make_id(name)])
        self.state.document.note_implicit_target(section, section)
        return section


def _commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """A command, and those below it in the order of its help."""
    yield name, command
    if isinstance(command, click.Group):
        for below in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), below)
            if found is not None and not found.hidden:
                yield from _commands(f"{name} {below}", found)


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the directive known."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}

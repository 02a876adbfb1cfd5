"""The directive ``command-help``: what ``--help`` says of each command, as the shell shows it."""

from importlib import import_module
from typing import ClassVar

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from calibdask.cli.metric_options import WHOLE_HELP

_COLUMNS = 88


class CommandHelp(SphinxDirective):
    """``.. command-help:: module:group name``: the help of the group, or of the command whose name has more words.

    Groups below it have a section for each of their commands.
    """

    required_arguments: ClassVar[int] = 2
    final_argument_whitespace: ClassVar[bool] = True

    def run(self) -> list[nodes.Node]:
        """The help in a literal block, and sections of commands below."""
        place, name = self.arguments
        module, attribute = place.split(":")
        command: click.Command = getattr(import_module(module), attribute)
        _, *words = name.split()
        for word in words:
            assert isinstance(command, click.Group)
            command = command.commands[word]
        below = command.commands.items() if words and isinstance(command, click.Group) else ()
        sections = [self._section(f"{name} {word}", found) for word, found in below if not found.hidden]
        return [_help_of(name, command), *sections]

    def _section(self, name: str, command: click.Command) -> nodes.section:
        section = nodes.section("", nodes.title(text=name), _help_of(name, command), ids=[nodes.make_id(name)])
        self.state.document.note_implicit_target(section, section)
        return section


def _help_of(name: str, command: click.Command) -> nodes.literal_block:
    context = click.Context(
        command, info_name=name, terminal_width=_COLUMNS, max_content_width=_COLUMNS, help_option_names=["--help"]
    )
    context.meta[WHOLE_HELP] = True
    return nodes.literal_block(text=command.get_help(context), language="none")


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the directive known."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}

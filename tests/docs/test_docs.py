"""Every public name is on a page of the documentation and has an example; pages only name what exists."""

import re
import shlex
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path

import click

from calibdask.cli import cli

DOCS = Path(__file__).parents[2] / "deploy" / "docs"
ROOT = DOCS.parent.parent
SOURCES = [page for page in sorted(DOCS.rglob("*.md")) if "build" not in page.parts]
PAGES = [
    ROOT / "README.md",
    ROOT / "deploy" / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *SOURCES,
    DOCS / "shell.rst",
]
MODULES = (
    "calibdask",
    "calibdask.accessor",
    "calibdask.cluster",
    "calibdask.explore",
    "calibdask.plot",
    "calibdask.report",
)
PUBLIC = [
    (module, name)
    for module in MODULES
    for name in import_module(module).__all__
    if callable(getattr(import_module(module), name))
]
# The first serves until it is interrupted; the second is what `measure` returns, whose example it is.
WITHOUT_EXAMPLE = {("calibdask.explore", "explore"), ("calibdask.report", "Measured")}


def documented() -> list[tuple[str, str, str]]:
    """Directive, module and name of each entry."""
    entries = []
    for page in sorted(DOCS.glob("api/*.rst")):
        module = ""
        for directive, name in re.findall(
            r"^\.\. (currentmodule|autoclass|autofunction):: (\S+)$", page.read_text(), re.M
        ):
            if directive == "currentmodule":
                module = name
            else:
                entries.append((directive, module, name))
    return entries


ENTRIES = documented()


def test_public_names_are_on_one_page_each() -> None:
    times = Counter(entry[1:] for entry in ENTRIES)
    elsewhere = [entry for entry in PUBLIC if times[entry] != 1]
    assert elsewhere == [], "each belongs on one page of deploy/docs/api: .. currentmodule:: MODULE and a directive"


def test_entries_are_there() -> None:
    for directive, module, name in ENTRIES:
        value = getattr(import_module(module), name)
        assert directive == ("autoclass" if isinstance(value, type) else "autofunction"), f"{module}.{name}"


def has_example(module: str, name: str) -> bool:
    value = getattr(import_module(module), name)
    if isinstance(value, type) and issubclass(value, Exception):
        return True
    text = re.sub(r"^ +", "", value.__doc__ or "", flags=re.M)
    return "\nExamples\n" in text and ">>> " in text


def test_public_names_have_examples() -> None:
    assert {entry for entry in PUBLIC if not has_example(*entry)} <= WITHOUT_EXAMPLE


def contents(page: Path) -> list[Path]:
    """Pages below this one, in the order of its tables of contents."""
    trees = re.findall(
        r"```{toctree}\n(.*?)```|^\.\. toctree::\n((?:   .*\n|\n)+)", page.read_text(), re.DOTALL | re.MULTILINE
    )
    entries = re.findall(r"^ *(?!:)(?:[^<\n]*<)?([\w./-]+)>?$", "\n".join(map("".join, trees)), re.MULTILINE)
    found = [page.parent / entry for entry in entries]
    return [
        path.parent.resolve() / f"{path.name}{kind}"
        for path in found
        for kind in (".md", ".rst")
        if path.with_name(f"{path.name}{kind}").exists()
    ]


def test_every_page_is_in_the_contents_once() -> None:
    pages, seen = [DOCS / "index.md"], []
    while pages:
        seen.append(pages.pop())
        pages += contents(seen[-1])
    assert len(set(seen)) == len(seen)
    rst = [page for page in DOCS.rglob("*.rst") if "build" not in page.parts]
    assert {
        *SOURCES,
        *rst,
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
    } <= set(seen)


def dead_links(page: Path) -> list[str]:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))
    return [link for link in links if "://" not in link and not (page.parent / link).exists()]


def test_links_lead_somewhere() -> None:
    assert {page: links for page in PAGES if (links := dead_links(page))} == {}


def commands(page: Path) -> list[str]:
    """Lines of shell that begin with the command."""
    blocks = re.findall(r"```sh\n(.*?)```|code-block:: sh\n(.*?)\n\S", page.read_text(), re.DOTALL)
    return re.findall(r"^ *(calibdask .*)$", "\n".join(map("".join, blocks)).replace("\\\n", " "), re.MULTILINE)


@cache
def options_of(name: str) -> set[str]:
    command = cli.commands[name]
    parameters = command.get_params(click.Context(command))
    return {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}


def test_commands_have_the_options_that_pages_show() -> None:
    lines = [(page.name, line) for page in PAGES for line in commands(page)]
    assert len(lines) > 15
    for page, line in lines:
        _, name, *words = shlex.split(line, comments=True)
        unknown = {word for word in words if word.startswith("--")} - options_of(name)
        assert not unknown, f"{page}: {line}"


def test_every_command_has_a_page() -> None:
    pages = {page.stem: page.read_text(encoding="utf-8") for page in DOCS.glob("commands/*.rst")}
    assert {*pages} == {name for name, command in cli.commands.items() if not command.hidden}
    assert all(f".. command-help:: calibdask.cli:cli calibdask {name}\n" in text for name, text in pages.items())

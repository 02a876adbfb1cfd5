"""Every public name is on a page of the documentation and has an example; pages only name what exists."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import click
import pytest

from calibdask.cli import cli

DOCS = Path(__file__).parents[2] / "deploy" / "docs"
ROOT = DOCS.parent.parent
SOURCES = [page for page in sorted(DOCS.rglob("*.md")) if "build" not in page.parts]
PAGES = [ROOT / "README.md", ROOT / "deploy" / "README.md", *SOURCES, DOCS / "shell.rst"]
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


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_public_name_is_on_a_page(module: str, name: str) -> None:
    assert [entry[1:] for entry in ENTRIES].count((module, name)) == 1, (
        f"{module}.{name} belongs on one page of deploy/docs/api: .. currentmodule:: {module} and a directive"
    )


@pytest.mark.parametrize(("directive", "module", "name"), ENTRIES)
def test_entry_is_there(directive: str, module: str, name: str) -> None:
    value = getattr(import_module(module), name)
    assert directive == ("autoclass" if isinstance(value, type) else "autofunction")


@pytest.mark.parametrize(("module", "name"), [entry for entry in PUBLIC if entry not in WITHOUT_EXAMPLE])
def test_public_name_has_an_example(module: str, name: str) -> None:
    value = getattr(import_module(module), name)
    if isinstance(value, type) and issubclass(value, Exception):
        return
    assert "\nExamples\n" in re.sub(r"^ +", "", value.__doc__ or "", flags=re.M), f"{module}.{name} has no examples"
    assert ">>> " in value.__doc__


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
    assert {*SOURCES, *rst, ROOT / "README.md", ROOT / "CHANGELOG.md"} <= set(seen)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


def commands(page: Path) -> list[str]:
    """Lines of shell that begin with the command."""
    blocks = re.findall(r"```sh\n(.*?)```|code-block:: sh\n(.*?)\n\S", page.read_text(), re.DOTALL)
    return re.findall(r"^ *(calibdask .*)$", "\n".join(map("".join, blocks)).replace("\\\n", " "), re.MULTILINE)


COMMANDS = [
    pytest.param(line, id=f"{page.parent.name}-{page.stem}-{number}")
    for page in PAGES
    for number, line in enumerate(commands(page))
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_have_the_options_that_pages_show(command: str) -> None:
    _, name, *words = shlex.split(command, comments=True)
    chosen = cli.commands[name]
    parameters = chosen.get_params(click.Context(chosen))
    known = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known


def test_there_are_commands_on_pages() -> None:
    assert len(COMMANDS) > 15

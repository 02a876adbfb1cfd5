"""Imports go downward only, and the house stays tidy."""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import calibdask

PACKAGE = Path(calibdask.__file__).parent
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
ROOT = Path(__file__).parent
TESTS = sorted(ROOT.rglob("*.py"))
PAGE_TESTS = {"explore", "report", "cli", "plot", "browser"}
PAGES = "(explore|report|cli|plot)"
# Private names of Panel, HoloViews and Bokeh that have no public counterpart, and the method that notebooks call.
OF_OTHERS = {"_process_event", "_max_cols", "_repr_html_", "_tornado"}
# The order of the rooms that hold the computations, each of which may import those before it.
CORE = ("kernels", "statistics", "estimators", "engine", "storage", "data", "inference", "results")
# Third parties that only some rooms may know.
ALLOWED = {
    "kernels": {"numpy", "numba"},
    "statistics": {"numpy"},
    "estimators": {"numpy", "scipy", "sklearn", "typing_extensions"},
    "inference": {"numpy", "scipy", "typing_extensions"},
}
DATA = {"dask", "distributed", "fsspec", "pandas", "zarr", "h5netcdf", "pyarrow"}
KNOW_DATA = {"engine", "storage", "data", "study", "demo", "cluster", "cli", "progress"}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def room(path: Path) -> str:
    """The folder of the package, or the loose module, that a file belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


ROOMS = {room(file) for file in FILES}


@cache
def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= (
                {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "calibdask" else {node.module}
            )
    return names


def rooms_imported(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imported(path) if name.startswith("calibdask.")} & ROOMS - {room(path)}


def test_rooms_import_in_one_direction() -> None:
    graph: dict[str, set[str]] = {}
    for path in FILES:
        graph.setdefault(room(path), set()).update(rooms_imported(path))
    # Raises CycleError, with the rooms, where two of them need each other.
    tuple(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("name", CORE)
def test_core_imports_downward(name: str) -> None:
    above = {*CORE[CORE.index(name) + 1 :], "analyses", "study", "plot", "report", "explore", "cli"}
    for path in (PACKAGE / name).rglob("*.py"):
        assert not rooms_imported(path) & above, f"{path.relative_to(PACKAGE)} imports {rooms_imported(path) & above}"


def test_third_parties_stay_in_their_rooms() -> None:
    forbidden = {}
    for path in FILES:
        tops = {name.partition(".")[0] for name in imported(path)}
        outside = tops - sys.stdlib_module_names - {"calibdask"}
        unexpected = outside - ALLOWED.get(room(path), outside)
        if room(path) not in KNOW_DATA:
            unexpected |= outside & DATA
        if unexpected:
            forbidden[str(path.relative_to(PACKAGE))] = unexpected
    assert not forbidden


def test_parts_of_scipy_wait_until_they_are_used() -> None:
    """As attributes of scipy, which imports them then; each takes longer than a metric of few rows."""
    for path in (path for path in FILES if room(path) in CORE):
        for node in parsed(path).body:
            assert not (isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "scipy"), path


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_files_hold_one_idea() -> None:
    assert [(path, lines_of(path)) for path in FILES if lines_of(path) > 400] == []
    assert [path for path in FILES if path.stem in {"utils", "helpers", "common", "misc"}] == []


def private_names_of_pages(path: Path) -> list[str]:
    """Private names of rooms that show results, which a file of tests refers to."""
    text = path.read_text()
    names = re.findall(rf"""["'](calibdask\.{PAGES}[\w.]*\._\w+)""", text)
    found = ["".join(name) for name in names]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and re.match(rf"calibdask\.{PAGES}\b", node.module or ""):
            found += [alias.name for alias in node.names if alias.name.startswith("_")]
        elif isinstance(node, ast.Attribute) and path.parent.name in PAGE_TESTS:
            is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
            if not is_own and re.match(r"_[a-z]", node.attr) and node.attr not in OF_OTHERS:
                found.append(f"line {node.lineno}: {node.attr}")
    return found


def test_tests_hold_one_topic_and_know_pages_by_public_names() -> None:
    assert [(path, lines_of(path)) for path in TESTS if lines_of(path) > 600] == []
    assert {path: names for path in TESTS if (names := private_names_of_pages(path))} == {}


def test_no_request_waits_where_warnings_are_ignored() -> None:
    """What NumPy ignores is set for a thread: after a ``yield`` it may be lost, and others have it until then."""
    found = [
        f"{file.relative_to(PACKAGE)}:{block.lineno}"
        for file in FILES
        for block in ast.walk(parsed(file))
        if isinstance(block, ast.With) and "np.errstate" in ast.unparse(block.items[0])
        if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(block))
    ]
    assert not found


def test_import_is_lazy() -> None:
    code = (
        "import sys, calibdask;"
        "heavy = {'dask', 'numba', 'xarray', 'sklearn', 'hvplot', 'pandas', 'numpy'} & set(sys.modules);"
        "assert not heavy, heavy;"
        "assert 'evaluate' in dir(calibdask) and callable(calibdask.evaluate)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="attribute nothing"):
        calibdask.nothing  # noqa: B018


def test_public_names_exist() -> None:
    for name in set(calibdask.__all__) - {"__version__"}:
        value = getattr(calibdask, name)
        assert value.__doc__, f"{name} has no docstring"
        assert value.__name__ == name

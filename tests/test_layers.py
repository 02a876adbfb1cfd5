"""Imports go downward only, and the house stays tidy."""

import ast
import re
import subprocess
import sys
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


def room(path: Path) -> str:
    """The folder of the package, or the loose module, that a file belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= (
                {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "calibdask" else {node.module}
            )
    return names


def rooms_imported(path: Path) -> set[str]:
    rooms = {room(file) for file in FILES}
    return {name.split(".")[1] for name in imported(path) if name.startswith("calibdask.")} & rooms - {room(path)}


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


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_third_parties_stay_in_their_rooms(path: Path) -> None:
    tops = {name.partition(".")[0] for name in imported(path)}
    outside = tops - set(sys.stdlib_module_names) - {"calibdask"}
    allowed = ALLOWED.get(room(path), outside)
    assert outside <= allowed, f"{path.relative_to(PACKAGE)} imports {outside - allowed}"
    if room(path) not in KNOW_DATA:
        assert not outside & DATA, f"only engine and storage know data formats; {path.name} imports {outside & DATA}"


def test_parts_of_scipy_wait_until_they_are_used() -> None:
    """As attributes of scipy, which imports them then; each takes longer than a metric of few rows."""
    for path in (path for path in FILES if room(path) in CORE):
        for node in ast.parse(path.read_text()).body:
            assert not (isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "scipy"), path


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_hold_one_idea(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400
    assert path.stem not in {"utils", "helpers", "common", "misc"}


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_tests_hold_one_topic_and_know_pages_by_public_names(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 600
    assert not re.search(rf"""["']calibdask\.{PAGES}[\w.]*\._""", text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and re.match(rf"calibdask\.{PAGES}\b", node.module or ""):
            assert not [alias.name for alias in node.names if alias.name.startswith("_")]
        elif isinstance(node, ast.Attribute) and path.parent.name in PAGE_TESTS:
            is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
            assert is_own or not re.match(r"_[a-z]", node.attr) or node.attr in OF_OTHERS, f"line {node.lineno}"


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


@pytest.mark.parametrize("name", calibdask.__all__)
def test_public_names_exist(name: str) -> None:
    value = getattr(calibdask, name)
    if name != "__version__":
        assert value.__doc__, f"{name} has no docstring"
        assert value.__name__ == name

"""Imports go downward only, and the house stays tidy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import calibdask

PACKAGE = Path(calibdask.__file__).parent
LAYERS = {"kernels": 0, "statistics": 1, "estimators": 2, "engine": 3}
# The front door and what only it needs; leaves may import anything above them.
FRONT = {"labelled": 4, "naming": 4, "evaluation": 4, "comparison": 4, "ranking": 4, "summary": 4, "progress": 4}
FRONT |= {"shorthands": 5, "calibrator": 5, "readout": 5, "text_table": 5, "result_table": 5}
FRONT |= {"halted": 0, "described": 0, "plot": 6, "accessor": 7, "display": 7, "cluster": 6, "study": 7, "demo": 7}
FRONT |= {"report": 7, "explore": 7, "cli": 8}
# Third parties that only some layers may know.
ALLOWED = {
    "kernels": {"numpy", "numba"},
    "statistics": {"numpy"},
    "estimators": {"numpy", "scipy", "sklearn"},
}
DATA = {"dask", "distributed", "fsspec", "pandas", "zarr", "h5netcdf", "pyarrow"}
FILES = sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def place(parts: tuple[str, ...]) -> int:
    return LAYERS[parts[0]] if parts[0] in LAYERS else FRONT[parts[0]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_downward(path: Path) -> None:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    if parts == ("__init__",):
        return
    outside = set()
    for name in imported(path):
        top, *rest = name.split(".")
        if top == "calibdask" and rest:
            assert place(tuple(rest)) <= place(parts), f"{path.name} imports {name}"
        elif top not in sys.stdlib_module_names and top != "calibdask":
            outside.add(top)
    if parts[0] in ALLOWED:
        assert outside <= ALLOWED[parts[0]], f"{path.name} imports {outside}"
    if parts[0] not in ("engine", "study", "demo", "cluster", "cli", "progress"):
        assert not outside & DATA, f"only the engine knows data formats; {path.name} imports {outside & DATA}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_hold_one_idea(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400
    assert path.stem not in {"utils", "helpers", "common", "misc"}


def test_import_is_lazy() -> None:
    code = (
        "import sys, calibdask;"
        "heavy = {'dask', 'numba', 'xarray', 'sklearn', 'hvplot', 'pandas', 'numpy'} & set(sys.modules);"
        "assert not heavy, heavy;"
        "assert 'evaluate' in dir(calibdask) and callable(calibdask.evaluate)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        calibdask.nothing  # noqa: B018


@pytest.mark.parametrize("name", calibdask.__all__)
def test_public_names_exist(name: str) -> None:
    value = getattr(calibdask, name)
    if name != "__version__":
        assert value.__doc__, f"{name} has no docstring"
        assert value.__name__ == name

"""What editors and type checkers know of the public names."""

import inspect
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

import calibdask
import calibdask as cd
from calibdask.analyses import shorthands
from calibdask.estimators import keywords

pytest.importorskip("mypy")

ROOT = Path(__file__).parents[2]
CODE = """
import xarray as xr
import calibdask as cd
from calibdask.accessor import CalibrationAccessor
{names}
reveal_type(cd.ECE(bins=5))
reveal_type(cd.evaluate([0], [0.5], cd.ECE()))
cd.ECE(bin=5)
cd.ECE(binning="equal")
cd.ece([0], [0.5], bin=5)
cd.ece_ac(closed="both")
calib: CalibrationAccessor = xr.Dataset().calib
reveal_type(calib.table())
"""
REQUESTS = """
from calibdask.statistics.bins.bin_sums import BinSums
from calibdask.statistics.bins.binnings import BinEdges, Uniform
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting
from calibdask.statistics.views.poisson import PoissonWeights
from calibdask.statistics.views.view import view_requests

def gap(setting: Setting) -> Requests[float]:
    layout = yield from Layout()
    edges = yield from BinEdges(Uniform(15), setting)
    sums = yield from BinSums(setting, edges)
    reveal_type(layout)
    reveal_type(edges)
    reveal_type(sums)
    sums.outcomes
    BinSums(setting, edges).merge(sums, edges)
    BinSums(setting, edges).extracted_from(layout)
    return "none"

reveal_type(view_requests(PoissonWeights(200, 0), gap(Setting("confidence"))))
"""
NAMES = [name for name in calibdask.__all__ if name != "__version__"]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What mypy says of each line of some code, by the name of its file: of all in one run."""
    folder = tmp_path_factory.mktemp("types")
    names = "\n".join(f"reveal_type(cd.{name})" for name in NAMES)
    for name, code in (("public", CODE.format(names=names)), ("requests", REQUESTS)):
        (folder / f"{name}_snippet.py").write_text(code)
    files = map(str, sorted(folder.glob("*.py")))
    # In a process of its own: what mypy knows of all modules would stay here, for searches for garbage to pass over.
    options = ["--config-file", str(ROOT / "pyproject.toml")]
    run = subprocess.run([sys.executable, "-m", "mypy", *files, *options], capture_output=True, text=True, check=False)
    assert run.stderr == ""
    lines = run.stdout.splitlines()
    return {name: [line for line in lines if f"{name}_snippet.py" in line] for name in ("public", "requests")}


def revealed_types(lines: list[str]) -> list[str]:
    matches = (re.search(r'Revealed type is "(.*)"$', line) for line in lines)
    return [match.group(1) for match in matches if match]


@pytest.fixture(scope="module")
def said(checked: dict[str, list[str]]) -> list[str]:
    return checked["public"]


@pytest.fixture(scope="module")
def revealed(said: list[str]) -> list[str]:
    return revealed_types(said)


def test_public_names_have_types(revealed: list[str]) -> None:
    types = dict(zip(NAMES, revealed, strict=False))
    assert len(types) == len(NAMES)
    for name, known in types.items():
        assert known.startswith("def "), f"{name} is {known}"
    for name in ("evaluate", "compare", "summarize"):
        assert types[name].endswith("-> xarray.core.dataset.Dataset"), types[name]
    assert types["run"].endswith("-> calibdask.study.running.CellCounts")
    assert types["ECE"].endswith("-> calibdask.estimators.binned.ece.ECE")
    assert "binning: Literal['uniform'] | Literal['equal-mass'] =" in types["ECE"]
    assert types["Study"] == "def (*, seed: int =) -> calibdask.study.study.Study"
    assert types["ReliabilityDisplay"].startswith("def (result: xarray.core.dataset.Dataset, *, name: str")


def test_results_have_types(revealed: list[str]) -> None:
    results = ["estimators.binned.ece.ECE", "xarray.core.dataset.Dataset", "render.table.ResultTable"]
    assert [known.removeprefix("calibdask.") for known in revealed[len(NAMES) :]] == results


def test_bad_choices_are_found(said: list[str]) -> None:
    errors = [line for line in said if ": error: " in line]
    assert len(errors) == 4
    assert 'Unexpected keyword argument "bin" for "ECE"' in errors[0]
    assert "expected \"Literal['uniform', 'equal-mass']\"" in errors[1]
    assert 'Unexpected keyword argument "bin" for "ece"' in errors[2]
    assert "expected \"Literal['right', 'left'] | None\"" in errors[3]


def test_answers_to_requests_have_types(checked: dict[str, list[str]]) -> None:
    lines = checked["requests"]
    layout, edges, sums, seen = revealed_types(lines)
    assert layout == "calibdask.statistics.layout.Layout"
    assert edges == "calibdask.statistics.bins.edges.Edges"
    assert "fallback=calibdask.statistics.bins.bin_sums.BinSumsState" in sums
    assert seen.endswith("Any, float]")
    errors = [line for line in lines if ": error: " in line]
    assert len(errors) == 4
    assert '"BinSumsState" has no attribute "outcomes"' in errors[0]
    assert 'Argument 2 to "merge" of "SumStatistic" has incompatible type "Edges"; expected "BinSumsState"' in errors[1]
    assert 'Argument 1 to "extracted_from" of "BinSums" has incompatible type "Layout"' in errors[2]
    assert 'Incompatible return value type (got "str", expected "float")' in errors[3]


@pytest.mark.parametrize(
    ("keyword_type", "estimator", "without"),
    [
        (keywords.ECEKeywords, cd.ECE, ""),
        (keywords.MCEKeywords, cd.ECE, "norm"),
        (keywords.PresetKeywords, cd.ECE, "binning mapping"),
        (keywords.DiagramKeywords, cd.ReliabilityDiagram, ""),
        (keywords.SmoothKeywords, cd.SmoothECE, ""),
        (keywords.DensityKeywords, cd.DensityECE, ""),
        (keywords.CurveKeywords, cd.ReliabilityCurve, ""),
        (keywords.ScoreKeywords, cd.BrierScore, ""),
        (keywords.SKCEKeywords, cd.SKCE, "seed"),
    ],
)
def test_keywords_are_fields(keyword_type: type, estimator: type, without: str) -> None:
    known = get_type_hints(estimator)
    expected = {field.name: known[field.name] for field in fields(estimator) if field.name not in without.split()}
    assert get_type_hints(keyword_type) == expected


def test_shorthands_take_what_evaluate_takes() -> None:
    known = inspect.signature(cd.evaluate).parameters
    own = {"y_true", "y_prob", "metrics", "sample_weight", "keep_replicates"}
    documented = get_type_hints(shorthands._Curve).keys() - get_type_hints(keywords.CurveKeywords).keys()
    assert documented == known.keys() - own

"""Laws of all analyses in the catalogue: descriptions, sources, documents in every format, JSON and the shell."""

import json
import pickle
import re
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
import calibdask.accessor
from calibdask.analyses.analysis import Analysis
from calibdask.analyses.auditing.audit import Audit
from calibdask.analyses.calibrator_comparison import CompareCalibrators
from calibdask.analyses.catalogue import ANALYSES, analysis_of
from calibdask.analyses.comparison import Compare
from calibdask.analyses.gating.check import Check
from calibdask.analyses.monitoring.attribution import Attribute
from calibdask.analyses.monitoring.watch import Watch
from calibdask.analyses.shrinkage import SliceShrinkage
from calibdask.analyses.threshold import Threshold
from calibdask.cli import main
from calibdask.cli.analysis_command import STATUSES
from calibdask.data.data import Data
from calibdask.data.named_features import data_with_features
from calibdask.data.options import InputOptions
from calibdask.errors import RowsRequired
from calibdask.render.html import page
from calibdask.results.document import Document, Table
from calibdask.storage.writers import write_dataset
from tests.combinations import rotated

# An instance of each, and the words of its command.
EXAMPLES: dict[str, tuple[Analysis, list[str]]] = {
    "attribute": (Attribute("0..4", "5..9"), ["--before", "0..4", "--after", "5..9"]),
    "audit": (Audit(min_rows=200), ["--features", "country", "--min-rows", "200"]),
    "check": (
        Check(limits=("ece=0.2", "mean-gap=-0.1..0.2"), n_boot=20),
        ["--limit", "ece=0.2", "--limit", "mean-gap=-0.1..0.2", "--n-boot", "20", "--by", "country"],
    ),
    "compare": (Compare(n_boot=20), ["--score", "old=old", "--score", "new=score", "--n-boot", "20"]),
    "compare-maps": (CompareCalibrators(folds=3), ["--folds", "3"]),
    "shrink": (SliceShrinkage(limit=0.05), ["--limit", "0.05", "--by", "country"]),
    "watch": (Watch(), []),
    "threshold": (Threshold(risk=0.2), ["--risk", "0.2", "--by", "country"]),
}
ROWS = 6000


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    score = rng.random(ROWS)
    country = rng.choice(["at", "be", "ch", "cz", "de", "dk"], ROWS)
    truth = np.where(country == "at", score**2, score)
    label = (rng.random(ROWS) < truth).astype(int)
    rows = {"label": label, "score": score, "country": country, "old": np.sqrt(score), "day": np.arange(ROWS) // 600}
    return pd.DataFrame(rows)


def summary_of(labels: Any, scores: Any) -> xr.Dataset:
    """A summary by day and country."""
    by = {name: frame()[name].to_numpy() for name in ("day", "country")}
    return cd.summarize(labels, scores, by=by, settings=["binary"])


def data_of(analysis: Analysis, source: str) -> Data:
    rows = frame()
    if analysis.inputs == "models":
        columns = {name: rows[name].to_numpy() for name in ("label", "old", "score")}
        if source == "dask":
            columns = {name: da.from_array(values, 700) for name, values in columns.items()}
        return Data.of(columns["label"], {"old": columns["old"], "new": columns["score"]})
    labels, scores = rows.label.to_numpy(), rows.score.to_numpy()
    countries: Any = {"country": rows.country.to_numpy()}
    options = InputOptions()
    if source == "summary" and analysis.inputs != "summary":
        if analysis.takes_features:
            return Data.of(cd.summarize(labels, scores, features=countries))
        return Data.of(cd.summarize(labels, scores, by=countries), by=("country",))
    if source == "dask":
        labels, scores = da.from_array(labels, 700), da.from_array(scores, 700)
    if analysis.inputs == "summary":
        return Data.of(summary_of(labels, scores), by=())
    if source == "dask":
        countries = {"country": da.from_array(rows.country.to_numpy().astype("U2"), 700)}
    if analysis.takes_features:
        return data_with_features(labels, scores, countries, None, options)
    return Data.of(labels, scores, countries if analysis.slices else None, None, options)


@pytest.fixture(params=ANALYSES, scope="module")
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def analysis(name: str) -> Analysis:
    return EXAMPLES[name][0]


@pytest.fixture(scope="module")
def result(name: str) -> xr.Dataset:
    return expected_of(name)


def test_every_analysis_has_an_example() -> None:
    assert set(EXAMPLES) == set(ANALYSES)
    assert all(type(analysis) is ANALYSES[name] for name, (analysis, _) in EXAMPLES.items())


def test_descriptions_are_values(analysis: Analysis) -> None:
    again = pickle.loads(pickle.dumps(analysis))
    assert again == analysis
    assert hash(again) == hash(analysis)
    assert "_repr_html_" in dir(analysis)
    assert replace(analysis) == analysis  # type: ignore[type-var]


def test_documents_name_the_population(analysis: Analysis) -> None:
    if analysis.takes_features or analysis.inputs == "models":
        pytest.skip("these summaries have no population")
    rows = frame()
    by = {name: rows[name].to_numpy() for name in ("day", "country")}
    population = cd.Population(sampling_rate=0.5)
    given = rows.label.to_numpy(), rows.score.to_numpy()
    summary = cd.summarize(*given, by=by, settings=["binary", "confidence"], population=population)
    try:
        result = analysis.run(Data.of(summary, by=() if analysis.inputs == "summary" else ("country",)))
    except RowsRequired:
        pytest.skip("the analysis needs rows")
    assert result.attrs["population"] == population.text
    assert "scores corrected for negatives kept at 50 %" in " ".join(analysis.document(result).to_text().split())


@pytest.mark.parametrize("source", ["dask", "summary"])
def test_sources_give_the_same_numbers(analysis: Analysis, result: xr.Dataset, source: str) -> None:
    if (source, analysis.inputs) == ("summary", "models"):
        pytest.skip("summaries hold the scores of one model")
    try:
        other = analysis.run(data_of(analysis, source))
    except RowsRequired:
        pytest.skip("the analysis needs rows")
    # Descriptions of subgroups in a summary may be longer, see `calibdask.audit`.
    numbers = [name for name, values in result.data_vars.items() if values.dtype.kind in "fiu" and name != "described"]
    assert numbers
    if source == "summary" and analysis.takes_features:
        # Quantiles of scores are those of the cells of the summary.
        numbers = ["gap"]
    for variable in numbers:
        ours, theirs = result[variable].drop_attrs(), other[variable].drop_attrs()
        if source == "summary":
            # Moments of scores are those of the cells of the grid.
            xr.testing.assert_allclose(theirs, ours, rtol=1e-5)
        elif "n_boot" in result.attrs and "bound" in result[variable].attrs:
            # Sums of replicates are weighted.
            xr.testing.assert_allclose(theirs, ours, rtol=1e-12)
        else:
            xr.testing.assert_equal(theirs, ours)


def test_results_know_their_analysis(analysis: Analysis, result: xr.Dataset) -> None:
    assert analysis_of(result) == analysis
    assert result.calib.document().to_text() == analysis.document(result).to_text()


def tables(document: Document) -> list[Table]:
    return [element for element in document.elements() if isinstance(element, Table)]


def test_all_formats_show_the_same_numbers(analysis: Analysis, result: xr.Dataset) -> None:
    document = analysis.document(result)
    assert document.name == analysis.name
    shown = [cell.text for table in tables(document) for row in table.rows for cell in row if cell.value is not None]
    assert shown
    text = document.to_text(200)
    in_text = [
        cell.text
        for section in document.sections
        if not section.appendix
        for table in section.elements
        if isinstance(table, Table)
        for row in table.rows
        for cell in row
        if cell.value is not None
    ]
    pages = {"markdown": document.to_markdown(), "html": document.to_html(), "page": page(document)}
    for words in in_text:
        assert words in text
    for words in shown:
        assert words in pages["markdown"]
        for name in ("html", "page"):
            plain = unescape(re.sub("<[^>]+>", " ", pages[name]))
            assert words in plain


def test_numbers_are_those_behind_the_texts(analysis: Analysis, result: xr.Dataset) -> None:
    document = analysis.document(result)
    values = [cell.value for table in tables(document) for row in table.rows for cell in row if cell.value is not None]
    numbers = document.numbers()
    ends = [end for table in tables(document) for row in table.rows for cell in row for _, end in cell.parts]
    # Rows, columns or tables of the same name had one key, and all but the last were lost.
    assert sorted(numbers.values()) == sorted([*values, *ends])
    assert all(re.fullmatch(r"[/\w.\- ]+", name) for name in numbers), "names that mlflow.log_metrics refuses"
    assert all(isinstance(value, float | int) for value in numbers.values())


def test_results_have_a_table_and_a_frame(analysis: Analysis, result: xr.Dataset) -> None:
    """A comparison had a table without its differences, and an empty frame."""
    table, frame = result.calib.table(), result.calib.to_dataframe()
    assert len(frame)
    assert all([repr(table), table.to_markdown(), table._repr_html_()])
    if (lines := analysis.lines(result)) is not None:
        assert len(frame) == len(lines)
        assert repr(table) == analysis.document(result).to_text()


def test_json_is_plain(analysis: Analysis, result: xr.Dataset) -> None:
    document = analysis.to_json(result)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["format"] == analysis.json_format
    assert "rows" not in analysis.json_head or document["rows"] == ROWS


# JUnit is for analyses that decide; the formats that all have take turns.
OUTPUTS = [
    *rotated(ANALYSES, [".json", ".csv", ".parquet", ".nc", ".zarr", ".md", ".txt"], 1),
    *((name, ".xml") for name, (example, _) in EXAMPLES.items() if ".xml" in example.further_formats),
]


def json_texts(printed: str, analysis: Analysis) -> list[str]:
    """One document, or a line for each record."""
    return printed.splitlines() if analysis.json_lines else [printed]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows, folder = frame(), tmp_path_factory.mktemp("analyses")
    rows.to_parquet(folder / "rows.parquet")
    write_dataset(summary_of(rows.label.to_numpy(), rows.score.to_numpy()), folder / "days.nc")
    return folder


@cache
def expected_of(name: str) -> xr.Dataset:
    analysis = EXAMPLES[name][0]
    return analysis.run(data_of(analysis, "memory"))


@pytest.mark.parametrize(("name", "suffix"), OUTPUTS)
def test_the_command_is_the_analysis(
    name: str, suffix: str, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    analysis, words = EXAMPLES[name]
    out = tmp_path / f"out{suffix}"
    source = files / ("days.nc" if analysis.inputs == "summary" else "rows.parquet")
    command = [name, str(source), *words, "--json", "--out", str(out)]
    report = ["--report", str(tmp_path / "page.html")] if suffix == ".json" else []
    status = main([*command, *report])
    printed = [json.loads(text) for text in json_texts(capsys.readouterr().out, analysis)]
    expected = expected_of(name)
    if analysis.inputs == "summary":
        expected = expected.assign_attrs(summary="days")
    documents = analysis.to_json_lines(expected) if analysis.json_lines else [analysis.to_json(expected)]
    command_lines = [document.pop("command", "") for document in printed]
    assert any(command_lines) == ("command" in analysis.json_head)
    assert printed == json.loads(json.dumps(documents))
    assert status == STATUSES[analysis.outcome(expected)]
    assert out.exists()
    if suffix == ".json":
        assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
        written = json.loads(out.read_text())
        written.pop("command", "")
        assert written == json.loads(json.dumps(analysis.to_json(expected)))
        assert main([*command]) == 2
        assert "already exists" in capsys.readouterr().err

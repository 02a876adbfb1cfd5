"""Pages hold together."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.report import Measured, measure, write_report
from calibdask.results.values import Results
from tests.report.page_reader import page_of, scripts_allowed
from tests.report.sample_rows import CLASSES, FEW, LABELS, MATRIX, ROWS, TRUTH, of_two_models


class TestPage:
    def test_numbers(self, tmp_path: Path, extreme: Measured) -> None:
        _, reader = page_of(tmp_path, {"extreme": extreme})
        scalars = [value.value for value in Results(extreme.result).values() if not value.name.startswith("report_")]
        assert set(scalars) <= set(reader.numbers)
        assert set(extreme.slices["country"].ece.values.tolist()) <= set(reader.numbers)

    def test_it_holds_together(self, tmp_path: Path, extreme: Measured, multiclass: Measured) -> None:
        html, reader = page_of(tmp_path, {"extreme": extreme, "many": multiclass}, title="Two", command="calibdask x")
        assert not re.search(r"https?://|//[a-z]|url\(|@import|xmlns", html)
        assert scripts_allowed(html)
        anchors = {attributes.get("id") for _, attributes in reader.tags}
        assert {str(attributes["href"]).removeprefix("#") for attributes in reader.having("a")} <= anchors
        assert all(attributes.get("scope") in ("col", "row") for attributes in reader.having("th"))
        pictures = reader.having("svg", role="img")
        assert len(pictures) >= 4
        assert all(attributes["aria-label"] for attributes in pictures)
        assert all(
            attributes["aria-hidden"] == "true"
            for attributes in reader.having("svg")
            if attributes.get("role") != "img"
        )
        levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch(r"h\d", tag)]
        assert levels[0] == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))
        for words in ("Findings", "Data and settings", "All metrics", "Reliability", "Slices", "Warnings"):
            assert words in reader.text
        for words in ("calibdask x", cd.__version__, "seed 0", "extreme.npz", np.__version__):
            assert words in reader.text

    def test_everything_of_the_data_is_escaped(self, tmp_path: Path) -> None:
        evil = "<script>alert('x')</script>\"&"
        group = np.where(np.arange(ROWS) % 2, evil, "plain")
        named = xr.DataArray(MATRIX, dims=("sample", "class"), coords={"class": [f"{evil}{k}" for k in range(4)]})
        measured = measure(CLASSES, named, by={evil: group}, source=evil, setting="classwise", **FEW)
        html, reader = page_of(tmp_path, {evil: measured}, title=evil, command=evil)
        assert scripts_allowed(html)
        assert not re.search(r"<script>[^<]*alert", html)
        assert reader.text.count("alert('x')") > 10

    def test_models_side_by_side(self, tmp_path: Path) -> None:
        models = {name: measure(LABELS, TRUTH**power, **FEW) for name, power in (("a", 1), ("b", 1.02), ("c", 3))}
        _, reader = page_of(tmp_path, models)
        assert "Models side by side" in reader.text
        assert "do not distinguish them" in reader.text
        assert "overlaps that of" in reader.text

    def test_results_of_evaluate(self, tmp_path: Path) -> None:
        labels, scores = of_two_models()
        result = cd.evaluate(labels, scores, [cd.ECE(), cd.ReliabilityDiagram()], ci=0.9, n_boot=20)
        _, reader = page_of(tmp_path, {"of": result})
        assert set(result.ece.values.tolist()) <= set(reader.numbers)
        # Of each model on the first page and in the appendix, and both over each other.
        assert len(reader.having("svg", role="img")) == 5
        # Models are measured on the same rows, whose sum means nothing.
        assert f"2 models, {ROWS:,} rows each," in reader.text
        assert f"{2 * ROWS:,}" not in reader.text
        _, reader = page_of(tmp_path, cd.evaluate(LABELS, TRUTH, cd.ECE()))
        assert "No intervals were computed" in reader.text

    def test_models_of_different_rows(self, tmp_path: Path) -> None:
        models = {"few": cd.evaluate(LABELS[:500], TRUTH[:500], cd.ECE()), "all": cd.evaluate(LABELS, TRUTH, cd.ECE())}
        _, reader = page_of(tmp_path, models)
        assert f"2 models, 500 to {ROWS:,} rows each," in reader.text

    def test_a_column_that_names_models(self, tmp_path: Path) -> None:
        model = np.repeat(["old", "new"], ROWS // 2)
        _, reader = page_of(tmp_path, measure(LABELS, TRUTH, {"ece": cd.ECE()}, by={"model": model}, **FEW))
        assert "The numbers of all rows pool 2 models" in reader.text

    def test_names_of_metrics_mean_nothing(self, tmp_path: Path) -> None:
        metrics = {"ece": cd.ECE(), "ece_low": cd.BrierScore(), "ece_high": cd.LogLoss(), "a_pvalue": cd.SmoothECE()}
        result = cd.evaluate(LABELS, TRUTH, metrics)
        _, reader = page_of(tmp_path, result)
        assert {float(result[name]) for name in metrics} <= set(reader.numbers)
        table = reader.text.partition("Metrics of model")[2].partition("Warnings")[0]
        assert not re.search(r"\d to -?\d", table), "no metric is an end of another one's interval"
        assert "Tests" not in reader.text

    @pytest.mark.parametrize(
        ("results", "error", "message"),
        [
            ({}, ValueError, "at least one result"),
            (cd.evaluate([0, 1], [0.1, 0.9], cd.ECE(), by=["a", "b"]), ValueError, "without by"),
            ({"a": 3}, TypeError, "got int"),
        ],
    )
    def test_bad_results(self, tmp_path: Path, results: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            write_report(tmp_path / "page.html", results)
        assert not list(tmp_path.iterdir())

    def test_outputs_are_refused_first(self, tmp_path: Path, extreme: Measured) -> None:
        with pytest.raises(ValueError, match=r"ends in one of \.html"):
            write_report(tmp_path / "page.pdf", extreme)
        (tmp_path / "page.html").write_text("mine")
        with pytest.raises(ValueError, match="already exists"):
            write_report(tmp_path / "page.html", extreme)
        assert (tmp_path / "page.html").read_text() == "mine"

    def test_six_models_are_small(self, tmp_path: Path) -> None:
        """Six models by fifty slices."""
        group = np.arange(ROWS) % 50
        measured = measure(LABELS, TRUTH, by={"group": group}, limits={"ece": 0.2}, **FEW)
        html, reader = page_of(tmp_path, {f"model {i}": measured for i in range(6)})
        assert len(html.encode()) < 1.4e6
        assert reader.text.count("group=") >= 50

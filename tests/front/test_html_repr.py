"""Descriptions in notebooks: their name in words, what they are, and their choices, faint where they are usual."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import calibdask as cd
from tests.catalogue import ESTIMATORS
from tests.results.html_cells import Cells
from tests.study.sample_study import Walks

FAINT = re.compile(r'<tr style="[^"]*opacity[^"]*">(.*?)</tr>', re.S)


def faint(described: Any) -> set[str]:
    """Names of the choices that nobody has made."""
    return {Cells(f"<tr>{row}</tr>").rows[0][0] for row in FAINT.findall(described._repr_html_())}


def choices(described: Any) -> dict[str, str]:
    rows = Cells(described._repr_html_()).rows
    heading = ["choice", "value"]
    return dict(rows[rows.index(heading) + 1 :]) if heading in rows else {}


def test_an_estimator() -> None:
    described = cd.ECE(bins=5, binning="equal-mass")
    html = described._repr_html_()
    assert "<strong>ECE</strong>" in html
    assert "Expected calibration error by bins." in html
    result = choices(described)
    assert result["bins"] == "5"
    assert result["binning"] == "'equal-mass'"
    assert result["norm"] == "'l1'"
    assert set(result) - faint(described) == {"bins", "binning"}


def test_all_descriptions_show_themselves() -> None:
    for name, described in ESTIMATORS.items():
        assert set(choices(described)) == {field.name for field in fields(described)}, name
        words = re.search(r"<strong>(.*?)</strong><div[^>]*>(.+?)</div>", described._repr_html_())
        assert words is not None, name
        assert words[1].replace(" ", "").lower() == type(described).__name__.lower()


def test_lenses_and_kernels() -> None:
    assert choices(cd.Lens.largest(2)) == {"k": "2", "parts": "None"}
    assert faint(cd.Lens.largest(2)) == {"parts"}
    assert "is assessed instead." in cd.Lens.groups([[0, 1], [2]])._repr_html_(), "without the mark of the reference"
    assert set(choices(cd.Kernel(bandwidth=0.2))) - faint(cd.Kernel(bandwidth=0.2)) == {"bandwidth"}


def test_a_study() -> None:
    study = Walks(scale=2.0, models=("<up>", "down"))
    html = study._repr_html_()
    rows = Cells(html).rows
    assert "6 cells" in html
    assert ["length", "cells", "3", "5, 20, 40"] in rows
    assert ["model", "cells", "2", "<up>, down"] in rows
    assert "<up>" not in html
    assert [row[1] for row in rows if row[0] == "replicate"] == ["inside a cell"]
    assert set(choices(study)) - faint(study) == {"scale", "models"}


@dataclass(frozen=True, kw_only=True)
class _Unnamed(cd.Study):
    size: int
    outputs: ClassVar = {"value": ()}

    def cells(self) -> Any:
        return {"number": range(self.size)}

    def problems(self) -> Iterable[str]:
        return ["size expects a number from 1 on."] if self.size < 1 else []

    def cell(self, at: Any, seeds: Any) -> Any:
        return {"value": 0.0}


def test_a_study_says_what_is_wrong() -> None:
    rows = Cells(_Unnamed(size=0)._repr_html_()).rows
    assert ["size expects a number from 1 on."] in rows
    assert all(row[0] != "number" for row in rows)


def test_colours_are_those_of_the_page() -> None:
    html = cd.ECE()._repr_html_() + Walks()._repr_html_()
    assert not re.findall(r"#[0-9a-f]{3,6}\b|\b(?:black|white)\b(?!-)", html)
    assert "<style" not in html

"""Tables of results: as text of any width, in notebooks, in Markdown, as data frames."""

import re
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
import calibdask.accessor
from calibdask.render.text_layout import joined, width_of
from calibdask.render.text_table import MOST_SLICES, foot_lines, label_of, result_lines
from calibdask.results.format import shown_texts
from calibdask.results.values import PartResult, Results
from tests.results.html_cells import Cells

RNG = np.random.default_rng(2)
ROWS = 600
SCORES = RNG.random(ROWS)
LABELS = RNG.random(ROWS) < SCORES**1.5
LONG = "a very long name of a country that fills a narrow window alone"
METRICS = {"ece": cd.ECE(), "brier_decomposition": cd.BrierDecomposition(), "spiegelhalter": cd.SpiegelhalterTest()}
BY = {"country": np.array(["de", "日本", LONG])[RNG.integers(0, 3, ROWS)], "day": RNG.integers(1, 3, ROWS)}


@pytest.fixture(scope="module")
def whole() -> xr.Dataset:
    return cd.evaluate(LABELS, SCORES, METRICS, ci=0.9, n_boot=5)


@pytest.fixture(scope="module")
def sliced() -> xr.Dataset:
    return cd.evaluate(LABELS, SCORES, METRICS, by=BY, ci=0.9, n_boot=5)


def texts(result: xr.Dataset, width: int) -> list[str]:
    return [joined(line) for line in [*result_lines(result, width), *foot_lines(result, width)]]


def shown(part: PartResult) -> list[str]:
    """A number and the ends of its interval as a table shows them."""
    value, rows = part.value(), part.values.coords["rows"].item()
    return shown_texts(value.value, value.low, value.high, kind=part.kind, rows=rows)


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_lines_fit_and_no_number_is_lost(whole: xr.Dataset, sliced: xr.Dataset, width: int) -> None:
    for result in (whole, sliced):
        lines = texts(result, width)
        assert max(map(width_of, lines)) <= width
        words = " ".join(lines).split()
        results = Results(result)
        for at, _ in results.strata():
            assert {text for part in results.numbers for text in shown(part.at(at))} <= {*words}
    said = " ".join(" ".join(texts(whole, width)).split())
    if width != 100:
        assert all(number.meaning in said for number in Results(whole).values()), "meanings beside or beneath are whole"


def test_numbers_stand_in_columns(whole: xr.Dataset) -> None:
    """Under its heading at the right: value, low and high, in narrow places as in wide ones."""
    for width in (60, 100):
        head, _, *lines = texts(whole, width)
        for part in Results(whole).numbers:
            texts_of = shown(part)
            (line,) = [line for line in lines if re.search(rf"\s{re.escape(texts_of[0])}(\s|$)", line)][:1]
            for heading, text in zip(("value", "low", "high"), texts_of, strict=False):
                end = head.index(heading) + len(heading)
                # Points are one above the other: shorter fractions end before the heading does.
                assert line[:end].rstrip().endswith(text), (width, part.variable)


@pytest.mark.parametrize("width", [80, 100, 400])
def test_ends_stay_beside_their_number(sliced: xr.Dataset, width: int) -> None:
    """Where columns do not fit there are several tables, each with the labels."""
    heads = [line.split() for line in texts(sliced, width) if line.startswith("country")]
    assert (len(heads) > 1) == (width < 400)
    ends = [[word for word in head if word in ("low", "high")] for head in heads]
    assert all(of == ["low", "high"] * (len(of) // 2) for of in ends)
    assert sum(map(len, ends)) == 2 * sum(part.has_interval for part in Results(sliced).shown)


def test_tables_that_nothing_fits_into_keep_their_numbers(whole: xr.Dataset) -> None:
    lines = texts(whole, 20)
    assert shown(Results(whole).variable("ece"))[0] in " ".join(lines).split()


def test_wide_labels_do_not_shift_columns(sliced: xr.Dataset) -> None:
    lines = texts(sliced, 100)
    first = [line for line in lines if line.startswith(("de ", "日本 "))]
    columns = {width_of(line[: line.index(".")]) for line in first[:4]}
    assert len(columns) == 1, "points are one above the other"


def test_labels_cannot_move_the_cursor() -> None:
    assert label_of("\x1b[2Jgone\n") == r"\x1b[2Jgone\n"
    assert label_of("日本語" * 20, 10) == "日本語..."


def test_slices_without_end_are_cut() -> None:
    rows = np.arange(MOST_SLICES + 100)
    result = cd.evaluate(rows % 2, np.full(len(rows), 0.5), cd.BrierScore(), by={"row": rows})
    lines = texts(result, 100)
    assert sum(line.endswith("0.25") for line in lines) == MOST_SLICES
    assert "... and 100 more slices" in lines
    assert "to_dataframe()" in repr(result.calib.table())
    assert result.calib.table()._repr_html_().count("<tr") < MOST_SLICES + 10
    assert len(result.calib.table().to_dataframe()) == len(rows)


def test_html_of_numbers(whole: xr.Dataset) -> None:
    rows = Cells(whole.calib.table()._repr_html_()).rows
    assert rows[0] == ["metric", "value", "low", "high", "meaning"]
    for row, part in zip(rows[1:], Results(whole).numbers, strict=True):
        value, *ends = shown(part)
        assert row == [part.variable, value, *(ends or ["", ""]), part.meaning]
    plain = cd.evaluate(LABELS, SCORES, cd.ECE()).calib.table()
    assert Cells(plain._repr_html_()).rows[0] == ["metric", "value", "meaning"]


def test_html_of_slices(sliced: xr.Dataset) -> None:
    rows = Cells(sliced.calib.table()._repr_html_()).rows
    assert rows[0][:9] == ["country", "day", "rows", "events", "mean score", "frequency", "ece", "low", "high"]
    result = {(row[0], row[1]): row[2:9] for row in rows[1:7]}
    here = sliced.sel(country="日本", day=2)
    assert result["日本", "2"][0] == str(int(here.rows))
    assert result["日本", "2"][4:] == shown(Results(here).variable("ece"))
    assert ["ece", str(sliced.ece.attrs["meaning"])] in rows


def test_texts_of_others_are_escaped() -> None:
    by = {"<b>": np.array(["<script>alert(1)</script>", "a|b*c"])[np.arange(ROWS) % 2]}
    table = cd.evaluate(LABELS, SCORES, cd.ECE(), by=by).calib.table()
    html = table._repr_html_()
    assert "<script" not in html
    assert Cells(html).rows[0][0] == "<b>"
    assert {"script", "b"}.isdisjoint(Cells(html).tags)
    (line,) = [line for line in table._repr_markdown_().splitlines() if "a\\|b" in line]
    assert "a\\|b\\*c" in line
    assert len(re.findall(r"(?<!\\)\|", line)) == 7
    assert "\\<script\\>" in table._repr_markdown_()


def test_markdown(whole: xr.Dataset) -> None:
    head, marks, first, *_, foot = whole.calib.table()._repr_markdown_().splitlines()
    assert head == "| metric | value | low | high | meaning |"
    assert marks == "| --- | --: | --: | --: | --- |"
    assert first.startswith(f"| ece | {' | '.join(shown(Results(whole).variable('ece')))} |")
    assert re.fullmatch(
        r"600 rows, \d+ events \(frequency 0\.\d+, mean score 0\.\d+\), 1 pass over the data, 90 % intervals of 5 "
        "replicates",
        foot,
    )


def test_data_frames(whole: xr.Dataset, sliced: xr.Dataset) -> None:
    frame = whole.calib.table().to_dataframe()
    assert frame.loc["ece", ["value", "low", "high"]].tolist() == [
        float(whole[name]) for name in ("ece", "ece_low", "ece_high")
    ]
    assert np.isnan(frame.loc["spiegelhalter_pvalue", "low"])
    frame = sliced.calib.table().to_dataframe()
    assert frame.index.names == ["country", "day"]
    assert frame.loc[("de", 1), "ece"] == float(sliced.ece.sel(country="de", day=1))


def test_printed_it_is_the_table_of_the_command_line(
    whole: xr.Dataset, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from calibdask.cli import main

    np.savez(tmp_path / "rows.npz", labels=LABELS, scores=SCORES)
    assert main(["evaluate", str(tmp_path / "rows.npz"), "--metric", "ece,brier-decomposition"]) == 0
    *lines, foot = capsys.readouterr().out.splitlines()
    *ours, rests = repr(cd.evaluate(LABELS, SCORES, [cd.ECE(), cd.BrierDecomposition()]).calib.table()).splitlines()
    assert lines == ours
    assert foot.startswith(f"{rests}, ")
    assert max(map(len, repr(whole.calib.table()).splitlines())) <= 100


def test_what_is_no_result_has_no_table() -> None:
    with pytest.raises(ValueError, match=r"expects a result of calibdask\.evaluate"):
        xr.Dataset({"ece": 0.1}).calib.table()


def test_curves_are_shown_at_some_points_and_diagrams_by_bin() -> None:
    curve = cd.evaluate(LABELS, SCORES, [cd.ReliabilityCurve(), cd.ReliabilityDiagram(bins=5)])
    curve = curve.drop_vars([name for name, values in curve.data_vars.items() if not values.ndim])
    lines = repr(curve.calib.table()).splitlines()
    assert lines[:2] == ["Reliability curve by score", "score  reliability  density"]
    # A line for each tenth of the scores, as the curve has them.
    for line, score in zip(lines[3:14], np.linspace(0, 1, 11), strict=True):
        at, reliability, _ = map(float, line.split())
        assert at == pytest.approx(score, abs=1e-9)
        assert reliability == pytest.approx(
            float(curve.reliability_curve_reliability.sel(reliability_curve_score=at, method="nearest")), abs=5e-3
        )
    assert "11 of 301 points; --out and --chart have all." in lines
    start = lines.index("Reliability diagram by bin")
    assert [line.split()[0] for line in lines[start + 3 : start + 8]] == ["0", "1", "2", "3", "4"]
    html, markdown = curve.calib.table()._repr_html_(), curve.calib.table().to_markdown()
    assert "600 rows" in html
    assert "Reliability diagram by bin" in html
    assert "**Reliability diagram by bin**" in markdown.splitlines()


def test_metrics_of_classes_show_the_worst_classes_first() -> None:
    rng = np.random.default_rng(8)
    scores = rng.dirichlet(np.ones(4), 3000)
    wrong = scores * [1, 1, 0.3, 1]
    wrong /= wrong.sum(1, keepdims=True)
    labels = (rng.random((3000, 1)) > wrong.cumsum(1)).sum(1)
    result = cd.evaluate(labels, scores, cd.MeanGap(setting="classwise"), ci=0.9, n_boot=20)
    lines = [joined(line) for line in result_lines(result, 100, classes=2)]
    assert lines[0] == "mean gap by class, the worst first"
    assert lines[1].split() == ["class", "mean", "gap", "low", "high", "score", "outcome"]
    assert lines[3].split()[0] == "2"
    assert len([line for line in lines[3:] if line[:1].isdigit()]) == 2
    assert lines[-1].endswith("shown are not adjusted.")


def test_headings_are_whole_words() -> None:
    metrics = {"ece_lo": cd.ECE(bins=5), "error_of_calibration": cd.ECE()}
    head = texts(cd.evaluate(LABELS, SCORES, metrics, by={"day": BY["day"]}), 100)
    assert [line.split() for line in head[:2]] == [
        ["mean", "error", "of"],
        ["day", "rows", "events", "score", "frequency", "ece", "lo", "calibration"],
    ]


def test_slices_of_confidence_count_right_predictions() -> None:
    scores = np.tile([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]], (10, 1))
    table = repr(cd.evaluate(np.arange(20) % 2, scores, cd.ECE(), by={"half": np.arange(20) // 10}).calib.table())
    assert table.splitlines()[0].split() == ["half", "rows", "right", "mean", "confidence", "accuracy", "ece"]

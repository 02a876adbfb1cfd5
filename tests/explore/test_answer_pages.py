"""The views of decisions and of recalibration without a browser: what they answer, and that it is what rows tell."""

import json
import re
import shlex
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli import main
from calibdask.explore.summaries.answer_page import AnswerPage
from calibdask.explore.summaries.page import SummaryPage
from calibdask.explore.summaries.pool import Pool
from calibdask.storage.open_store import open_store
from calibdask.storage.writers import write_dataset
from tests.explore.shown_page import ShownPage

# Bokeh calls pandas so.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index")


def rows(n: int = 20_000, slope: float = 0.6) -> tuple[Any, Any, Any]:
    """Labels, scores and countries; with a slope of 1 on logits scores are calibrated."""
    rng = np.random.default_rng(1)
    logits = rng.normal(-1, 2.5, n)
    labels = (rng.random(n) < 1 / (1 + np.exp(-slope * logits))).astype(int)
    return labels, 1 / (1 + np.exp(-logits)), rng.choice(["be", "fr"], n)


def rows_with_a_slice_that_is_off() -> tuple[Any, Any, Any]:
    """Calibrated scores, but those of one country in a hundred rows: no map of all rows helps."""
    labels, scores, country = rows(slope=1.0)
    rare = np.arange(len(scores)) % 50 == 0
    labels[rare] = np.random.default_rng(2).random(rare.sum()) < scores[rare] ** 2
    return labels, scores, np.where(rare, "be", np.where(country == "be", "nl", country))


@pytest.fixture(scope="module")
def summary() -> xr.Dataset:
    labels, scores, country = rows()
    return cd.summarize(labels, scores, by={"country": country})


def page_of(summary: Any, view: str) -> tuple[SummaryPage, ShownPage, AnswerPage]:
    made = SummaryPage(Pool(summary), "s.zarr")
    made.view.value = view
    return made, ShownPage(made.page(), made.widgets), made.answers[view]


def lines(page: ShownPage) -> list[str]:
    return [unescape(line) for line in re.findall('<p class="line">(.*?)</p>', page.text)]


def test_decisions_begin_with_what_may_go_out_and_what_scores_gain(summary: xr.Dataset) -> None:
    labels, scores, country = rows()
    made, page, view = page_of(summary, "decisions")
    page.choose(risk=15.0, act=0.5)
    found = cd.threshold(labels, scores, risk=0.15)
    assert np.isfinite(found.threshold)
    unseen, gain = lines(page)
    assert unseen == found.sentence.item()
    # The gain over acting on none is the net benefit itself.
    benefit = cd.evaluate(labels, scores, {"b": cd.NetBenefit(thresholds=[0.5])}, ci=0.95)
    value, low, high = (float(benefit[f"b_model{end}"][0]) for end in ("", "_low", "_high"))
    assert gain.startswith(f"Acting on scores above 50 % gains a net benefit of {value:.4f} per row ")
    assert f"({low:.4f} to {high:.4f}) over acting on none" in gain
    assert page.text.count("<svg class=") == 2
    assert {"risk_risk", "benefit_model"} <= {*view.frame().columns}
    # Of a slice, with another risk.
    made.first.choose({"country": 0})
    page.choose(risk=20.0)
    own = country == "be"
    assert lines(page)[0] == cd.threshold(labels[own], scores[own], risk=0.2).sentence.item()
    page.choose(risk=0.2)
    assert lines(page)[0].startswith("No threshold qualifies")


def test_gains_over_acting_on_all_have_the_interval_of_a_mean_of_rows(summary: xr.Dataset) -> None:
    labels, scores, _ = rows()
    _, page, _ = page_of(summary, "decisions")
    page.choose(act=0.05)
    odds = 0.05 / 0.95
    worth = np.where(scores > 0.05, 0.0, np.where(labels == 1, -1.0, odds))
    text = lines(page)[1]
    value, low, high = (float(word.replace("−", "-")) for word in re.findall(r"−?\d\.\d{4}", text))
    assert value == pytest.approx(worth.mean(), abs=5.1e-5)
    assert high - low == pytest.approx(2 * 1.96 * worth.std() / len(worth) ** 0.5, rel=0.05, abs=1e-4)
    assert "acting on all" in text


def test_recalibration_is_that_of_the_rows_and_the_command_makes_its_map(
    summary: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels, scores, _ = rows()
    write_dataset(summary, tmp_path / "my scores.zarr")
    monkeypatch.chdir(tmp_path)
    _, page, view = page_of(open_store("my scores.zarr"), "recalibration")
    (line,) = lines(page)
    assert line.startswith("Yes, recalibration would remove ")
    assert "PlattScaling lowers the log loss by " in line
    told, known = (
        view.frame().set_index("calibrator").loc["PlattScaling"],
        cd.evaluate(labels, scores, cd.Refinement(), ci=0.95),
    )
    low, high = float(known.refinement_calibration_low), float(known.refinement_calibration_high)
    # Other folds, and scores of cells.
    assert told.improvement == pytest.approx(float(known.refinement_calibration), abs=0.05 * (high - low))
    assert told.improvement_high - told.improvement_low == pytest.approx(high - low, rel=0.03)
    make, _apply = (unescape(command) for command in re.findall("<code>(.*?)</code>", page.text))
    words = shlex.split(make)
    assert words[0] == "calibdask"
    assert main(words[1:]) == 0
    stored = cd.Calibrator.from_dict(json.loads(Path("map.json").read_text()))
    assert stored.to_dict() == cd.PlattScaling().fit(summary).to_dict()
    page.choose(a_country=[0])
    assert "--by country --method platt --out map.json" in page.text


def test_commands_of_one_of_several_models_give_what_is_shown(
    summary: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, scores, country = rows()
    other = cd.summarize(labels, scores**1.2, by={"country": country})
    both = xr.concat([summary, other], "model", data_vars="all").assign_coords(model=["old", "new"])
    write_dataset(both, tmp_path / "two.zarr")
    monkeypatch.chdir(tmp_path)
    made, page, _ = page_of(open_store("two.zarr"), "recalibration")
    page.choose(a_model=1)
    (make, _apply) = (unescape(command) for command in re.findall("<code>(.*?)</code>", page.text))
    assert main(shlex.split(make)[1:]) == 0
    stored = json.loads(Path("map.json").read_text())
    at = stored["slices"]["labels"][0].index("new")
    of_new = cd.PlattScaling().fit(other)
    assert stored["numbers"]["coef"][at] == of_new.to_dict()["numbers"]["coef"][0]
    page.choose(view="decisions", risk=15.0)
    for selected in ({}, {"country": 0}):
        made.first.choose(selected)
        (again,) = (unescape(code) for code in re.findall("<code>(.*?)</code>", page.text))
        assert eval(again, {"cd": cd}).sentence.item() == lines(page)[0]
    # Of one model, and all rows, at the shell.
    write_dataset(other, tmp_path / "one.zarr")
    _, page, _ = page_of(open_store("one.zarr"), "decisions")
    page.choose(risk=15.0)
    (again,) = (unescape(code) for code in re.findall("<code>(.*?)</code>", page.text))
    capsys.readouterr()
    assert main(shlex.split(again)[1:]) == 0
    assert " ".join(capsys.readouterr().out.split()).startswith(lines(page)[0])


def test_calibrated_scores_are_left_as_they_are() -> None:
    labels, scores, country = rows(slope=1.0)
    _, page, view = page_of(cd.summarize(labels, scores), "recalibration")
    (line,) = lines(page)
    assert line.startswith("No: leave the scores as they are. No single map for all rows is significantly better: ")
    assert "calibdask calibrate" not in page.text
    assert not view.offer.visible
    # Slices that are no worse are said to be none.
    _, page, view = page_of(cd.summarize(labels, scores, by={"country": country}), "recalibration")
    assert lines(page)[1] == (
        "No slice is significantly miscalibrated on average (95 % interval, adjusted for 2 slices by country)."
    )
    assert not view.offer.visible


def test_a_slice_that_is_off_is_named_and_can_be_selected() -> None:
    labels, scores, country = rows_with_a_slice_that_is_off()
    made, page, view = page_of(cd.summarize(labels, scores, by={"country": country}), "recalibration")
    assert lines(page)[0].startswith("No: leave the scores as they are.")
    own = country == "be"
    gap = cd.evaluate(labels[own], scores[own], {"gap": cd.MeanGap()}, ci=1 - 0.05 / 3)
    low, high = (f"{-100 * float(gap[f'gap_{end}']):.1f}" for end in ("high", "low"))
    assert lines(page)[1] == (
        f"But a slice is miscalibrated: country be, scores {-100 * float(gap.gap):.1f} points too high ({low} to "
        f"{high}), 95 % "
        "interval, adjusted for 3 slices by country."
    )
    assert (view.offer.visible, view.offer.label) == (True, "Select country be")
    view.offer.param.trigger("clicks")
    assert made.first.selection().slices == (("country", (0,)),)
    assert lines(page)[0].startswith("Yes, recalibration would remove ")
    assert not view.offer.visible


def test_numbers_of_one_column_have_the_same_digits(summary: xr.Dataset) -> None:
    _, page, _ = page_of(summary, "recalibration")
    heads = re.findall('<th role="columnheader" scope="col" class="number">(.*?)</th>', page.text)
    assert heads[-2:] == ["95 % interval, alone", "p, adjusted for 3 calibrators"]
    body = page.text.partition("calibrator</th>")[2]
    rows_of = [
        [re.sub("<.*?>", "", cell) for cell in re.findall(r"<td.*?>(.*?)</td>", row)]
        for row in re.findall('<tr role="row">(.*?)</tr>', body, re.DOTALL)
    ]
    for column in ("improvement", "95 % interval, alone"):
        cells = [row[heads.index(column)] for row in rows_of[1:]]
        numbers = [number for cell in cells for number in cell.split(" to ")]
        assert all(re.fullmatch(r"[+−]0\.\d+", number) for number in numbers)
        assert len({len(number) for number in numbers}) == 1
    # Losses before and after have as many digits as what is taken away.
    (words,) = re.findall(r"by ([\d.]+) \(.*?\), from ([\d.]+) to ([\d.]+)", lines(page)[0])
    assert len({len(number) for number in words}) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"n": 3}, "These rows do not show whether a calibrator helps"),
        ({"n": 0}, "it expects data to which a calibrator can be fitted"),
        ({"weights": 2.0}, "which a weighted summary lacks"),
    ],
)
def test_it_refuses_where_nothing_can_be_told(given: dict[str, Any], told: str) -> None:
    labels, scores, _ = rows(300)
    events = np.flatnonzero(labels)[given.get("n", len(labels)) :]
    kept = np.setdiff1d(np.arange(len(labels)), events)
    weights = None if "weights" not in given else np.linspace(1, given["weights"], len(labels))
    _, page, _ = page_of(cd.summarize(labels[kept], scores[kept], sample_weight=weights), "recalibration")
    (line,) = lines(page)
    assert line.startswith("It is unknown whether recalibration would help")
    assert told in line
    assert "<svg" not in page.text


def test_many_classes_are_answered_one_score_at_a_time() -> None:
    rng = np.random.default_rng(2)
    scores = rng.dirichlet([0.3] * 3, 5000)
    labels = (rng.random((5000, 1)) > scores.cumsum(1)).sum(1).clip(max=2)
    made, page, _ = page_of(cd.summarize(labels, scores), "decisions")
    assert lines(page) == [cd.threshold(labels, scores).sentence.item()]
    assert not made.widgets["act"].visible
    page.choose(setting=1)
    assert lines(page)[1].startswith("Acting on scores above 20 % gains")
    page.choose(setting="classwise", view="recalibration")
    assert lines(page) == ["This page is about one score at a time: choose the confidence or a class as Setting."]
    page.choose(setting="confidence")
    assert lines(page)[0].startswith("No: leave the scores as they are.")


@pytest.mark.parametrize("has_slices", [False, True])
def test_what_a_summary_lacks_is_said(has_slices: bool) -> None:
    labels, scores, country = rows(2000)
    by = {"country": country} if has_slices else None
    _, page, _ = page_of(cd.summarize(labels, scores, by=by, settings=["binary"]), "decisions")
    unseen, gain = lines(page)
    assert unseen.startswith("It is unknown which predictions can be accepted: ")
    assert "summarize the data with that setting as well" in unseen
    assert "cting on scores above 20 %" in gain
    assert page.text.count("<svg class=") == 1


def rare_rows() -> tuple[Any, Any]:
    """Clicks at half a per cent, 30 % more than predicted."""
    rng = np.random.default_rng(5)
    scores = np.exp(rng.normal(-5.6, 0.6, 150_000)).clip(max=0.15)
    return (rng.random(scores.size) < (1.3 * scores)).astype(int), scores


def test_rare_outcomes_are_acted_on_near_their_rate() -> None:
    labels, scores = rare_rows()
    _, page, _ = page_of(cd.summarize(labels, scores), "decisions")
    accepting, acting = lines(page)
    assert accepting.startswith("All predictions can be accepted without review, with no threshold on the confidence")
    assert accepting == cd.threshold(labels, scores).sentence.item()
    assert "cting on scores above 0.5 %" in acting
    page.choose(act=0.2)
    assert lines(page)[1] == (
        "No row has a score above 20 %, so the scores cannot show a benefit there; the observed rate is "
        f"{100 * labels.mean():.3g} %: choose a threshold near it, such as 0.5 %."
    )


def test_a_bias_is_said_where_no_map_is_shown_to_help(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, scores = rare_rows()
    monkeypatch.setattr("calibdask.explore.summaries.recalibration_answer.MOST_ROWS", 20_000)
    _, page, _ = page_of(cd.summarize(labels, scores), "recalibration")
    (line,) = lines(page)
    assert line.startswith("The comparison is undecided on ")
    assert "of the 150,000 rows, drawn at random, but over all rows the scores are 0.0" in line
    assert "points too low" in line


def test_no_is_not_said_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, scores, _ = rows(slope=1.0)
    monkeypatch.setattr("calibdask.explore.summaries.recalibration_answer.MOST_ROWS", 5_000)
    _, page, _ = page_of(cd.summarize(labels, scores), "recalibration")
    assert lines(page)[0].startswith("Undecided on ")

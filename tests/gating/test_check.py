"""Gates: what is met, broken, or cannot be decided."""

import json
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import scipy

import calibdask as cd
from calibdask.analyses.gating.gate import headline, interval_text, plain, sentence, value_text
from calibdask.analyses.gating.judging import Judgement
from calibdask.analyses.gating.profiles import PROFILES
from calibdask.render.junit import junit
from calibdask.testing import assert_calibrated
from tests.combinations import rotated


def _rows(n: int = 8000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    scores, country = rng.random(n), rng.choice(["at", "fr"], n)
    labels = rng.random(n) < np.where(country == "fr", scores**1.5, scores)
    return pd.DataFrame({"label": labels.astype(int), "score": scores, "country": country})


def test_limits_are_met_broken_and_undecided() -> None:
    frame = _rows()
    gate = cd.check(frame, limits={"ece": 0.2, "mean-gap": (-0.1, 0.1)}, slice_limits={"ece": 0.04}, by="country")
    assert gate.outcome == "broken"
    assert {judgement.place: judgement.outcome for judgement in gate.judgements if judgement.most == 0.04} == {
        "country=at": "met",
        "country=fr": "broken",
    }
    assert [judgement.outcome for judgement in gate.judgements[:2]] == ["met", "met"]
    assert cd.check(frame.head(100), limits="ece=0.05").outcome == "cannot be decided"


def test_the_numbers_are_those_of_evaluate() -> None:
    frame = _rows()
    gate = cd.check(frame, limits={"ece(bins=10)": 0.2, "brier-score": 0.3}, n_boot=200, profile="forecast")
    result = cd.evaluate(frame, metrics=[cd.ECE(bins=10), cd.BrierScore()], ci=0.95, n_boot=400)
    ece, brier = gate.judgements
    assert ece.value == result.ece.item()
    assert brier.value == result.brier_score.item()
    # Ends that allow for losses that did not occur are a little further off.
    assert brier.low == pytest.approx(result.brier_score_low.item(), abs=0.001)
    assert brier.high == pytest.approx(result.brier_score_high.item(), abs=0.001)
    # The ends that decide are no narrower than those of the replicates.
    assert ece.low <= result.ece_low.item()
    assert "corp_discrimination" in gate.result


def test_slices_are_judged_together() -> None:
    """Each at a level for all of them."""
    frame = _rows()
    frame["half"] = np.arange(len(frame)) % 2
    alone = cd.check(frame[frame.half == 0], limits="mean-gap=0.2").judgements[0]
    together = cd.check(frame, slice_limits="mean-gap=0.2", by="half").judgements[0]
    assert together.value == alone.value
    assert together.low < alone.low < alone.high < together.high


def test_without_slice_limits_those_of_all_rows_count() -> None:
    gate = cd.check(_rows(), limits="ece=0.2", by="country")
    assert [judgement.place for judgement in gate.judgements] == ["all rows", "country=at", "country=fr"]


def test_not_worse_than_a_baseline() -> None:
    frame = _rows()
    labels, scores = frame.label.to_numpy(), frame.score.to_numpy()
    worse = cd.check(labels, scores**3, not_worse={"log-loss(clip=0.001)": 0.001}, baseline=scores)
    better = cd.check(labels, scores, not_worse={"log-loss(clip=0.001)": 0.001}, baseline=scores**3)
    assert (worse.outcome, better.outcome) == ("broken", "met")
    assert worse.judgements[0].value == pytest.approx(-better.judgements[0].value)
    unbounded = cd.check(labels, scores, not_worse={"log-loss": 0.001}, baseline=scores**3)
    assert unbounded.outcome == "cannot be decided"
    assert "log-loss(clip=0.001)" in unbounded.judgements[0].reason


def test_a_summary_is_judged_alike() -> None:
    frame = _rows()
    summary = cd.summarize(frame.label, frame.score, by={"country": frame.country}, settings=["binary"])
    of_rows = cd.check(frame, limits="ece=0.05", by="country")
    of_summary = cd.check(summary, limits="ece=0.05", by="country")
    for one, other in zip(of_rows.judgements, of_summary.judgements, strict=True):
        assert (one.place, one.outcome) == (other.place, other.outcome)
        assert one.value == pytest.approx(other.value, rel=1e-9)


@pytest.mark.parametrize("events", [0, 1, 15])
def test_thirty_rows_are_never_met(events: int) -> None:
    rng = np.random.default_rng(1)
    labels, scores = (np.arange(30) < events).astype(int), np.full(30, events / 30 if events else 0.001)
    scores = np.clip(scores + rng.normal(0, 1e-4, 30), 0, 1)
    assert cd.check(labels, scores, {"ece": 0.03, "mean-gap": 0.03}).outcome == "cannot be decided"


@pytest.mark.filterwarnings("ignore:1 of 1 columns")
@pytest.mark.parametrize("limit", ["ici=0.03", "skce=0.01", "atb=0.01", "corp.miscalibration=0.03", "brier-score=0.05"])
def test_intervals_of_replicates_decide_nothing_with_few_events(limit: str) -> None:
    """Replicates of rows of which none has an event know nothing of events."""
    rng = np.random.default_rng(2)
    scores = rng.uniform(0.001, 0.01, 400)
    (none,) = cd.check(np.zeros(400, int), scores, limit, n_boot=100).judgements
    assert (none.outcome, none.reason) == ("cannot be decided", "fewer than 20 events, or rows without one")
    (five,) = cd.check((np.arange(400) < 5).astype(int), scores, limit, n_boot=100).judgements
    assert (five.outcome, five.rows_needed) == ("cannot be decided", 1600)


def test_the_mean_gap_of_few_events_has_exact_ends() -> None:
    scores = np.full(1000, 0.004)
    gate = cd.check((np.arange(1000) < 3).astype(int), scores, {"mean-gap": 0.02})
    (gap,) = gate.judgements
    assert gap.outcome == "met"
    assert gap.low == pytest.approx(scipy.stats.beta.ppf(0.025, 3, 998) - 0.004)
    # That of the score interval is larger by one hundredth.
    assert gap.high == pytest.approx(scipy.stats.beta.ppf(0.975, 4, 997) - 0.004, rel=0.01)
    assert gap.high > scipy.stats.beta.ppf(0.975, 4, 997) - 0.004


def test_a_baseline_of_few_events_decides_nothing() -> None:
    scores = np.linspace(0.001, 0.01, 400)
    gate = cd.check(np.zeros(400, int), scores, not_worse={"brier-score": 0.5}, baseline=scores**2)
    assert gate.outcome == "cannot be decided"


@pytest.mark.parametrize(("name", "kind"), rotated(PROFILES, ["weights", "vector", "matrix"], 1))
def test_every_number_of_a_profile_is_there(name: str, kind: str) -> None:
    frame = _rows(600)
    scores = frame.score.to_numpy()
    given = np.column_stack([1 - scores, scores]) if kind == "matrix" else scores
    weights = np.linspace(1, 2, 600) if kind == "weights" else None
    gate = cd.check(frame.label, given, "ece=0.2", profile=name, sample_weight=weights, n_boot=20)
    named = [one.name for one in PROFILES[name].numbers(gate.result)]
    missing = [of for names in PROFILES[name].names.values() for of in names.values() if not _begins(of, named)]
    unweighted = PROFILES["credit"].names["grade-tests"].values()
    assert set(missing) == (set(unweighted) if (name, kind) == ("credit", "weights") else set())
    assert all(line.isprintable() for line in repr(gate).splitlines())


def _begins(name: str, names: list[str]) -> bool:
    """Itself, or followed by the place on a curve or the class."""
    return any(one == name or one.removeprefix(f"{name} ")[0].isdigit() for one in names)


def test_a_profile_alone_decides_nothing() -> None:
    gate = cd.check(_rows(200), profile="clinical", n_boot=20)
    assert gate.judgements == ()
    assert gate.outcome == "cannot be decided"
    assert headline(gate) == "No limits: nothing is decided of 200 rows."
    assert "ici_ici" in gate.result


def test_credit_tests_the_grades_of_each_slice() -> None:
    gate = cd.check(_rows(), limits="ece=0.2", by="country", profile="credit", n_boot=50)
    (by_country,) = gate.slices.values()
    assert by_country["grade-tests_jeffreys"].sizes == {"country": 2}


def test_a_limit_that_is_the_truth_is_hardly_ever_met() -> None:
    """Of 200 samples of a model that is off by 0.05 everywhere, at most 2.5 % are within 0.05, and few are beyond."""
    met = broken = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        scores = rng.uniform(0.1, 0.8, 300)
        gate = cd.check(rng.random(300) < scores + 0.05, scores, {"mean-gap": 0.05}, n_boot=50)
        met, broken = met + (gate.outcome == "met"), broken + (gate.outcome == "broken")
    assert met <= 11
    assert broken <= 11


def test_what_is_refused() -> None:
    frame = _rows(200)
    refused: list[tuple[dict[str, Any], str]] = [
        ({}, "check expects limits"),
        ({"limits": "corp.nothing=1"}, "has no number 'corp.nothing'"),
        ({"limits": "spiegelhalter-test.pvalue=0.05"}, "no interval"),
        ({"limits": "reliability-diagram.outcome=0.1"}, "several numbers"),
        ({"limits": "ece=0.1", "profile": "poetry"}, "profile expects one of"),
        ({"slice_limits": "ece=0.1"}, "give by too"),
        ({"not_worse": "log-loss=0.1"}, "require each other"),
    ]
    for options, said in refused:
        with pytest.raises(ValueError, match=said):
            cd.check(frame, **options)


def test_formats() -> None:
    gate = cd.check(_rows(), limits={"ece": 0.2}, slice_limits={"ece": 0.04}, by="country")
    assert headline(gate) == "Broken: 1 of 3 limits, with 8,000 rows."
    lines = repr(gate).splitlines()
    assert lines[4].split()[:5] == ["ece", "of", "the", "bins", "country=fr"]
    text = gate.document("a|b").to_markdown()
    assert "a\\|b" in text
    assert "❌ broken" in text.splitlines()[6]
    document = json.loads(json.dumps(plain(gate), allow_nan=False))
    assert (document["outcome"], document["limits"][0]["decision"]) == ("broken", "met")
    root = ElementTree.fromstring(junit(gate.document("model")))
    assert root.attrib["failures"] == "1"
    (failure,) = root.iter("failure")
    assert failure.attrib["message"] == sentence(gate.of("broken")[0])


def test_assertions_read_well() -> None:
    frame = _rows()
    fair = frame[frame.country == "at"]
    assert_calibrated(fair.label, fair.score, limit=0.05, n_boot=100)
    with pytest.raises(AssertionError, match=r"(?s)not calibrated within 0.03 at 95 % confidence:\n  all rows: ece"):
        assert_calibrated(frame.label, frame.score, limit=0.03, n_boot=100)
    with pytest.raises(
        AssertionError, match=r"(?s)not shown to be calibrated.*a calibrated model needs about [\d,]+ rows in all"
    ):
        cd.testing.assert_calibrated(fair.label[:50], fair.score[:50], limit=0.03, n_boot=100)
    # Those that are certainly off come first, and few of very many.
    slices = np.arange(len(fair)) % 40
    score = np.where(slices == 33, 1 - fair.score, fair.score)
    with pytest.raises(AssertionError) as raised:
        assert_calibrated(fair.label, score, limit=0.1, by={"g": slices}, n_boot=20)
    first, *lines = str(raised.value).splitlines()
    assert first.startswith("scores are not calibrated within 0.1")
    assert lines[0].startswith("  g=33: ece ")
    assert len(lines) == 11
    assert lines[-1].endswith(" more of 41")


@pytest.mark.parametrize("profile", ["default", "clinical", "credit", "ads", "forecast", "ml"])
def test_profiles_of_a_summary_with_wide_cells(profile: str) -> None:
    """Its own grid serves the metrics of a profile as well."""
    rng = np.random.default_rng(3)
    scores = rng.random(2000)
    labels = (rng.random(2000) < scores).astype(int)
    gates = [
        cd.check(cd.summarize(labels, scores, step=step), limits={"ece": 0.2}, profile=profile)
        for step in (0.01, 0.001)
    ]
    assert [gate.outcome for gate in gates] == ["met", "met"]
    assert {*gates[0].result} == {*gates[1].result}


@pytest.mark.parametrize("profile", ["default", "clinical", "credit", "ads", "forecast", "ml"])
def test_profiles_with_slices_need_no_limits(profile: str) -> None:
    rng = np.random.default_rng(4)
    scores = rng.random(600)
    labels = (rng.random(600) < scores).astype(int)
    gate = cd.check(labels, scores, {}, profile=profile, by={"sex": rng.choice(["f", "m"], 600)}, n_boot=10)
    assert not gate.judgements
    assert {*gate.slices} == ({"sex"} if profile in ("credit", "ads") else set())


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ((0.04, 0.0301, 0.0504), "0.0301 to 0.0504"),
        ((0.04, 0.0201, 0.0604), "0.020 to 0.060"),
        ((0.04964, 0.0201, 0.0804), "0.0201 to 0.0804"),
    ],
)
def test_ends_are_shown_on_their_side_of_the_limit(numbers: tuple[float, float, float], shown: str) -> None:
    """Digits follow the interval, unless an end would be shown at the limit, or beyond it."""
    judgement = Judgement("ece", -0.05, 0.05, {}, *numbers)
    assert interval_text(judgement) == shown
    assert value_text(judgement) != "0.050"

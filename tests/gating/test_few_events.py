"""Gates decide on events that were counted, and allow for losses that did not occur."""

from typing import Any

import numpy as np
import pytest
from scipy import special

import calibdask as cd
from calibdask.analyses.gating.gate import plain
from calibdask.analyses.gating.judging import Judgement
from calibdask.render.junit import junit

UNDECIDED = "cannot be decided"


def judged(labels: Any, scores: Any, limits: Any, **options: Any) -> Judgement:
    (judgement,) = cd.check(labels, scores, limits, n_boot=200, **options).judgements
    return judgement


@pytest.mark.parametrize("limit", ["observed-expected=0..1000", "brier-score=0.9", "mean-gap=0.9", "ece=0.9"])
def test_events_are_counted_whatever_they_weigh(limit: str) -> None:
    labels, scores = (np.arange(1000) < 10).astype(int), np.linspace(0.005, 0.015, 1000)
    weights = np.where(labels == 1, 100.0, 1.0)
    judgement = judged(labels, scores, limit, sample_weight=weights)
    assert judgement.outcome == UNDECIDED
    assert "fewer than 20 events" in judgement.reason
    assert judgement.rows_needed == 2000
    many = (np.arange(1000) < 40).astype(int)
    assert judged(many, scores, limit, sample_weight=np.where(many == 1, 100.0, 1.0)).outcome == "met"


def test_events_of_which_one_weighs_most_are_few() -> None:
    labels, scores = (np.arange(1000) < 40).astype(int), np.linspace(0.005, 0.015, 1000)
    weights = np.ones(1000)
    weights[0] = 1000.0
    judgement = judged(labels, scores, "observed-expected=0..100", sample_weight=weights)
    assert judgement.outcome == UNDECIDED
    assert "equal weight" in judgement.reason


def test_events_are_those_of_the_class_that_a_metric_is_about() -> None:
    rng = np.random.default_rng(0)
    scores = rng.dirichlet([5, 5, 0.1], 1000)
    labels = np.where(np.arange(1000) < 5, 2, np.arange(1000) % 2)
    assert judged(labels, scores, "observed-expected(setting=2)=0..100").outcome == UNDECIDED
    assert judged(labels, scores, "observed-expected(setting=1)=0..100").outcome == "met"


def test_a_log_loss_without_a_bound_is_never_decided() -> None:
    rng = np.random.default_rng(1)
    scores = rng.random(2000)
    labels = (rng.random(2000) < scores).astype(int)
    for limit, bounded in {
        "log-loss=5": "log-loss(clip=0.001)",
        "log-loss=0.01": "log-loss(clip=0.001)",
        "log-loss-decomposition.score=5": "log-loss(clip=0.001)",
        "normalized-entropy=5": "normalized-entropy(clip=1e-6)",
        "log-skill-score=0.5..1": "log-skill-score(clip=1e-6)",
        "refinement=5": "refinement(rule=brier)",
    }.items():
        judgement = judged(labels, scores, limit)
        assert judgement.outcome == UNDECIDED
        assert judgement.reason.endswith(f"such as {bounded}")
    for limit, outcome in {
        "log-loss(clip=0.001)=1": "met",
        "log-loss(clip=0.001)=0.1": "broken",
        "normalized-entropy(clip=1e-6)=0.9": "met",
        "normalized-entropy(clip=1e-6)=0.5": "broken",
        "log-skill-score(clip=1e-6)=0.1..1": "met",
        "log-skill-score(clip=1e-6)=0.5..1": "broken",
        "refinement(rule=brier)=1": "met",
    }.items():
        assert judged(labels, scores, limit).outcome == outcome


def test_losses_that_did_not_occur_may_be_there() -> None:
    """Certain scores, all of them right: up to 3.7 of 1000 rows may be wrong."""
    labels = np.arange(1000) % 2
    scores = np.where(labels == 1, 0.9999, 0.0001)
    of_base_rates = np.log(2)
    ratio = f"normalized-entropy(clip=0.001)={0.02 / of_base_rates}"
    for limit in ("brier-score=0.003", "log-loss(clip=0.001)=0.02", ratio):
        assert judged(labels, scores, limit).outcome == UNDECIDED
    assert judged(labels, scores, "brier-score=0.004").outcome == "met"
    reach = 1 - 0.025 ** (1 / 1000)
    assert judged(labels, scores, "brier-score=0.004").high == pytest.approx(reach, rel=0.01)


def test_slopes_that_rest_on_clipped_logits_are_undecided_on_every_surface() -> None:
    rng = np.random.default_rng(3)
    logits = rng.normal(-1, 1.5, 400)
    scores = np.round(20 * special.expit(logits)) / 20
    labels = (rng.random(400) < special.expit(0.4 + 0.6 * logits)).astype(int)
    assert np.isin(scores, (0, 1)).any()
    gate = cd.check(labels, scores, "calibration-slope.slope=0.2..1.2", profile="clinical")
    assert gate.outcome == UNDECIDED
    assert "exactly 0 or 1" in gate.judgements[0].reason
    pages = (
        text_lines_of(gate),
        gate.document("x").to_markdown(),
        junit(gate.document("x")),
        "".join(plain(gate)["cautions"]),
    )
    for page in pages:
        assert "calibration slope: scores of exactly 0 or 1" in page.replace("\\", "")
    inside = np.clip(scores, 1 / 800, 1 - 1 / 800)
    assert cd.check(labels, inside, "calibration-slope.slope=0.2..1.2").outcome == "met"


def test_slices_have_their_cautions_too() -> None:
    labels, scores, by = np.arange(200) % 2, np.full(200, 0.5), np.repeat([0, 1], 100)
    labels[by == 1] = 0
    gate = cd.check(labels, scores, slice_limits={"mce": 0.9}, by={"g": by}, n_boot=50)
    assert [one.outcome for one in gate.judgements] == ["met", UNDECIDED]
    assert "By g: MCE, 15 bins: where all outcomes are equal (1 of 2) there is no interval." in text_lines_of(gate)


def text_lines_of(gate: Any) -> str:
    return " ".join(repr(gate).split())

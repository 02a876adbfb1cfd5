"""Ends of weighted rows: none where the weight of the other outcome is unknown, and limits without a bound."""

from typing import Any

import numpy as np
import pytest

import calibdask as cd

METRICS = {
    "gap": cd.MeanGap(),
    "ratio": cd.ObservedExpected(),
    "benefit": cd.NetBenefit(thresholds=(0.1,)),
    "murphy": cd.MurphyCurve(thresholds=(0.1,)),
    "curve": cd.RiskCoverageCurve(points=4),
}


@pytest.mark.parametrize("weighted", [False, True])
def test_weighted_rows_of_one_outcome_have_no_ends_by_formulas(weighted: bool) -> None:
    scores = np.linspace(0.01, 0.2, 80)
    labels = np.zeros(80, int)
    weights = np.ones(80) if weighted else None
    result = cd.evaluate(labels, scores, METRICS, ci=0.9, sample_weight=weights)
    ends = [result[name] for name in result if str(name).endswith(("_low", "_high"))]
    assert ends
    assert all(np.isnan(end).all() == weighted for end in ends)
    assert ("no_interval" in result["gap"].attrs) == weighted
    labels[0] = 1
    result = cd.evaluate(labels, scores, METRICS, ci=0.9, sample_weight=weights)
    assert all(np.isfinite(result[name]).all() for name in result if str(name).endswith(("_low", "_high")))


def test_the_risk_of_equal_weights_has_the_ends_of_rows() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(200)
    labels = rng.random(200) < scores
    metric = {"x": cd.RiskCoverageCurve(points=5)}
    plain, weighted = (cd.evaluate(labels, scores, metric, ci=0.9, sample_weight=w) for w in (None, np.full(200, 3.0)))
    for end in ("x_risk_low", "x_risk_high"):
        np.testing.assert_allclose(weighted[end], plain[end], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("limit", [{"normalized-entropy": "..1.0"}, {"log-skill-score": "0.0.."}])
def test_limits_on_relative_log_losses_are_undecided(limit: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    scores = rng.random(1000)
    gate = cd.check(rng.random(1000) < scores, scores, limit, n_boot=50)
    assert gate.judgements[0].outcome == "cannot be decided"
    assert "no bound" in gate.judgements[0].reason

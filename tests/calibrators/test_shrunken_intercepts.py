"""Intercepts of many small slices: shrunk as gaps are, equal from rows and summaries, stored and applied."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special

import calibdask as cd
from calibdask.calibrators.map_table import MapTable, shrunken_notes
from calibdask.calibrators.mapping import RowMap
from calibdask.cli import main

SLICES = 60


def rows() -> tuple[Any, Any, Any, Any]:
    """Outcomes, scores and slices of 5 to 80 rows, and the intercepts of the slices; one slice has no events."""
    rng = np.random.default_rng(0)
    campaign = np.repeat(np.arange(SLICES), rng.integers(5, 80, SLICES))
    score, effect = rng.uniform(0.05, 0.4, campaign.size), rng.normal(0, 0.6, SLICES)
    outcome = rng.random(campaign.size) < special.expit(special.logit(score) + effect[campaign])
    return (outcome & (campaign != 7)).astype(int), score, campaign, effect


def by_hand(logit: Any, outcome: Any, campaign: Any) -> Any:
    """Penalised quasi-likelihood with the variance of Paule & Mandel, slice by slice."""
    intercepts = np.zeros(SLICES)
    for _ in range(60):
        working, noise = np.empty((2, SLICES))
        for k in range(SLICES):
            p = special.expit(logit[campaign == k] + intercepts[k])
            noise[k] = 1 / (p * (1 - p)).sum()
            working[k] = intercepts[k] + (outcome[campaign == k] - p).sum() * noise[k]

        def mean(t: float, values: Any = working, v: Any = noise) -> float:
            return float(np.average(values, weights=1 / (v + t)))

        def excess(t: float, values: Any = working, v: Any = noise) -> float:
            return float(((values - mean(t)) ** 2 / (v + t)).sum() - SLICES + 1)

        variance = optimize.brentq(excess, 0, 100, xtol=1e-15)
        squares = (working - mean(variance)) ** 2 / (noise + variance)
        error = np.sqrt(2 / (1 / noise**2).sum()) * max(1, squares.std() / np.sqrt(2))
        certain = variance - error
        centre = mean(variance)
        intercepts = centre + certain / (certain + noise) * (working - centre)
    return intercepts, certain / (certain + noise), np.sqrt(variance)


def test_intercepts_are_those_by_hand() -> None:
    outcome, score, campaign, effect = rows()
    fitted = cd.PlattScaling(shrink=True).fit(outcome, score, by={"campaign": campaign})
    whole = cd.PlattScaling().fit(outcome, score)
    logit = whole.intercept_ + whole.coef_ * special.logit(score)
    intercepts, own_weight, deviation = by_hand(logit, outcome, campaign)
    np.testing.assert_allclose(fitted.intercept_ - whole.intercept_, intercepts, atol=1e-7)
    np.testing.assert_allclose(fitted.own_weight_, own_weight, atol=1e-7)
    np.testing.assert_allclose(fitted.deviation_, deviation, atol=1e-7)
    assert (fitted.coef_ == whole.coef_).all()
    within = np.abs(fitted.intercept_ - effect) <= 2 * fitted.intercept_se_
    assert within.mean() > 0.9
    # Nearer to the truth than the map of all rows.
    assert np.mean((fitted.intercept_ - effect) ** 2) < 0.7 * np.mean((whole.intercept_ - effect) ** 2)
    assert "60 slices are shrunk" in shrunken_notes(fitted)[0]
    assert MapTable.of(fitted).heads == ("campaign", "rows", "events", "intercept", "coef", "own_weight")
    summary = cd.summarize(outcome, score, by={"campaign": campaign}, settings=["binary"])
    again = cd.PlattScaling(shrink=True).fit(summary, by="campaign")
    np.testing.assert_allclose(again.intercept_, fitted.intercept_, atol=1e-5)
    stored = cd.Calibrator.from_dict(fitted.to_dict())
    same = stored.predict_proba(score, by={"campaign": campaign})
    np.testing.assert_array_equal(same, fitted.predict_proba(score, by={"campaign": campaign}))


def test_rows_in_any_order_have_the_map_of_their_slice() -> None:
    def times(factor: float) -> Any:
        return lambda scores: scores * factor

    codes = np.array([2, 0, -1, 1, 0, 2])
    mapped = RowMap((times(0.1), times(0.2), times(0.3), times(1.0)))(np.full(6, 0.5), codes)
    np.testing.assert_array_equal(mapped, 0.5 * np.array([0.3, 0.1, 1.0, 0.2, 0.1, 0.3]))


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_slices_of_certain_scores_have_the_mean_intercept(score: float) -> None:
    outcome, scores, campaign, _ = rows()
    certain = campaign == campaign[0]
    labels, extreme = np.where(certain, int(score), outcome), np.where(certain, score, scores)
    with pytest.warns(UserWarning, match="exactly 0 or 1"):
        fitted = cd.PlattScaling(shrink=True).fit(labels, extreme, by={"campaign": campaign})
    own_weight = np.asarray(fitted.own_weight_).ravel()
    assert np.isfinite(np.asarray(fitted.intercept_)).all()
    assert own_weight.min() == 0
    assert (own_weight > 0).sum() == SLICES - 1


@pytest.mark.parametrize(
    ("choices", "by", "message"),
    [
        ({}, None, "at least 3 slices"),
        ({}, [0, 1] * 10, "at least 3 slices"),
        ({"slope": False, "mean": 0.1}, [0, 1, 2, 3] * 5, "no effect with mean"),
    ],
)
def test_what_it_expects(choices: dict[str, Any], by: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cd.PlattScaling(shrink=True, **choices).fit([0, 1] * 10, np.linspace(0.1, 0.9, 20), by=by)


def test_at_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome, score, campaign, _ = rows()
    data, out = str(tmp_path / "rows.parquet"), str(tmp_path / "map.json")
    pd.DataFrame({"label": outcome, "score": score, "campaign": campaign}).to_parquet(data)
    assert main(["calibrate", data, "--by", "campaign", "--shrink", "--out", out]) == 0
    assert "The intercepts of 60 slices are shrunk towards their mean" in capsys.readouterr().out
    assert main(["evaluate", data, "--map", out, "--by", "campaign", "--metric", "mean-gap"]) == 0
    capsys.readouterr()
    for options, message in (
        (["--shrink"], "--by COLUMN"),
        (["--by", "campaign", "--shrink", "--min-rows", "5"], "--min-rows has no effect with --shrink"),
        (["--by", "campaign", "--shrink", "--method", "isotonic"], "only platt has intercepts"),
    ):
        assert main(["calibrate", data, "--out", str(tmp_path / "other.json"), *options]) == 2
        assert message in capsys.readouterr().err

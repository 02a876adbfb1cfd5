"""Many small slices: shrunken errors are smaller than raw ones, and intervals hold on average."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.cli import main
from tests.combinations import pairwise

SLICES = 600


def effects(kind: str, rng: Any) -> Any:
    """Of mean 0 and standard deviation 1."""
    if kind == "normal":
        return rng.normal(size=SLICES)
    if kind == "skewed":
        return rng.exponential(size=SLICES) - 1
    return np.where(rng.random(SLICES) < 0.1, 3.0, -1 / 3)


def rows(kind: str, n: int, *, rare: bool, seed: int) -> tuple[pd.DataFrame, Any, Any]:
    """Rows of campaigns, their true gaps and their true ratios."""
    rng = np.random.default_rng([seed, n])
    campaign = np.repeat(np.arange(SLICES), n)
    low, high, scale = (0.005, 0.035, 0.005) if rare else (0.2, 0.6, 0.03)
    score = rng.uniform(low, high, campaign.size)
    effect = np.maximum(scale * effects(kind, rng), -low)
    label = (rng.random(campaign.size) < score + effect[campaign]).astype(int)
    mean = np.bincount(campaign, score) / n
    return pd.DataFrame({"label": label, "score": score, "campaign": campaign}), effect, (mean + effect) / mean


@pytest.mark.parametrize(("rare", "kind", "n"), pairwise([False, True], ["normal", "skewed", "two points"], [30, 200]))
def test_intervals_hold_on_average_and_errors_are_smaller(kind: str, n: int, rare: bool) -> None:
    frame, effect, ratio = rows(kind, n, rare=rare, seed=0)
    gaps = cd.shrink_slices(frame, by="campaign")
    assert float(((gaps.low <= effect) & (effect <= gaps.high)).mean()) >= 0.93
    error = {name: float(np.sqrt(((gaps[name] - effect) ** 2).mean())) for name in ("raw", "shrunken")}
    pooled = float(np.sqrt(np.mean((frame.label.mean() - frame.score.mean() - effect) ** 2)))
    assert error["shrunken"] <= 0.75 * error["raw"]
    assert error["shrunken"] <= pooled
    ratios = cd.shrink_slices(frame, "campaign", "observed-expected")
    assert float(((ratios.low <= ratio) & (ratio <= ratios.high)).mean()) >= 0.93
    assert float(((ratios.shrunken - ratio) ** 2).mean()) < float(((ratios.raw - ratio) ** 2).mean())


@pytest.mark.parametrize(("highest", "effect", "n"), [(0.01, 0.03, 100), (0.002, 0.02, 60), (0.002, 0.05, 60)])
def test_slices_without_events_are_not_known_exactly(highest: float, effect: float, n: int) -> None:
    rng = np.random.default_rng(6)
    campaign = np.repeat(np.arange(SLICES), n)
    score, truth = rng.uniform(0, highest, campaign.size), np.where(np.arange(SLICES) % 10 == 0, effect, 0.0)
    label = (rng.random(campaign.size) < score + truth[campaign]).astype(int)
    gaps = cd.shrink_slices(pd.DataFrame({"label": label, "score": score, "campaign": campaign}), by="campaign")
    assert float(((gaps.low <= truth) & (truth <= gaps.high)).mean()) >= 0.93
    errors = (np.sqrt(np.mean((of - truth) ** 2)) for of in (gaps.shrunken, gaps.raw, label.mean() - score.mean()))
    shrunken, raw, pooled = map(float, errors)
    assert shrunken <= min(1.02 * raw, pooled)


def test_large_slices_keep_their_own_interval_beside_one_extreme_slice() -> None:
    rng = np.random.default_rng(3)
    sizes = np.where(np.arange(SLICES) < 20, 4000, 20)
    campaign = np.repeat(np.arange(SLICES), sizes)
    score = rng.uniform(0.005, 0.035, campaign.size)
    label = (rng.random(campaign.size) < np.where(campaign == 0, 1.7 * score, score)).astype(int)
    frame = pd.DataFrame({"label": label, "score": score, "campaign": campaign})
    gaps, ratios = (cd.shrink_slices(frame, "campaign", kind) for kind in ("mean-gap", "observed-expected"))
    expected = np.bincount(campaign, score)
    own = 2 * 1.96 * np.sqrt(expected) / sizes
    width = np.asarray(gaps.high - gaps.low)
    assert (width[1:20] < 1.2 * own[1:20]).all()
    assert float(gaps.low[0]) > 0
    assert (np.asarray(ratios.high - ratios.low)[1:20] < 1.6 * (own * sizes / expected)[1:20]).all()
    assert float(ratios.low[0]) > 1
    truth = np.where(np.arange(SLICES) == 0, 0.7 * expected / sizes, 0.0)
    assert float(((gaps.low <= truth) & (truth <= gaps.high)).mean()) >= 0.95


def test_numbers_by_hand() -> None:
    frame, _, _ = rows("normal", 50, rare=False, seed=1)
    result = cd.shrink_slices(frame, by="campaign", limit=0.05)
    groups = frame.groupby("campaign")
    np.testing.assert_allclose(result.raw, (groups.label.mean() - groups.score.mean()).to_numpy(), atol=1e-12)
    assert (result.rows == 50).all()
    np.testing.assert_array_equal(result.events, groups.label.sum())
    order = np.argsort(-np.abs(result.shrunken.values), kind="stable")
    np.testing.assert_array_equal(result["rank"].values[order], np.arange(1, SLICES + 1))
    assert ((result.exceeds >= 0) & (result.exceeds <= 1)).all()
    assert (result.low <= result.shrunken).all()
    assert (result.shrunken <= result.high).all()
    ratios = cd.shrink_slices(frame, by="campaign", measure="observed-expected")
    np.testing.assert_allclose(ratios.raw, (groups.label.sum() / groups.score.sum()).to_numpy())


def test_weights_are_repeated_rows_in_the_estimates() -> None:
    frame, _, _ = rows("normal", 30, rare=False, seed=2)
    one = cd.shrink_slices(frame, by="campaign")
    same = cd.shrink_slices(frame.assign(w=2.5), by="campaign", sample_weight="w")
    for name in ("raw", "shrunken", "low", "high"):
        np.testing.assert_allclose(same[name], one[name], rtol=1e-9)


def test_a_summary_answers_alone() -> None:
    frame, _, _ = rows("skewed", 30, rare=False, seed=3)
    frame = frame[frame.campaign < 40]
    summary = cd.summarize(frame, by="campaign", settings=["binary"])
    for measure in ("mean-gap", "observed-expected"):
        of_rows = cd.shrink_slices(frame, "campaign", measure)
        of_summary = cd.shrink_slices(summary, measure=measure)
        for name in ("raw", "shrunken", "low", "high", "rank"):
            np.testing.assert_allclose(of_summary[name], of_rows[name], rtol=1e-6, atol=1e-9)


def test_what_it_expects() -> None:
    frame, _, _ = rows("normal", 30, rare=False, seed=4)
    with pytest.raises(ValueError, match="expects slices"):
        cd.shrink_slices(frame)
    with pytest.raises(ValueError, match="at least 3 slices"):
        cd.shrink_slices(frame[frame.campaign < 2], by="campaign")
    with pytest.raises(ValueError, match="above 1"):
        cd.shrink_slices(frame, "campaign", "observed-expected", limit=0.5)
    with pytest.raises(ValueError, match="measure expects"):
        cd.shrink_slices(frame, "campaign", "ece")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="without weights"):
        cd.shrink_slices(frame.assign(w=1.5), "campaign", "observed-expected", sample_weight="w")


def test_at_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame, _, _ = rows("two points", 60, rare=False, seed=5)
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path)
    assert main(["evaluate", str(path), "--by", "campaign", "--shrink"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "600 slices: effects have a mean of" in shown
    assert "580 slices with smaller effects are not shown." in shown
    assert main(["evaluate", str(path), "--by", "campaign", "--shrink", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    result = cd.shrink_slices(frame, by="campaign")
    first = document["slices"][0]
    assert first["rank"] == 1
    assert first["shrunken"] == float(result.shrunken.sel(campaign=first["by"]["campaign"]))
    assert main(["shrink", str(path), "--by", "campaign", "--limit", "0.05", "--measure", "mean-gap"]) == 0
    assert "beyond limit" in capsys.readouterr().out
    assert main(["evaluate", str(path), "--shrink"]) == 2
    assert "--by COLUMN" in capsys.readouterr().err
    assert main(["evaluate", str(path), "--by", "campaign", "--shrink", "--ci", "0.9"]) == 2
    assert "--ci has no effect with --shrink" in capsys.readouterr().err

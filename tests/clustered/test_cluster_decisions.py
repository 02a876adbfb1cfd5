"""Gates and comparisons of clustered rows."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.analyses.gating.profiles import PROFILES
from calibdask.cli import main
from calibdask.testing import assert_calibrated
from tests.clustered.clustered_data import ClusteredRows, clustered_rows

ROWS = clustered_rows(clusters=100, size=30, spread=0.7)


def races(seed: int = 0, count: int = 60, days: int = 100) -> ClusteredRows:
    """Forecasts of a race for many days, whose outcome is one."""
    rng = np.random.default_rng(seed)
    chance = rng.random(count)
    won = rng.random(count) < chance
    race = np.repeat(np.arange(count), days)
    p = np.clip(chance[race] + rng.normal(0, 0.02, race.size), 0, 1)
    return ClusteredRows(won[race].astype(int), p, race)


def test_a_limit_is_not_met_by_copies_of_few_outcomes() -> None:
    rows = races()
    assert cd.check(rows.y, rows.p, {"brier-score": 0.21}).outcome == "met"
    assert cd.check(rows.y, rows.p, {"brier-score": 0.21}, groups=rows.g).outcome == "cannot be decided"
    more = races(count=100)
    assert cd.check(more.y, more.p, {"ece": 0.5}, groups=more.g).outcome == "met"


def test_few_clusters_decide_nothing() -> None:
    rows = races(count=9)
    gate = cd.check(rows.y, rows.p, {"brier-score": 0.9}, groups=rows.g)
    assert gate.outcome == "cannot be decided"
    assert "fewer than 10 clusters" in gate.judgements[0].reason
    with pytest.raises(AssertionError, match="fewer than 10 clusters"):
        assert_calibrated(rows.y, rows.p, 0.9, groups=rows.g)


def test_differences_are_paired_by_cluster() -> None:
    worse = np.clip(ROWS.p + 0.1, 0, 1)
    result = cd.compare(ROWS.y, ROWS.p, worse, cd.BrierScore(), groups=ROWS.g, n_boot=2000)
    contributions = (worse - ROWS.y) ** 2 - (ROWS.p - ROWS.y) ** 2
    reach = float(result.brier_score_difference_high - result.brier_score_difference_low) / 2
    assert reach == pytest.approx(ROWS.sandwich(contributions) * 1.984, rel=0.1)
    alone = cd.compare(ROWS.y, ROWS.p, worse, cd.BrierScore(), n_boot=2000)
    assert reach > 1.5 * float(alone.brier_score_difference_high - alone.brier_score_difference_low) / 2
    assert int(np.ravel(result.clusters)[0]) == 100


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        status = main(list(words))
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def file(tmp_path: Path) -> str:
    rows = races()
    path = tmp_path / "races.csv"
    pd.DataFrame({"label": rows.y, "score": rows.p, "race": rows.g}).to_csv(path, index=False)
    return str(path)


def test_evaluate_at_the_shell(run: Run, file: str) -> None:
    status, output, error = run("evaluate", file, "--groups", "race", "--metric", "brier-score", "--ci", "0.95")
    assert status == 0, error
    assert "60 clusters (race); 6,000 rows are worth about 59 independent ones" in output


def test_check_at_the_shell(run: Run, file: str) -> None:
    limit = ["--limit", "brier-score=0.21"]
    assert run("check", file, *limit, "--no-cluster-check")[0] == 0
    assert run("check", file, *limit, "--groups", "race")[0] == 3


def test_commands_that_take_rows_as_independent_refuse_groups(run: Run, file: str) -> None:
    status, _, error = run("threshold", file, "--groups", "race", "--risk", "0.1")
    assert status == 2
    assert "exact binomial tests, which are not valid for clusters" in error
    rows = races()
    with pytest.raises(ValueError, match="Draw one row of each cluster at random, and leave groups out"):
        cd.threshold(rows.y, rows.p, groups=rows.g)


def test_a_limits_file_names_clusters(run: Run, file: str, tmp_path: Path) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text('groups = "race"\n[limits]\n"brier-score" = 0.21\n')
    assert run("check", file, "--limits", str(limits))[0] == 3
    summary = str(tmp_path / "summary.zarr")
    options = ["--setting", "binary", "--out", summary]
    assert run("summarize", file, "--groups", "race", *options)[0] == 0
    assert run("check", summary, "--limits", str(limits))[0] == 3
    assert run("summarize", file, *options, "--overwrite")[0] == 0
    status, _, error = run("check", summary, "--limits", str(limits))
    assert status == 2
    assert "--groups has no effect" in error
    limits.write_text("groups = 3\n[limits]\nece = 0.1\n")
    status, _, error = run("check", file, "--limits", str(limits))
    assert status == 2
    assert "groups expects a name, got 3" in error


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_profiles_leave_out_what_has_no_form_for_clusters(profile: str) -> None:
    """A profile has its other numbers, and the document names those that are missing."""
    rng = np.random.default_rng(8)
    scores = rng.uniform(0.05, 0.6, 600)
    labels = (rng.random(600) < scores).astype(int)
    gate = cd.check(labels, scores, {"mean_gap": 0.2}, profile=profile, groups=np.arange(600) // 3, n_boot=50)
    text = gate.document().to_text(100)
    assert gate.judgements[0].outcome == "met"
    said = " ".join(text.split())
    missing = PROFILES[profile].left_out(gate.result)
    assert all(name in said for name in missing)
    assert ("no form for the weights or clusters" in said) == bool(missing)
    assert bool(missing) == (profile in ("clinical", "credit"))


def test_few_events_of_clusters_are_named_as_such() -> None:
    """Events that are many, but of few independent rows."""
    rows = races(count=24, days=40)
    gate = cd.check(rows.y, rows.p, {"observed-expected": (0.8, 1.25)}, groups=rows.g, n_boot=50)
    assert rows.y.sum() > 20
    assert (
        gate.judgements[0].reason
        == "fewer than 30 independent events or non-events, as rows of a cluster depend on each other"
    )


def test_clusters_that_few_have_most_events_of_decide_nothing() -> None:
    """All events are worth enough independent ones, but other samples have none of the clusters with most of them."""
    events = np.r_[np.full(15, 10), np.ones(185, int)]
    y = (np.arange(20) < events[:, None]).astype(int).ravel()
    g = np.repeat(np.arange(200), 20)
    p = np.full(y.size, y.mean())
    judged = cd.check(y, p, {"mean-gap": 0.2, "brier-score": 0.5}, groups=g, n_boot=50).judgements
    assert [judgement.outcome for judgement in judged] == ["cannot be decided"] * 2
    assert judged[0].reason.startswith("few clusters have most of the rows or events")
    assert np.isnan(judged[0].rows_needed)
    summary = cd.summarize(y, p, groups=g, buckets=512, settings="binary")
    assert cd.check(summary, limits={"mean-gap": 0.2}, n_boot=50).judgements[0].reason == judged[0].reason
    # As many events, one or two in each cluster.
    y = (np.arange(20) < np.resize([1, 2], 200)[:, None]).astype(int).ravel()
    assert cd.check(y, p, {"mean-gap": 0.2}, groups=g, n_boot=50).outcome == "met"

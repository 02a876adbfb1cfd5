"""A map whose calibrated scores have a given mean: against a plain search for the root, from every way in."""

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special

import calibdask as cd
from calibdask.cli import main

RNG = np.random.default_rng(5)
SCORES = np.maximum(RNG.beta(0.4, 12.0, 20_000), 1e-6)
LABELS = (RNG.random(SCORES.size) < SCORES).astype(int)
WEIGHTS = RNG.integers(0, 4, SCORES.size).astype(float)


def root(scores: Any, weights: Any, mean: float) -> float:
    z = special.logit(scores)
    return float(
        optimize.brentq(lambda a: np.average(special.expit(a + z), weights=weights) - mean, -50, 50, xtol=1e-13)
    )


@pytest.mark.parametrize("mean", [1e-5, 0.025, 0.5, 0.999])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_the_intercept_is_the_root(weights: Any, mean: float) -> None:
    fitted = cd.PlattScaling(slope=False, mean=mean).fit(LABELS, SCORES, sample_weight=weights)
    assert float(fitted.intercept_) == pytest.approx(root(SCORES, weights, mean), abs=1e-9)
    assert np.average(fitted.predict_proba(SCORES)[:, 1], weights=weights) == pytest.approx(mean, abs=1e-12)
    again = cd.PlattScaling.from_dict(fitted.to_dict())
    assert (again.predict_proba(SCORES) == fitted.predict_proba(SCORES)).all()


def test_other_ways_in() -> None:
    fit = cd.PlattScaling(slope=False, mean=0.025).fit(LABELS, SCORES)
    lazy = cd.PlattScaling(slope=False, mean=0.025).fit(
        da.from_array(LABELS, chunks=3000), da.from_array(SCORES, chunks=3000)
    )
    assert lazy.intercept_ == fit.intercept_
    summary = cd.summarize(LABELS, SCORES, settings=["binary"])
    of_cells = cd.PlattScaling(slope=False, mean=0.025).fit(summary)
    assert of_cells.predict_proba(SCORES)[:, 1].mean() == pytest.approx(0.025, rel=1e-3)
    # All scores alike: the mean is that of each.
    alike = cd.PlattScaling(slope=False, mean=0.025).fit(LABELS, np.full(LABELS.size, 0.3))
    assert alike.predict_proba([0.3])[0, 1] == pytest.approx(0.025, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"slope": False, "mean": 0}, "mean expects a number between 0 and 1"),
        ({"slope": False, "mean": "a"}, "mean expects a number between 0 and 1"),
        ({"mean": 0.1}, "mean expects slope=False"),
        ({"slope": False, "mean": 0.1, "smooth_targets": True}, "mean expects slope=False"),
    ],
)
def test_bad_use(options: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cd.PlattScaling(**options).fit(LABELS, SCORES)


def test_several_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="mean expects one score per row"):
        cd.PlattScaling(slope=False, mean=0.1).fit(np.arange(90) % 3, np.full((90, 3), 1 / 3))


def test_at_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, stored, out = (str(tmp_path / name) for name in ("rows.parquet", "map.json", "out.parquet"))
    pd.DataFrame({"label": LABELS, "score": SCORES}).to_parquet(rows)
    assert main(["calibrate", rows, "--method", "platt(slope=false, mean=0.025)", "--out", stored]) == 0
    capsys.readouterr()
    assert main(["apply", stored, rows, "--out", out]) == 0
    assert f"mean score {SCORES.mean():.6g} before, 0.025 after\n" in capsys.readouterr().out

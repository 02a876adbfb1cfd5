"""The simulated portfolio: keyed rows, a model that is right but for what is planted, and a page that says so."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from experiments.calibration import portfolio


def test_rows_are_keyed_by_seed_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "UNIT", 1000)
    rows = pd.concat(portfolio.blocks(2500), ignore_index=True)
    assert len(rows) == 2500
    pd.testing.assert_frame_equal(rows[:1300], pd.concat(portfolio.blocks(1300), ignore_index=True))
    pd.testing.assert_frame_equal(rows[2000:].reset_index(drop=True), portfolio.block(2, rows=500))
    assert not portfolio.block(2, seed=1).age.equals(portfolio.block(2).age)
    portfolio.write_parquet(tmp_path / "rows.parquet", 2500)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "rows.parquet"), rows)


def test_the_model_is_right_but_for_what_is_planted() -> None:
    rows = portfolio.block(0)
    y, p, features = portfolio.split(rows)
    assert features.shape[1] == 20
    young = ((rows.age < 30) & (rows.channel == "broker")).to_numpy()
    south = (rows.income.isna() & (rows.region == "south")).to_numpy()
    both = young & south
    odds = np.log(rows.truth / (1 - rows.truth)) - np.log(p / (1 - p))
    shift = 0.7 * young - 0.8 * south
    np.testing.assert_allclose(odds, shift, atol=1e-9)
    assert both.sum() < 0.1 * min(young.sum(), south.sum())
    assert abs(y.mean() - rows.truth.mean()) < 4 * np.sqrt(0.25 / len(rows))
    audit = cd.audit(y, p, features[["age", "channel", "region", "income"]])
    described = audit.segment[audit.described].values.tolist()
    assert "income missing, region = south" in [", ".join(sorted(text.split(", "))) for text in described]
    assert any("channel = broker" in text and "age" in text for text in described)


def test_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "UNIT", 1 << 15)
    page = portfolio.page(30_000, 0)
    assert "customers under 30 who come by a broker" in page
    assert "### opened.year" in page
    assert "region = south" in page
    assert page.count("| mended |") == 1

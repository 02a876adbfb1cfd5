"""Audits and mending beside what mcgrad and sliceline say of the same rows; see peers_table.py."""

import json
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from tests.auditing.peers_table import ALPHA, MIN_ROWS, NAMES, SIZES, SLICES, TABLE, rows

PEERS: dict[str, Any] = json.loads(TABLE.read_text())
OPTIONS: dict[str, Any] = {"values": max(SIZES), "min_rows": MIN_ROWS}


def segment(values: dict[str, int]) -> str:
    """The text of a segment."""
    return ", ".join(f"{name} = {value}" for name, value in values.items()) or "all rows"


@pytest.fixture(scope="module")
def audited() -> xr.Dataset:
    """With as many cells as there are scores."""
    y, p, features = rows(20_000, 0)
    return cd.audit(y, p, features, depth=1, score_cells=20_000, **OPTIONS)


def test_mcgrad_has_the_same_ecce_and_sigma(audited: xr.Dataset) -> None:
    assert audited.sizes["segment"] == len(PEERS["segments"])
    for name, value, ecce, sigma in PEERS["segments"]:
        here = audited.sel(segment=segment({name: value} if name else {}))
        assert float(here.ecce) == pytest.approx(ecce, abs=1e-9)
        assert float(here.sigma) == pytest.approx(sigma, abs=1e-9)


def test_mcgrad_has_the_same_multicalibration_error() -> None:
    """Of cells that hold many scores the range of the path is too small, by little."""
    y, p, features = rows(20_000, 0)
    few = cd.audit(y, p, features, **OPTIONS).attrs["mce_sigma"]
    many = cd.audit(y, p, features, score_cells=4000, **OPTIONS).attrs["mce_sigma"]
    assert PEERS["multicalibration"] - 1 < few <= many <= PEERS["multicalibration"] + 1e-9
    assert many == pytest.approx(PEERS["multicalibration"], rel=2e-3)


def test_mending_is_no_worse_than_mcgrad() -> None:
    y, p, features = rows(20_000, 0)
    fresh, scores, others = rows(20_000, 1)
    before, mcgrad, error_before, error_mcgrad = PEERS["mended"]
    result = cd.MulticalibratedScaling(values=max(SIZES)).fit(y, p, features=features)
    mended = result.predict_proba(scores, others)[:, 1]
    assert cd.log_loss(fresh, scores) == pytest.approx(before, abs=1e-9)
    assert cd.log_loss(fresh, mended) < mcgrad
    after = cd.audit(fresh, mended, others, **OPTIONS)
    assert after.attrs["mce_sigma"] < error_mcgrad < error_before
    assert result.improvement_ == pytest.approx(before - cd.log_loss(fresh, mended), abs=0.003)
    assert not after.found.any()


def test_sliceline_ranks_the_same_segments() -> None:
    """Its score is alpha (error / mean error - 1) - (1 - alpha) (n / rows - 1); the error of a row is its outcome."""
    y, p, features = rows(20_000, 0)
    result = cd.audit(y, p, features, **OPTIONS)
    result = result.isel(segment=(result.depth > 0).values)
    scores = ALPHA * (result.frequency / y.mean() - 1) - (1 - ALPHA) * (len(y) / result.rows - 1)
    # It lists those whose score is above 0.
    best = result.segment.values[np.argsort(-scores.values)][: int((scores > 0).sum())].tolist()
    assert 5 < len(best) < SLICES
    texts = []
    for values, score, size in PEERS["slices"]:
        texts.append(segment({name: value for name, value in zip(NAMES, values, strict=True) if value is not None}))
        assert float(scores.sel(segment=texts[-1])) == pytest.approx(score, abs=1e-9)
        assert int(result.rows.sel(segment=texts[-1])) == size
    assert best == texts

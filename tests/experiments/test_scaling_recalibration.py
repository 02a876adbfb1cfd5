"""The measurements of fits, at small sizes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from experiments.scaling import recalibration, structured_fits
from experiments.scaling.store import drawn, make_store


def test_all_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fit, store = recalibration.fit_to_generated, tmp_path / "rows.zarr"
    monkeypatch.setattr(recalibration, "fresh_fit", lambda name, rows, classes: fit(name, rows, min(classes, 40)))
    monkeypatch.setattr(recalibration, "STRUCTURED_SIZE", (1000, 12))
    monkeypatch.setattr(recalibration, "_in_process", _here)
    make_store(store, 4000, 3, chunk_rows=1000)
    options = ["--shrink", "100000", "--rounds", "1", "--probmetrics", "python", "--out", str(tmp_path / "out")]
    recalibration.main(["--store", str(store), *options])
    page = (tmp_path / "out" / "recalibration.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out.count("### ") == page.count("### ") == len(recalibration.PARTS)
    assert "4000 rows x 3 classes in 4 chunks" in page
    for name in (*recalibration.FITS, "probmetrics", "SplineCalibration"):
        assert f"| {name} |" in page


def _here(_: str, name: str, path: Path) -> dict[str, float]:
    """A fit in this process; that of probmetrics is ours."""
    return structured_fits.measured("calibdask" if name == "probmetrics" else name, str(path), 1)


def test_a_store_is_asked_for() -> None:
    with pytest.raises(SystemExit, match="temperature expects a store"):
        recalibration.main(["temperature"])


def test_generated_blocks_are_rows_with_their_classes_in_another_order() -> None:
    labels, scores = (np.asarray(part) for part in recalibration.generated(50_001, 3))
    assert scores.shape == (50_001, 3)
    first_labels, first = drawn(0, 10_000, 3)
    np.testing.assert_array_equal(labels[40_000:50_000], (first_labels + 1) % 3)
    np.testing.assert_array_equal(scores[40_000:50_000], np.roll(first, 1, axis=1))
    before, after = (cd.log_loss(labels[rows], scores[rows]) for rows in (slice(10_000), slice(40_000, 50_000)))
    assert after == pytest.approx(before, rel=1e-12)


def test_a_fit_lowers_the_loss_of_fresh_rows(tmp_path: Path) -> None:
    (labels, scores), (fresh_labels, fresh) = drawn(0, 3000, 5), drawn(3000, 6000, 5)
    rows: dict[str, Any] = {"labels": labels, "scores": scores, "fresh_labels": fresh_labels, "fresh_scores": fresh}
    np.savez(tmp_path / "rows.npz", **rows)
    told = structured_fits.measured("calibdask", str(tmp_path / "rows.npz"), 1)
    assert told["fresh_log_loss"] < cd.log_loss(fresh_labels, fresh)
    assert told["fit_cpu_s"] > 0

"""Clusters in reports and on receipts."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import calibdask as cd
from calibdask.cli import cli
from calibdask.report import measure
from calibdask.report.model_result import ModelResult
from tests.clustered.clustered_data import clustered_rows

ROWS = clustered_rows(clusters=45, size=8)
FRAME = pd.DataFrame({"label": ROWS.y, "score": ROWS.p, "patient": ROWS.g, "half": ROWS.g % 2})
METRICS = ["ece", "brier-score", "calibration-slope"]


def receipt(frame: pd.DataFrame, groups: str | None = "patient") -> dict:
    return cd.receipt(frame, metrics=METRICS, label="label", score="score", groups=groups, n_boot=50)


def test_a_receipt_records_clusters_and_does_not_depend_on_the_order_of_rows() -> None:
    first = receipt(FRAME)
    assert first["request"]["groups"] == "patient"
    assert "slices and groups" in first["data"]["parts"]
    expected = cd.evaluate(FRAME, metrics={"b": cd.BrierScore()}, groups="patient", ci=0.95, n_boot=50)
    assert first["numbers"]["brier-score_low"] == float(expected.b_low)
    shuffled = FRAME.sample(frac=1.0, random_state=1).reset_index(drop=True)
    assert receipt(shuffled)["hash"] == first["hash"]
    again = cd.verify(first, shuffled, label="label", score="score", groups="patient")
    assert again.agrees, again.problems


def test_other_clusters_differ() -> None:
    first = receipt(FRAME)
    other = FRAME.assign(patient=np.where(FRAME.index == 3, 44, FRAME.patient))
    outcome = cd.verify(first, other, label="label", score="score", groups="patient")
    assert outcome.problems[0].startswith("The slices and groups differ from those of the receipt")
    with pytest.raises(ValueError, match="the groups patient; give groups"):
        cd.verify(first, FRAME, label="label", score="score")
    with pytest.raises(ValueError, match="it has none"):
        cd.verify(receipt(FRAME, None), FRAME, label="label", score="score", groups="patient")
    assert cd.fingerprint(ROWS.y, ROWS.p, groups=ROWS.g) != cd.fingerprint(ROWS.y, ROWS.p)


def test_receipts_at_the_shell(tmp_path: Path) -> None:
    path, kept = tmp_path / "rows.parquet", tmp_path / "receipt.json"
    FRAME.to_parquet(path, index=False)
    options = ["--limit", "ece=0.5", "--groups", "patient", "--n-boot", "100", "--receipt", str(kept)]
    done = CliRunner().invoke(cli, ["check", str(path), *options])
    assert done.exit_code == 0, done.output
    assert "clusters by patient, worth about" in " ".join(done.output.split())
    assert json.loads(kept.read_text())["request"]["groups"] == "patient"
    verified = CliRunner().invoke(cli, ["verify", str(kept), str(path)])
    assert verified.exit_code == 0, verified.output


def test_a_report_says_how_much_clustered_rows_are_worth(tmp_path: Path) -> None:
    path, page = tmp_path / "rows.parquet", tmp_path / "page.html"
    FRAME.to_parquet(path, index=False)
    limits = tmp_path / "limits.toml"
    limits.write_text('groups = "patient"\n[limits]\nece = 0.5\n', encoding="utf-8")
    options = ["--by", "half", "--limits", str(limits), "--n-boot", "20", "--out", str(page)]
    done = CliRunner().invoke(cli, ["report", str(path), *options])
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert f"45 clusters (patient); {len(FRAME):,} rows are worth about" in text


def test_a_report_has_the_clustered_intervals() -> None:
    own = measure(FRAME[["label", "score", "patient"]], by=None, n_boot=50, reading={"groups": "patient"})
    expected = cd.evaluate(FRAME, metrics={"ece": cd.ECE()}, groups="patient", ci=0.95, n_boot=50)
    assert float(own.result.ece_high) == float(expected.ece_high)
    assert int(own.result.clusters) == 45
    assert not isinstance(own.recalibration, str)
    assert "resampled" in own.result.ece_high.attrs


def test_a_report_of_a_summary_with_clusters() -> None:
    summary = cd.summarize(FRAME, groups="patient", by="half", settings=["binary"], label="label", score="score")
    own = measure(summary, n_boot=50)
    pooled = cd.evaluate(summary.sum("half"), metrics={"ece": cd.ECE()}, ci=0.95, n_boot=50)
    assert float(own.result.ece_high) == float(pooled.ece_high)
    assert own.slices["half"].clusters.shape == (2,)
    assert ModelResult("model", own).rows == len(FRAME)

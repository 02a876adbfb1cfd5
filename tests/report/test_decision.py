"""Limits and what a report decides of them."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.report import Measured, measure, write_report
from calibdask.report.decision_table import Limits, line_of, whole_judged
from calibdask.report.measuring import EVIDENCE
from calibdask.report.model_result import ModelResult
from tests.report.page_reader import Reader, page_of
from tests.report.sample_rows import FEW, LABELS, ROWS, TRUTH, calibrated

# Of calibrated scores, of scores that are far off, and of a few rows.
GROUP = np.select([np.arange(ROWS) < 2500, np.arange(ROWS) < 3900], ["good", "bad"], "rare")
GROUPED = calibrated(np.where(GROUP == "bad", TRUTH**3, TRUTH))


class TestDecision:
    @pytest.fixture(scope="class")
    @staticmethod
    def grouped() -> Measured:
        return measure(GROUPED, TRUTH, by={"group": GROUP})

    def test_outcomes(self, grouped: Measured) -> None:
        model = ModelResult("m", grouped)
        low, high = model.decided(0.5).ends
        assert low <= float(grouped.result.ece_low) < float(grouped.result.ece_high) <= high
        for limit, outcome in ((high, "met"), (low * 0.99, "broken"), ((low + high) / 2, "cannot be decided")):
            judgement = whole_judged(model, Limits(limit))
            assert judgement is not None
            assert judgement.outcome == outcome
        assert line_of(model, Limits(0.5, 0.1)) == (
            "m: limit 0.5 met; by group (limit 0.1): bad broken, rare cannot be decided"
        )
        assert line_of(model, Limits(slices=0.9)) == "m: by group (limit 0.9): all 3 met"

    def test_nothing_is_decided_without_an_interval(self) -> None:
        bare = ModelResult("m", Measured(cd.evaluate(LABELS, TRUTH, {"ece": cd.ECE(bins=7)})))
        assert line_of(bare, Limits(0.9)) == "m: limit 0.9 cannot be decided"
        judgement = whole_judged(bare, Limits(0.9))
        assert judgement is not None
        assert judgement.label == "ECE, 7 bins"

    def test_page(self, tmp_path: Path, grouped: Measured) -> None:
        html, reader = page_of(tmp_path, {"m": grouped}, limit=0.1)
        assert html.index('id="decision"') < html.index('id="verdict"')
        assert f"{line_of(ModelResult('m', grouped), Limits(0.1))}." in reader.text
        assert "; by group: bad broken, rare cannot be decided." in reader.text
        of_slices = grouped.slices["group"].sel(group="good")
        own, cautious = (
            " to ".join(f"{float(of_slices[name]):.4f}" for name in (f"{metric}_low", f"{metric}_high"))
            for metric in ("ece", EVIDENCE)
        )
        assert float(of_slices.ece_high) > float(of_slices[f"{EVIDENCE}_high"])
        assert cautious.startswith("0.0000")
        assert re.search(rf"group: good 2,500 ECE, 15 bins [\d.]+ {own} {own} 0\.1 met –", reader.text)
        # A calibrated model of so many uniform scores meets it in half of the samples.
        assert re.search(r"group: rare 100 ECE, .* 0\.1 cannot be decided 5\d\d ", reader.text)
        assert 'id="decision"' not in page_of(tmp_path, {"m": grouped})[0]

    def test_bad_limits(self, tmp_path: Path, extreme: Measured) -> None:
        bare = measure(LABELS, TRUTH, **FEW)
        for limits, words in (
            ({"limit": 1}, "limit expects"),
            ({"slice_limit": -0.1}, "slice_limit expects a fraction"),
        ):
            with pytest.raises(ValueError, match=words):
                write_report(tmp_path / "page.html", extreme, **limits)
        with pytest.raises(ValueError, match="expects results with slices"):
            write_report(tmp_path / "page.html", bare, slice_limit=0.1)
        assert not list(tmp_path.iterdir())

    def test_command(self, run: Any, tmp_path: Path) -> None:
        frame = pd.DataFrame({"label": GROUPED, "score": TRUTH, "group": GROUP})
        frame.to_csv(tmp_path / "credit.csv", index=False)
        arguments = ("report", tmp_path / "credit.csv", "--by", "group", "--limit", 0.5, "--slice-limit", 0.1)
        status, out, err = run(*arguments, "--out", tmp_path / "page.html")
        assert (status, err) == (0, "")
        first, *others, written = out.splitlines()
        assert first == "credit: Broken: 1 of 4 limits, with 4,000 rows."
        assert [line.split(":")[0].strip() for line in others] == ["group=bad", "ece of group=rare"]
        assert written == f"wrote {tmp_path / 'page.html'}"
        reader = Reader((tmp_path / "page.html").read_text())
        assert "✗ broken Outside the limit: group=bad" in reader.text
        assert "Fingerprint of the rows" in reader.text

"""Limits and what a report decides of them: what `calibdask.check` does, and nothing else."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.render.drawing import diagram_picture
from calibdask.report import Measured, measure
from calibdask.report.banners import banner
from calibdask.report.first_page import decision
from calibdask.report.model_result import ModelResult
from calibdask.results.document import Figures
from calibdask.results.format import figures, points_of, shown_texts
from tests.report.page_reader import Reader, page_of
from tests.report.sample_rows import COUNTRY, FEW, LABELS, ROWS, SOME, TRUTH, calibrated

# Of calibrated scores, of scores that are far off, and of a few rows.
GROUP = np.select([np.arange(ROWS) < 2500, np.arange(ROWS) < 3900], ["good", "bad"], "rare")
GROUPED = calibrated(np.where(GROUP == "bad", TRUTH**3, TRUTH))
SCORES = {"old": TRUTH, "new": TRUTH / 4}


class TestDecision:
    @pytest.fixture(scope="class")
    @staticmethod
    def grouped() -> Measured:
        return measure(GROUPED, TRUTH, SOME, by={"group": GROUP}, limits={"ece": 0.1})

    def test_the_gate_judges(self, grouped: Measured) -> None:
        assert grouped.gate is not None
        direct = cd.check(GROUPED, TRUTH, {"ece": 0.1}, by={"group": GROUP}, n_boot=200)
        # NaN is not equal to itself.
        assert repr(grouped.gate.judgements) == repr(direct.judgements)
        of_slices = {one.where.get("group"): one.outcome for one in direct.judgements}
        assert of_slices == {None: "met", "good": "met", "bad": "broken", "rare": "cannot be decided"}

    def test_of_a_summary(self) -> None:
        summary = cd.summarize(GROUPED, TRUTH, by={"group": GROUP})
        gate = measure(summary, metrics={"ece": cd.ECE()}, slice_limits={"ece": 0.1}, n_boot=20).gate
        assert gate is not None
        assert [one.where["group"] for one in gate.of("broken")] == ["bad"]

    def test_one_table_has_rows_events_and_decisions(self, tmp_path: Path, grouped: Measured) -> None:
        html, reader = page_of(tmp_path, {"m": grouped})
        assert html.index('id="decision"') < html.index('id="slices"') < html.index('id="numbers"')
        for name, word in (("good", "✓ met"), ("bad", "✗ broken"), ("rare", "? undecided")):
            events, share = int(GROUPED[name == GROUP].sum()), 100 * (name == GROUP).mean()
            assert re.search(
                rf"group={name} Calibration error \(ECE\): limit 0.1 {(name == GROUP).sum():,} "
                rf"{share:.1f} % {events:,} {re.escape(word)} 0\.\d+ \(0\.\d+ to 0\.\d+\)",
                reader.text,
            ), name
        assert "Intervals of slices are adjusted for the 3 values of group (Bonferroni)." in reader.text
        assert reader.text.count("✗ Broken") + reader.text.count("✗ broken") == 2

    def test_bad_limits(self) -> None:
        with pytest.raises(ValueError, match="slice_limits expects slices"):
            measure(LABELS, TRUTH, SOME, slice_limits={"ece": 0.1}, **FEW)

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
        assert "Fingerprint" in reader.text


class TestBanner:
    """One banner a model; meaning is true of this model."""

    @pytest.mark.parametrize(
        ("scores", "limits", "word", "line"),
        [
            (
                TRUTH**1.1,
                {"ece": 0.2},
                "met",
                r"Within the limit; .* points too low on average \(.*\): [\d.]+ % predicted, [\d.]+ % observed$",
            ),
            (TRUTH**3, {"ece": 0.01}, "broken", r"Outside the limit: all rows; scores [\d.]+ points too low"),
            (TRUTH, {"ece": 0.01}, "undecided", r"Not decided: all rows; no significant bias of the mean score"),
            (TRUTH**3, None, "neutral", r"Scores [\d.]+ points too low on average \("),
            (
                TRUTH,
                None,
                "neutral",
                r"No significant bias of the mean score \(scores between [\d.]+ points too high and [\d.]+ too low\)$",
            ),
        ],
    )
    def test_lines(self, scores: Any, limits: Any, word: str, line: str, tmp_path: Path) -> None:
        measured = measure(LABELS, scores, SOME, limits=limits, n_boot=50)
        given = banner(ModelResult("m", measured), several=False)
        assert given.word == word
        assert re.match(line, given.line)
        _, reader = page_of(tmp_path, measured)
        kinds = [str(of.get("class")) for _, of in reader.tags if re.match("banner|finding", str(of.get("class")))]
        assert kinds == [f"banner {word}"]

    def test_few_rows_are_said_to_be_few(self) -> None:
        measured = measure(LABELS[:20], TRUTH[:20] ** 4, SOME, **FEW)
        assert banner(ModelResult("m", measured), several=False).line == "Too few rows: 20 rows"

    def test_the_band_does_not_speak_for_the_mean(self) -> None:
        """Of scores whose band lies on one side the banner says so only where the mean gap says the same."""
        measured = measure(LABELS, TRUTH**1.4, SOME, n_boot=50)
        low = measured.result["report_gap_low"]
        open_gap = measured.result.assign(report_gap_low=low.copy(data=np.full(low.shape, -0.01)))
        told, open_ = (
            banner(ModelResult("m", replace(measured, result=result)), several=False)
            for result in (measured.result, open_gap)
        )
        assert told.sentences[0].startswith("Scores too low: off by")
        assert open_.sentences[0].startswith("Scores too low in places: off by")
        assert "No significant bias of the mean score" in open_.line

    def test_without_limits_slices_have_a_table_too(self, tmp_path: Path) -> None:
        models = {name: measure(LABELS, TRUTH**power, SOME, by={"country": COUNTRY}, **FEW) for name, power in _POWERS}
        html, reader = page_of(tmp_path, models)
        assert (
            "Observed rate minus mean prediction, 95 % intervals; the line is 0 where rows events one two all rows"
            in reader.text
        )
        assert 'id="findings"' not in html
        assert "country=de" in reader.text


_POWERS = (("one", 1.0), ("two", 1.3))


def test_the_mean_gap_nearest_to_zero_is_not_the_lowest() -> None:
    from calibdask.report.tables import best_of

    gap = {"gap": cd.MeanGap()}
    models = [ModelResult(f"m{power}", measure(LABELS, TRUTH**power, gap, **FEW)) for power in (0.5, 1.0)]
    assert "Observed rate minus mean prediction: closest to 0 for m1.0, " in best_of(models)


class TestDiagramsSideBySide:
    """Several models without limits: a small diagram of each on the same axes, beside the table of their numbers."""

    def test_they_share_their_axes(self) -> None:
        measured = {name: measure(LABELS, scores, SOME, **FEW) for name, scores in SCORES.items()}
        models = [ModelResult(name, one) for name, one in measured.items()]
        (shown,) = (element for element in decision(models, {}) if isinstance(element, Figures))
        events = int(LABELS.sum())
        captions = [f"{name}: 4,000 rows, O/E {events / scores.sum():.2f}" for name, scores in SCORES.items()]
        assert [figure.caption for figure in shown.items] == captions
        alone = diagram_picture(models[1].drawn[0][1], "new")
        old, new, other = (self.ticks(picture) for picture in (*(figure.picture for figure in shown.items), alone))
        assert old == new
        assert old != other

    @staticmethod
    def ticks(picture: Any) -> list[str]:
        """Labels of the axes, which come before the numbers of rows."""
        return re.findall(r"<text[^>]*>([\d.]+)</text>", str(picture))[:10]

    def test_limits_decide_instead(self) -> None:
        measured = {name: measure(LABELS, scores, SOME, limits={"ece": 0.9}, **FEW) for name, scores in SCORES.items()}
        models = [ModelResult(name, one) for name, one in measured.items()]
        assert not any(isinstance(element, Figures) for element in decision(models, {}))

    def test_the_ends_of_a_bias_have_the_same_decimals(self) -> None:
        """An end near zero has no more decimals than the other one."""
        assert points_of(-0.0044, -0.0088, 0.000097) == ("−0.44", "−0.88", "0.01")
        assert figures(-0.0044, -0.0088, 0.0000097) == ("−0.0044", "−0.0088", "0.0000")
        assert shown_texts(-0.0000003, -0.00077, 0.00077, kind="difference") == ["+0.00000", "-0.00077", "+0.00077"]


def test_errors_of_other_settings_are_not_compared() -> None:
    from calibdask.report.tables import best_of

    generator = np.random.default_rng(0)
    scores = generator.random(500)
    labels = (generator.random(500) < scores).astype(int)
    measured = [measure(labels, one, **FEW) for one in (scores, np.stack([1 - scores, scores], 1))]
    models = [ModelResult(name, one) for name, one in zip(("one", "two"), measured, strict=True)]
    assert best_of(models).startswith("Brier score: lowest for ")

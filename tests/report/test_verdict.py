"""The verdict claims no more than the numbers, and says where caution is due."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from calibdask.report import Measured, measure
from calibdask.report.cautions import cautions
from calibdask.report.direction import stretches
from calibdask.report.model_result import ModelResult
from calibdask.report.verdict import verdict_on
from calibdask.results.format import PLAIN, POINTS, cases, points, points_of
from tests.report.page_reader import page_of
from tests.report.sample_rows import CLASSES, COUNTRY, FEW, LABELS, MATRIX, ROWS, TRUTH, calibrated, model_of


class TestVerdict:
    def test_extreme_scores(self, extreme: Measured) -> None:
        verdict = verdict_on(ModelResult("model", extreme))
        assert verdict.outcome == "error"
        assert verdict.line.startswith("Scores too extreme: off by ")
        low, high = (float(extreme.result[f"ece_{end}"]) for end in ("low", "high"))
        assert f"95 % interval {POINTS.span(low, high)}" in verdict.sentences[0]
        assert any("too high from" in sentence and "too low from" in sentence for sentence in verdict.sentences)

    @pytest.mark.parametrize(
        ("scores", "line"),
        [
            (TRUTH**0.5, "Scores too high"),
            (TRUTH**2, "Scores too low"),
            (0.5 + 0.3 * (TRUTH - 0.5), "Scores too timid"),
        ],
    )
    def test_directions(self, scores: Any, line: str) -> None:
        assert verdict_on(model_of(scores)).line.startswith(line)

    def test_confidence(self, multiclass: Measured) -> None:
        verdict = verdict_on(ModelResult("model", multiclass))
        assert verdict.line.startswith("Overconfident")
        assert any("answers given with confidence" in sentence for sentence in verdict.sentences)

    def test_cases_are_within_the_band(self, extreme: Measured) -> None:
        said = next(
            sentence for sentence in verdict_on(ModelResult("model", extreme)).sentences if sentence.startswith("Of ")
        )
        of, score, about, low, high = (
            float(word.replace(",", ""))
            for word in re.match(
                r"Of ([\d,]+) cases scored ([\d.]+), about (\d+) had the outcome \(the band goes from (\d+) to (\d+)\)",
                said,
            ).groups()  # type: ignore[union-attr]
        )
        curve = ModelResult("model", extreme).curves[""]
        assert low <= about <= high
        assert about == pytest.approx(of * np.interp(score, curve.score, curve.reliability), abs=1)
        assert low <= of * np.interp(score, curve.score, curve.band_low)
        assert not low <= of * score <= high

    def test_calibrated_models_are_not_accused(self) -> None:
        outcomes = []
        for seed in range(12):
            rng = np.random.default_rng(100 + seed)
            scores = rng.random(1000)
            model = model_of(scores, (rng.random(1000) < scores).astype(int))
            outcomes.append(verdict_on(model).outcome)
        # Each interval and each test errs in one of twenty.
        assert outcomes.count("error") <= 2
        assert outcomes.count("chance") >= 8

    def test_chance_is_no_praise(self) -> None:
        rng = np.random.default_rng(100)
        scores = rng.random(1000)
        verdict = verdict_on(model_of(scores, (rng.random(1000) < scores).astype(int)))
        assert verdict.outcome == "chance"
        assert any("does not show that the model is calibrated" in sentence for sentence in verdict.sentences)
        assert any(sentence.startswith("At no score does the simultaneous band") for sentence in verdict.sentences)

    def test_stretches_are_where_the_band_leaves_the_diagonal(self, extreme: Measured) -> None:
        curve = ModelResult("model", extreme).curves[""]
        off_diagonal = list(stretches(curve))
        assert off_diagonal
        for stretch in off_diagonal:
            inside = (curve.score >= stretch.start) & (curve.score <= stretch.end)
            off = curve.band_high < curve.score if stretch.over else curve.band_low > curve.score
            assert off[inside].all()

    def test_percentiles_do_not_tell_chance(self) -> None:
        model = model_of(TRUTH, metrics={"ece": cd.ECE()}, ci_method="percentile", **FEW)
        verdict = verdict_on(model)
        assert verdict.outcome == "unclear"
        assert any("does not distinguish error from chance" in sentence for sentence in verdict.sentences)

    def test_without_intervals(self) -> None:
        result = cd.evaluate(LABELS, TRUTH, {"ece": cd.ECE()})
        verdict = verdict_on(ModelResult("model", Measured(result)))
        assert verdict.outcome == "unknown"
        assert "interval" not in verdict.sentences[0]

    def test_without_errors(self) -> None:
        verdict = verdict_on(ModelResult("model", Measured(cd.evaluate(LABELS, TRUTH, cd.BrierScore()))))
        assert verdict.line == "No calibration error was measured"

    def test_few_rows_tell_nothing(self) -> None:
        verdict = verdict_on(model_of(TRUTH[:20], LABELS[:20], **FEW))
        assert verdict.line == "Too few rows: 20 rows"

    def test_words_have_the_digits_of_tables(self, tmp_path: Path, extreme: Measured) -> None:
        assert POINTS.span(0.06344, 0.0765) == "6.34 to 7.65"
        assert POINTS.span(-0.0001, 0.5) == "0.0 to 50.0"
        assert points(0.000043) == "0.0043"
        assert cases(0.5, 0.25)[2] == [25.0]
        error, low, high = (float(extreme.result[name]) for name in ("ece", "ece_low", "ece_high"))
        _, reader = page_of(tmp_path, extreme)
        shares = points_of(error, low, high)
        said = (
            f"(ECE, 15 bins of equal width) is {shares[0]} percentage points (95 % interval {shares[1]} to {shares[2]})"
        )
        assert said in reader.text
        assert PLAIN.span(low, high) in reader.text


UNEVEN = np.where(np.arange(ROWS) < 20, 1000.0, 1.0)
ROUND = TRUTH.round(1)
SURE = np.r_[TRUTH, np.ones(200)]
WRONG = np.r_[TRUTH[:400], 1.0]


class TestCautions:
    @pytest.mark.parametrize(
        ("measured_model", "words"),
        [
            (lambda: model_of(TRUTH[:100], LABELS[:100], **FEW), "There are only 100 rows"),
            (lambda: model_of(TRUTH[:100], LABELS[:100], **FEW), "of 15 nonempty bins"),
            (lambda: model_of(TRUTH, sample_weight=UNEVEN, **FEW), "The weights are so unequal"),
            (lambda: model_of(ROUND, calibrated(ROUND), **FEW), "only 11 different values"),
            (lambda: model_of(SURE, calibrated(SURE), **FEW), "of the scores are 1 or next to it"),
            (lambda: model_of(WRONG, np.r_[LABELS[:400], 0], **FEW), "In 1 row the observed label had the score 0"),
            (
                lambda: model_of(WRONG, np.r_[LABELS[:400], 0], metrics={"loss": cd.LogLoss(clip=0.001)}, **FEW),
                "In 1 row the observed label had a score below 0.001;",
            ),
            (lambda: model_of(MATRIX, CLASSES % 3, **FEW), "1 class never occurs as a label (3)"),
            (lambda: model_of(TRUTH, by={"c": COUNTRY}, **FEW), "1 slice of c has fewer than 100 rows (<b>it</b>)"),
            (lambda: model_of(TRUTH, by={"g": np.arange(ROWS) % 25}, **FEW), "There are 25 slices of g"),
            (lambda: model_of(TRUTH[:60], LABELS[:60], **FEW), "The binned error"),
        ],
    )
    def test_sentences(self, measured_model: Callable[[], ModelResult], words: str) -> None:
        assert any(words in sentence for sentence in cautions(measured_model()))

    def test_none_without_cause(self) -> None:
        scores, labels = np.tile(TRUTH, 4), np.tile(LABELS, 4)
        assert cautions(model_of(scores, labels, by={"half": np.arange(4 * ROWS) % 2}, **FEW)) == []

    def test_wide_intervals_of_slices_are_named(self, tmp_path: Path) -> None:
        group = np.where(np.arange(ROWS) < 208, "rare", "others")
        measured = measure(LABELS, TRUTH, by={"group": group})
        ends = POINTS.span(
            *(float(measured.slices["group"][f"ece_{end}"].sel(group="rare")) for end in ("low", "high"))
        )
        _, reader = page_of(tmp_path, measured)
        said = f"group rare has 208 rows: its calibration error may be anything from {ends} percentage points."
        assert said in reader.text
        assert "None of the checks" not in reader.text
        many = cautions(model_of(TRUTH, by={"group": np.arange(ROWS) % 8}, **FEW))
        assert sum("may be anything from" in sentence for sentence in many) == 5
        assert any(
            sentence.startswith("The intervals of 3 further slices of group are wider than 5.00") for sentence in many
        )

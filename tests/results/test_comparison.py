"""Comparisons in words: who is better, by how much, and when that cannot be told."""

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.analyses.comparison_document import comparison_document
from calibdask.render.text_layout import width_of
from calibdask.results.comparison import comparisons, verdicts

RNG = np.random.default_rng(7)
ROWS = 900
SCORES = RNG.random(ROWS)
LABELS = (RNG.random(ROWS) < SCORES).astype(int)
COUNTRY = np.where(np.arange(ROWS) < 893, "de", "fr")
METRICS = {"brier_score": cd.BrierScore(), "ece": cd.ECE()}


def compared(first: np.ndarray, second: np.ndarray, **options: object) -> xr.Dataset:
    return cd.compare(LABELS, {"old": first, "new": second}, metrics=METRICS, n_boot=99, **options)  # type: ignore[arg-type]


def test_the_better_one_is_named_whichever_is_the_baseline() -> None:
    score, error = verdicts(compared(SCORES**3, SCORES))
    assert score.startswith("new is better than old: the Brier score of new is lower by 0.0")
    assert error.startswith("new is better calibrated than old: the ECE of new is lower by 0.")
    assert "95 % interval 0.0" in score
    assert "p ≤ 0.020" in score
    assert verdicts(compared(SCORES, SCORES**3))[0].startswith(
        "old is better than new: the Brier score of new is higher"
    )


def test_what_cannot_be_told_is_said() -> None:
    (sentence, _) = verdicts(compared(SCORES, np.clip(SCORES + RNG.normal(0, 0.01, ROWS), 0, 1)))
    assert sentence.startswith("It is inconclusive whether new or old is better: ")
    assert "95 % interval -0.0" in sentence
    (same, _) = verdicts(compared(SCORES, SCORES))
    assert same.startswith("new and old do not differ: both have Brier score 0.")


def test_slices_are_counted_and_adjusted() -> None:
    result = compared(SCORES**3, SCORES, by={"country": COUNTRY})
    (sentence,) = verdicts(result)
    counts = "new is better than old in 1 of 2 slices, worse in 0 and inconclusive in 1."
    assert sentence.startswith(f"By the Brier score, {counts}")
    one = next(comparisons(result))
    assert (one.labels, one.rows) == ({"country": "de"}, 893)
    assert one.differences[0].pvalue == float(result.brier_score_difference_pvalue_holm.isel(challenger=0, country=0))


def test_so_few_replicates_that_nothing_can_be_told() -> None:
    by = {"day": np.arange(ROWS) % 5}
    (sentence,) = verdicts(compared(SCORES**3, SCORES, by=by))
    assert "better than old in 0 of 5 slices" in sentence
    assert "n_boot" in sentence


@pytest.mark.parametrize("width", [80, 100])
def test_tables_have_both_numbers_and_the_difference(width: int) -> None:
    result = compared(SCORES**3, SCORES)
    lines = comparison_document(result).to_text(width).splitlines()
    assert max(map(width_of, lines)) <= width
    (head,) = [line for line in lines if line.startswith("metric")]
    assert head.split() == ["metric", "old", "new", "difference", "low", "high", "p"]
    (row,) = [line.split() for line in lines if line.startswith("brier_score")]
    values = result.brier_score.values
    assert [float(text) for text in row[1:3]] == pytest.approx(values.tolist(), abs=1e-3)
    assert float(row[3]) == pytest.approx(float(result.brier_score_difference[0]), abs=1e-3)


def test_the_numbers_of_slices_beside_models() -> None:
    result = compared(SCORES**3, SCORES, by={"country": COUNTRY})
    lines = [line.split() for line in comparison_document(result).to_text(100).splitlines()]
    assert ["country", "rows", "metric", "old", "new", "difference", "low", "high", "p,", "adjusted"] in lines
    assert [line[1] for line in lines if line[:1] == ["de"]] == ["893"]


def test_classes_and_their_curves_are_compared() -> None:
    """Each class has its own difference, and each curve the points of the class where models differ most."""
    scores = RNG.dirichlet([1, 1, 1], 600)
    labels = (RNG.random((600, 1)) > scores.cumsum(1)).sum(1)
    other = scores**2 / (scores**2).sum(1, keepdims=True)
    metrics = {"gap": cd.MeanGap(setting="classwise"), "net": cd.NetBenefit(setting="classwise", thresholds=[0.2, 0.5])}
    result = cd.compare(labels, {"old": scores, "new": other}, metrics=metrics, n_boot=50)
    (comparison,) = comparisons(result)
    by_name = {one.name: one for one in comparison.differences}
    for place, label in enumerate(result["class"].values.tolist()):
        gap = by_name[f"gap of class {label}"]
        assert gap.difference == float(result.gap_difference[0, place])
        assert (gap.baseline, gap.model) == tuple(result.gap[:, place].values.tolist())
        net = by_name[f"net_model of class {label} at 0.5"]
        assert net.low == float(result.net_model_difference_low[0, place, 1])
    assert comparison.decisive is None
    assert verdicts(result) == ["Metrics by class do not say which model is better as a whole: see each class."]
    text = comparison_document(result).to_text(100)
    order = [f"gap of class {place}" for place in np.argsort(-abs(result.gap_difference[0].values))]
    assert [line[: len("gap of class 0")] for line in text.splitlines() if line.startswith("gap of")][:3] == order
    assert text.count("net_model of class") in (2, 4)
    assert "P-values of classes are not adjusted" in text

"""The table of calibrators: its numbers, the choice, and what cannot be compared."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.data.clusters import key_numbers
from calibdask.statistics.views.folds import fold_numbers
from tests.calibrators.test_folds import binary, cross_fitted, matrix

BOTH = {"platt": cd.PlattScaling(), "local": cd.LCECalibrator(monotone=True)}


@pytest.mark.parametrize("data", [binary(800), matrix(800)], ids=["binary", "matrix"])
def test_numbers_are_those_of_a_loop(data: Any) -> None:
    labels, scores = data
    result = cd.compare_calibrators(labels, scores, BOTH, seed=2)
    assert result.calibrator.values.tolist() == ["none", "platt", "local"]
    assert result.attrs["passes"] == 2
    metrics = {
        "log_loss": cd.LogLoss(),
        "brier_score": cd.BrierScore(),
        "ece": cd.ECE(),
        "smooth_ece": cd.SmoothECE(),
        "mean_gap": cd.MeanGap(),
    }
    fold = fold_numbers(np.arange(800), 5, 2)
    for name, calibrator in BOTH.items():
        expected = cd.evaluate(labels, cross_fitted(calibrator, labels, scores, fold), metrics)
        row = result.sel(calibrator=name)
        for variable in metrics:
            assert abs(float(row[variable] - expected[variable])) < 2**-50, variable
        assert abs(float(row.improvement - (result.log_loss[0] - row.log_loss))) < 2**-49
    estimate = cd.evaluate(labels, scores, cd.Refinement(BOTH["platt"], seed=2), ci=0.95)
    for bound in ("low", "high"):
        improvement = result[f"improvement_{bound}"].sel(calibrator="platt")
        assert abs(float(improvement - estimate[f"refinement_calibration_{bound}"])) < 1e-15


def test_the_choice_and_the_reason() -> None:
    labels, scores = binary(4000, slope=0.5)
    result = cd.compare_calibrators(labels, scores, BOTH)
    assert result.attrs["best"] == "platt"
    assert result.attrs["reason"].startswith("platt lowers the log loss by 0.")
    assert result.improvement_low.sel(calibrator="platt") > 0
    assert result.rows_needed.sel(calibrator="platt") < 4000
    assert result.monotone.values.tolist() == [1, 1, 1]
    # The same map twice: the first is taken.
    twice = cd.compare_calibrators(labels, scores, {"first": cd.PlattScaling(), "second": cd.PlattScaling()})
    assert twice.attrs["best"] == "first"
    assert "second is not significantly better" in twice.attrs["reason"]


def test_calibrated_scores_are_left_as_they_are() -> None:
    labels, scores = binary(4000, seed=3, slope=1.0)
    result = cd.compare_calibrators(labels, scores)
    assert result.attrs["best"] == "none"
    assert result.attrs["reason"].startswith(
        "No single map for all rows is significantly better: the best, PlattScaling, improves the log loss of "
    )
    assert (result.improvement_low[1:] < 0).all()


def test_how_often_calibrated_scores_are_changed() -> None:
    """At a level of 90 %, of 30 calibrated models more than 7 have a significant calibrator in 1 of 10 000 runs."""
    changed = 0
    for seed in range(30):
        labels, scores = binary(200, seed=100 + seed, slope=1.0)
        changed += cd.compare_calibrators(labels, scores, [cd.PlattScaling()], ci=0.9).attrs["best"] != "none"
    # One-sided, of 5 % at most.
    assert changed <= 7


def test_rows_of_a_key_stay_together(tmp_path: Path) -> None:
    labels, scores = binary(900)
    customer = np.random.default_rng(4).integers(0, 60, 900)
    result = cd.compare_calibrators(labels, scores, {"platt": cd.PlattScaling()}, groups=customer, seed=1)
    fold = fold_numbers(key_numbers(customer), 5, 1)
    calibrated = cross_fitted(cd.PlattScaling(), labels, scores, fold)
    assert abs(float(result.log_loss[1]) - cd.log_loss(labels, calibrated)) < 2**-50
    # Names of customers as they are hashed; and the same from a file.
    frame = pd.DataFrame({"y": labels, "p": scores, "customer": customer})
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path)
    for source in (frame, path):
        again = cd.compare_calibrators(
            source, calibrators={"platt": cd.PlattScaling()}, label="y", score="p", groups="customer", seed=1
        )
        np.testing.assert_array_equal(again.improvement_high, result.improvement_high)


def test_one_cluster_leaves_no_rows_to_fit_maps_to() -> None:
    labels, scores = binary(300)
    with pytest.raises(ValueError, match=r"LCECalibrator: there are no rows to fit it to\.$"):
        cd.compare_calibrators(labels, scores, groups=np.zeros(300, int))


@pytest.mark.parametrize("absent", [None, np.nan])
def test_every_row_has_a_key(absent: object) -> None:
    labels, scores = binary(300)
    key = np.arange(300).astype(object if absent is None else float)
    key[7] = absent
    with pytest.raises(ValueError, match=r"^groups expects a value in every row, got missing ones; omit these rows"):
        cd.compare_calibrators(labels, scores, groups=key)


def test_copies_of_rows_are_no_evidence_where_their_key_says_so() -> None:
    labels, scores = binary(300)
    once = cd.compare_calibrators(labels, scores, [cd.PlattScaling()], groups=np.arange(300))
    copies = cd.compare_calibrators(
        np.repeat(labels, 9), np.repeat(scores, 9), [cd.PlattScaling()], groups=np.repeat(np.arange(300), 9)
    )
    np.testing.assert_allclose(copies.improvement, once.improvement, rtol=1e-6)
    np.testing.assert_allclose(copies.improvement_low, once.improvement_low, rtol=1e-5)


def test_many_keys_are_put_into_clusters() -> None:
    labels, scores = binary(3000)
    alone = cd.compare_calibrators(labels, scores, [cd.PlattScaling()])
    keyed = cd.compare_calibrators(labels, scores, [cd.PlattScaling()], groups=np.arange(3000))
    width = [float((result.improvement_high - result.improvement_low)[1]) for result in (alone, keyed)]
    assert 0.8 < width[1] / width[0] < 1.25


def test_few_rows_have_rough_intervals() -> None:
    for rows, rough in ((200, True), (300, False)):
        reason = cd.compare_calibrators(*binary(rows), [cd.PlattScaling()]).attrs["reason"]
        assert reason.endswith("With fewer than 300 rows such intervals are rough.") == rough


def test_what_cannot_be_fitted_is_left_out_and_named() -> None:
    labels, scores = binary(300)

    class Refusing(cd.PlattScaling):
        def _fit_points(self, points: Any) -> Any:
            raise ValueError("not to these scores")

    result = cd.compare_calibrators(labels, scores, {"platt": cd.PlattScaling(), "refusing": Refusing()})
    assert result.calibrator.values.tolist() == ["none", "platt"]
    assert result.attrs["left_out"] == "refusing: not to these scores"


def test_few_events_have_no_interval() -> None:
    labels, scores = np.zeros(200, int), np.linspace(0.01, 0.4, 200)
    labels[[50, 120, 160, 190]] = 1
    result = cd.compare_calibrators(labels, scores, [cd.PlattScaling()])
    assert np.isfinite(result.improvement).all()
    assert np.isnan(result.improvement_low).all()
    assert result.attrs["best"] == "none"
    assert "one outcome are too few" in result.attrs["reason"]


def test_weights_count_like_copies_in_the_numbers() -> None:
    labels, scores = binary(400)
    key, weights = np.arange(400), np.random.default_rng(0).integers(1, 4, 400)
    weighted = cd.compare_calibrators(labels, scores, [cd.PlattScaling()], groups=key, sample_weight=weights)
    assert weighted.attrs["passes"] == 2
    copies = cd.compare_calibrators(
        np.repeat(labels, weights), np.repeat(scores, weights), [cd.PlattScaling()], groups=np.repeat(key, weights)
    )
    np.testing.assert_allclose(weighted.improvement, copies.improvement, rtol=1e-6)
    np.testing.assert_allclose(weighted.improvement_low, copies.improvement_low, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"folds": 0}, "folds expects"),
        ({"ci": 95}, "ci expects"),
        ({"calibrators": {"none": cd.PlattScaling()}}, "none of them called 'none'"),
        ({"calibrators": []}, "expects one or more"),
    ],
)
def test_bad_options(options: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cd.compare_calibrators(*binary(50), **options)


def test_bad_data() -> None:
    labels, scores = binary(60)
    with pytest.raises(ValueError, match="got a summary, which has none"):
        cd.compare_calibrators(cd.summarize(labels, scores))
    with pytest.raises(ValueError, match="scores of one model"):
        cd.compare_calibrators(labels, np.stack([scores, scores]), task="binary")
    with pytest.raises(ValueError, match=r"to which a calibrator can be fitted\. None can be: .*both outcomes"):
        cd.compare_calibrators(np.zeros(60, int), scores, [cd.PlattScaling()])

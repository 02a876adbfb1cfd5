"""Soft labels: expectations over drawn labels, intervals of whole rows, the bits of hard ones."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli import main

RNG = np.random.default_rng(0)
SCORES = RNG.random(3000)
SHARES = RNG.beta(5 * SCORES**1.2 + 0.1, 5 * (1 - SCORES**1.2) + 0.1)
MATRIX = RNG.dirichlet([1, 2, 3], 1500)
ROWS = np.stack([RNG.dirichlet(4 * row + 0.05) for row in MATRIX])
QUESTION = RNG.choice(["a", "b", "c"], 3000)


VOTES = (RNG.random((3000, 2)) < SCORES[:, None]).astype(float)
NAMED_VOTES = np.where(VOTES == 1, "yes", "no")


def test_linear_things_are_exact() -> None:
    metrics = {"gap": cd.MeanGap(), "brier": cd.BrierScore(), "log": cd.LogLoss(), "ece": cd.ECE(bins=10)}
    result = cd.evaluate(SHARES, SCORES, metrics, soft_labels=True)
    assert float(result.gap) == pytest.approx((SHARES - SCORES).mean(), abs=1e-12)
    brier = SHARES * (1 - SCORES) ** 2 + (1 - SHARES) * SCORES**2
    assert float(result.brier) == pytest.approx(brier.mean(), rel=1e-12)
    log = -(SHARES * np.log(SCORES) + (1 - SHARES) * np.log1p(-SCORES))
    assert float(result.log) == pytest.approx(log.mean(), rel=1e-12)
    bins = np.ceil(SCORES * 10).astype(int) - 1
    gaps = np.bincount(bins, SHARES - SCORES, 10)
    assert float(result.ece) == pytest.approx(np.abs(gaps).sum() / 3000, rel=1e-9)
    assert int(result.rows) == result.attrs["rows"] == 3000
    assert float(result.frequency) == pytest.approx(SHARES.mean())


def test_classes() -> None:
    metrics = {"brier": cd.BrierScore(), "log": cd.LogLoss(), "gap": cd.MeanGap(), "ece": cd.ECE(setting="classwise")}
    result = cd.evaluate(ROWS, MATRIX, metrics, soft_labels=True)
    log = -(ROWS * np.log(MATRIX)).sum(1).mean()
    assert float(result["log"]) == pytest.approx(log, rel=1e-12)
    brier = sum(ROWS[:, k] * ((MATRIX - np.eye(3)[k]) ** 2).sum(1) for k in range(3)).mean()
    assert float(result.brier) == pytest.approx(brier, rel=1e-12)
    top = MATRIX.argmax(1)
    expected = (ROWS[np.arange(1500), top] - MATRIX.max(1)).mean()
    assert float(result.gap) == pytest.approx(expected, abs=1e-12)
    assert int(result.rows) == 1500
    floor, by_class = cd.NoiseFloor(resamples=20), cd.NoiseFloor(statistic=cd.ECE(setting="classwise"), resamples=20)
    alone = cd.evaluate(ROWS, MATRIX, {"floor": floor}, soft_labels=True)
    both = cd.evaluate(ROWS, MATRIX, {"floor": floor, "classwise": by_class}, soft_labels=True)
    # All classes but the largest are one part if nothing tells them apart.
    assert float(both.floor_mean) == pytest.approx(float(alone.floor_mean), rel=1e-9)
    assert 0 < float(both.classwise_mean) < float(both.classwise_high)


def test_hard_shares_have_the_bits_of_their_labels() -> None:
    by = {"question": QUESTION}
    labels = (SHARES > 0.5).astype(int)
    soft = cd.evaluate(labels.astype(float), SCORES, "all", soft_labels=True, by=by, ci=0.9, n_boot=20)
    assert "all labels are 0 or 1 (NoiseFloor draws such labels)" in soft.attrs.pop("metrics_left_out")[0]
    xr.testing.assert_identical(soft, cd.evaluate(labels, SCORES, "all", by=by, ci=0.9, n_boot=20))
    classes = ROWS.argmax(1)
    one_hot = cd.evaluate(np.eye(3)[classes], MATRIX, soft_labels=True, by=None, ci=0.9, n_boot=20)
    del one_hot.attrs["metrics_left_out"]
    xr.testing.assert_identical(one_hot, cd.evaluate(classes, MATRIX, ci=0.9, n_boot=20))
    scores = [dict(zip("abc", row, strict=True)) for row in MATRIX.tolist()]
    rows = [{"label": {"abc"[k]: 1}, "score": row} for k, row in zip(classes, scores, strict=True)]
    named = [{**row, "label": "abc"[k]} for k, row in zip(classes, rows, strict=True)]
    by_name = cd.evaluate(rows, soft_labels=True)
    del by_name.attrs["metrics_left_out"]
    xr.testing.assert_identical(by_name, cd.evaluate(named))


def test_it_is_the_expectation_over_drawn_labels() -> None:
    rng = np.random.default_rng(1)
    drawn = (rng.random((400, 3000)) < SHARES).astype(int)
    metrics = {"brier": cd.BrierScore(), "auc": cd.CStatistic(), "gap": cd.MeanGap()}
    of_draws = cd.evaluate(drawn, np.broadcast_to(SCORES, drawn.shape), metrics, task="binary")
    soft = cd.evaluate(SHARES, SCORES, metrics, soft_labels=True)
    for name in metrics:
        error = float(of_draws[name].std()) / np.sqrt(400)
        assert float(soft[name]) == pytest.approx(float(of_draws[name].mean()), abs=5 * error + 2e-4), name


def test_intervals_are_those_of_rows() -> None:
    """Shares vary less than labels that are drawn from them, and the interval of the mean gap is that of the shares."""
    soft = cd.evaluate(SHARES, SCORES, {"gap": cd.MeanGap()}, soft_labels=True, ci=0.95, n_boot=400)
    width = float(soft.gap_high - soft.gap_low)
    assert width == pytest.approx(2 * 1.96 * (SHARES - SCORES).std() / np.sqrt(3000), rel=0.2)
    rng = np.random.default_rng(2)
    hard = cd.evaluate((rng.random(3000) < SHARES).astype(int), SCORES, {"gap": cd.MeanGap()}, ci=0.95)
    assert width < 0.8 * float(hard.gap_high - hard.gap_low)


def test_compare_and_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Differences and limits have the intervals of rows; shares that are 0 or 1 those of labels."""
    rough, labels = SCORES**1.1, (SHARES > 0.5).astype(int)
    lower = (SHARES * (1 - rough) ** 2 + (1 - SHARES) * rough**2) - (
        SHARES * (1 - SCORES) ** 2 + (1 - SHARES) * SCORES**2
    )
    soft = cd.compare(SHARES, SCORES, rough, cd.BrierScore(), soft_labels=True, n_boot=200)
    assert float(soft.brier_score_difference) == pytest.approx(lower.mean(), abs=1e-12)
    width = float(soft.brier_score_difference_high - soft.brier_score_difference_low)
    assert width == pytest.approx(2 * 1.96 * lower.std() / np.sqrt(3000), rel=0.3)
    assert soft.attrs["rows"] == 3000
    assert "clusters" not in soft.coords
    models = {"a": SCORES, "b": rough}
    by = {"question": QUESTION}
    usual = cd.compare(SHARES, models, soft_labels=True, by=by, n_boot=5)
    assert "ece" in usual
    np.testing.assert_array_equal(usual.rows[0], pd.Series(QUESTION).value_counts().sort_index())
    hard = cd.compare(labels / 1, models, metrics=cd.ECE(), soft_labels=True, by=by, n_boot=5)
    xr.testing.assert_identical(hard, cd.compare(labels, models, metrics=cd.ECE(), by=by, n_boot=5))
    limits = {"cutoff-error": 0.1, "mean-gap": (-0.1, 0.1)}
    gate = cd.check(SHARES, SCORES, limits, soft_labels=True, n_boot=20)
    error = 1.96 * (SHARES - SCORES).std() / np.sqrt(3000)
    (_, gap) = gate.judgements
    assert (gap.low, gap.high, gap.rows) == pytest.approx((gap.value - error, gap.value + error, 3000), rel=0.1)
    assert gate.outcome == "met"
    bits = cd.check(labels / 1, SCORES, limits, soft_labels=True, n_boot=5)
    assert bits.judgements == cd.check(labels, SCORES, limits, n_boot=5).judgements
    with pytest.raises(ValueError, match="its correction is that of labels"):
        cd.check(SHARES, SCORES, {"ece(norm=l2, debias=true)": 0.1}, soft_labels=True)
    path = tmp_path / "two.csv"
    pd.DataFrame({"label": SHARES, "a": SCORES, "b": rough, "q": QUESTION}).to_csv(path, index=False)
    scores = ["--score", "a=a", "--score", "b=b", "--soft-labels"]
    assert main(["compare", str(path), *scores, "--metric", "brier-score", "--n-boot", "200", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert one["metrics"]["brier_score"]["high"] == pytest.approx(float(soft.brier_score_difference_high), rel=1e-9)
    assert main(["check", str(path), "--score", "a", "--soft-labels", "--limit", "cutoff-error=0.1"]) == 0
    assert "Met: the one limit, with 3,000 rows" in capsys.readouterr().out


def test_commands_that_count_labels_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("summarize", "report", "verify", "threshold", "audit", "watch", "shrink", "calibrate"):
        assert main([command, "rows.csv", "--soft-labels"]) == 2
        assert f"--soft-labels is not supported by {command}, which counts" in capsys.readouterr().err


@pytest.mark.parametrize(
    "count",
    [
        cd.summarize,
        cd.fingerprint,
        cd.compare_calibrators,
        cd.Accumulator().update,
        cd.PlattScaling().fit,
        lambda y_true, y_prob: cd.threshold(y_true, y_prob, risk=0.1),
        lambda y_true, y_prob: cd.audit(y_true, y_prob, {"q": QUESTION}),
        lambda y_true, y_prob: cd.shrink_slices(y_true, {"q": QUESTION}, y_prob=y_prob),
        lambda y_true, y_prob: cd.receipt(y_true, y_prob),
    ],
)
def test_functions_that_count_labels_say_who_accepts_shares(count: Any) -> None:
    with pytest.raises(ValueError, match="for shares, see soft_labels of evaluate or check"):
        count(SHARES, SCORES)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (SHARES + 0.5, {}, "the first is row"),
        (np.where(np.arange(3000) == 7, np.nan, SHARES), {}, "row 7"),
        (np.stack([SHARES, SHARES, SHARES], 1)[:, :, None], {}, "has 3 dimensions"),
        (np.stack([SHARES, 2 * SHARES], 1), {}, r"found \d+ of 6000 that are not, .*rater 1\)"),
        (np.full((3000, 2), "yes"), {}, "name the positive class by pos_label"),
        (NAMED_VOTES, {"pos_label": "Yes"}, "such as 'no', got 'Yes'"),
        (NAMED_VOTES, {"labels": ["no", "Yes"]}, r"\['no', 'Yes'\]; found .* the first 'yes' \(row"),
        (np.where(np.arange(6000).reshape(-1, 2) == 5, 0.5, VOTES).astype(str), {"pos_label": 2}, "got 2"),
        (np.where(np.arange(3000)[:, None] == 3, np.nan, VOTES), {}, "at least one label per row; 1 of 3000 rows"),
        (SHARES, {"metrics": cd.ECE(norm="l2", debias=True)}, "its correction"),
        (SHARES, {"metrics": cd.SpiegelhalterTest()}, "not supported by spiegelhalter_test"),
        (SHARES, {"metrics": cd.ConformalThreshold()}, "a set holds a label or does not"),
        (SHARES, {"metrics": cd.SKCE()}, "not supported by skce"),
        (SHARES, {"sample_weight": -np.ones(3000)}, "the first is row 0: -1"),
        (SHARES, {"soft_labels": "judges"}, "expects True, False or 'raters'"),
        (SHARES, {"metrics": cd.NoiseFloor(), "population": cd.Population(prevalence=0.1)}, "does not support popul"),
    ],
)
def test_what_is_refused(labels: Any, options: Any, message: str) -> None:
    raters = "raters" if {"labels", "pos_label"} & {*options} else True
    with pytest.raises(ValueError, match=message):
        cd.evaluate(labels, SCORES, **{"soft_labels": raters, **options})


@pytest.mark.parametrize(
    ("votes", "pos_label"),
    [(VOTES, 1), (VOTES, "1"), (VOTES.astype(int), "1.0"), (VOTES == 1, "true"), (NAMED_VOTES, "yes")],
)
def test_the_positive_class_of_raters_is_matched_by_value(votes: Any, pos_label: Any) -> None:
    result = cd.evaluate(votes, SCORES, cd.MeanGap(), soft_labels="raters", pos_label=pos_label)
    assert float(result.mean_gap) == pytest.approx((VOTES.mean(-1) - SCORES).mean(), abs=1e-12)


def test_weights() -> None:
    weights = RNG.integers(0, 4, 3000) / 4
    metrics = "observed-expected, saturation"
    counted = cd.evaluate(SHARES, SCORES, metrics, soft_labels=True, sample_weight=weights, by={"q": QUESTION})
    for value in np.unique(QUESTION):
        at, slice_ = value == QUESTION, counted.sel(q=value)
        assert float(slice_.observed_expected_observed) == pytest.approx((weights * SHARES)[at].sum())
        assert float(slice_.observed_expected_expected) == pytest.approx((weights * SCORES)[at].sum())
        effective = weights[at].sum() ** 2 / (weights[at] ** 2).sum()
        assert float(slice_.saturation_effective_rows) == pytest.approx(effective)
    result = cd.evaluate(SHARES, SCORES, [cd.MeanGap(), cd.ECE(bins=10)], soft_labels=True, sample_weight=weights)
    assert float(result.mean_gap) == pytest.approx(np.average(SHARES - SCORES, weights=weights), abs=1e-12)
    gaps = np.bincount(np.ceil(SCORES * 10).astype(int), weights * (SHARES - SCORES))
    assert float(result.ece) == pytest.approx(np.abs(gaps).sum() / weights.sum(), rel=1e-9)
    assert int(result.rows) == (weights > 0).sum()
    labels = (SHARES > 0.5).astype(int)
    soft = cd.evaluate(labels / 1, SCORES, soft_labels=True, sample_weight=weights)
    del soft.attrs["metrics_left_out"]
    xr.testing.assert_identical(soft, cd.evaluate(labels, SCORES, sample_weight=weights))


def test_raters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    votes = np.where(RNG.random((3000, 3)) < 0.2, np.nan, RNG.random((3000, 3)) < SCORES[:, None])
    votes[:, 0] = np.where(np.isnan(votes).all(-1), 1, votes[:, 0])
    by = {"question": QUESTION}
    result = cd.evaluate(votes, SCORES, cd.MeanGap(), soft_labels=True, by=by)
    shares = np.nanmean(votes, -1)
    gap = pd.Series(shares - SCORES).groupby(QUESTION).mean()
    np.testing.assert_allclose(result.mean_gap, gap, atol=1e-12)
    raters = (~np.isnan(votes)).sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        disagreement = 2 * shares * (1 - shares) * raters / (raters - 1)
    expected = pd.Series(disagreement).groupby(QUESTION).mean()
    np.testing.assert_allclose(result.rater_disagreement, expected, atol=1e-12)
    path = tmp_path / "raters.csv"
    pd.DataFrame(votes, columns=["anna", "ben", "cleo"]).assign(score=SCORES, g=QUESTION).to_csv(path, index=False)
    command = ["evaluate", str(path), "--label", "anna,ben,cleo", "--raters", "--by", "g", "--metric", "mean-gap"]
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = [one["metrics"]["rater_disagreement"]["value"] for one in document["slices"]]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    words = np.array(["a", "b", "c", None], object)[RNG.integers(0, 4, (1500, 3))]
    words[:, 1] = "b"
    named = pd.DataFrame(MATRIX, columns=["a", "b", "c"])
    of_raters = cd.evaluate(words, named, cd.LogLoss(), soft_labels="raters")
    counts = np.stack([(words == name).sum(-1) for name in "abc"], -1)
    shares = counts / counts.sum(-1, keepdims=True)
    assert float(of_raters.log_loss) == pytest.approx(-(shares * np.log(MATRIX)).sum(1).mean(), rel=1e-12)
    pd.concat([pd.DataFrame(words, columns=["anna", "ben", "cleo"]), named], axis=1).to_csv(path, index=False)
    command = ["evaluate", str(path), "--label", "anna,ben,cleo", "--score", "a,b,c", "--raters"]
    assert main([*command, "--metric", "log-loss", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["metrics"]["log_loss"]["value"]
    assert found == pytest.approx(float(of_raters.log_loss), rel=1e-12)


def decisions() -> tuple[list[dict[str, Any]], dict[str, tuple[list[str], Any, Any]]]:
    """Rows as mappings, whose classes differ by question, and the arrays of each question."""
    classes = {"a": ["yes", "no"], "b": ["yes", "no", "maybe"], "c": ["x", "y", "no"]}
    rows, arrays = [], {}
    for name, own in classes.items():
        scores = RNG.dirichlet(np.ones(len(own)), 200).round(6)
        shares = np.stack([RNG.multinomial(4, row / row.sum()) / 4 for row in scores])
        arrays[name] = own, shares, scores
        for i, (share, score) in enumerate(zip(shares, scores, strict=True)):
            # In any order, and without what nobody has chosen.
            label = {own[k]: float(share[k]) for k in RNG.permutation(len(own)) if share[k] > 0}
            score = dict(zip(own, score.tolist(), strict=True))
            rows.append({"question": name, "document": i // 4, "label": label, "score": score})
    return rows, arrays


def test_classes_that_differ_by_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, arrays = decisions()
    metrics = [cd.BrierScore(), cd.LogLoss(), cd.MeanGap()]
    result = cd.evaluate(rows, metrics=metrics, by="question", soft_labels=True)
    for name, (_, shares, scores) in arrays.items():
        alone = cd.evaluate(shares, scores, metrics, soft_labels=True)
        for metric in alone.data_vars:
            # Of two classes alone the sum over both is twice the score.
            factor = 2 if metric == "brier_score" and name == "a" else 1
            expected = factor * float(alone[metric])
            assert float(result[metric].sel(question=name)) == pytest.approx(expected, rel=1e-12), metric
    labels, scores = ([row[name] for row in rows] for name in ("label", "score"))
    listed = cd.evaluate(labels, scores, metrics, by={"question": [row["question"] for row in rows]}, soft_labels=True)
    xr.testing.assert_allclose(listed, result)
    path = tmp_path / "decisions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert main(["evaluate", str(path), "--soft-labels", "--by", "question", "--groups", "document", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    for one in document["slices"]:
        numbers = one["metrics"]
        assert numbers["log_loss"]["value"] == pytest.approx(float(result.log_loss.sel(one["by"])))
        for error in ("ece", "cutoff_error", "smooth_ece"):
            assert 0 < numbers[f"{error}_floor"]["mean"] < numbers[f"{error}_floor"]["high"]
    for bad, words in (
        ({"no": "high"}, "Row 5 has 'high' for class 'no'; expected a number or null"),
        (
            "no",
            "Row 5 has 'no', where other rows map classes to numbers",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            cd.evaluate([*labels[:5], bad, *labels[6:]], scores, metrics, soft_labels=True)
    with pytest.raises(ValueError, match="slices have different classes"):
        cd.evaluate(rows, metrics=cd.ECE(setting="classwise"), by="question", soft_labels=True)
    with pytest.raises(ValueError, match=r"row 3 has a share of 'maybe', and the scores of its slice \(question=a\)"):
        cd.evaluate(
            [{**row, "label": {"maybe": 1.0}} if i == 3 else row for i, row in enumerate(rows)],
            metrics=metrics,
            by="question",
            soft_labels=True,
        )


@pytest.mark.parametrize("size", [1, 5])
def test_the_noise_floor_is_the_error_of_simulated_models(size: int) -> None:
    """Of four raters whose tastes decisions of one document share half of the time, and of an overconfident model."""
    rng = np.random.default_rng(3)
    clusters = np.arange(3000) // size
    scores = rng.random(3000)

    def drawn(truth: Any) -> Any:
        taste, own = rng.random((3000, 4))[clusters], rng.random((3000, 4))
        return (np.where(rng.random((3000, 4)) < 0.5, taste, own) < truth[:, None]).mean(-1)

    bins = np.ceil(scores * 15).astype(int)
    errors = [np.abs(np.bincount(bins, drawn(scores) - scores)).sum() / 3000 for _ in range(1000)]
    groups = None if size == 1 else clusters
    metrics = [{"ece": cd.ECE(), "floor": cd.NoiseFloor(resamples=300, seed=seed)} for seed in range(10)]
    truth = 0.2 + 0.6 * scores
    results = [cd.evaluate(drawn(truth), scores, chosen, soft_labels=True, groups=groups) for chosen in metrics]
    floors = np.mean([(float(one.floor_mean), float(one.floor_high)) for one in results], axis=0)
    np.testing.assert_allclose(floors, [np.mean(errors), np.quantile(errors, 0.95)], rtol=0.03)
    assert all(float(one.ece) > float(one.floor_high) for one in results)


def test_rows_that_do_not_add_up_are_named() -> None:
    off = ROWS.copy()
    off[3] *= 1.2
    with pytest.raises(ValueError, match=r"the first is row 3: 1\.2"):
        cd.evaluate(off, MATRIX, soft_labels=True)


def test_rows_of_weight_0_do_not_change_the_floor() -> None:
    weights = np.where(np.arange(400) < 200, 1.0, 0.0)
    hard = np.where(weights > 0, SHARES[:400], SHARES[:400] > 0.5)
    floors = [
        cd.evaluate(shares, SCORES[: len(shares)], soft_labels=True, sample_weight=of_rows)
        for shares, of_rows in ((hard, weights), (SHARES[:200], np.ones(200)))
    ]
    assert float(floors[0].ece_floor_high) == pytest.approx(float(floors[1].ece_floor_high), rel=1e-12)


def test_the_floor_of_one_row_is_that_of_a_label() -> None:
    result = cd.evaluate(SHARES[:41], SCORES[:41], soft_labels=True, by={"g": np.minimum(np.arange(41), 1)})
    assert float(result.ece_floor_high[0]) > 0
    assert result.ece_floor_high.attrs["assumes"].endswith("that of fewer than 10 rows in 1 of 2 slices")


@pytest.mark.parametrize(
    ("labels", "options", "reason"),
    [
        (SHARES, ["--prevalence", "0.3"], "have the prevalence of the rows"),
        (SHARES > 0.5, [], "all labels are 0 or 1 (NoiseFloor draws"),
        (SHARES > 0.5, ["--groups", "g", "--by", "even"], "all labels are 0 or 1 (rows of a cluster are dependent)"),
        (SHARES, ["--groups", "g"], ""),
    ],
)
def test_files_have_the_floors_of_arrays(
    labels: Any,
    options: list[str],
    reason: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if a file has several blocks, whose rows are not counted before they are read."""
    monkeypatch.setattr("calibdask.storage.csv_files._CSV_BLOCK_BYTES", 1 << 14)
    path = tmp_path / "rows.csv"
    rows = pd.DataFrame(
        {"label": np.asarray(labels, np.float64), "score": SCORES, "g": np.arange(3000) // 5, "even": 0}
    )
    rows.to_csv(path, index=False)
    assert main(["evaluate", str(path), "--soft-labels", "--json", *options]) == 0
    written = json.loads(capsys.readouterr().out)
    population = cd.Population(prevalence=0.3) if options[:1] == ["--prevalence"] else None
    groups = rows.g.to_numpy() if options[:1] == ["--groups"] else None
    result = cd.evaluate(rows.label.to_numpy(), SCORES, soft_labels=True, groups=groups, population=population)
    numbers = written["metrics"] if "metrics" in written else written["slices"][0]["metrics"]
    assert ("ece_floor" in numbers) == (not reason)
    for name, number in numbers.items():
        for part, value in number.items():
            if isinstance(value, float):
                variable = name if part == "value" else f"{name}_{part}"
                assert value == pytest.approx(float(result[variable]), rel=1e-12), variable
    for notes in (written.get("metrics_left_out", []), result.attrs.get("metrics_left_out", [])):
        assert (reason in notes[0]) if reason else not len(notes)


@pytest.mark.parametrize("logits", [np.array([-800.0, 0, 3, 1]), np.array([[-800.0, 1], [2, 0], [0, 1], [800, 0]])])
def test_logits_of_any_size(logits: np.ndarray) -> None:
    shares = np.array([0.1, 0.5, 0.9, 0.6])
    result = cd.evaluate(
        shares if logits.ndim == 1 else np.stack([1 - shares, shares], 1), logits, soft_labels=True, logits=True
    )
    assert np.isfinite(result.ece_floor_high)

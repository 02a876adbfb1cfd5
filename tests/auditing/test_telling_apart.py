"""Described segments are told apart: partial effects by least squares on rows, short lists, and no level that rises."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import calibdask as cd
from calibdask.analyses.auditing import audit_table as auditing
from calibdask.analyses.auditing.audit_table import PartialEffects
from calibdask.analyses.auditing.overlaps import Overlaps
from tests.equality import same_results

Array = NDArray[Any]
FEATURES, ROWS = 8, 120_000


def dependent(n: int, seed: int) -> dict[str, Array]:
    """Whole numbers from 0 to 3 with a common cause."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n)
    return {f"x{i}": np.clip(np.round(common + rng.normal(size=n) + 1.5), 0, 3).astype(int) for i in range(FEATURES)}


def planted(*groups: tuple[str, str], n: int = ROWS, seed: int = 1, scale: str = "odds") -> tuple[Array, Array, Any]:
    """Outcomes, scores that depend on the features, and features; off in groups whose two features are 3."""
    rng = np.random.default_rng(seed + 50)
    features = dependent(n, seed)
    odds = -1.5 + 0.4 * (features["x7"] - 1.5) + 0.5 * rng.normal(size=n)
    # Few different scores, each of many rows: of 64 cells and more none has two.
    scores = np.clip(np.round(20 / (1 + np.exp(-odds))), 1, 12) / 20
    odds = np.log(scores / (1 - scores))
    off = sum(((features[a] == 3) & (features[b] == 3)).astype(float) for a, b in groups) + np.zeros(n)
    truth = 1 / (1 + np.exp(-odds - 0.8 * off)) if scale == "odds" else np.clip(scores + 0.12 * off, 0, 1)
    return rng.random(n) < truth, scores, features


def name(a: str, b: str) -> str:
    """The segment in which both are 3."""
    return f"{a} = 3, {b} = 3"


TWO = ("x0", "x1"), ("x2", "x3")
NAMES = {name(*group) for group in TWO}


def listed(result: Any) -> list[str]:
    """The described segments, the strongest evidence first."""
    return [str(text) for text in result.segment.values[result.described.values]]


def inside(text: str, features: dict[str, Array]) -> Array:
    """Which rows a segment has."""
    here = np.full(len(next(iter(features.values()))), True)
    for condition in text.split(", ") if text != "all rows" else []:
        words = condition.split()
        if len(words) == 5:
            here &= (features[words[2]] > float(words[0])) & (features[words[2]] <= float(words[4]))
        else:
            side = {">": np.greater, "<=": np.less_equal, "=": np.equal}[words[1]]
            here &= side(features[words[0]], float(words[2]))
    return here


def spied(monkeypatch: pytest.MonkeyPatch) -> list[PartialEffects]:
    """What is told apart by further audits."""
    told: list[PartialEffects] = []

    class Spy(PartialEffects):
        def chosen(self) -> list[int]:
            told.append(self)
            return super().chosen()

    monkeypatch.setattr(auditing, "PartialEffects", Spy)
    return told


def everything(monkeypatch: pytest.MonkeyPatch, *given: Any, **options: Any) -> Any:
    """The audit whose described segments cannot be separated."""
    with monkeypatch.context() as patched:
        patched.setattr(PartialEffects, "chosen", lambda self: list(range(len(self.overlaps.known))))
        return cd.audit(*given, **options)


@pytest.mark.parametrize("weighted", [False, True])
def test_partial_effects_are_those_of_least_squares_on_rows(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    y, p, features = planted(*TWO, n=10_000)
    w = np.random.default_rng(2).integers(0, 4, p.size) / 2 if weighted else np.ones(p.size)
    told = spied(monkeypatch)
    given: dict[str, Any] = {"features": features, "sample_weight": w if weighted else None, "score_cells": 300}
    result, texts = cd.audit(y, p, **given), listed(everything(monkeypatch, y, p, **given))
    one = told[0]
    assert len(one.overlaps.known) == len(texts) >= 5
    x = np.stack([inside(text, features) for text in texts], axis=1).astype(float)
    v, e = p * (1 - p), y - p

    def regression(segment: int, beside: list[int]) -> tuple[float, float]:
        columns = np.column_stack([x[:, [segment, *beside]], x[:, beside] * v[:, None]])
        root = np.sqrt(w)[:, None]
        effect = np.linalg.lstsq(root * columns, root[:, 0] * e, rcond=None)[0][0]
        bread = np.linalg.inv((columns * w[:, None]).T @ columns)
        filled = [(columns * (w**2 * square)[:, None]).T @ columns for square in (v, e**2)]
        return effect, np.sqrt(max((bread @ meat @ bread)[0, 0] for meat in filled))

    for beside in ([], [1], [0, 3], [4, 1, 2]):
        alone = [segment for segment in range(len(texts)) if segment not in beside]
        effects, errors = one.effects(alone, beside)
        for segment, effect, error in zip(alone, effects, errors, strict=True):
            assert (effect, error) == pytest.approx(regression(segment, beside), rel=1e-6), (segment, beside)
    # Stepwise, as it is said.
    chosen, others = [0], list(range(1, len(texts)))

    def evidence(segment: int) -> float:
        effect, error = regression(segment, [other for other in chosen if other != segment])
        return abs(effect) / error

    while others and evidence(best := max(others, key=evidence)) > one.limit:
        chosen.append(best)
        others.remove(best)
    while len(chosen) > 1 and evidence(weakest := min(chosen, key=evidence)) <= one.limit:
        chosen.remove(weakest)
    assert listed(result) == [texts[segment] for segment in sorted(chosen)]


def test_rare_outcomes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of many sizes, in segments of tiny ones alone: their squares are not lost, nor is anything singular."""
    rng, n = np.random.default_rng(8), 20_000
    features = dependent(n, 8)
    p = 10.0 ** -rng.integers(2, 5, n) * np.where(features["x0"] == 3, 1e-5, 1.0)
    both = ((features["x0"] == 3) & (features["x1"] == 3)) | ((features["x2"] == 0) & (features["x3"] == 0))
    y = rng.random(n) < p + 0.06 * both
    told = spied(monkeypatch)
    result, texts = cd.audit(y, p, features), listed(everything(monkeypatch, y, p, features))
    assert {name("x0", "x1"), "x2 = 0, x3 = 0"} <= set(listed(result))
    x = np.stack([inside(text, features) for text in texts], axis=1).astype(float)
    x = np.concatenate([x, x * np.maximum(p * (1 - p), 2.0**-20)[:, None]], axis=1)
    overlaps = told[0].overlaps
    assert (x.T @ (y - p)).tolist() == pytest.approx(overlaps.residual.tolist(), rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(overlaps.weight, x.T @ x, rtol=1e-9)
    # Lattices round scores to multiples of 2**-40.
    np.testing.assert_allclose(overlaps.null, x.T @ (x * (p * (1 - p))[:, None]), rtol=1e-4)
    np.testing.assert_allclose(overlaps.observed, x.T @ (x * ((y - p) ** 2)[:, None]), rtol=1e-4, atol=1e-11)


@pytest.mark.parametrize("scale", ["odds", "probability"])
def test_two_mechanisms_are_two_segments(scale: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = planted(*TWO, scale=scale)
    before, result = everything(monkeypatch, *given), cd.audit(*given)
    assert len(listed(before)) == result.attrs["candidates"] > 6
    assert set(listed(result)) == NAMES
    assert set(listed(before)) > set(listed(result))
    assert result.drop_vars("described").equals(before.drop_vars("described"))
    assert result.attrs["conclusion"].startswith("2 subgroups are off, with 95 % confidence: ")
    assert (result.attrs["candidates_untried"], result.attrs["overlaps_unknown"]) == (0, 0)


def test_one_mechanism_is_listed_first_and_takes_no_pass_where_it_is_alone() -> None:
    for shift in (0.15, 0.5):
        rng = np.random.default_rng(4)
        features = {f"x{i}": rng.integers(0, 4, ROWS) for i in range(5)}
        p = rng.random(ROWS) * 0.5
        y = rng.random(ROWS) < p + shift * ((features["x0"] == 3) & (features["x1"] == 3))
        result, calibrated = cd.audit(y, p, features), cd.audit(rng.random(ROWS) < p, p, features)
        assert listed(result) == [name("x0", "x1")]
        assert result.attrs["candidates"] == 1
        assert result.attrs["passes"] == calibrated.attrs["passes"]
        assert calibrated.attrs["candidates"] == 0
    y, p, features = planted(("x0", "x1"))
    dependent_features = cd.audit(y, p, features)
    assert listed(dependent_features)[0] == name("x0", "x1")
    assert dependent_features.attrs["candidates"] >= 2
    assert dependent_features.attrs["passes"] == calibrated.attrs["passes"] + 1


def test_chunks_order_and_weights_that_are_one_change_nothing() -> None:
    import dask.array as da

    y, p, features = planted(*TWO, n=60_000)
    expected = cd.audit(y, p, features)
    order = np.random.default_rng(0).permutation(p.size)
    same_results(cd.audit(y[order], p[order], {key: x[order] for key, x in features.items()}), expected, weighted=False)
    lazy = {key: da.from_array(x, chunks=7001) for key, x in {"y": y, "p": p, **features}.items()}
    chunked = cd.audit(lazy["y"], lazy["p"], {key: lazy[key] for key in features})
    same_results(chunked, expected, weighted=False)
    assert chunked.attrs["conclusion"] == expected.attrs["conclusion"]
    backwards = cd.audit(y, p, dict(reversed(features.items())))
    assert {frozenset(text.split(", ")) for text in listed(backwards)} == {
        frozenset(text.split(", ")) for text in listed(expected)
    }
    assert listed(cd.audit(y, p, features, sample_weight=np.full(p.size, 2.0))) == listed(expected)


def test_a_summary_says_what_it_cannot_tell() -> None:
    y, p, features = planted(*TWO)
    rows = cd.audit(y, p, features)
    summary = cd.audit(cd.summarize(y, p, features=features))
    assert set(listed(summary)) >= set(listed(rows)) == NAMES
    assert summary.attrs["overlaps_unknown"] > 0
    assert "overlap in ways that the summary does not store" in summary.attrs["conclusion"]
    # The segments of four features hold what those of two share; with two features there is no more to hold.
    used = {key: features[key] for key in ("x0", "x1", "x2", "x3")}
    deep = cd.summarize(y, p, features=used, depth=4, score_cells=64)
    told, expected = cd.audit(deep), cd.audit(y, p, used, depth=4, score_cells=64)
    assert told.described.equals(expected.described)
    assert told.attrs["overlaps_unknown"] == expected.attrs["overlaps_unknown"] == 0
    assert told.attrs["conclusion"] == expected.attrs["conclusion"]


def test_more_candidates_than_are_tried_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditing, "_MOST_TRIED", 3)
    result = cd.audit(*planted(*TWO, n=60_000))
    assert result.attrs["candidates_untried"] == result.attrs["candidates"] - 3 > 0
    untried = result.attrs["candidates_untried"]
    assert result.attrs["conclusion"].endswith(f" {untried} with less evidence were not included in this comparison.")
    assert len(listed(result)) <= 3


def test_segments_with_the_same_rows_say_the_same_and_equal_scores_do_no_harm() -> None:
    """Functions that agree: the same segment twice, and s (1 - s) that is the same in all rows."""
    rows = np.array([[100.0, 100.0, 0.0], [100.0, 100.0, 0.0], [0.0, 0.0, 50.0]])
    v = 0.25 ** np.array([0, 1, 2, 1, 2, 3, 1, 2, 3])
    sums = np.triu(rows)[..., None] * v
    residual = np.array([40.0, 40.0, 1.0, 10.0, 10.0, 0.25])
    told = PartialEffects(Overlaps.of(sums, np.ones((3, 3), np.bool_), residual), 3.0)
    assert told.effects([0], [])[0] == pytest.approx([0.4])
    assert told.effects([1, 2], [0])[0] == pytest.approx([0.0, 0.02])
    assert told.effects([1], [0])[1] == 0
    assert told.chosen() == [0]

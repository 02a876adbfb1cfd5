"""Thresholds with a guarantee: that it holds in simulations, what they cost, and the same numbers from any source."""

import math
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from scipy.stats import binom, binomtest

import calibdask as cd
from calibdask.inference.risk_control import Fallback, RiskTest, level_of_each

CELLS = 400


def chosen(rows: Any, errors: Any, risk: float, chance: float) -> Any:
    """For each data set the number of the lowest threshold that qualifies, -1 for none; rows and errors by cell."""
    test, places = RiskTest(risk), np.full(len(rows), -1)
    for i, (n, e) in enumerate(zip(rows.cumsum(1), errors.cumsum(1), strict=True)):
        order = Fallback.of(test, n, chance)
        rejected, _ = order.tested(test.pvalues(n[order.steps], e[order.steps]), chance)
        if rejected.any():
            places[i] = order.steps[rejected][-1]
    return places


def cells_of(risks: Any, rows: int, sets: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng([seed, rows])
    counts = rng.multinomial(rows, np.full(CELLS, 1 / CELLS), sets)
    return counts, rng.binomial(counts, risks)


COVERAGE = (np.arange(CELLS) + 0.5) / CELLS
RISKS = {
    # Just not allowed anywhere: any threshold is a mistake.
    "flat": np.full(CELLS, 0.0501),
    "rising": 0.5 * COVERAGE**3,
    "steep": 0.5 * COVERAGE,
    # The most confident answers are worse than the next.
    "dip": np.where(COVERAGE < 0.1, 0.1, np.where(COVERAGE < 0.5, 0.03, 0.2)),
}


@pytest.mark.parametrize("kind", RISKS)
@pytest.mark.parametrize("rows", [200, 2000])
def test_the_risk_is_kept(kind: str, rows: int) -> None:
    """In 10**4 data sets of all kinds and sizes together, with a limit that one of 10**5 seeds exceeds."""
    sets = 1250
    places = chosen(*cells_of(RISKS[kind], rows, sets, 1), 0.05, 0.05)
    above = RISKS[kind].cumsum() / np.arange(1, CELLS + 1)
    broken = int((above[places[places >= 0]] > 0.05).sum())
    assert broken <= binom.isf(1e-5, sets, 0.05)
    if kind == "flat":
        assert broken == int((places >= 0).sum())


def test_slices_keep_it_together() -> None:
    """Any of three slices, two of which have nothing that is allowed."""
    test, broken, sets = RiskTest(0.05), 0, 600
    drawn = [cells_of(RISKS[kind], 600, sets, seed) for seed, kind in enumerate(("rising", "flat", "flat"))]
    above = [RISKS[kind].cumsum() / np.arange(1, CELLS + 1) for kind in ("rising", "flat", "flat")]
    for i in range(sets):
        tables = [(counts[i].cumsum(), errors[i].cumsum()) for counts, errors in drawn]
        orders = [Fallback.of(test, n, 0.05 / 3) for n, _ in tables]
        pvalues = [test.pvalues(n[o.steps], e[o.steps]) for (n, e), o in zip(tables, orders, strict=True)]
        level = level_of_each(orders, pvalues, 0.05)
        rejected = [o.tested(p, level)[0] for o, p in zip(orders, pvalues, strict=True)]
        broken += any((risk[o.steps[r]] > 0.05).any() for risk, o, r in zip(above, orders, rejected, strict=True))
    assert broken <= binom.isf(1e-5, sets, 0.05)


def test_coverage_is_near_the_best_possible() -> None:
    """Of 10**4 rows: within two points of the largest coverage whose own test rejects in half of the data sets."""
    rows, risks = 10_000, RISKS["rising"]
    places = chosen(*cells_of(risks, rows, 300, 2), 0.05, 0.05)
    share = np.arange(1, CELLS + 1) / CELLS
    above, count = risks.cumsum() / np.arange(1, CELLS + 1), np.round(share * rows)
    allowed = binom.ppf(0.05, count, 0.05) - 1
    possible = share[binom.cdf(allowed, count, above) >= 0.5].max()
    assert share[places].mean() > possible - 0.02
    # The true limit of the coverage, which no test of so many rows reaches.
    assert possible < share[above <= 0.05].max()


@pytest.mark.parametrize(
    ("risk", "confidence", "rows"), [(0.05, 0.95, 59), (0.01, 0.99, 459), (0.1, 0.9, 22), (0.5, 0.5, 1)]
)
def test_rows_without_an_error_that_suffice(risk: float, confidence: float, rows: int) -> None:
    assert (1 - risk) ** rows <= 1 - confidence + 1e-12 < (1 - risk) ** (rows - 1)
    scores = np.full(rows, 0.99)
    result = cd.threshold(np.ones(rows), scores, risk, confidence)
    assert (float(result.coverage), float(result.risk)) == (1.0, 0.0)
    assert float(result.risk_high) <= risk
    assert result.attrs["least_rows"] == rows
    if rows > 1:
        fewer = cd.threshold(np.ones(rows - 1), scores[1:], risk, confidence)
        assert math.isnan(float(fewer.threshold))
        assert (float(fewer.coverage), int(fewer.answers)) == (0.0, 0)
        assert f"takes {rows} rows without an error; there are {rows - 1}." in fewer.sentence.item()


def sliced(rows: int = 9000) -> tuple[Any, Any, dict[str, Any]]:
    rng = np.random.default_rng(4)
    scores = rng.beta(0.4, 0.4, rows)
    slices = rng.choice(["be", "fr", "lu"], rows, p=[0.6, 0.395, 0.005])
    return (rng.random(rows) < scores).astype(int), scores, {"country": slices}


def test_numbers_are_those_of_the_rows() -> None:
    labels, scores, _ = sliced()
    result = cd.threshold(labels, scores, 0.05)
    confidence, right = np.maximum(scores, 1 - scores), (scores > 0.5) == labels
    above = confidence > float(result.threshold)
    answers, errors = int(above.sum()), int((above & ~right).sum())
    assert (int(result.answers), int(result.errors)) == (answers, errors)
    assert float(result.coverage) == answers / len(labels)
    assert float(result.risk) == errors / answers
    assert float(result.pvalue) == pytest.approx(binom.cdf(errors, answers, 0.05))
    level = 1 - 2 * 0.05 if float(result.pvalue) > 0.025 else 1 - 0.05
    assert float(result.risk_high) <= 0.05
    ends = [binomtest(errors, answers).proportion_ci(1 - 2 * chance).high for chance in (0.05, 0.025)]
    assert any(float(result.risk_high) == pytest.approx(end) for end in ends), level
    assert int(result.rows) == len(labels)


def test_any_source_has_the_same_numbers() -> None:
    labels, scores, by = sliced()
    expected = cd.threshold(labels, scores, 0.05, by=by)
    lazy = da.from_array(labels, chunks=777), da.from_array(scores, chunks=1000)
    summary = cd.summarize(labels, scores, by={**by, "day": np.arange(9000) % 4})
    others = cd.threshold(*lazy, 0.05, by=by), cd.threshold(summary, risk=0.05, by="country")
    frame = {"label": labels, "score": scores, **by}
    for other in (*others, cd.threshold(frame, risk=0.05, by=["country"])):
        xr.testing.assert_identical(other.drop_attrs(), expected.drop_attrs())
    pooled = cd.threshold(summary, risk=0.05)
    xr.testing.assert_identical(pooled.drop_attrs(), cd.threshold(labels, scores, 0.05).drop_attrs())


def test_more_rows_buy_more() -> None:
    labels, scores, _ = sliced(3000)
    result = cd.threshold(labels, scores, 0.05)
    planned = result.planned_coverage.values
    assert result.times.values.tolist() == [2.0, 5.0, 10.0, math.inf]
    assert (np.diff([float(result.coverage), *planned]) >= 0).all()
    # So many times the same rows are such rows.
    ten = cd.threshold(np.tile(labels, 10), np.tile(scores, 10), 0.05)
    assert float(ten.coverage) == pytest.approx(planned[2], abs=0.003)


def test_slices_are_stricter_than_one_alone_and_few_rows_are_left_out() -> None:
    labels, scores, by = sliced()
    result = cd.threshold(labels, scores, 0.05, by=by).set_index(country="country")
    assert "takes" in result.sentence.sel(country="lu").item()
    for country in ("be", "fr"):
        rows = by["country"] == country
        alone = cd.threshold(labels[rows], scores[rows], 0.05)
        assert float(result.threshold.sel(country=country)) >= float(alone.threshold) > 0.5
        assert int(result.rows.sel(country=country)) == int(rows.sum())


def test_classes_and_models() -> None:
    labels, scores, _ = sliced(4000)
    models = xr.DataArray(np.stack([scores, scores**2]), dims=("model", "sample"), coords={"model": ["a", "b"]})
    result = cd.threshold(xr.DataArray(labels, dims="sample"), models, 0.05)
    assert result.threshold.dims == ("model",)
    alone = cd.threshold(labels, scores, 0.05)
    assert float(result.threshold.sel(model="a")) == float(alone.threshold)
    of_classes = cd.threshold(labels, scores, 0.05, setting="classwise")
    assert of_classes.threshold.dims == ("class",)
    claimed = scores > float(of_classes.threshold[1])
    assert int(of_classes.errors[1]) == int((claimed & (labels == 0)).sum())


def test_none_qualifies() -> None:
    rng = np.random.default_rng(5)
    scores = rng.uniform(0.9, 1.0, 2000)
    result = cd.threshold(rng.random(2000) < 0.5, scores, 0.05)
    assert math.isnan(float(result.threshold))
    assert "none would with any number of rows" in result.sentence.item()


@pytest.mark.parametrize("bad", [0, 1, -0.1, "5 %", True, math.nan])
def test_bad_choices(bad: Any) -> None:
    for choices in ({"risk": bad}, {"confidence": bad}):
        with pytest.raises(ValueError, match=f"{next(iter(choices))} expects a number between 0 and 1"):
            cd.threshold([0, 1], [0.2, 0.9], **choices)


def test_weighted_summaries_are_refused() -> None:
    summary = cd.summarize([0, 1], [0.2, 0.9], sample_weight=[1.0, 2.0])
    with pytest.raises(ValueError, match="a summary without weights"):
        cd.threshold(summary)
    with pytest.raises(ValueError, match="A summary replaces labels and scores"):
        cd.threshold(cd.summarize([0, 1], [0.2, 0.9]), [0.2, 0.9])

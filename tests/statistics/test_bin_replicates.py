"""Replicates of sums over bins, drawn from a few scores a bin, are distributed as those of all cells."""

import itertools
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

import calibdask as cd
from calibdask.engine.rows import Rows, make_block
from calibdask.statistics.bins.bin_sums import BinSums, BinSumsState
from calibdask.statistics.bins.edges import Edges, uniform_edges
from calibdask.statistics.bins.grid import Grid, GridHistogram, GridState
from calibdask.statistics.bins.grid_bins import bin_sums, cell_sums
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.replicates.bins import ResampledBins, gauss_nodes
from calibdask.statistics.settings import Setting

BINARY = Setting("class", 1)
FINE = Grid(refined=True)
BINS = 15
DRAWN = 2000


@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_nodes_have_the_sums_of_powers_of_the_scores(nodes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # A bin of equal scores, one of two scores, one without weight, one with a single score, and full ones.
    bins = [np.full(5, 0.3), rng.permutation([0.1, 0.1, 0.2]), rng.random(3), rng.random(1), rng.beta(0.2, 2, 300)]
    bins += [0.4 + 1e-3 * rng.random(50), np.array([0.0, 0.0, 1e-9, 1.0])]
    scores, lengths = np.concatenate(bins), np.array([len(bin_scores) for bin_scores in bins])
    weights = rng.integers(0, 4, scores.size) * 1.0
    weights[8:11] = 0.0
    result = gauss_nodes(weights, scores, lengths, nodes)
    assert (result.weight >= 0).all()
    ends = np.cumsum(lengths)
    for weight, score, low, high in zip(result.weight, result.score, ends - lengths, ends, strict=True):
        own, there = scores[low:high], weights[low:high] > 0
        for power in range(2 * nodes):
            total = (weights[low:high] * own**power).sum()
            assert (weight * score**power).sum() == pytest.approx(total, rel=1e-12, abs=1e-13)
        if there.any():
            within = score[weight > 1e-9]
            assert own[there].min() - 1e-13 <= within.min() <= within.max() <= own[there].max() + 1e-13


def histogram(labels: Any, scores: Any, weights: Any = None) -> GridState:
    layout = Layout(weighted=weights is not None)
    given = None if weights is None else weights[None]
    return GridHistogram(BINARY, FINE).from_block(
        make_block(Rows(scores[None, :, None], labels[None], given), layout, 0)
    )


def request(second: Any, edges: Any = None) -> BinSums:
    return BinSums(
        BINARY, Edges(FrozenArray((uniform_edges(BINS) if edges is None else edges)[None, None, None])), second
    )


def of_rows(labels: Any, scores: Any, weights: Any, calibrated: bool) -> dict[str, BinSumsState]:
    """Sums of resampled rows, as the definition has them: drawn with replacement, or with outcomes drawn."""
    rng, rows = np.random.default_rng(6), scores.size
    outcomes = np.broadcast_to(labels, (DRAWN, rows))
    given = np.ones(rows) if weights is None else weights
    if calibrated:
        times, outcomes = np.ones((DRAWN, rows)), rng.random((DRAWN, rows)) < scores
    elif weights is None:
        times = rng.multinomial(rows, np.full(rows, 1 / rows), DRAWN) * 1.0
    else:
        times = rng.poisson(1.0, (DRAWN, rows)) * 1.0
    edges = uniform_edges(BINS)
    bins = (np.clip(np.searchsorted(edges, scores) - 1, 0, BINS - 1)[:, None] == np.arange(BINS)) * 1.0
    left = edges[:-1][np.searchsorted(edges, scores).clip(1) - 1]
    place = (scores - left) * BINS

    def total(values: Any) -> NDArray[Any]:
        return np.asarray((times * values @ bins)[:, None, None])

    hits = given * outcomes
    second = {
        "squares": (given * scores**2, hits * scores),
        "offsets": (given * place, hits * place, given * place * scores),
    }
    plain = (total(1.0), total(given), total(given**2), total(hits), total(given * scores))
    return {
        kind: BinSumsState(plain[0].astype(np.int64), *plain[1:], np.stack([total(products) for products in sums]))
        for kind, sums in second.items()
    }


def numbers(sums: BinSumsState, second: Any) -> dict[str, NDArray[Any]]:
    """What estimators make of the sums, of each replicate."""
    weight, outcome, score = (values[:, 0, 0] for values in (sums.weight, sums.outcome, sums.score))
    result = {
        "ece": np.abs(outcome - score).sum(-1) / weight.sum(-1),
        "gap of a bin": (outcome - score)[:, 0],
        "score of a bin": score[:, 1],
        "weight of a bin": weight[:, 2],
        "squared weights": sums.weight_square[:, 0, 0].sum(-1),
    }
    if second == "squares":
        square, product = sums.second[:, :, 0, 0]
        within = square - np.divide(score**2, weight, out=np.zeros_like(score), where=weight > 0)
        result |= {"within": within.sum(-1), "with outcome": product[:, 0]}
    if second == "offsets":
        result |= {f"offset {place}": products[:, 0, 0, 3] for place, products in enumerate(sums.second)}
    return result


CASES = {
    "skewed": lambda rng: rng.beta(0.2, 2, 3000),
    "uniform": lambda rng: rng.random(3000),
    "few": lambda rng: rng.beta(0.2, 2, 60),
    "tied": lambda rng: np.round(rng.random(1000), 1),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("calibrated", "weighted"), [(False, False), (True, False), (False, True)])
def test_replicates_are_distributed_as_those_of_rows(case: str, calibrated: bool, weighted: bool) -> None:
    """Means, standard deviations and percentiles 2.5 and 97.5 of 2000 replicates each, within their Monte Carlo error.

    That of the ratio of two standard deviations of normal numbers is 2.2 %, of the difference of two such percentiles
    0.085 standard deviations. Five times as much is allowed, and where counts are small a row.
    """
    rng = np.random.default_rng(sorted(CASES).index(case))
    scores = CASES[case](rng)
    labels = (rng.random(scores.size) < scores**1.2).astype(int)
    weights = 0.5 + rng.random(scores.size) if weighted else None
    cells = cell_sums(histogram(labels, scores, weights), FINE)
    rows = of_rows(labels, scores, weights, calibrated)
    for second in ("squares", "offsets", "none"):
        sums = ResampledBins(request(second), cells, FINE, calibrated=calibrated).draw(5, range(DRAWN))
        actual, expected = numbers(sums, second), numbers(rows.get(second, rows["squares"]), second)
        for name, values in expected.items():
            spread, size = values.std(), np.abs(values).max()
            # Scores of a cell count as equal: 2e-8 of a square.
            slack = 2e-8 * scores.size
            if name == "squared weights" and weighted:
                continue  # of a bin as if all its rows had one weight
            assert abs(actual[name].mean() - values.mean()) < 5 * spread * (2 / DRAWN) ** 0.5 + slack, name
            assert abs(actual[name].std() - spread) < 0.11 * spread + slack, name
            step = min(1.0, size) if case == "few" or spread < 3 else 0.0
            for share in (0.025, 0.975):
                ends = [np.quantile(replicates, share) for replicates in (actual[name], values)]
                assert abs(ends[0] - ends[1]) < 0.43 * spread + (step if name != "ece" else 0.0) + slack, (name, share)


def test_a_replicate_is_the_same_whatever_others_are_drawn() -> None:
    rng = np.random.default_rng(3)
    scores = rng.beta(0.2, 2, 500)
    cells = cell_sums(histogram((rng.random(500) < scores).astype(int), scores), FINE)
    for calibrated in (False, True):
        resampled = ResampledBins(request("squares"), cells, FINE, calibrated=calibrated)
        whole = resampled.draw(7, range(230))
        cuts = (0, 3, 99, 100, 101, 230)
        parts = [resampled.draw(7, range(a, b)) for a, b in itertools.pairwise(cuts)]
        for field, values in enumerate(whole):
            axis = 1 if field == 5 else 0
            np.testing.assert_array_equal(np.concatenate([part[field] for part in parts], axis), values)
        # One that has gone on does not go back.
        np.testing.assert_array_equal(resampled.draw(7, range(120, 130)).outcome, whole.outcome[120:130])
        np.testing.assert_array_equal(resampled.draw(7, range(140, 150)).outcome, whole.outcome[140:150])
        np.testing.assert_array_equal(resampled.draw(7, range(110, 120)).outcome, whole.outcome[110:120])
        other = resampled.draw(8, range(230))
        assert not np.array_equal(other.outcome, whole.outcome)
        np.testing.assert_array_equal(whole.rows.sum(-1), 500)
        if calibrated:
            np.testing.assert_allclose(
                whole.score, bin_sums(request("none"), cells, FINE).score.repeat(230, 0), rtol=1e-12
            )


def test_empty_bins_and_bins_without_cells() -> None:
    scores = np.array([0.05, 0.06, 0.95])
    cells = cell_sums(histogram(np.array([0, 1, 1]), scores), FINE)
    edges = np.array([0.0, 0.1, 0.1, 0.5, 1.0])
    for calibrated in (False, True):
        sums = ResampledBins(request("offsets", edges), cells, FINE, calibrated=calibrated).draw(1, range(50))
        assert not sums.rows[..., 1:3].any()
        np.testing.assert_array_equal(sums.rows.sum(-1), 3)
        assert np.isfinite(sums.second).all()


def test_calibrated_outcomes_have_the_law_of_sums_of_bernoulli_variables() -> None:
    """Of ten rows in a bin, against the exact distribution of their sum."""
    scores = np.array([0.001, 0.002, 0.004, 0.006, 0.011, 0.02, 0.03, 0.04, 0.06, 0.065])
    cells = cell_sums(histogram(np.zeros(10, int), scores), FINE)
    law = np.ones(1)
    for score in scores:
        law = np.convolve(law, [1 - score, score])
    resampled = ResampledBins(request("none"), cells, FINE, calibrated=True)
    hits = resampled.draw(2, range(20_000)).outcome[:, 0, 0, 0]
    # Five standard errors of a frequency.
    for count in range(4):
        share = law[count]
        assert (hits == count).mean() == pytest.approx(share, abs=5 * (share / 20_000) ** 0.5 + 1e-4)
    assert hits.var() == pytest.approx((scores * (1 - scores)).sum(), rel=0.06)


METRICS = {
    "ece": cd.ECE(),
    "mass": cd.ECE(binning="equal-mass"),
    "brier": cd.BrierDecomposition(),
    "density": cd.DensityECE(),
    "smooth": cd.SmoothECE(),
    "curve": cd.ReliabilityCurve(points=11),
    "corp": cd.CORP(),
}


@pytest.mark.parametrize("method", [None, "bca"])
def test_intervals_of_a_metric_do_not_depend_on_other_metrics_models_and_slices(method: Any) -> None:
    rng = np.random.default_rng(9)
    scores = rng.random(400)
    labels = (rng.random(400) < scores**1.5).astype(int)
    half = np.arange(400) % 2
    options: dict[str, Any] = {"ci": 0.9, "n_boot": 15, "ci_method": method}
    sure = 0.5 + 0.5 * scores
    models = xr.DataArray([sure, scores], dims=("model", "sample"))
    together = cd.evaluate(xr.DataArray(labels, dims="sample"), models, METRICS, by={"half": half}, **options)
    for name, metric in METRICS.items():
        for place in (0, 1):
            there = half == place
            alone = cd.evaluate(labels[there], scores[there], {name: metric}, **options).drop_attrs()
            result = together.isel(model=1, half=place, drop=True).drop_attrs()[list(alone.data_vars)]
            xr.testing.assert_allclose(result, alone.reset_coords(drop=True), rtol=1e-12, atol=1e-14)


def test_classes_by_themselves_and_together() -> None:
    rng = np.random.default_rng(10)
    scores = rng.dirichlet([1, 1, 1], 300)
    labels = rng.integers(0, 3, 300)
    options: dict[str, Any] = {"ci": 0.9, "n_boot": 15}
    alone = cd.evaluate(labels, scores, {"two": cd.ECE(setting=2)}, **options).drop_attrs()
    both = {"all": cd.ECE(setting="classwise"), "two": cd.ECE(setting=2), "sure": cd.DensityECE(setting=2)}
    together = cd.evaluate(labels, scores, both, **options).drop_attrs()
    xr.testing.assert_allclose(together[list(alone.data_vars)], alone, rtol=1e-12)
    summary = cd.summarize(labels, scores, settings=("classwise",))
    result = cd.evaluate(summary, metrics={"two": cd.ECE(setting=2)}, **options).drop_attrs()
    # It holds no confidence, whose totals those of rows have.
    assert int(result.rows) == 300
    result, alone = (numbers.reset_coords(drop=True) for numbers in (result, alone))
    xr.testing.assert_allclose(result, alone, rtol=1e-9)


def test_kept_replicates_of_a_summary_belong_together() -> None:
    rng = np.random.default_rng(11)
    scores = rng.random(2000)
    labels = (rng.random(2000) < scores**2).astype(int)
    summary = cd.summarize(labels, scores, settings=("binary",))
    metrics = {"ten": cd.ECE(bins=10), "twelve": cd.ECE(bins=12), "density": cd.DensityECE()}
    kept = cd.evaluate(summary, metrics=metrics, ci=0.9, n_boot=100, keep_replicates=True)
    values = np.stack([kept[f"{name}_replicates"] for name in metrics])
    # Of a curve that stays on one side of the diagonal all estimate the same mean.
    assert np.corrcoef(values).min() > 0.9


def test_equal_mass_bins_stay_those_of_the_data() -> None:
    """Percentiles agree with those of resampled rows, whose bins stay too within 15 % of their width, four errors."""
    rng = np.random.default_rng(12)
    scores = rng.beta(0.5, 2, 2000)
    labels = (rng.random(2000) < scores**1.5).astype(int)
    mass = {"right": cd.ECE(binning="equal-mass"), "left": cd.ECE(binning="equal-mass", closed="left")}
    result = cd.evaluate(labels, scores, mass, ci=0.9, n_boot=1000, ci_method="percentile")
    width = float(result.right_high - result.right_low)
    for end in ("low", "high"):
        assert abs(float(result[f"right_{end}"] - result[f"left_{end}"])) < 0.15 * width

"""Cross-fitted maps are those that a plain loop over the folds fits, and what follows from them."""

import pickle
from typing import Any

import dask.array as da
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import calibdask as cd
from calibdask.data.clusters import key_numbers
from calibdask.statistics.bins.grid import GridHistogram
from calibdask.statistics.column_sums import ColumnSums
from calibdask.statistics.counts import RowCount
from calibdask.statistics.layout import Layout
from calibdask.statistics.order.distinct import DistinctScores
from calibdask.statistics.score_sums import ScoreSums
from calibdask.statistics.settings import Setting
from calibdask.statistics.views.folds import OtherFolds, RowFolds, fold_numbers
from tests.equality import same_states
from tests.strategies import Data

pytestmark = pytest.mark.filterwarnings("ignore:.*Classes .* have rows of one outcome only:UserWarning")

CLASSWISE = Setting("classwise")
CALIBRATORS = (cd.PlattScaling(), cd.LCECalibrator(monotone=True))


def binary(rows: int, seed: int = 0, slope: float = 0.5) -> tuple[NDArray[Any], NDArray[Any]]:
    """Labels and scores that are too extreme."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-0.5, 2.0, rows)
    return (rng.random(rows) < 1 / (1 + np.exp(-slope * z))).astype(int), 1 / (1 + np.exp(-z))


def matrix(rows: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Labels and scores of three classes."""
    rng = np.random.default_rng(seed)
    scores = rng.dirichlet(np.ones(3), rows)
    true = np.sqrt(scores)
    true /= true.sum(1, keepdims=True)
    return (true.cumsum(1) < rng.random((rows, 1))).sum(1), scores


def cross_fitted(
    calibrator: Any, labels: Any, scores: Any, fold: NDArray[Any], weights: Any = None
) -> NDArray[np.float64]:
    """Rows calibrated by maps fitted to the other folds, in a loop."""
    calibrated = np.empty(scores.shape)
    for number in np.unique(fold):
        inside, outside = fold == number, fold != number
        w = None if weights is None else weights[outside]
        fitted = type(calibrator)(**calibrator.get_params()).fit(labels[outside], scores[outside], w)
        probabilities = fitted.predict_proba(scores[inside])
        calibrated[inside] = probabilities[:, 1] if scores.ndim == 1 else probabilities
    return calibrated


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=lambda calibrator: type(calibrator).__name__)
@pytest.mark.parametrize("data", [binary(700), matrix(700)], ids=["binary", "matrix"])
def test_equal_to_a_loop_over_folds(calibrator: Any, data: Any) -> None:
    labels, scores = data
    calibrated = cross_fitted(calibrator, labels, scores, fold_numbers(np.arange(700), 5, 3))
    for rule, metric in (("log", cd.LogLoss()), ("brier", cd.BrierScore())):
        result = cd.evaluate(labels, scores, {"r": cd.Refinement(calibrator, seed=3, rule=rule), "all": metric})
        expected = cd.evaluate(labels, calibrated, {"loss": metric})
        assert abs(float(result.r - expected.loss)) < 2**-50
        assert abs(float(result.r_score - result["all"])) < 2**-50
        assert abs(float(result.r_calibration - (result["all"] - expected.loss))) < 2**-49


def test_weights_and_slices() -> None:
    labels, scores = binary(900)
    rng = np.random.default_rng(1)
    weights, slices = rng.random(900), rng.integers(0, 2, 900)
    fold = fold_numbers(np.arange(900), 4, 0)
    result = cd.evaluate(labels, scores, cd.Refinement(folds=4), by=slices, sample_weight=weights)
    for number in (0, 1):
        here = slices == number
        arrays = labels[here], scores[here]
        calibrated = cross_fitted(cd.PlattScaling(), *arrays, fold[here], weights[here])
        expected = cd.evaluate(labels[here], calibrated, cd.LogLoss(), sample_weight=weights[here])
        assert abs(float(result.refinement[number] - expected.log_loss)) < 1e-12


def test_models_have_maps_of_their_own() -> None:
    data = [binary(300, seed) for seed in range(3)]
    labels, scores = (np.stack(arrays) for arrays in zip(*data, strict=True))
    together = cd.evaluate(labels, scores, cd.Refinement(), task="binary", ci=0.9)
    for number, (y, p) in enumerate(data):
        alone = cd.evaluate(y, p, cd.Refinement(), ci=0.9)
        for name in alone.data_vars:
            assert float(alone[name]) == float(together[name][number])


def test_the_same_in_any_chunks() -> None:
    labels, scores = binary(1000)
    metrics = [cd.Refinement(cd.LCECalibrator(), folds=3), cd.LogLoss()]
    whole = cd.evaluate(labels, scores, metrics)
    for chunks in (1000, 137):
        parts = cd.evaluate(da.from_array(labels, chunks), da.from_array(scores, chunks), metrics)
        assert parts.equals(whole)
    assert whole.attrs["passes"] == 2


def test_the_ends_are_those_of_the_formula() -> None:
    labels, scores = binary(400)
    fold = fold_numbers(np.arange(400), 5, 0)
    own = cross_fitted(cd.PlattScaling(), labels, scores, fold)
    # The map of fold f + 1 knows the rows of fold f.
    other = np.empty(400)
    for number in range(5):
        fitted = cd.PlattScaling().fit(labels[fold != (number + 1) % 5], scores[fold != (number + 1) % 5])
        other[fold == number] = fitted.predict_proba(scores[fold == number])[:, 1]
    before, after, noisy = (-np.log(np.where(labels == 1, p, 1 - p)) for p in (scores, own, other))
    gain = before - after
    error = np.sqrt(gain.var(ddof=1) / 400 + 2 * ((after - noisy) ** 2).sum() / 400**2)
    result = cd.evaluate(labels, scores, cd.Refinement(), ci=0.9)
    reach = stats.t.ppf(0.95, 399) * error
    np.testing.assert_allclose(result.refinement_calibration_low, gain.mean() - reach, rtol=1e-9)
    np.testing.assert_allclose(result.refinement_calibration_high, gain.mean() + reach, rtol=1e-9)


@pytest.mark.parametrize(("true_slope", "rows"), [(1.0, 200), (0.5, 500)], ids=["calibrated", "overconfident"])
def test_intervals_cover_the_true_improvement(true_slope: float, rows: int) -> None:
    """Of 40 intervals at 90 %, fewer than 28 cover in one of 5000 runs of a procedure that covers 90 %."""
    sets = 40
    z = np.random.default_rng(5).normal(0, 1.5, (sets, rows))
    labels = (np.random.default_rng(6).random(z.shape) < 1 / (1 + np.exp(-true_slope * z))).astype(int)
    scores = 1 / (1 + np.exp(-z))
    result = cd.evaluate(labels, scores, cd.Refinement(), task="binary", ci=0.9)
    at = 1.5 * np.sqrt(2) * np.array(np.polynomial.hermite.hermgauss(60)[0])
    share = np.polynomial.hermite.hermgauss(60)[1] / np.sqrt(np.pi)
    true = 1 / (1 + np.exp(-true_slope * at))

    def loss(q: NDArray[np.float64]) -> float:
        return float(-(share * (true * np.log(q) + (1 - true) * np.log1p(-q))).sum())

    fresh = 1 / (1 + np.exp(-at))
    gains = np.array(
        [
            loss(fresh) - loss(cd.PlattScaling().fit(y, p).predict_proba(fresh)[:, 1])
            for y, p in zip(labels, scores, strict=True)
        ]
    )
    inside = (result.refinement_calibration_low <= gains) & (gains <= result.refinement_calibration_high)
    assert inside.sum() >= 28
    if true_slope == 1.0:
        assert gains.max() < 0


@pytest.mark.parametrize("weighted", [False, True])
def test_states_of_other_folds_are_those_of_their_rows(weighted: bool) -> None:
    rng = np.random.default_rng(2)
    layout = Layout(groups=2, classes=3, vector=False, weighted=weighted)
    weights = rng.random((1, 60)) if weighted else None
    data = Data(
        rng.dirichlet(np.ones(3), (1, 60)), rng.integers(0, 3, (1, 60)), weights, rng.integers(0, 2, 60), layout
    )
    block, folds = data.block(), RowFolds(4, 1)
    for statistic in (
        GridHistogram(CLASSWISE),
        DistinctScores(CLASSWISE),
        ScoreSums(),
        ColumnSums(CLASSWISE),
        RowCount(),
    ):
        state = answered(OtherFolds(folds, 2).from_states(statistic), block)
        expected = statistic.from_block(OtherFolds(folds, 2).block(block))
        same_states(state, expected, weighted)


def answered(request: Any, block: Any) -> Any:
    """The answer to a request from one block."""
    from calibdask.engine.plan import run_requests
    from calibdask.engine.sources.source import Source

    class OneBlock(Source):
        layout = block.layout

        def answer(self, statistics: Any) -> Any:
            self.passes += 1
            return tuple(statistic.from_block(block) for statistic in statistics)

    outcome = run_requests({"it": iter(request)}, OneBlock())
    assert outcome.passes == 1
    return outcome.estimates["it"]


def test_a_fold_without_an_outcome_is_undefined_and_says_so() -> None:
    labels, scores = np.zeros(40, int), np.linspace(0.1, 0.9, 40)
    labels[7] = 1
    result = cd.evaluate(labels, scores, cd.Refinement(), ci=0.9)
    assert np.isnan(result.refinement)
    assert "no rows of both outcomes" in result.refinement.attrs["undefined"]
    assert np.isfinite(result.refinement_score)
    assert np.isnan(result.refinement_score_low)


def test_one_slice_that_cannot_be_fitted_leaves_the_others() -> None:
    labels, scores = binary(300)
    slices = np.arange(300) % 2
    scores[slices == 1] = 0.25
    result = cd.evaluate(labels, scores, cd.Refinement(), by=slices)
    assert np.isfinite(result.refinement[0])
    assert np.isnan(result.refinement[1])
    assert "too few distinct scores" in result.refinement.attrs["undefined"]


def test_descriptions_are_frozen() -> None:
    calibrator = cd.PlattScaling(smooth_targets=True)
    estimator = cd.Refinement(calibrator)
    calibrator.smooth_targets = False
    assert estimator == cd.Refinement(cd.PlattScaling(smooth_targets=True)) != cd.Refinement(cd.PlattScaling())
    assert len({estimator, pickle.loads(pickle.dumps(estimator))}) == 1
    assert repr(estimator.calibrator) == "PlattScaling(smooth_targets=True)"
    assert cd.Refinement(cd.PlattScaling) == cd.Refinement(estimator.calibrator.kind())


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"folds": 1}, ValueError, "folds expects"),
        ({"rule": "hinge"}, ValueError, "rule expects 'log' or 'brier'"),
        ({"calibrator": 3}, TypeError, "Expected a calibrator such as"),
        ({"calibrator": cd.PlattScaling(logits=True)}, ValueError, "declare logits for the data"),
    ],
)
def test_bad_options(options: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        cd.Refinement(**options)


def test_keys_are_hashed_by_value() -> None:
    assert (key_numbers([1, 2, -3]) == key_numbers([1.0, 2.0, -3.0])).all()
    assert len(set(key_numbers([0.5, 1.0, np.nan]).tolist())) == 3
    # The same in every process and version.
    for texts in (["a", "b"], np.array(["a", "b"], object)):
        assert key_numbers(texts).tolist() == [6975175471489867752, 6344029791039557487]


def test_comparison_runs_through_replicates() -> None:
    labels, scores = binary(400)
    result = cd.compare(labels, scores, np.sqrt(scores), cd.Refinement(), n_boot=50)
    assert result.sizes.get("challenger", 1) == 1
    assert abs(float(result.refinement_difference)) < 0.02
    assert np.isfinite(result.refinement_difference_low)

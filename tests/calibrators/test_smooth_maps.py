"""Platt, quadratic, beta and spline maps: exact fits, summaries, weights, bad input, and what they warn of."""

import itertools
import json
import pickle
import warnings
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, optimize, special
from sklearn.utils.estimator_checks import parametrize_with_checks

import calibdask as cd
from calibdask.estimators.regression.separation import is_separated
from tests.calibrators.anything import taking_anything

Array = NDArray[Any]

MAPS: dict[str, cd.Calibrator] = {
    "platt": cd.PlattScaling(),
    "quadratic": cd.QuadraticScaling(),
    "beta": cd.BetaCalibration(),
    "beta ab": cd.BetaCalibration(parameters="ab"),
    "beta am": cd.BetaCalibration(parameters="am"),
    "spline": cd.SplineCalibration(),
}
each_map = pytest.mark.parametrize("name", MAPS)
# Samples of a test may lie where a map falls; that it says so is tested by itself.
may_fall = pytest.mark.filterwarnings("ignore:.*the map falls as the score rises:UserWarning")


def map_of(name: str) -> Any:
    return type(MAPS[name])(**MAPS[name].get_params())


def sample(n: int, seed: int = 7, a: float = 1.2, b: float = 0.8) -> tuple[Array, Array]:
    """Labels of P(y = 1 | s) = s**1.5, and scores."""
    rng = np.random.default_rng(seed)
    scores = np.round(rng.beta(a, b, n), 6).clip(1e-6, 1 - 1e-6)
    return (rng.random(n) < scores**1.5).astype(int), scores


def several(n: int = 900, classes: int = 3) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.ones(classes), n)
    sharper = scores**1.5 / (scores**1.5).sum(1, keepdims=True)
    return (sharper.cumsum(1) < rng.random((n, 1))).sum(1), scores


# Of sample(400), by statsmodels 0.15.0: r = GLM(y, x, family=families.Binomial()).fit(tol=1e-14), r.params and r.bse, x
# the columns 1, z; 1, z, z**2; log(s), -log(1 - s), 1; log(2 s), -log(2 - 2 s).
GLM = {
    "platt": ([-0.8244950938156753, 1.0455107224500053], [0.14302078578073074, 0.11086888395008018]),
    "quadratic": (
        [-0.7815597378916157, 1.1867807559178838, -0.07798166987109487],
        [0.14824333686247212, 0.15256599900439022, 0.04675854632381919],
    ),
    "beta": (
        [1.9503724944620098, 0.5942869902668457, 0.20821615920339487],
        [0.5206720852405016, 0.24158895823311113, 0.5534451130117871],
    ),
    "beta ab": ([2.228001302202372, 0.15196054206330475], [0.40106013705269145, 0.15607233416712488]),
}
NAMES = {
    "platt": ("intercept", "coef"),
    "quadratic": ("intercept", "coef", "curvature"),
    "beta": ("a", "b", "c"),
    "beta ab": ("a", "b"),
    "beta am": ("a", "b", "c"),
    "spline": ("values", "dof"),
}


@may_fall
@pytest.mark.parametrize("name", GLM)
def test_parameters_and_standard_errors_are_those_of_statsmodels(name: str) -> None:
    fitted = map_of(name).fit(*sample(400))
    parameters, errors = GLM[name]
    np.testing.assert_allclose([getattr(fitted, f"{part}_") for part in NAMES[name]], parameters, rtol=1e-8)
    np.testing.assert_allclose([getattr(fitted, f"{part}_se_") for part in NAMES[name]], errors, rtol=1e-7)


def test_intercepts_alone_are_those_of_the_calibration_intercept() -> None:
    labels, scores = sample(400)
    fitted = cd.PlattScaling(slope=False).fit(labels, scores)
    result = cd.evaluate(labels, scores, cd.CalibrationSlope(), ci=0.95)
    np.testing.assert_allclose(fitted.intercept_, result.calibration_slope_intercept, rtol=1e-9)
    reach = float(result.calibration_slope_intercept_high - result.calibration_slope_intercept)
    assert float(fitted.intercept_se_) == pytest.approx(reach / 1.959964, rel=1e-6)
    assert (float(fitted.coef_), float(fitted.coef_se_)) == (1.0, 0.0)
    # Corrected in the large: the mean of the calibrated scores is the frequency.
    calibrated = fitted.predict_proba(scores)
    calibrated = calibrated[:, 1] if calibrated.ndim == 2 else calibrated
    assert calibrated.mean() == pytest.approx(labels.mean(), abs=1e-9)
    again = cd.PlattScaling.from_dict(fitted.to_dict())
    np.testing.assert_array_equal(again.predict_proba(scores), fitted.predict_proba(scores))
    # One score suffices, and a score that separates the outcomes.
    assert float(cd.PlattScaling(slope=False).fit([0, 1, 1, 1], [0.5] * 4).intercept_) == pytest.approx(np.log(3))
    separated = cd.PlattScaling(slope=False).fit([0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9])
    assert float(separated.intercept_) == pytest.approx(0, abs=1e-9)
    with pytest.raises(ValueError, match="slope expects True or False"):
        cd.PlattScaling(slope="no").fit(labels, scores)  # type: ignore[arg-type]


def test_weighted_standard_errors_are_of_the_sandwich_form() -> None:
    """Events of weight 10: errors of Kish's number of rows are half as large."""
    rng = np.random.default_rng(9)
    fits = []
    for _ in range(200):
        z = rng.normal(size=600)
        labels = (rng.random(600) < 1 / (1 + np.exp(2.5 - z))).astype(int)
        fits.append(cd.PlattScaling().fit(labels, 1 / (1 + np.exp(-z)), sample_weight=np.where(labels == 1, 10.0, 1.0)))
    slopes, errors = (np.array([float(getattr(fit, name)) for fit in fits]) for name in ("coef_", "coef_se_"))
    assert errors.mean() == pytest.approx(slopes.std(), rel=0.15)


# By betacal 1.1.0, whose regression stops at 1e-4:
# BetaCalibration(parameters).fit(s, y).predict([0.05, 0.3, 0.6, 0.95])
BETACAL = {
    "abm": [0.003613941306110248, 0.1267055779087404, 0.43974494539553866, 0.8684789090409732],
    "ab": [0.00534065226123332, 0.23342205162823093, 0.6082717992955086, 0.855643126471254],
    "am": [0.019808967011840067, 0.15321902477270716, 0.4012830936601669, 0.904972960316137],
}


@pytest.mark.parametrize("parameters", BETACAL)
def test_beta_is_betacal(parameters: Any) -> None:
    fitted = cd.BetaCalibration(parameters=parameters).fit(*sample(400))
    actual = fitted.predict_proba([0.05, 0.3, 0.6, 0.95])[:, 1]
    np.testing.assert_allclose(actual, BETACAL[parameters], rtol=0.02)


@pytest.mark.parametrize("seed", range(12))
def test_beta_without_negative_slopes_is_the_constrained_maximum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.random(60)
    labels = rng.random(60) < [scores**3, 1 - (1 - scores) ** 3, np.full(60, 0.4)][seed % 3]
    x = np.stack([np.log(scores), -np.log1p(-scores), np.ones(60)])

    def loss(b: Array) -> tuple[float, Array]:
        return float((np.logaddexp(0, b @ x) - labels * (b @ x)).sum()), x @ (special.expit(b @ x) - labels)

    bounds = [(0, None), (0, None), (None, None)]
    expected = optimize.minimize(loss, [1, 1, 0], jac=True, bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-9})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*higher scores have the outcome less often", UserWarning)
        fitted = cd.BetaCalibration().fit(labels, scores)
    actual = np.array([fitted.a_, fitted.b_, fitted.c_])
    assert min(actual[:2]) >= 0
    np.testing.assert_allclose(actual, expected.x, atol=2e-4)
    assert loss(actual)[0] <= expected.fun + 1e-10


def test_smoothed_targets_are_those_of_platt() -> None:
    labels, scores = sample(200)
    z = special.logit(scores)
    positive, negative = labels.sum(), (1 - labels).sum()
    targets = np.where(labels, (positive + 1) / (positive + 2), 1 / (negative + 2))

    def gradient(b: Array) -> Array:
        rest = special.expit(b[0] + b[1] * z) - targets
        return np.array([rest.sum(), (rest * z).sum()])

    expected = optimize.root(gradient, [0, 1], tol=1e-14).x
    fitted = cd.PlattScaling(smooth_targets=True).fit(labels, scores)
    np.testing.assert_allclose([fitted.intercept_, fitted.coef_], expected, rtol=1e-8)


@may_fall
@pytest.mark.parametrize("smoothing", [1e-5, 0.01, 10.0])
def test_spline_minimises_the_penalised_loss(smoothing: float) -> None:
    from scipy.interpolate import CubicSpline

    labels, scores = sample(300)
    z = special.logit(scores)
    fitted = cd.SplineCalibration(knots=5, smoothing=smoothing).fit(labels, scores)
    knots = np.atleast_1d(fitted.knots_)
    np.testing.assert_allclose(knots, np.sort(z)[[29, 89, 149, 209, 269]], rtol=1e-14)

    def loss(values: Array) -> float:
        spline = CubicSpline(knots, values, bc_type="natural")
        inside = z.clip(knots[0], knots[-1])
        f = spline(inside) + (z - inside) * spline(inside, 1)
        pieces = itertools.pairwise(knots)
        bends = sum(integrate.fixed_quad(lambda t: spline(t, 2) ** 2, *piece, n=3)[0] for piece in pieces)
        return float((np.logaddexp(0, f) - labels * f).mean() + smoothing / 2 * bends)

    at = np.array(fitted.values_)
    lowest, step = loss(at), 1e-4
    for direction in np.eye(5):
        after, before = loss(at + step * direction), loss(at - step * direction)
        curvature = (after - 2 * lowest + before) / step**2
        # A Newton step along each direction is within rounding of 0.
        assert curvature > 0
        assert abs((after - before) / (2 * step) / curvature) < 1e-5
    assert 2 < fitted.dof_ < 5


@may_fall
def test_spline_is_next_to_straight_for_few_rows() -> None:
    rng = np.random.default_rng(1)
    freedom = []
    for _ in range(20):
        scores = rng.random(30)
        freedom.append(cd.SplineCalibration().fit(rng.random(30) < scores, scores).dof_)
    assert np.median(freedom) < 2.5
    assert max(freedom) < 6


def test_spline_bends_where_rows_ask_for_it() -> None:
    rng = np.random.default_rng(1)
    scores = rng.random(100_000)
    truth = 0.3 + 0.4 * (1 + np.cos(6 * scores)) / 2
    with pytest.warns(UserWarning, match=r"the map falls as the score rises for up to 0.5\d* of the rows"):
        spline = cd.SplineCalibration().fit(rng.random(100_000) < truth, scores)
    assert np.abs(spline.predict_proba(scores)[:, 1] - truth).mean() < 0.008
    assert spline.dof_ > 5
    straight = cd.SplineCalibration(smoothing=1e6).fit(*sample(400))
    platt = cd.PlattScaling().fit(*sample(400))
    np.testing.assert_allclose(straight.predict_proba(scores), platt.predict_proba(scores), atol=1e-5)


def test_quadratic_says_where_it_turns() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(0, 1.5, 20_000)
    labels = rng.random(20_000) < special.expit(z - 0.3 * z**2)
    with pytest.warns(UserWarning, match="the map falls as the score rises for up to"):
        fitted = cd.QuadraticScaling().fit(labels, special.expit(z))
    turn = special.logit(fitted.turning_point_)
    assert abs(turn - 1 / 0.6) < 0.15
    assert fitted.falling_ == pytest.approx((z > turn).mean(), abs=1e-9)
    below, at, above = fitted.predict_proba(special.expit([turn - 1, turn, turn + 1]))[:, 1]
    assert at > max(below, above)
    assert below == pytest.approx(above)


@may_fall
@each_map
def test_whole_weights_are_repeated_rows_and_their_scale_is_nothing(name: str) -> None:
    labels, scores = sample(300)
    weights = np.random.default_rng(1).integers(0, 4, 300)
    made = map_of(name)
    if name == "spline":
        # Chosen smoothing takes weights for less information than as many rows.
        made.set_params(smoothing=0.01)
    weighted = made.fit(labels, scores, weights).predict_proba(scores)
    np.testing.assert_allclose(made.fit(labels, scores, weights * 1e-9).predict_proba(scores), weighted, rtol=1e-9)
    repeated = made.fit(labels.repeat(weights), scores.repeat(weights)).predict_proba(scores)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-8)


@may_fall
@each_map
def test_any_chunks_have_the_same_bits(name: str) -> None:
    labels, scores = sample(500)
    expected = map_of(name).fit(labels, scores)
    rng = np.random.default_rng(0)
    for _ in range(3):
        cuts = np.diff(np.r_[0, np.sort(rng.choice(np.arange(1, 500), 4, replace=False)), 500]).tolist()
        lazy = map_of(name).fit(da.from_array(labels, chunks=(cuts,)), da.from_array(scores, chunks=(cuts,)))
        for part, values in expected._sliced.numbers.items():
            np.testing.assert_array_equal(lazy._sliced.numbers[part], values)


def off(name: str, a: cd.Calibrator, b: Any) -> float:
    """The largest difference of two maps in standard errors: of parameters, of a spline at the knots of one."""
    if name == "spline":
        scores = special.expit(a.knots_)
        gap = special.logit(b.predict_proba(scores)[:, 1]) - a.values_
        return float(np.abs(gap / a.values_se_).max())
    gaps = [(getattr(b, f"{part}_") - getattr(a, f"{part}_")) / getattr(a, f"{part}_se_") for part in NAMES[name]]
    return float(np.abs(gaps).max())


@may_fall
def test_summaries_are_as_good_as_rows() -> None:
    labels, scores = sample(200_000, a=1.0, b=0.9)
    summary = cd.summarize(labels, scores)
    for name in MAPS:
        assert off(name, map_of(name).fit(labels, scores), map_of(name).fit(summary)) < 0.01, name


@pytest.mark.heavy
@may_fall
def test_summaries_are_as_good_as_ten_million_rows() -> None:
    # Rounded to a million distinct scores, so that rows are exact.
    labels, scores = sample(10_000_000, a=1.0, b=0.9)
    summary = cd.summarize(labels, scores)
    for name in MAPS:
        assert off(name, map_of(name).fit(labels, scores), map_of(name).fit(summary)) < 0.01, name


@may_fall
@each_map
@pytest.mark.parametrize("setting", ["classwise", "confidence"])
def test_matrices(name: str, setting: Any) -> None:
    labels, scores = several()
    fitted = map_of(name).set_params(setting=setting).fit(labels, scores)
    result = fitted.predict_proba(scores)
    np.testing.assert_allclose(result.sum(1), 1, rtol=1e-12)
    # As binary scores: of every class, or of the largest score.
    if setting == "confidence":
        top = map_of(name).fit(scores.argmax(1) == labels, scores.max(1)).predict_proba(scores.max(1))[:, 1]
        np.testing.assert_allclose(result[np.arange(len(labels)), scores.argmax(1)], top, rtol=1e-12)
        return
    columns = np.stack(
        [map_of(name).fit(labels == c, scores[:, c]).predict_proba(scores[:, c])[:, 1] for c in range(3)], 1
    )
    np.testing.assert_allclose(result, columns / columns.sum(1, keepdims=True), rtol=1e-12)


@may_fall
@each_map
def test_slices_have_maps_of_their_own_and_stored_maps_every_bit(name: str) -> None:
    labels, scores = sample(1000)
    # One of 450 rows, one of 500, one whose scores are all alike, one of few rows.
    slices = np.repeat(["a", "b", "equal", "few"], [450, 390, 110, 50])
    scores[slices == "equal"] = 0.5
    with pytest.warns(UserWarning, match="2 of 4 slices have fewer than 100 rows, or outcomes or scores that are all"):
        fitted = map_of(name).fit(labels, scores, by=slices)
    assert fitted.pooled_slices_ == ("equal", "few")
    whole = map_of(name).fit(labels, scores)
    for label in np.unique(slices):
        here = slices == label
        own = map_of(name).fit(labels[here], scores[here]) if label in ("a", "b") else whole
        expected = own.predict_proba(scores[here])
        np.testing.assert_allclose(fitted.predict_proba(scores, by=slices)[here], expected, rtol=1e-12)
    again = cd.Calibrator.from_dict(json.loads(json.dumps(fitted.to_dict())))
    for one in (again, pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(one.predict_proba(scores, by=slices), fitted.predict_proba(scores, by=slices))
        for part, values in fitted._sliced.numbers.items():
            np.testing.assert_array_equal(one._sliced.numbers[part], values)


@pytest.mark.filterwarnings("ignore::UserWarning")
@each_map
@pytest.mark.parametrize("weighted", [False, True])
def test_extreme_scores_and_weights(name: str, weighted: bool) -> None:
    rng = np.random.default_rng(3)
    for scores in (rng.choice([0, 1, 0.3, 0.5], 60), rng.beta(0.02, 0.02, 60), 10.0 ** -rng.integers(0, 300, 60)):
        labels = rng.random(60) < 0.2 + 0.6 * scores
        weights = 10.0 ** rng.uniform(-12, 0, 60) if weighted else None
        result = map_of(name).fit(labels, scores, weights).predict_proba(np.r_[scores, 0, 1, 1e-320, 0.5])
        assert np.isfinite(result).all()
        np.testing.assert_allclose(result.sum(1), 1)


@each_map
def test_separated_outcomes_are_bounded_and_told(name: str) -> None:
    scores = np.linspace(0.05, 0.95, 20)
    with pytest.warns(
        UserWarning, match=r"the score separates the outcomes, up to rounding, so that the likelihood has no maximum"
    ):
        fitted = map_of(name).fit(scores > 0.5, scores)
    assert fitted.smoothed_ == 1
    result = fitted.predict_proba(scores)[:, 1]
    assert 0.001 < result.min() < 0.2
    assert 0.8 < result.max() < 0.999
    error = next(value for part, value in fitted._sliced.numbers.items() if part.endswith("_se"))
    assert np.isnan(error).all()


def _separable(x: Array, labels: Array) -> bool:
    """Whether a combination of terms x (rows, p), not 0 everywhere, is >= 0 at positive rows and <= 0 at others."""
    signed = np.where(labels, 1, -1)[:, None] * x
    answer = optimize.linprog(-signed.sum(0), A_ub=-signed, b_ub=np.zeros(len(x)), bounds=[(-1, 1)] * x.shape[1])
    return bool(-answer.fun > 1e-9)


@pytest.mark.parametrize("terms", [2, 3])
def test_separation_is_that_of_linear_programming(terms: int) -> None:
    rng = np.random.default_rng(terms)
    verdicts = []
    for _ in range(150):
        z = rng.choice(np.linspace(-2, 2, 6), rng.integers(terms + 2, 9))
        labels = rng.random(len(z)) < rng.choice([0.3, 0.7])
        if rng.random() < 0.5:
            labels = (z > rng.choice(z)) ^ (rng.random(len(z)) < 0.1)
        if len(np.unique(z)) < terms or labels.all() or not labels.any():
            continue
        verdicts.append(is_separated(z, np.ones(len(z)), labels.astype(float), terms))
        assert verdicts[-1] == _separable(np.vander(z, terms), labels), (z, labels)
    assert 10 < sum(verdicts) < len(verdicts) - 10


def test_maps_of_scores_that_mean_the_opposite() -> None:
    labels, scores = sample(400)
    with pytest.warns(UserWarning, match=r"turns the order of scores round \(attribute coef_ is below 0\)"):
        assert cd.PlattScaling().fit(1 - labels, scores).coef_ < 0
    with pytest.warns(UserWarning, match="higher scores have the outcome less often"):
        fitted = cd.BetaCalibration().fit(1 - labels, scores)
    np.testing.assert_allclose(fitted.predict_proba([0.1, 0.9])[:, 1], (1 - labels).mean())


@dataclass(frozen=True)
class Refusal:
    labels: Any
    scores: Any
    weights: Any
    message: str


REFUSED = {
    "one class": Refusal([1, 1, 1], [0.1, 0.5, 0.9], None, "expects labels of at least two classes, got one class"),
    "one class of weight": Refusal([1, 1, 0], [0.1, 0.5, 0.9], [1, 1, 0], "expects labels of at least two classes"),
    "equal scores": Refusal([0, 1, 0], [0.3, 0.3, 0.3], None, r"expects at least \d distinct scores, all are 0.3"),
    "no weights": Refusal([0, 1, 0], [0.1, 0.5, 0.9], [0, 0, 0], "weight"),
}


@each_map
@pytest.mark.parametrize("case", REFUSED)
def test_bad_data(name: str, case: str) -> None:
    given = REFUSED[case]
    with pytest.raises(ValueError, match=given.message):
        map_of(name).fit(given.labels, given.scores, given.weights)


@pytest.mark.filterwarnings("ignore:.*(separates the outcomes|the map falls):UserWarning")
@each_map
@pytest.mark.parametrize("labels", [[0, 1, 0], [0, 0, 1], [1, 0, 0]])
def test_three_rows(name: str, labels: Any) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*higher scores have the outcome less often", UserWarning)
        result = map_of(name).fit(labels, [0.2, 0.5, 0.9]).predict_proba([0.0, 0.2, 0.5, 1.0])
    assert np.isfinite(result).all()


@pytest.mark.parametrize(
    ("calibrator", "message"),
    [
        (cd.QuadraticScaling(), "QuadraticScaling expects at least 3 distinct scores, got 2"),
        (cd.BetaCalibration(parameters="all"), "parameters expects 'abm', 'ab' or 'am', got 'all'"),  # type: ignore[arg-type]
        (cd.SplineCalibration(knots=2), "knots expects a whole number from 3 to 50, got 2"),
        (cd.SplineCalibration(smoothing=0.0), "smoothing expects 'reml' or a positive number, got 0.0"),
        (cd.PlattScaling(setting="top"), "setting expects"),  # type: ignore[arg-type]
    ],
)
def test_bad_options(calibrator: cd.Calibrator, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        calibrator.fit([0, 1, 0, 1], [0.2, 0.2, 0.7, 0.7])


# All maps check their input in the same place. With a smoothing of its own: the chosen one takes weights for less
# information than as many rows.
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([taking_anything(cd.SplineCalibration)(smoothing=0.1)])
def test_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@may_fall
@pytest.mark.parametrize("name", ["platt", "quadratic", "beta"])
@pytest.mark.parametrize("spread", [4.0, 8.0])
def test_a_summary_says_where_it_does_not_know_logits(name: str, spread: float) -> None:
    """Scores within a cell of 4e-9 of 0 or 1 have one logit in a summary."""
    rng = np.random.default_rng(0)
    z = rng.normal(0, spread, 50_000)
    scores = special.expit(z).clip(1e-15, 1 - 1e-15)
    labels = rng.random(z.size) < special.expit(0.5 * z + 0.02 * z**2 * (z < 3))
    summary = cd.summarize(labels, scores, settings=["binary"])
    of_rows = map_of(name).fit(labels, scores)
    assert of_rows.merged_ == 0
    if spread == 4.0:
        fitted = map_of(name).fit(summary)
        assert not any("outermost" in caution for caution in fitted.cautions_)
    else:
        with pytest.warns(UserWarning, match="nearer to 0 or 1 than about 4e-9"):
            fitted = map_of(name).fit(summary)
        assert 700 < fitted.merged_ < 900
    off = max(
        abs(getattr(fitted, f"{part}_") - getattr(of_rows, f"{part}_")) / getattr(of_rows, f"{part}_se_")
        for part in NAMES[name]
    )
    assert (off < 0.01) == (spread == 4.0)

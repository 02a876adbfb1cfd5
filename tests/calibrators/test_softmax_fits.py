"""Vector and structured scaling: against minimisation on the rows and probmetrics, any data, and what is degenerate."""

import json
from typing import Any

import dask.array as da
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

import calibdask as cd
from calibdask.calibrators.softmax.searches import NewtonPoint, Search, newton_search, quasi_newton_search
from tests.calibrators.probmetrics_table import CASES, TABLE, rows

Array = NDArray[Any]


class Objective:
    """The penalised mean logarithmic score of softmax(W z + b) in the rows, with its gradient."""

    def __init__(self, z: Array, labels: Array, penalty: Array, identity: Array, weights: Array | None = None) -> None:
        self.z, self.labels, self.penalty, self.identity = z, labels, penalty, identity
        self.weights = np.ones(labels.size) if weights is None else weights

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        n, classes = self.z.shape
        w, b = parameters[:-classes] + self.identity, parameters[-classes:]
        a = (self.z @ w.reshape(classes, classes).T if w.size > classes else w * self.z) + b
        a -= a.max(1, keepdims=True)
        sums = np.exp(a).sum(1)
        share = self.weights / self.weights.sum()
        value = share @ (np.log(sums) - a[np.arange(n), self.labels])
        r = (np.exp(a) / sums[:, None] - np.eye(classes)[self.labels]) * share[:, None]
        slopes = (r.T @ self.z).ravel() if w.size > classes else (r * self.z).sum(0)
        gradient = np.append(slopes, r.sum(0)) + 2 * self.penalty * parameters
        return float(value + self.penalty @ parameters**2), gradient

    def minimum(self, start: Array) -> Array:
        """By BFGS, and three Newton steps with differences of the gradient."""
        classes = self.z.shape[1]
        x = np.asarray(minimize(self, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x)
        for _ in range(3):
            steps = 1e-5 * np.eye(x.size)
            hessian = np.array([(self(x + h)[1] - self(x - h)[1]) / 2e-5 for h in steps])
            if not self.penalty.any():
                hessian[-classes:, -classes:] += 0.1
            x = x - np.linalg.solve(hessian, self(x)[1])
        return x


def tempered(scores: Array, scaling: cd.StructuredScaling) -> Array:
    """The log scores that structured scaling starts from."""
    powers = scores ** (1 / scaling.temperature_)
    mixed = scaling.mixed_
    return np.asarray(np.log((1 - mixed) * powers / powers.sum(1, keepdims=True) + mixed / scores.shape[1]))


def structure(form: str, classes: int, n: int) -> tuple[Array, Array]:
    """Penalties and the identity."""
    if form == "vector":
        return np.full(2 * classes, classes / n), np.ones(classes)
    of_matrix = np.full((classes, classes), classes * (classes - 1) / n)
    np.fill_diagonal(of_matrix, classes / n)
    return np.append(of_matrix.ravel(), np.full(classes, classes / n)), np.eye(classes).ravel()


@pytest.mark.parametrize(
    ("classes", "n", "weighted"), [(2, 400, True), (3, 1000, False), (3, 1000, True), (6, 3000, False)]
)
def test_vector_scaling_minimises_the_loss(classes: int, n: int, weighted: bool) -> None:
    labels, scores = rows(classes, n, 3)
    weights = np.random.default_rng(0).choice([0.0, 1.0, 2.0], n) if weighted else None
    scaling = cd.VectorScaling().fit(labels, scores, weights)
    objective = Objective(np.log(scores), labels, np.zeros(2 * classes), np.zeros(classes), weights)
    expected = objective.minimum(np.append(np.ones(classes), np.zeros(classes)))
    np.testing.assert_allclose(scaling.coef_, expected[:classes], rtol=0, atol=1e-8)
    intercepts = expected[classes:] - expected[classes:].mean()
    np.testing.assert_allclose(scaling.intercept_, intercepts, rtol=0, atol=1e-8)
    assert scaling.converged_ == 1
    assert scaling.passes_ <= 9
    assert abs(scaling.intercept_.sum()) < 1e-12


def test_many_classes_take_quasi_newton_steps_to_the_same_minimum() -> None:
    labels, scores = rows(40, 6000, 4)
    scaling = cd.VectorScaling(tolerance=1e-7).fit(labels, scores)
    objective = Objective(np.log(scores), labels, np.zeros(80), np.zeros(40))
    point = np.append(scaling.coef_, scaling.intercept_)
    assert np.abs(objective(point)[1]).max() < 1e-9
    assert scaling.passes_ <= 40
    # The default is within a ten thousandth of a standard error, of which there are some hundredths.
    rough = cd.VectorScaling().fit(labels, scores)
    assert np.abs(rough.coef_ - scaling.coef_).max() < 1e-4
    assert np.isnan(rough.coef_se_).all()


@pytest.mark.parametrize("form", ["vector", "matrix"])
@pytest.mark.parametrize(("classes", "n"), [(2, 300), (4, 1000)])
def test_structured_scaling_minimises_the_penalised_loss(form: Any, classes: int, n: int) -> None:
    labels, scores = rows(classes, n, 3)
    scaling = cd.StructuredScaling(form=form, tolerance=1e-7).fit(labels, scores)
    assert scaling.mixed_ == 1 / (n + 1)
    assert scaling.temperature_ == cd.TemperatureScaling().fit(labels, scores).temperature_
    penalty, identity = structure(form, classes, n)
    expected = Objective(tempered(scores, scaling), labels, penalty, identity).minimum(np.zeros(penalty.size))
    np.testing.assert_allclose(scaling.coef_.ravel(), expected[:-classes] + identity, rtol=0, atol=1e-7)
    np.testing.assert_allclose(scaling.intercept_, expected[-classes:], rtol=0, atol=1e-7)


@pytest.mark.parametrize("case", json.loads(TABLE.read_text()), ids=lambda case: f"{case['form']}-{case['case'][0]}")
def test_probmetrics_finds_the_same_to_its_tolerance(case: dict[str, Any]) -> None:
    """Its logits are float32, and its search ends earlier: our objective is lower, by no more than 3e-6."""
    classes, n, seed = case["case"]
    assert (classes, n, seed) in CASES
    labels, scores = rows(classes, n, seed)
    scaling = cd.StructuredScaling(form=case["form"], tolerance=1e-7).fit(labels, scores)
    assert 1 / scaling.temperature_ == pytest.approx(case["beta"], rel=1e-7)
    penalty, identity = structure(case["form"], classes, n)
    objective = Objective(tempered(scores, scaling), labels, penalty, identity)
    ours = objective(np.append(scaling.coef_.ravel() - identity, scaling.intercept_))[0]
    theirs = objective(np.append(np.ravel(case["coef"]) - identity, case["intercept"]))[0]
    assert -1e-12 < theirs - ours < 3e-6
    np.testing.assert_allclose(scaling.predict_proba(scores[:5]), case["first"], rtol=0, atol=2e-3)


CALIBRATORS = [
    cd.VectorScaling(),
    cd.StructuredScaling(),
    cd.StructuredScaling(form="matrix"),
]


@pytest.mark.parametrize(("calibrator", "classes"), [*zip(CALIBRATORS, (3, 34, 3), strict=True)], ids=repr)
def test_bits_do_not_depend_on_chunks(calibrator: cd.Calibrator, classes: int) -> None:
    labels, scores = rows(classes, 1100, 5)
    scores = scores.astype("float32")
    whole = calibrator.fit(labels, scores).to_dict()["numbers"]
    for chunk in (7 * 8, 397):
        lazy = da.from_array(labels, chunks=chunk), da.from_array(scores, chunks=(chunk, -1))
        assert calibrator.fit(*lazy).to_dict()["numbers"] == whole


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=repr)
def test_slices_weights_and_json(calibrator: Any) -> None:
    labels, scores = rows(3, 900, 6)
    by = np.arange(900) % 2
    sliced = calibrator.fit(labels, scores, by=by)
    again = cd.Calibrator.from_dict(json.loads(json.dumps(sliced.to_dict())))
    coefficients, passes = sliced.coef_, sliced.passes_
    both = again.predict_proba(scores, by=by)
    np.testing.assert_array_equal(both, sliced.predict_proba(scores, by=by))
    np.testing.assert_allclose(both.sum(1), 1)
    weights = np.random.default_rng(2).integers(0, 3, 900)
    repeated = np.repeat(np.arange(900), weights)
    weighted = calibrator.fit(labels, scores, weights.astype(float)).coef_
    np.testing.assert_allclose(weighted, calibrator.fit(labels[repeated], scores[repeated]).coef_, atol=1e-5)
    for s in range(2):
        alone = calibrator.fit(labels[by == s], scores[by == s])
        np.testing.assert_array_equal(coefficients[s], alone.coef_)
        np.testing.assert_array_equal(both[by == s], alone.predict_proba(scores[by == s]))
        assert passes[s] >= alone.passes_


def test_standard_errors_are_those_of_fits_to_other_rows() -> None:
    """Of 300 samples: deviations of z-values within 4 standard errors of 1."""
    labels, scores = rows(3, 300 * 500, 7)
    whole = cd.VectorScaling().fit(labels, scores)
    fits = cd.VectorScaling().fit(labels, scores, by=np.repeat(np.arange(300), 500))
    for name in ("coef", "intercept"):
        z = (getattr(fits, f"{name}_") - getattr(whole, f"{name}_")) / getattr(fits, f"{name}_se_")
        assert (np.abs(np.sqrt(np.mean(z**2, 0)) - 1) < 4 / np.sqrt(600)).all()


def test_two_classes_are_beta_calibration() -> None:
    labels, scores = rows(2, 800, 8)
    vector = cd.VectorScaling().fit(labels, scores[:, 1])
    p = np.array([0.1, 0.5, 0.8])
    a = vector.coef_[1] * np.log(p) - vector.coef_[0] * np.log(1 - p) + vector.intercept_[1] - vector.intercept_[0]
    np.testing.assert_allclose(vector.predict_proba(p)[:, 1], 1 / (1 + np.exp(-a)), rtol=1e-12)


def test_absent_classes_and_few_rows() -> None:
    labels, scores = rows(5, 400, 9)
    labels[labels == 2] = 3
    with pytest.warns(UserWarning, match=r"classes 2 have no rows; they keep the coefficient of temperature scaling"):
        scaling = cd.VectorScaling().fit(labels, scores)
    assert scaling.absent_.tolist() == [0, 0, 1, 0, 0]
    temperature = cd.TemperatureScaling().fit(labels, scores).temperature_
    assert scaling.coef_[2] == pytest.approx(1 / temperature, rel=1e-15)
    assert scaling.converged_ == 1
    for calibrator in (cd.StructuredScaling(), cd.StructuredScaling(form="matrix")):
        assert calibrator.fit(labels, scores).converged_ == 1
        few = calibrator.fit([0, 1, 0], [[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.3, 0.4, 0.3]])
        # Three rows move it little from temperature scaling.
        assert np.abs(few.coef_ - (1 if few.coef_.ndim == 1 else np.eye(3))).max() < 0.5


@pytest.mark.filterwarnings("ignore:.*the likelihood has no maximum for temperatures:UserWarning")
def test_separated_classes_and_equal_scores() -> None:
    _, scores = rows(3, 300, 10)
    with pytest.warns(UserWarning, match="the scores separate the classes"):
        scaling = cd.VectorScaling().fit(scores.argmax(1), scores)
    assert scaling.separated_ == 1
    assert np.isfinite(scaling.predict_proba(scores)).all()
    assert cd.StructuredScaling().fit(scores.argmax(1), scores).converged_ == 1
    labels = np.array([0, 0, 0, 1, 1, 2] * 20)
    uniform = np.full((120, 3), 1 / 3)
    equal = cd.VectorScaling().fit(labels, uniform), cd.StructuredScaling().fit(labels, uniform)
    # The frequencies, or close to them.
    np.testing.assert_allclose(equal[0].predict_proba(np.full((1, 3), 1 / 3)), [[1 / 2, 1 / 3, 1 / 6]], atol=1e-8)
    np.testing.assert_allclose(equal[1].predict_proba(np.full((1, 3), 1 / 3)), [[1 / 2, 1 / 3, 1 / 6]], atol=0.05)


def test_refused_and_not_converged() -> None:
    labels, scores = rows(3, 200, 11)
    with pytest.raises(ValueError, match="form='matrix' expects up to 128 classes, got 129"):
        cd.StructuredScaling(form="matrix").fit(np.arange(129), np.full((129, 129), 1 / 129))
    with pytest.raises(ValueError, match="form expects 'vector' or 'matrix', got 'both'"):
        cd.StructuredScaling(form="both").fit(labels, scores)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tolerance expects a number of standard errors"):
        cd.VectorScaling(tolerance=0.0).fit(labels, scores)
    with pytest.raises(ValueError, match="max_passes expects a positive whole number, got 0"):
        cd.VectorScaling(max_passes=0).fit(labels, scores)
    with pytest.warns(UserWarning, match="did not come within the tolerance in 2 passes"):
        assert cd.StructuredScaling(form="matrix", max_passes=2).fit(labels, scores).converged_ == 0
    with pytest.raises(ValueError, match="cannot be computed from a summary"):
        cd.VectorScaling().fit(cd.summarize(labels, scores))


def _overshot(point: Array) -> NewtonPoint:
    """Steep far from the minimum, where full steps overshoot: sum of log cosh((x - 1) * (1, 2, 3))."""
    factors = np.arange(1.0, 4.0)
    x = (point - 1) * factors
    hessian = factors**2 / np.cosh(x) ** 2
    return NewtonPoint(float(np.log(np.cosh(x)).sum()), factors * np.tanh(x), lambda g: g / hessian)


@pytest.mark.parametrize("search", [newton_search, quasi_newton_search])
def test_searches_shorten_steps_that_overshoot(search: Any) -> None:
    going: Search = search(np.array([2.3, 0.4, 1.5]), 1e-9)
    point = next(going)
    values = []

    def followed() -> Any:
        nonlocal point
        while len(values) < 200:
            evaluation = _overshot(point)
            values.append(evaluation.value)
            point = going.send(evaluation)

    with pytest.raises(StopIteration) as end:
        followed()
    assert end.value.value.converged
    np.testing.assert_allclose(end.value.value.point, 1.0, atol=1e-8)
    assert max(values) > values[0]


def test_scores_of_0_and_1_do_not_stop_the_search() -> None:
    """Probabilities by the temperature are 0 and 1 for all rows, where steps would be 0."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    told = np.where(rng.random(400) < 0.7, labels, rng.integers(0, 3, 400))
    scores = np.eye(3)[told]
    fitted = cd.VectorScaling().fit(labels, scores)
    expected = [np.bincount(labels[told == k], minlength=3) / (told == k).sum() for k in range(3)]
    np.testing.assert_allclose(fitted.predict_proba(np.eye(3)), expected, atol=0.02)
    of_vector = cd.VectorScaling().fit(labels > 0, scores[:, 1:].sum(1))
    frequency = [(labels[told == 0] > 0).mean(), (labels[told > 0] > 0).mean()]
    np.testing.assert_allclose(of_vector.predict_proba([0.0, 1.0])[:, 1], frequency, rtol=1e-3)

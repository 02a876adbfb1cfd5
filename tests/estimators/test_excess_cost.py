"""Costs of acting on scores, and of acting on calibrated ones, against loops over the formulas and known values."""

import itertools
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import calibdask as cd
from tests import strategies
from tests.oracles import cost_reference as reference

CHOICES: list[dict[str, Any]] = [
    {},
    {"bins": 1},
    {"bins": 3},
    {"calibration": "classwise"},
    {"calibration": "classwise", "bins": 4},
    {"calibration": "classwise", "bins": 5, "binning": "equal-mass"},
]
IDS = ["-".join(str(v) for v in choice.values()) or "default" for choice in CHOICES]


def numbers(result: xr.Dataset, name: str = "excess_cost") -> dict[str, NDArray[Any]]:
    """The four numbers by what follows the name, and nothing else is there."""
    assert set(result.data_vars) == {name + part for part in reference.PARTS}
    return {part: result[name + part].values for part in reference.PARTS}


def check(actual: dict[str, NDArray[Any]], expected: dict[str, float], where: Any = ()) -> None:
    for part, value in expected.items():
        scale = max(1.0, *(abs(v) for v in expected.values()))
        np.testing.assert_allclose(actual[part][where], value, rtol=1e-12, atol=1e-12 * scale, err_msg=part)


def drawn_costs(rng: np.random.Generator, kind: str, classes: int) -> NDArray[np.float64] | None:
    """0/1 costs, small whole ones with many ties, or any numbers; as many actions as classes, or not."""
    if kind == "0/1":
        return None
    actions = int(rng.integers(1, classes + 3))
    if kind == "whole":
        return rng.integers(0, 4, (actions, classes)).astype(np.float64)
    return rng.normal(0, 3, (actions, classes))


def user_arrays(data: strategies.Data) -> tuple[NDArray[Any], NDArray[Any], dict[str, Any]]:
    """Arrays as a user would pass them, always with models as the first dimension."""
    scores = data.scores[..., 0] if data.layout.vector else data.scores
    labels = np.broadcast_to(data.labels, data.scores.shape[:2])
    options = {
        "sample_weight": None if data.weights is None else data.weights[0],
        "by": None if data.group is None else {"slice": data.group},
        "task": "binary" if data.layout.vector else None,
    }
    return labels, scores, options


@settings(max_examples=60, deadline=None)
@given(strategies.data(), st.sampled_from(["0/1", "whole", "any"]), st.sampled_from(CHOICES), st.integers(0, 99))
def test_equals_the_formulas(data: strategies.Data, kind: str, choice: dict[str, Any], seed: int) -> None:
    labels, scores, options = user_arrays(data)
    weights, by = options["sample_weight"], options["by"]
    if weights is not None:
        if not weights.any():
            return
        if choice.get("calibration") == "classwise":
            kind = "any"  # Frequencies of weights are equal but for rounding, which may choose among equal costs.
    costs = drawn_costs(np.random.default_rng(seed), kind, data.layout.classes)
    result = cd.evaluate(labels, scores, cd.ExcessCost(costs=costs, **choice), **options)
    actual = numbers(result)
    groups = [None] if by is None else list(result["slice"].values)
    for m, g in itertools.product(range(len(scores)), groups):
        rows = np.ones(data.rows, bool) if g is None else by["slice"] == g
        where: tuple[Any, ...] = (m,) if g is None else (m, groups.index(g))
        given_weights = None if weights is None else weights[rows]
        if given_weights is not None and not given_weights.any():
            assert all(np.isnan(values[where]) for values in actual.values())
            continue
        expected = reference.excess_cost(labels[m, rows], scores[m, rows], costs, weights=given_weights, **choice)
        check(actual, expected, where)
        if "calibration" not in choice:
            assert actual[""][where] >= -1e-12 * (1 if costs is None else np.abs(costs).max() + 1)


def test_costs_that_differ_by_rounding_are_equal() -> None:
    """0.1 + 0.1 + 0.4 is more than 0.4 + 0.1 + 0.1, in float64: the first of both actions is taken."""
    result = cd.evaluate([3], [[0.4, 0.1, 0.1, 0.4]], cd.ExcessCost())
    assert result.excess_cost_realised == 1.0


def drawn_rows(
    n: int, classes: int, seed: int, weighted: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64] | None]:
    rng = np.random.default_rng(seed)
    scores = rng.dirichlet(np.ones(classes), n)
    labels = np.array([rng.choice(classes, p=row**2 / (row**2).sum()) for row in scores])
    return labels, scores, rng.gamma(2.0, 1.0, n) if weighted else None


def dyadic_rows(n: int, classes: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Scores that are multiples of 1/16, so that sums of them are exact, with many ties."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, classes, n), rng.multinomial(16, np.full(classes, 1 / classes), n) / 16


@pytest.mark.parametrize(
    ("choice", "weighted"), [(choice, place % 2 > 0) for place, choice in enumerate(CHOICES)], ids=IDS
)
def test_more_rows_than_one_block_and_many_cells(choice: dict[str, Any], weighted: bool) -> None:
    labels, scores, weights = drawn_rows(3000, 4, 1, weighted)
    costs = np.random.default_rng(2).random((5, 4))
    result = cd.evaluate(labels, scores, cd.ExcessCost(costs=costs, **choice), sample_weight=weights)
    check(numbers(result), reference.excess_cost(labels, scores, costs, weights=weights, **choice))


def test_many_classes() -> None:
    labels, scores, _ = drawn_rows(300, 40, 3)
    costs = np.random.default_rng(4).random((3, 40))
    for choice in ({"bins": 20}, {"calibration": "classwise", "bins": 20}):
        result = cd.evaluate(labels, scores, cd.ExcessCost(costs=costs, **choice))
        check(numbers(result), reference.excess_cost(labels, scores, costs, **choice))


@pytest.mark.parametrize("choice", CHOICES, ids=IDS)
def test_float32_scores(choice: dict[str, Any]) -> None:
    """Values on and next to edges, as float32 holds them; a vector's 1 - p is of float64."""
    rng = np.random.default_rng(5)
    grid = np.arange(11, dtype=np.float32) / np.float32(10)
    near = np.concatenate([grid, np.nextafter(grid, np.float32(0)), np.nextafter(grid, np.float32(1))])
    scores = np.clip(rng.choice(near, 400), 0, 1)
    labels = rng.integers(0, 2, 400)
    costs = [[0.0, 3.25], [1.5, 0.0], [0.8, 0.9]]
    check(
        numbers(cd.evaluate(labels, scores, cd.ExcessCost(costs=costs, **choice))),
        reference.excess_cost(labels, scores, costs, **choice),
    )
    matrix = np.stack([np.float32(1) - scores, scores], -1)
    check(
        numbers(cd.evaluate(labels, matrix, cd.ExcessCost(costs=costs, **choice))),
        reference.excess_cost(labels, matrix, costs, **choice),
    )


@pytest.mark.parametrize("bins", [3, 7, 10, 49])
def test_bins_are_closed_on_the_right(bins: int) -> None:
    """Scores on edges j / bins, and the doubles next to them: 2 classes, one label in each, tell which are together."""
    edges = np.array([j / bins for j in range(bins + 1)])
    scores = np.unique(np.clip(np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1)]), 0, 1))
    labels = np.arange(len(scores)) % 2
    costs = [[0.0, 1.0], [0.7, 0.0]]
    for calibration in ("multiclass", "classwise"):
        metric = cd.ExcessCost(costs=costs, bins=bins, calibration=calibration)
        expected = reference.excess_cost(labels, scores, costs, calibration, bins)
        check(numbers(cd.evaluate(labels, scores, metric)), expected)


def test_a_calibrated_table_has_no_excess() -> None:
    """Each vector of scores as often as its classes: acting on it is best, and costs what it promises."""
    tenths = [(a, b, 10 - a - b) for a in range(11) for b in range(11 - a)]
    scores = np.repeat(np.array(tenths) / 10, 10, axis=0)
    labels = np.concatenate([np.repeat(np.arange(3), counts) for counts in tenths])
    order = np.random.default_rng(6).permutation(len(labels))
    for costs in (None, [[0, 4, 1], [2, 0, 3], [5, 1, 0]], [[0, 2, 2], [1, 0, 7], [4, 4, 0], [0.9, 0.9, 0.9]]):
        result = numbers(cd.evaluate(labels[order], scores[order], cd.ExcessCost(costs=costs)))
        assert abs(result[""]) < 1e-12
        np.testing.assert_allclose(result["_promised"], result["_realised"], rtol=1e-12)


def test_a_calibrated_vector_has_no_excess_by_classes_either() -> None:
    """Two classes: the map of each class is that of the other."""
    scores = np.repeat(np.arange(11) / 10, 10)
    labels = np.concatenate([np.repeat([1, 0], [k, 10 - k]) for k in range(11)])
    for costs in (None, [[0, 3.1], [1, 0]], [[0, 3.1], [1, 0], [0.3, 0.7]]):
        for calibration in ("multiclass", "classwise"):
            result = numbers(cd.evaluate(labels, scores, cd.ExcessCost(costs=costs, calibration=calibration)))
            assert abs(result[""]) < 1e-12
            np.testing.assert_allclose(result["_promised"], result["_realised"], rtol=1e-12)


def test_no_one_costs_of_a_miss_are_the_error_rate() -> None:
    labels, scores = dyadic_rows(500, 4, 7)
    result = numbers(cd.evaluate(labels, scores, cd.ExcessCost()))
    np.testing.assert_allclose(result["_realised"], np.mean(scores.argmax(1) != labels), rtol=1e-15)
    np.testing.assert_allclose(result["_promised"], np.mean(1 - scores.max(1)), rtol=1e-13)
    same = numbers(cd.evaluate(labels, scores, cd.ExcessCost(costs=1 - np.eye(4))))
    assert all(same[part] == result[part] for part in reference.PARTS)


def test_no_more_than_the_best_constant_action_by_one_bin_of_one_action() -> None:
    """With one bin the cells are the actions: the table of actions and classes tells everything."""
    labels, scores, weights = drawn_rows(400, 3, 8, weighted=True)
    costs = np.array([[0, 3, 1], [2, 0, 2], [4, 1, 0], [0.6, 0.7, 0.8]])
    action = (scores @ costs.T).argmin(1)
    table = np.zeros((4, 3))
    np.add.at(table, (action, labels), weights)
    result = numbers(cd.evaluate(labels, scores, cd.ExcessCost(costs=costs, bins=1), sample_weight=weights))
    np.testing.assert_allclose(result["_realised"], (costs * table).sum() / table.sum(), rtol=1e-12)
    np.testing.assert_allclose(result["_calibrated"], (table @ costs.T).min(1).sum() / table.sum(), rtol=1e-12)


@pytest.mark.parametrize(("miss", "alarm"), [(1.0, 1.0), (5.0, 1.0), (0.3, 2.9)])
def test_two_actions_are_a_threshold(miss: float, alarm: float) -> None:
    """Act where miss * p > alarm * (1 - p): above p = alarm / (miss + alarm)."""
    rng = np.random.default_rng(9)
    scores = rng.random(1000)
    labels = (rng.random(1000) < scores**2).astype(int)
    acted = scores > alarm / (miss + alarm)
    result = numbers(cd.evaluate(labels, scores, cd.ExcessCost(costs=[[0, miss], [alarm, 0]])))
    realised = np.mean(np.where(acted, alarm * (labels == 0), miss * (labels == 1)))
    promised = np.mean(np.where(acted, alarm * (1 - scores), miss * scores))
    np.testing.assert_allclose(result["_realised"], realised, rtol=1e-12)
    np.testing.assert_allclose(result["_promised"], promised, rtol=1e-12)
    assert result[""] >= 0


def test_scores_on_the_threshold_take_the_lowest_action() -> None:
    result = numbers(cd.evaluate([1, 1, 0, 0], [0.25, 0.75, 0.25, 0.75], cd.ExcessCost(costs=[[0, 3], [1, 0]])))
    # p = 1/4 costs 3/4 either way: action 0, which costs 3 where the class is 1.
    np.testing.assert_allclose(result["_realised"], (3 + 0 + 0 + 1) / 4)
    np.testing.assert_allclose(result["_promised"], (0.75 + 0.25 + 0.75 + 0.25) / 4)
    # A second action that is the first one is never taken, and changes nothing.
    twice = numbers(cd.evaluate([1, 1, 0, 0], [0.25, 0.75, 0.25, 0.75], cd.ExcessCost(costs=[[0, 3], [0, 3], [1, 0]])))
    assert all(twice[part] == result[part] for part in reference.PARTS)


def test_one_row_of_known_costs() -> None:
    """Hand-made: scores say class 0, the class is 1; asking (0.5) is dearer than 0.4."""
    metric = cd.ExcessCost(costs=[[0, 2], [2, 0], [0.5, 0.5]])
    result = numbers(cd.evaluate([1], [[0.8, 0.2]], metric))
    assert {part: float(values) for part, values in result.items()} == pytest.approx(
        {"": 2.0, "_realised": 2.0, "_promised": 0.4, "_calibrated": 0.0}
    )
    result = numbers(cd.evaluate([1], [[0.6, 0.4]], metric))
    assert {part: float(values) for part, values in result.items()} == pytest.approx(
        {"": 0.5, "_realised": 0.5, "_promised": 0.5, "_calibrated": 0.0}
    )


def test_one_action_has_no_excess() -> None:
    labels, scores, _ = drawn_rows(200, 3, 10)
    for choice in CHOICES:
        result = numbers(cd.evaluate(labels, scores, cd.ExcessCost(costs=[[1.0, -2.0, 4.0]], **choice)))
        np.testing.assert_allclose(result["_realised"], np.array([1.0, -2.0, 4.0])[labels].mean(), rtol=1e-12)
        np.testing.assert_allclose(result["_promised"], (scores @ [1.0, -2.0, 4.0]).mean(), rtol=1e-12)
        assert abs(result[""]) < 1e-12


def test_maps_by_classes_may_make_it_dearer() -> None:
    """Maps of single classes lose what the vector tells: scores that act perfectly, and maps that cannot."""
    rng = np.random.default_rng(11)
    worst = np.inf
    for _ in range(50):
        labels, scores = rng.integers(0, 3, 30), rng.dirichlet([1, 1, 1], 30)
        costs = rng.random((3, 3))
        metric = cd.ExcessCost(costs=costs, calibration="classwise", bins=2)
        result = numbers(cd.evaluate(labels, scores, metric))
        check(result, reference.excess_cost(labels, scores, costs, "classwise", 2))
        worst = min(worst, float(result[""]))
    assert worst < -1e-3


@pytest.mark.parametrize("choice", CHOICES[:5], ids=IDS[:5])
def test_whole_weights_are_copies_of_rows(choice: dict[str, Any]) -> None:
    labels, scores, _ = drawn_rows(300, 3, 14)
    copies = np.random.default_rng(15).integers(0, 4, 300)
    metric = cd.ExcessCost(costs=np.random.default_rng(16).random((4, 3)), **choice)
    actual = numbers(cd.evaluate(labels, scores, metric, sample_weight=copies))
    expected = numbers(cd.evaluate(np.repeat(labels, copies), np.repeat(scores, copies, axis=0), metric))
    check(actual, {part: float(values) for part, values in expected.items()})


@pytest.mark.parametrize("choice", CHOICES, ids=IDS)
@pytest.mark.parametrize("factor", [2.0**30, 2.0**-60])
def test_costs_of_another_currency(choice: dict[str, Any], factor: float) -> None:
    """Numbers scale with the costs, in relative precision."""
    labels, scores, _ = drawn_rows(500, 3, 17)
    costs = np.random.default_rng(18).random((4, 3))
    plain = numbers(cd.evaluate(labels, scores, cd.ExcessCost(costs=costs, **choice)))
    scaled = numbers(cd.evaluate(labels, scores, cd.ExcessCost(costs=costs * factor, **choice)))
    for part in reference.PARTS:
        np.testing.assert_allclose(scaled[part] / factor, plain[part], rtol=1e-9, atol=1e-12, err_msg=part)


@pytest.mark.parametrize("bins", [1, 6])
def test_costs_that_no_action_avoids_are_no_excess(bins: int) -> None:
    """A cost of each class whatever is done moves all numbers alike but the excess."""
    labels, scores = dyadic_rows(400, 3, 19)
    costs = np.array([[0, 3, 1], [2, 0, 2], [4, 1, 0]])
    added = np.array([1.0, 0.5, 8.0])
    plain = numbers(cd.evaluate(labels, scores, cd.ExcessCost(costs=costs, bins=bins)))
    more = numbers(cd.evaluate(labels, scores, cd.ExcessCost(costs=costs + added, bins=bins)))
    np.testing.assert_allclose(more[""], plain[""], atol=1e-12)
    np.testing.assert_allclose(more["_realised"] - plain["_realised"], added[labels].mean(), rtol=1e-12)
    np.testing.assert_allclose(more["_promised"] - plain["_promised"], (scores @ added).mean(), rtol=1e-12)


@pytest.mark.parametrize("choice", CHOICES[:5], ids=IDS[:5])
def test_a_vector_is_the_matrix_of_two_columns(choice: dict[str, Any]) -> None:
    rng = np.random.default_rng(20)
    scores, labels = rng.random(300), rng.integers(0, 2, 300)
    metric = cd.ExcessCost(costs=[[0, 3.1], [1, 0], [0.4, 0.8]], **choice)
    vector = cd.evaluate(labels, scores, metric)
    matrix = cd.evaluate(labels, np.stack([1 - scores, scores], -1), metric)
    # What is counted differs: y = 1, or right predictions.
    vector, matrix = (result.drop_attrs().reset_coords(drop=True) for result in (vector, matrix))
    xr.testing.assert_identical(vector, matrix)


def test_changing_the_given_array_changes_nothing() -> None:
    costs = np.array([[0.0, 3.0], [1.0, 0.0]])
    metric = cd.ExcessCost(costs=costs)
    expected = hash(metric)
    costs[:] = 7
    for same in (metric, cd.ExcessCost(costs=[[0, 3], [1, 0]]), cd.ExcessCost(costs=((0, 3), (1, 0)))):
        assert (same, hash(same), same.name) == (metric, expected, "excess_cost")
    assert metric != cd.ExcessCost() != cd.ExcessCost(costs=[[0, 3], [2, 0]])
    with pytest.raises(TypeError):
        cd.ExcessCost(costs)
    assert float(cd.evaluate([1], [0.1], metric).excess_cost_realised) == 3


@pytest.mark.parametrize(
    "choice",
    [
        {"costs": [0, 1]},
        {"costs": 1.0},
        {"costs": [[[0, 1], [1, 0]]]},
        {"costs": [[0, 1], [1]]},
        {"costs": []},
        {"costs": [[]]},
        {"costs": [[0, np.nan], [1, 0]]},
        {"costs": [[0, np.inf], [1, 0]]},
        {"costs": [[0, -np.inf], [1, 0]]},
        {"costs": [["a", "b"], ["c", "d"]]},
        {"costs": [[0, None], [1, 0]]},
        {"calibration": "binary"},
        {"calibration": None},
        {"binning": "quantile", "calibration": "classwise"},
        {"binning": "equal-mass"},
        {"binning": "equal-mass", "calibration": "multiclass", "bins": 5},
        {"bins": 0},
        {"bins": -3},
        {"bins": 2.5},
        {"bins": "sqrt"},
        {"bins": [0.0, 0.5, 1.0]},
        {"bins": None},
        {"bins": np.nan},
    ],
    ids=repr,
)
def test_bad_choices(choice: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(choice)) if len(choice) == 1 else ".+"):
        cd.ExcessCost(**choice)


@pytest.mark.parametrize(("columns", "classes"), [(4, 3), (2, 3), (3, 2), (1, 2)])
@pytest.mark.parametrize("calibration", ["multiclass", "classwise"])
def test_costs_of_other_classes_than_the_data(columns: int, classes: int, calibration: str) -> None:
    metric = cd.ExcessCost(costs=np.ones((5, columns)), calibration=calibration)
    scores: Any = np.full(3, 0.5) if classes == 2 else np.full((3, classes), 1 / classes)
    with pytest.raises(ValueError, match=rf"\b{columns}\b.*\b{classes}\b|\b{classes}\b.*\b{columns}\b"):
        cd.evaluate([0, 1, 0], scores, metric)


@pytest.mark.parametrize("scores", [[0.4, 0.1, 0.1, 0.4], [0.1, 0.3, 0.3, 0.3], [0.3, 0.1, 0.3, 0.3]])
def test_ties_are_not_broken_by_rounding(scores: list[float]) -> None:
    first = int(np.argmax(scores))
    result = cd.evaluate([first], [scores], {"cost": cd.ExcessCost()})
    assert result.cost_realised == 0

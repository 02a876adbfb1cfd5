"""ECE against loops written from the formulas: all settings, binnings, mappings, norms, closednesses and weights."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import calibdask as cd
from tests import strategies
from tests.oracles import reference
from tests.strategies import user_arrays


def edges_of(binning: str, bins: int, weights: Any) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    if binning == "uniform":
        return lambda s: reference.uniform_edges(bins)
    return lambda s: reference.equal_mass_edges(s, bins, weights)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_ece_equals_the_loops(drawn: st.DataObject) -> None:
    data = drawn.draw(strategies.data(max_batch=1, max_rows=40))
    labels, scores, options = user_arrays(data)
    weights = options["sample_weight"]
    if weights is not None:
        kept = weights > 0
        if not kept.any():
            return
        labels, scores, weights = labels[kept], scores[kept], weights[kept]
    setting = drawn.draw(st.sampled_from(["binary", "classwise", "confidence", "top-k", 0]))
    k = 2 if setting == "top-k" else None
    choices: dict[str, Any] = {
        "binning": drawn.draw(st.sampled_from(["uniform", "equal-mass"])),
        "mapping": drawn.draw(st.sampled_from(["hard", "convex", "inverted"])),
        "norm": drawn.draw(st.sampled_from(["l1", "l2", "max"])),
        "closed": drawn.draw(st.sampled_from(["right", "left"])),
    }
    debias = choices["norm"] == "l2" and choices["mapping"] == "hard" and drawn.draw(st.booleans())
    bins = drawn.draw(st.integers(1, 12))
    if choices["norm"] == "max" and choices["mapping"] != "hard":
        # The mean of a bin that holds next to nothing of any row is ill-conditioned.
        for s, _ in reference.columns(labels.astype(int), scores.astype(np.float64), setting, k):
            edges = edges_of(choices["binning"], bins, weights)(s)
            shares = reference.mapping_weights(s, edges, choices["mapping"], choices["closed"]).sum(0)
            assume(not ((shares > 0) & (shares < 1e-4)).any())
    expected = reference.ece_of(
        labels.astype(int),
        scores.astype(np.float64),
        setting,
        edges_of(choices["binning"], bins, weights),
        choices["mapping"],
        choices["closed"],
        choices["norm"],
        weights,
        debias,
        k,
    )
    actual = cd.ece(labels, scores, bins=bins, setting=setting, k=k, debias=debias, sample_weight=weights, **choices)
    # A square root makes 1e-8 of the rounding of a square that is zero but for rounding.
    tolerance = 3e-8 if choices["norm"] == "l2" else 1e-11
    assert actual == pytest.approx(expected, rel=1e-11, abs=tolerance), (choices, bins, setting)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("closed", ["right", "left"])
def test_bins_are_decided_by_the_edges_and_not_by_rounding(dtype: Any, closed: Any) -> None:
    for bins in (*range(1, 60), 77, 100, 199, 1000, 4096):
        edges = np.arange(bins + 1) / bins
        near = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1)]).astype(dtype)
        near = np.unique(np.r_[near, np.nextafter(near, dtype(0)), np.nextafter(near, dtype(1))])
        near = near[(near >= 0) & (near <= 1)]
        diagram = cd.reliability_diagram(np.zeros(near.size, int), near, bins=bins, closed=closed)
        # As `reference.bin_index` does it, by a binary search.
        places = np.searchsorted(edges[1:-1], near.astype(np.float64), "left" if closed == "right" else "right")
        np.testing.assert_array_equal(diagram["count"], np.bincount(places, minlength=bins), err_msg=str(bins))


def test_explicit_edges_and_range() -> None:
    rng = np.random.default_rng(1)
    scores, labels = rng.random(500), rng.integers(0, 2, 500)
    edges = [0.0, 0.1, 0.15, 0.7, 1.0]
    assert cd.ece(labels, scores, bins=edges) == pytest.approx(reference.ece(scores, labels, edges), rel=1e-12)
    prob = rng.dirichlet([1, 1, 1], 500)
    label = rng.integers(0, 3, 500)
    ((s, o),) = reference.columns(label, prob, "confidence")
    expected = reference.ece(s, o, reference.uniform_edges(10, 1 / 3, 1.0))
    assert cd.ece(label, prob, bins=10, range=(1 / 3, 1)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 120, 121, 5000])
def test_square_root_bins(n: int) -> None:
    rng = np.random.default_rng(n)
    scores, labels = rng.random(n), rng.integers(0, 2, n)
    bins = max(1, int(np.floor(np.sqrt(n))))
    assert cd.reliability_diagram(labels, scores, bins="sqrt").sizes["bin"] == bins
    assert cd.ece(labels, scores, bins="sqrt") == cd.ece(labels, scores, bins=bins)
    for binning in ("uniform", "equal-mass"):
        by = np.arange(n) % 2
        if n > 1:
            sliced = cd.ece(labels, scores, bins="sqrt", binning=binning, by=by)
            assert float(sliced[1]) == cd.ece(labels[by == 1], scores[by == 1], bins="sqrt", binning=binning)


def test_presets_have_the_papers_meaning() -> None:
    assert cd.ece_l() == cd.ECE()
    assert cd.ece_a(bins=10) == cd.ECE(bins=10, binning="equal-mass")
    assert cd.ece_c() == cd.ECE(mapping="convex")
    assert cd.ece_ac() == cd.ECE(mapping="convex", binning="equal-mass")
    assert cd.ece_c(compat="euranova").mapping == "inverted"
    for preset, choice in (
        (cd.MCE, {"norm": "l1"}),
        (cd.ece_l, {"mapping": "convex"}),
        (cd.ece_a, {"binning": "uniform"}),
    ):
        with pytest.raises(TypeError, match="multiple values"):
            preset(**choice)


@pytest.mark.parametrize("setting", ["confidence", "classwise"])
@pytest.mark.parametrize("bins", [10, 30, "sqrt"])
def test_compat_euranova(setting: str, bins: Any) -> None:
    rng = np.random.default_rng(7)
    for n, ties in ((30, True), (67, True), (250, False)):
        scores = strategies.simplex(rng, (n, 3), "grid" if ties else "smooth")
        labels = rng.integers(0, 3, n)
        number = int(np.sqrt(n)) if bins == "sqrt" else bins
        low = 1 / 3 if setting == "confidence" else 0.0

        def equal_mass(s: NDArray[np.float64], number: int = number, low: float = low) -> NDArray[np.float64]:
            edges = reference.equal_mass_edges(s, number, remainder="last")
            return np.r_[low, edges[1:]]

        def floored(number: int = number) -> NDArray[np.float64]:
            """The smallest doubles that floor(s * B) sends to each bin."""
            edges = []
            for i in range(number + 1):
                edge = i / number
                while np.floor(np.nextafter(edge, -1) * number) >= i:
                    edge = np.nextafter(edge, -1)
                while np.floor(edge * number) < i:
                    edge = np.nextafter(edge, 2)
                edges.append(edge)
            return np.array(edges)

        expected = {
            "l": reference.ece_of(labels, scores, setting, floored(), "hard", "left"),
            "a": reference.ece_of(labels, scores, setting, equal_mass, "hard", "left"),
            "c": reference.ece_of(
                labels, scores, setting, reference.uniform_edges(number, low, 1.0), "inverted", "left"
            ),
            "ac": reference.ece_of(labels, scores, setting, equal_mass, "inverted", "left"),
        }
        for name, preset in (("l", cd.ece_l), ("a", cd.ece_a), ("c", cd.ece_c), ("ac", cd.ece_ac)):
            made = preset(bins=bins, setting=setting, compat="euranova")
            actual = float(cd.evaluate(labels, scores, {"x": made}).x)
            assert actual == pytest.approx(expected[name], abs=1e-12), (name, n)


def test_compat_torchmetrics_gives_a_score_of_one_a_bin_of_its_own() -> None:
    diagram = cd.reliability_diagram([1, 1, 0], [1.0, 0.99, 0.5], bins=2, compat="torchmetrics")
    assert diagram["count"].values.tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"bins": 0}, "positive whole number"),
        ({"bins": 2.5}, "positive whole number"),
        ({"bins": "cube"}, "positive whole number"),
        ({"bins": [0.0, 0.5, 0.5, 1.0]}, "increasing"),
        ({"binning": "quantile"}, "binning expects one of 'uniform', 'equal-mass'"),
        ({"mapping": "soft"}, "mapping expects"),
        ({"norm": "l3"}, "norm expects"),
        ({"closed": "both"}, "closed expects"),
        ({"range": (0.5, 0.2)}, "range expects"),
        ({"range": 5}, "range expects"),
        ({"range": (0.5, 1), "bins": [0.5, 0.7, 1]}, "explicit edges already define"),
        ({"bins": 10**12}, "positive whole number"),
        ({"setting": "class-wise"}, "setting expects"),
        ({"setting": True}, "setting expects"),
        ({"setting": -1}, "setting expects"),
        ({"k": 3}, "k belongs to"),
        ({"debias": True}, "norm='l2'"),
        ({"bins": [0.0, 0.5, 1.0], "binning": "equal-mass"}, "chooses its own edges"),
        ({"compat": "pycalib"}, "compat expects one of"),
    ],
)
def test_choices_that_do_not_exist(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cd.ECE(**choices)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"setting": 3}, "classes 0..2"),
        ({"setting": "top-k"}, "requires k"),
        ({"setting": "top-k", "k": 4}, "k from 1"),
        ({"setting": "confidense"}, "'confidence', 'classwise'"),
        ({"setting": "multiclass"}, "'confidence', 'classwise'"),
    ],
)
def test_settings_that_do_not_exist(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cd.ece([0, 1, 2], np.eye(3), **choices)


@pytest.mark.parametrize("mapping", ["convex", "inverted"])
def test_scores_on_a_centre_leave_nothing_to_the_other_bin(mapping: Any) -> None:
    for bins in range(2, 40):
        edges = reference.uniform_edges(bins)
        centres = (edges[1:] + edges[:-1]) / 2
        labels = np.arange(bins) % 2
        weight = cd.reliability_diagram(labels, centres, bins=bins, mapping=mapping).weight.values
        shares = reference.mapping_weights(centres, edges, mapping).sum(0)
        np.testing.assert_array_equal(weight, shares)


def test_the_lower_end_of_mce_is_within_the_limits_of_its_bins() -> None:
    """Of three bins one is off: the end lies above 0, and not beyond the limits that hold for all bins together."""
    labels = (np.random.default_rng(2).random(600) < np.repeat([0.1, 0.35, 0.9], 200)).astype(int)
    scores = np.repeat([0.1, 0.5, 0.9], 200)
    low = float(cd.evaluate(labels, scores, {"mce": cd.MCE(bins=10)}, ci=0.9, n_boot=100).mce_low)
    bins = cd.evaluate(labels, scores, {"d": cd.ReliabilityDiagram(bins=10)}, ci=1 - 0.1 / 3)
    beyond = np.maximum(bins.d_outcome_low - bins.d_score, bins.d_score - bins.d_outcome_high)
    limit = float(beyond.where(bins.d_count > 0).max())
    assert 0.5 * limit < low <= limit + 1e-12

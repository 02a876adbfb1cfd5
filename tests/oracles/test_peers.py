"""The same numbers as other packages: scikit-learn always, the others where they are installed.

Where a peer differs, a test says in what. Peers that compute in float64 agree within rounding: sums of at most some
thousand terms below 1 are exact within 1e-13 in any order.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

import calibdask as cd

Array = NDArray[Any]

ROUNDING = 1e-13
SIZES = (1, 7, 100, 1000)
BINS = (1, 2, 5, 10, 15, 20)
DYADIC = (1, 2, 4, 8, 16)  # every package has the same edges here: i / bins is a float32


def peer(module: str) -> Any:
    """The module, or the test is skipped."""
    return pytest.importorskip(module, exc_type=ImportError)


def binary_rows(seed: int, n: int, bins: int | None = None) -> tuple[Array, Array]:
    """Labels and scores, a fifth of these 0 or 1; if ``bins`` is given, as many on edges of bins."""
    rng = np.random.default_rng([seed, n])
    kind = rng.integers(0, 5, n)
    scores = rng.random(n)
    scores[kind == 0] = rng.integers(0, 2, (kind == 0).sum())
    if bins is not None:
        scores[kind == 1] = rng.integers(0, bins + 1, (kind == 1).sum()) / bins
    return (rng.random(n) < scores**1.5).astype(int), scores


def matrix_rows(seed: int, n: int, classes: int, bins: int | None = None) -> tuple[Array, Array]:
    """Labels and rows of scores, some of them 0 and 1; if ``bins`` is given, some largest scores on edges of bins."""
    rng = np.random.default_rng([seed, n, classes])
    scores = rng.dirichlet(np.full(classes, 0.7), n)
    kind = rng.integers(0, 5, n)
    scores[kind == 0] = np.eye(classes)[rng.integers(0, classes, (kind == 0).sum())]
    if bins is not None:
        top = rng.integers((bins + 1) // 2, bins + 1, n) / bins
        even = np.where(np.eye(classes, dtype=bool)[0], top[:, None], (1 - top[:, None]) / (classes - 1))
        scores[kind == 1] = even[kind == 1]
    labels = np.where(rng.random(n) < 0.6, scores.argmax(1), rng.integers(0, classes, n))
    labels[: min(n, classes)] = np.arange(min(n, classes))  # every class occurs
    return labels, scores


@st.composite
def tied_rows(draw: st.DrawFn) -> tuple[Array, Array, int]:
    """Labels, scores of which many are edges of bins, and the number of bins."""
    bins = draw(st.integers(1, 20))
    score = st.floats(0, 1) | st.integers(0, bins).map(lambda i: i / bins)
    pairs = draw(st.lists(st.tuples(st.integers(0, 1), score), min_size=1, max_size=40))
    return np.array([label for label, _ in pairs]), np.array([s for _, s in pairs]), bins


def equal(actual: Any, expected: Any, tolerance: float = ROUNDING) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


# scikit-learn


def check_calibration_curve(labels: Array, scores: Array, bins: int, strategy: str) -> None:
    binning = {"uniform": "uniform", "quantile": "equal-mass"}[strategy]
    outcome, score = calibration_curve(labels, scores, pos_label=1, n_bins=bins, strategy=strategy)
    diagram = cd.reliability_diagram(labels, scores, bins=bins, binning=binning, compat="scikit-learn")
    count = diagram["count"].values
    filled = count > 0
    equal(diagram.outcome.values[filled], outcome)
    equal(diagram.score.values[filled], score)
    gaps = np.abs(outcome - score)
    expected = {
        "l1": (count[filled] * gaps).sum() / len(labels),
        "l2": np.sqrt((count[filled] * gaps**2).sum() / len(labels)),
        "max": gaps.max(),
    }
    for norm, value in expected.items():
        actual = cd.ece(labels, scores, bins=bins, binning=binning, norm=norm, compat="scikit-learn")
        equal(actual, value)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("bins", BINS)
@pytest.mark.parametrize("n", SIZES)
def test_sklearn_calibration_curve(n: int, bins: int, strategy: str) -> None:
    for seed in range(2):
        check_calibration_curve(*binary_rows(seed, n, bins), bins, strategy)


@settings(max_examples=60, deadline=None)
@given(tied_rows())
def test_sklearn_calibration_curve_of_ties(rows: tuple[Array, Array, int]) -> None:
    for strategy in ("uniform", "quantile"):
        check_calibration_curve(*rows, strategy)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_sklearn_brier_score(n: int, weighted: bool) -> None:
    for seed in range(2):
        weights = np.random.default_rng(seed).random(n) if weighted else None
        labels, scores = binary_rows(seed, n, 10)
        expected = brier_score_loss(labels, scores, sample_weight=weights, pos_label=1)
        equal(cd.brier_score(labels, scores, sample_weight=weights), expected)
        for classes in (2, 3, 10):
            labels, scores = matrix_rows(seed, n, classes, 10)
            every = np.arange(classes)
            expected = brier_score_loss(labels, scores, sample_weight=weights, labels=every)
            equal(cd.brier_score(labels, scores, sample_weight=weights), expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_sklearn_log_loss(n: int, weighted: bool) -> None:
    # Terms reach 36, and scikit-learn clips scores of 1 to 1 - 2.2e-16.
    for seed in range(2):
        weights = np.random.default_rng(seed).random(n) if weighted else None
        labels, scores = binary_rows(seed, n, 10)
        labels = np.where((scores == 0) | (scores == 1), scores, labels).astype(int)  # see the next test
        expected = log_loss(labels, scores, sample_weight=weights, labels=[0, 1])
        equal(cd.log_loss(labels, scores, sample_weight=weights), expected, 1e-12)
        for classes in (2, 3, 10):
            labels, scores = matrix_rows(seed, n, classes, 10)
            labels = np.where(scores[np.arange(n), labels] == 0, scores.argmax(1), labels)
            expected = log_loss(labels, scores, sample_weight=weights, labels=np.arange(classes))
            equal(cd.log_loss(labels, scores, sample_weight=weights), expected, 1e-12)


def test_sklearn_log_loss_clips_zeros_much_earlier() -> None:
    labels, scores = [1, 1], [0.0, 0.5]
    assert log_loss(labels, scores, labels=[0, 1]) == pytest.approx((np.log(2) - np.log(np.finfo(float).eps)) / 2)
    assert cd.log_loss(labels, scores) == pytest.approx((np.log(2) - np.log(5e-324)) / 2)
    assert cd.log_loss([0], np.array([1.0], np.float32)) == pytest.approx(149 * np.log(2))
    assert cd.log_loss([2, 0], [[0.5, 0.5, 0.0], [0.5, 0.25, 0.25]]) == pytest.approx((1074 + 1) / 2 * np.log(2))
    assert cd.log_loss([1, 0], [1, 0]) == 0


# torchmetrics


def torchmetrics_error(labels: Array, scores: Array, **options: Any) -> float:
    torch = peer("torch")
    metrics = peer("torchmetrics.functional.classification")
    name = "binary_calibration_error" if scores.ndim == 1 else "multiclass_calibration_error"
    return float(getattr(metrics, name)(torch.tensor(scores), torch.tensor(labels), **options))


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("n", SIZES)
def test_torchmetrics_binary(n: int, norm: str) -> None:
    for seed in range(2):
        for bins in {*BINS, *DYADIC}:
            # On edges only where both have the same: see the next test.
            labels, scores = binary_rows(seed, n, bins if bins in DYADIC else None)
            expected = torchmetrics_error(labels, scores, n_bins=bins, norm=norm)
            equal(cd.ece(labels, scores, bins=bins, norm=norm, compat="torchmetrics"), expected)
        labels, scores = binary_rows(seed, n)
        equal(cd.ece(labels, scores, compat="torchmetrics"), torchmetrics_error(labels, scores))


@pytest.mark.parametrize(("dtype", "scores"), [("float64", [0.55, 0.6]), ("float32", [0.65, 0.7])])
def test_torchmetrics_scores_on_edges_of_torch(dtype: str, scores: list[float]) -> None:
    # torch counts the upper half of the edges down from 1, in the type of the scores: 1 - 4 * 0.1, not 6 * 0.1.
    labels, typed = np.array([1, 0]), np.array(scores, dtype)
    expected = torchmetrics_error(labels, typed, n_bins=10)
    equal(cd.ece(labels, typed, bins=10, compat="torchmetrics"), expected, 1e-6)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_torchmetrics_multiclass(classes: int, norm: str) -> None:
    # torchmetrics rounds confidences to float32 whatever they are: multiples of 1/256 stay exact, also their sums, and
    # lie on edges where these are the same in all types. Left is the rounding of quotients, some 6e-8 each.
    for seed in range(2):
        for n in SIZES:
            labels, scores = matrix_rows(seed, n, classes)
            rng = np.random.default_rng(seed)
            scores = np.array([rng.multinomial(256, row / row.sum()) for row in scores]) / 256
            for bins in (1, 4, 8, 10, 15, 16):
                expected = torchmetrics_error(labels, scores, num_classes=classes, n_bins=bins, norm=norm)
                equal(cd.ece(labels, scores, bins=bins, norm=norm, compat="torchmetrics"), expected, 1e-6)


# netcal. Docstrings with backslashes warn when its modules are compiled, that is at the first import.

netcal_warns = pytest.mark.filterwarnings("ignore:.*invalid escape sequence")


@netcal_warns
@pytest.mark.parametrize("bins", BINS)
@pytest.mark.parametrize("n", SIZES)
def test_netcal_binary(n: int, bins: int) -> None:
    metrics = peer("netcal.metrics")
    for seed in range(2):
        labels, scores = binary_rows(seed, n, bins)
        equal(cd.ece(labels, scores, bins=bins, compat="netcal"), metrics.ECE(bins).measure(scores, labels))
        equal(cd.mce(labels, scores, bins=bins, compat="netcal"), metrics.MCE(bins).measure(scores, labels))


@netcal_warns
@settings(max_examples=60, deadline=None)
@given(tied_rows())
def test_netcal_binary_of_ties(rows: tuple[Array, Array, int]) -> None:
    metrics = peer("netcal.metrics")
    labels, scores, bins = rows
    equal(cd.ece(labels, scores, bins=bins, compat="netcal"), metrics.ECE(bins).measure(scores, labels))
    equal(cd.mce(labels, scores, bins=bins, compat="netcal"), metrics.MCE(bins).measure(scores, labels))


@netcal_warns
@pytest.mark.parametrize("classes", [3, 10])
def test_netcal_confidence(classes: int) -> None:
    metrics = peer("netcal.metrics")
    # netcal takes two kinds of labels for a binary task: with 100 rows all classes occur.
    for n in (100, 1000):
        for bins in BINS:
            labels, scores = matrix_rows(bins, n, classes, bins)
            equal(cd.ece(labels, scores, bins=bins, compat="netcal"), metrics.ECE(bins).measure(scores, labels))
            equal(cd.mce(labels, scores, bins=bins, compat="netcal"), metrics.MCE(bins).measure(scores, labels))
        labels, scores = matrix_rows(0, n, classes)
        equal(cd.ece(labels, scores, compat="netcal"), metrics.ECE().measure(scores, labels))


@netcal_warns
def test_netcal_takes_two_columns_for_the_scores_of_class_1() -> None:
    metrics = peer("netcal.metrics")
    labels, scores = matrix_rows(0, 100, 2, 10)
    expected = metrics.ECE(10).measure(scores, labels)
    equal(cd.ece(labels, scores, setting=1, compat="netcal"), expected)
    assert abs(cd.ece(labels, scores, setting="confidence", compat="netcal") - expected) > 0.01


def netcal_equal_mass(n: int, bins: int) -> tuple[Array, Array, float]:
    rng = np.random.default_rng([n, bins])
    scores = rng.random(n)  # netcal refuses ties between edges
    labels = (rng.random(n) < scores**2).astype(int)
    return labels, scores, peer("netcal.metrics").ECE(bins, equal_intervals=False).measure(scores, labels)


@netcal_warns
@pytest.mark.parametrize(("n", "bins"), [(10, 3), (11, 3), (100, 7), (1000, 15)])
def test_netcal_equal_mass_bins_are_those_of_sklearn_closed_at_the_left(n: int, bins: int) -> None:
    labels, scores, expected = netcal_equal_mass(n, bins)
    actual = cd.ece(labels, scores, bins=bins, binning="equal-mass", compat="scikit-learn", closed="left")
    equal(actual, expected)


@netcal_warns
def test_netcal_equal_mass_bins() -> None:
    labels, scores, expected = netcal_equal_mass(11, 3)
    equal(cd.ece(labels, scores, bins=3, binning="equal-mass", compat="netcal"), expected)


# uncertainty-calibration. Its uniform bins are ours: edges i / bins, closed at the right.


@pytest.mark.parametrize("n", SIZES)
def test_uncertainty_calibration_ece(n: int) -> None:
    calibration = peer("calibration")
    for seed in range(2):
        for bins in BINS:
            labels, scores = binary_rows(seed, n, bins)
            equal(cd.ece(labels, scores, bins=bins), calibration.get_ece(scores, labels, num_bins=bins))
            for classes in (2, 3, 10):
                labels, scores = matrix_rows(seed, n, classes, bins)
                for setting, mode in (("confidence", "top-label"), ("classwise", "marginal")):
                    expected = calibration.get_ece(scores, labels, num_bins=bins, mode=mode)
                    equal(cd.ece(labels, scores, bins=bins, setting=setting), expected)
        labels, scores = binary_rows(seed, n)
        equal(cd.ece(labels, scores), calibration.get_ece(scores, labels))


@settings(max_examples=60, deadline=None)
@given(tied_rows())
def test_uncertainty_calibration_ece_of_ties(rows: tuple[Array, Array, int]) -> None:
    calibration = peer("calibration")
    labels, scores, bins = rows
    equal(cd.ece(labels, scores, bins=bins), calibration.get_ece(scores, labels, num_bins=bins))


# Its other estimates have bins of equal mass whose sizes differ from ours by at most 1 (numpy.array_split makes the
# first ones larger, ours are spread), or one bin for each value if few scores are distinct. Squares are compared:
# debiased ones are differences, and the root of what rounding leaves of 0 would be 1e-8.
NORMS = [(1, {"norm": "l1"}), (2, {"norm": "l2"}), (2, {"norm": "l2", "debias": True})]


def check_kumar(labels: Array, scores: Array, p: int, norm: dict[str, Any], edges: Any) -> None:
    """One estimate of a vector or both of a matrix, at edges that are a function of the column."""
    calibration = peer("calibration")
    debias = norm.get("debias", False)

    def ours(column: Array, setting: Any) -> float:
        return float(cd.ece(labels, scores, bins=(0.0, *map(float, edges(column))), setting=setting, **norm))

    if scores.ndim == 1:
        expected = calibration.get_calibration_error(scores, labels, p=p, debias=debias)
        equal(ours(scores, "binary") ** p, expected**p)
        return
    expected = calibration.get_calibration_error(scores, labels, p=p, debias=debias, mode="top-label")
    equal(ours(scores.max(1), "confidence") ** p, expected**p)
    # Of classes it takes the mean of the powers, we the mean of the roots.
    expected = calibration.get_calibration_error(scores, labels, p=p, debias=debias, mode="marginal")
    equal(np.mean([ours(column, c) ** p for c, column in enumerate(scores.T)]), expected**p)


def one_zero(scores: Array) -> Array:
    """Scores of which at most one of each column is 0: several would make an edge of 0, that is a bin of zeros."""
    zeros = scores == 0
    later = zeros & (zeros.cumsum(0) > 1)
    return np.where(later, np.linspace(1e-9, 1e-8, len(scores)).reshape(-1, *[1] * (scores.ndim - 1)), scores)


@pytest.mark.parametrize(("p", "norm"), NORMS)
@pytest.mark.parametrize("n", [40, 100, 1000])
def test_uncertainty_calibration_at_its_edges(n: int, p: int, norm: dict[str, Any]) -> None:
    utils = peer("calibration.utils")

    def edges(column: Array) -> Any:
        return utils.get_equal_bins(column, num_bins=15)

    for seed in range(2):
        labels, scores = binary_rows(seed, n, 15)
        check_kumar(labels, one_zero(scores), p, norm, edges)
        for classes in (2, 3, 10):
            labels, scores = matrix_rows(seed, n, classes, 15)
            check_kumar(labels, one_zero(scores), p, norm, edges)


@pytest.mark.parametrize(("p", "norm"), NORMS)
def test_uncertainty_calibration_with_bins_of_equal_rows(p: int, norm: dict[str, Any]) -> None:
    calibration = peer("calibration")
    for n in (60, 150, 1500):
        rng = np.random.default_rng(n)
        scores = rng.random(n)
        scores[:2] = 0, 1
        labels = (rng.random(n) < scores**1.5).astype(int)
        expected = calibration.get_calibration_error(scores, labels, p=p, debias=norm.get("debias", False))
        equal(cd.ece(labels, scores, binning="equal-mass", **norm) ** p, expected**p)


@pytest.mark.parametrize(("p", "norm"), NORMS)
def test_uncertainty_calibration_of_few_values(p: int, norm: dict[str, Any]) -> None:
    utils = peer("calibration.utils")
    for seed in range(5):
        rng = np.random.default_rng(seed)
        scores = rng.integers(0, 11, 200) / 10
        check_kumar((rng.random(200) < scores**1.5).astype(int), scores, p, norm, utils.get_discrete_bins)
        scores = rng.multinomial(8, [0.5, 0.3, 0.2], 200) / 8
        check_kumar(rng.integers(0, 3, 200), scores, p, norm, utils.get_discrete_bins)


# relplot


def smooth_rows(seed: int, n: int) -> tuple[Array, Array]:
    """Labels and scores more than 2 cells of relplot's grid away from 0 and 1; errors are around 0.05."""
    rng = np.random.default_rng([seed, n])
    scores = 0.002 + 0.996 * rng.random(n) ** (0.5, 1, 2)[seed % 3]
    return (rng.random(n) < scores ** (0.7, 1, 1.5)[seed % 3]).astype(int), scores


def ours_and_theirs(labels: Array, scores: Array, weights: Array | None = None) -> tuple[float, float, float]:
    """Our smooth ECE, relplot's at our bandwidth, and the bandwidth."""
    result = cd.evaluate(labels, scores, cd.SmoothECE(), sample_weight=weights)
    bandwidth = float(result.smooth_ece_bandwidth)
    return float(result.smooth_ece), float(peer("relplot").smECE_sigma(scores, labels, bandwidth)), bandwidth


@pytest.mark.parametrize("n", [100, 1000, 10_000])
def test_relplot_smooth_ece(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    relplot = peer("relplot")
    for seed in range(6):
        labels, scores = smooth_rows(seed, n)
        value, same_bandwidth, _ = ours_and_theirs(labels, scores)
        # It integrates by a plain sum over 200 points: the two at the ends are half too heavy, 1/400 of the residual.
        equal(same_bandwidth, value, 1e-3)
        with monkeypatch.context() as finer:
            finer.setattr(relplot.config, "smECE_mesh_pts", 20_001)
            # Left are its cells of 1/1000 (ours: 1/3600): a relative error of (cell / bandwidth)**2 / 12 or so.
            equal(ours_and_theirs(labels, scores)[1], value, 2e-5)
            # Its own bandwidth is bisected ten times, ours forty: twice that step, as the slope may be above 1.
            equal(relplot.smECE(scores, labels), value, 2.0**-9)


def test_relplot_counts_scores_of_0_and_1_half(monkeypatch: pytest.MonkeyPatch) -> None:
    # It mirrors the node of 0 onto itself, where mirroring should double what lies on one side of it.
    monkeypatch.setattr(peer("relplot").config, "smECE_mesh_pts", 20_001)
    for seed in range(6):
        labels, scores = smooth_rows(seed, 1000)
        scores[:100], scores[-100:] = 0, 1
        half = np.where((scores == 0) | (scores == 1), 0.5, 1.0)
        value, theirs, _ = ours_and_theirs(labels, scores, half)
        equal(theirs, value, 5e-5)
        assert abs(cd.smooth_ece(labels, scores) - value) > 0.01


def test_relplot_cuts_wide_kernels_off_at_one_half() -> None:
    scores = smooth_rows(1, 1000)[1]
    labels = (scores < 0.3).astype(int)
    value, theirs, bandwidth = ours_and_theirs(labels, scores)
    assert bandwidth > 0.3
    assert theirs > value + 0.05

    def smoothed(width: float, images: int, reach: float) -> float:
        """By definition, over all pairs of points and rows."""
        t = (np.arange(1000) + 0.5)[:, None] / 1000
        kernel = np.zeros((1000, 1000))
        for image in range(-images, images + 1):
            for centre in (scores, -scores):
                distance = t - centre - 2 * image
                kernel += np.where(np.abs(distance) <= reach, np.exp(-((distance / width) ** 2) / 2), 0)
        return float(np.abs(kernel @ (scores - labels)).sum() / kernel.sum())

    equal(smoothed(bandwidth, 3, np.inf), value, 1e-5)
    equal(smoothed(bandwidth, 1, 0.5), theirs, 1e-3)


@pytest.mark.parametrize("n", SIZES)
def test_relplot_binned_ece(n: int) -> None:
    # Its bin is int(score / (1 / bins)), so 1 has a bin of its own, as in torchmetrics; on edges only where 1 / bins is
    # a float.
    metrics = peer("relplot.metrics")
    for seed in range(2):
        for bins in {*BINS, *DYADIC}:
            labels, scores = binary_rows(seed, n, bins if bins in DYADIC else None)
            expected = metrics.binnedECE(scores, labels, bins)
            equal(cd.ece(labels, scores, bins=bins, compat="torchmetrics"), expected)

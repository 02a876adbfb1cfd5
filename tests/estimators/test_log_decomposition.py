"""The decomposition of the logarithmic score next to 0 and 1, where sums in units of 2**-52 are too coarse."""

import math
from fractions import Fraction

import dask.array as da
import numpy as np
import pytest
from numpy.typing import NDArray

import calibdask as cd

SCORES = {
    "equal": np.full(1000, 1e-17),
    "next to the smallest": np.full(1000, 5e-324),
    "of many sizes": 10.0 ** -np.random.default_rng(0).uniform(8, 300, 1000),
    "next to 1": np.full(1000, 1 - 2.0**-53),
    "single precision": np.full(1000, 1e-30, np.float32),
    "some in another bin": np.r_[np.full(900, 1e-12), np.full(100, 0.5)],
    "ordinary": np.random.default_rng(1).random(1000),
}


def reliability(labels: NDArray[np.int64], scores: NDArray[np.floating], bins: int) -> float:
    """The mean over rows of the divergence of the frequency of a bin from the mean score, in fractions."""
    of_bin = np.ceil(scores.astype(np.float64) * bins).clip(1)
    total = 0.0
    for number in np.unique(of_bin):
        here = of_bin == number
        mean = sum(map(Fraction, scores[here].astype(np.float64).tolist())) / int(here.sum())
        frequency = Fraction(int(labels[here].sum()), int(here.sum()))
        for p, q in ((frequency, mean), (1 - frequency, 1 - mean)):
            if p:
                total += int(here.sum()) * float(p) * (math.log(p) - math.log(q))
    return total / labels.size


@pytest.mark.parametrize("name", SCORES)
def test_reliability_is_that_of_exact_means(name: str) -> None:
    scores = SCORES[name]
    labels = np.zeros(scores.size, int)
    labels[[0, 950]] = 1
    if name == "next to 1":
        labels = 1 - labels
    expected = reliability(labels, scores, 10)
    metric = cd.LogLossDecomposition(bins=10)
    found = cd.evaluate(labels, scores, metric)
    assert float(found.log_loss_decomposition_reliability) == pytest.approx(expected, rel=1e-8)
    terms = {part: float(found[f"log_loss_decomposition_{part}"]) for part in ("score", "resolution", "uncertainty")}
    within = float(found.log_loss_decomposition_within)
    assert terms["score"] == pytest.approx(expected - terms["resolution"] + terms["uncertainty"] + within, abs=1e-9)
    weighted = cd.evaluate(labels, scores, metric, sample_weight=np.full(scores.size, 0.7))
    assert float(weighted.log_loss_decomposition_reliability) == pytest.approx(expected, rel=1e-8)
    lazy = cd.evaluate(labels, da.from_array(scores, chunks=170), metric)
    assert lazy.drop_attrs().identical(found.drop_attrs())


def test_zeros_of_half_precision_are_clipped_at_its_smallest_number() -> None:
    scores, labels = np.array([0.0, 0.5], np.float16), np.array([1, 1])
    expected = (-math.log(2.0**-24) + math.log(2)) / 2
    for metric in (cd.LogLoss(), cd.LogLossDecomposition(), cd.CORP(rule="log")):
        result = cd.evaluate(labels, scores, metric)
        assert float(next(iter(result.data_vars.values()))) == pytest.approx(expected)
    accumulator = cd.Accumulator([cd.LogLoss()])
    accumulator.update(labels, scores)
    other = cd.Accumulator([cd.LogLoss()])
    other.load_state_dict(accumulator.state_dict())
    assert float(other.result().log_loss) == pytest.approx(expected)
    with pytest.raises(ValueError, match="float32"):
        other.update(labels, scores.astype(np.float32))


@pytest.mark.parametrize("outcome", [0, 1])
def test_weighted_outcomes_that_are_all_alike(outcome: int) -> None:
    weights = np.random.default_rng(4).random((50, 10))
    for row in weights:
        labels, scores = np.full(10, outcome), np.linspace(0.1, 0.9, 10)
        terms = cd.evaluate(labels, scores, {"log": cd.LogLossDecomposition(bins=5)}, sample_weight=row)
        np.testing.assert_allclose([terms.log_uncertainty, terms.log_resolution], 0, atol=1e-12)
        assert np.isfinite([terms.log_reliability, terms.log_within]).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_clipped_losses_are_bounded(weighted: bool) -> None:
    rng = np.random.default_rng(8)
    scores = np.round(rng.beta(0.3, 0.3, 3000), 6)
    labels = (rng.random(3000) < 0.2 + 0.6 * scores).astype(int)
    weights = rng.random(3000) if weighted else None
    metric, clip = cd.LogLoss(clip=0.01), 0.01
    result = cd.evaluate(labels, scores, metric, sample_weight=weights)
    chosen = np.where(labels == 1, scores, 1 - scores)
    losses = -np.log(np.maximum(chosen, clip))
    np.testing.assert_allclose(result.log_loss, np.average(losses, weights=weights), rtol=1e-12)
    assert result.log_loss.attrs["clipped_rows"] == (chosen < clip).sum()
    matrix = cd.evaluate(labels, np.stack([1 - scores, scores], -1), metric, sample_weight=weights)
    np.testing.assert_allclose(matrix.log_loss, result.log_loss, rtol=1e-12)
    summary = cd.summarize(labels, scores, sample_weight=weights)
    np.testing.assert_allclose(cd.evaluate(summary, metrics=metric).log_loss, result.log_loss, rtol=1e-4)
    of_classes = cd.summarize(rng.integers(0, 3, 50), rng.dirichlet([1, 1, 1], 50))
    with pytest.raises(ValueError, match="no clipped log loss"):
        cd.evaluate(of_classes, metrics=metric)


@pytest.mark.parametrize("clip", [-0.1, 0.5, True, "0.1"])
def test_clips_are_numbers_below_a_half(clip: object) -> None:
    with pytest.raises(ValueError, match="clip expects a number from 0 to below"):
        cd.LogLoss(clip=clip)  # type: ignore[arg-type]

"""The noise floor against a simulation in NumPy."""

import numpy as np
import pytest

import calibdask as cd


def ece(labels: np.ndarray, scores: np.ndarray) -> float:
    bins = np.clip(np.ceil(scores * 15).astype(int) - 1, 0, 14)
    return float(np.abs(np.bincount(bins, labels - scores, 15)).sum() / scores.size)


def test_it_is_that_of_simulated_calibrated_models() -> None:
    """Within 2 % of the mean and 3 % of the 95 % point, over other draws."""
    rng = np.random.default_rng(0)
    scores = rng.beta(1, 3, 800)
    labels = (rng.random(800) < scores**2).astype(int)
    result = cd.evaluate(labels, scores, cd.NoiseFloor(resamples=4000))
    drawn = [ece(rng.random(800) < scores, scores) for _ in range(4000)]
    assert float(result.noise_floor_mean) == pytest.approx(np.mean(drawn), rel=0.02)
    assert float(result.noise_floor_high) == pytest.approx(np.quantile(drawn, 0.95), rel=0.03)


def test_it_has_slices_models_and_other_errors() -> None:
    rng = np.random.default_rng(1)
    scores = rng.random((2, 600))
    labels = (rng.random(600) < scores[0]).astype(int)
    half = np.arange(600) % 2
    metric = cd.NoiseFloor(statistic=cd.CutoffError(), resamples=300)
    result = cd.evaluate(np.broadcast_to(labels, (2, 600)), scores, metric, by={"half": half}, task="binary")
    assert result.noise_floor_mean.shape == (2, 2)
    # 1.6 standard deviations of the noise.
    expected = np.sqrt(8 / np.pi) * np.sqrt((scores * (1 - scores)).mean() / 300)
    np.testing.assert_allclose(result.noise_floor_mean, expected, rtol=0.15)


def test_what_is_refused() -> None:
    scores = np.linspace(0.1, 0.9, 50)
    with pytest.raises(TypeError, match="statistic expects"):
        cd.NoiseFloor(statistic="ece")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="its correction is that of labels"):
        cd.evaluate(scores, scores, cd.NoiseFloor(statistic=cd.ECE(norm="l2", debias=True)), soft_labels=True)
    with pytest.raises(ValueError, match="groups is not supported"):
        cd.evaluate((scores > 0.5).astype(int), scores, cd.NoiseFloor(), groups=np.arange(50) // 2)

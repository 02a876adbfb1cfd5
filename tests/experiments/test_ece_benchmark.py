"""The benchmark of estimators: mixtures with a known posterior, brackets of the truth, and the study as a whole."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import calibdask as cd
from calibdask.study.seeds import Seeds
from experiments.ece_benchmark import truth
from experiments.ece_benchmark.estimators import ESTIMATORS, PAPER
from experiments.ece_benchmark.mixtures import Mixture
from experiments.ece_benchmark.study import EceBenchmark

SMALL = {
    "classes": (2, 3),
    "features": (2,),
    "draws": 1,
    "splits": 1,
    "holdout": 20_000,
    "sizes": (30, 150),
    "replicates": 8,
    "interval_sizes": (150,),
}


@pytest.mark.parametrize(("classes", "features"), [(2, 2), (3, 5), (7, 7)])
def test_the_posterior_is_that_of_the_densities(classes, features):
    mixture = Mixture(classes, features, draw=3)
    sample = mixture.sample(np.random.default_rng(0), 200)
    centres, factors = mixture._drawn
    logs = np.stack(
        [
            multivariate_normal(centre, factor.T @ factor).logpdf(sample.features.astype(float))
            for centre, factor in zip(centres, factors, strict=True)
        ],
        axis=1,
    )
    density = np.exp(logs - logs.max(1, keepdims=True))
    by_class = np.stack([density[:, label::classes].sum(1) for label in range(classes)], axis=1)
    expected = by_class / by_class.sum(1, keepdims=True)
    np.testing.assert_allclose(mixture.posterior(sample.features), expected, atol=2e-6)


def test_labels_follow_the_posterior():
    mixture = Mixture(5, 2, draw=0, means="text")
    sample = mixture.sample(np.random.default_rng(1), 200_000)
    posterior = mixture.posterior(sample.features)
    residual = np.eye(5)[sample.labels] - posterior
    # In every class and tenth of the posterior, within five standard errors.
    for label in range(5):
        place = (posterior[:, label] * 10).astype(int).clip(0, 9)
        for tenth in range(10):
            rows = residual[place == tenth, label]
            assert abs(rows.sum()) <= 5 * np.sqrt((rows**2).sum()) + 1


def test_mixtures_are_those_of_the_authors_code():
    """RandomState(draw): first all means, then all factors; the text's means are the same uniforms on [0, 1]."""
    random = np.random.RandomState(4)
    centres = random.uniform(-1, 1, (8, 5))
    factors = random.uniform(-0.3, 0.3, (8, 5, 5))
    drawn = Mixture(2, 5, draw=4)._drawn
    np.testing.assert_array_equal(drawn[0], centres)
    np.testing.assert_array_equal(drawn[1], factors)
    np.testing.assert_allclose(Mixture(2, 5, draw=4, means="text")._drawn[0], (centres + 1) / 2, rtol=1e-12)


def test_covariances_and_modes_of_samples():
    mixture = Mixture(2, 2, draw=1)
    sample = mixture.sample(np.random.default_rng(2), 400_000)
    centres, factors = mixture._drawn
    for label in range(2):
        expected = centres[label::2].mean(0)
        np.testing.assert_allclose(sample.features[sample.labels == label].mean(0), expected, atol=0.01)
    first = sample.features[:50_000]
    # The first mode comes first; about 50 000 rows belong to it.
    np.testing.assert_allclose(np.cov(first[:49_000].T), factors[0].T @ factors[0], atol=0.003)


def test_brackets_of_a_known_error():
    """Scores s with P(o = 1 | s) = s**2: E|s - s**2| = 1/6 and E(s - s**2)**2 = 1/30 for uniform scores."""
    random = np.random.default_rng(5)
    s = random.random(400_000).astype(np.float32)
    posterior = np.stack([1 - s**2, s**2], axis=1)
    labels = (random.random(s.size) < posterior[:, 1]).astype(np.uint8)
    result = truth.brackets(truth.histograms(np.stack([1 - s, s], axis=1), labels, posterior))
    assert result.shape == (2, 2, 2, 3, 2)
    classwise = result[1]
    np.testing.assert_allclose(classwise[0, :, :2], 1 / 6, rtol=0.01)
    np.testing.assert_allclose(classwise[1, :, :2], 30**-0.5, rtol=0.01)
    # Posterior labels leave no noise but that of the scores.
    np.testing.assert_allclose(classwise[0, 1], 1 / 6, rtol=0.003)
    assert (result[:, 0, ..., 0] >= result[:, 0, ..., 1]).all()


def test_brackets_hold_the_truth_of_calibrated_scores():
    """A calibrated model: the plug-in is above 0 by chance, the cross-fitted value about 0, and smaller noise helps."""
    random = np.random.default_rng(6)
    s = random.random(200_000).astype(np.float32)
    posterior = np.stack([1 - s, s], axis=1)
    labels = (random.random(s.size) < s).astype(np.uint8)
    plug_in, crossed = truth.brackets(truth.histograms(posterior, labels, posterior))[1, 0, 0].T
    # By chance 0.8 sqrt(v B / N), v = E s (1 - s) = 1/6; a little less, since roots are concave.
    expected = np.sqrt(2 / np.pi / s.size) * np.sqrt(np.array(truth.BINS)) * np.pi / 8
    np.testing.assert_allclose(plug_in, expected, rtol=0.12)
    assert (np.abs(crossed) < plug_in / 3).all()
    by_posterior = truth.brackets(truth.histograms(posterior, labels, posterior))[1, 0, 1]
    assert (np.abs(by_posterior) < 1e-6).all()


def test_curves_of_a_known_posterior():
    """Scores s with P(o = 1 | s) = s**2, of density 2 s."""
    random = np.random.default_rng(7)
    s = np.sqrt(random.random(400_000)).astype(np.float32)
    posterior = np.stack([1 - s**2, s**2], axis=1)
    labels = (random.random(s.size) < posterior[:, 1]).astype(np.uint8)
    reliability, density = truth.curves(truth.histograms(np.stack([1 - s, s], axis=1), labels, posterior))
    centre = (np.arange(truth.CURVE) + 0.5) / truth.CURVE
    assert reliability.shape == density.shape == (3, truth.CURVE)
    np.testing.assert_allclose(reliability[2], centre**2, atol=2.5e-3)
    np.testing.assert_allclose(reliability[1], 1 - (1 - centre) ** 2, atol=2.5e-3)
    # The confidence is above a half: nothing is known below.
    assert np.isnan(reliability[0, :50]).all()
    assert (density[0, :50] == 0).all()
    np.testing.assert_allclose(density[2], 2 * centre, atol=0.07)
    np.testing.assert_allclose(density.mean(1), 1, rtol=1e-12)


def test_bins_of_the_truth_divide_each_other():
    assert all(truth.BINS[-1] % bins == 0 for bins in (*truth.BINS, truth.CURVE))


def test_the_study_of_the_paper_has_its_sizes():
    study = EceBenchmark()
    assert len(list(study.coordinates())) * len(study.inside()["model"]) == 540
    assert study.sizes == tuple(np.logspace(np.log10(30), np.log10(5000), 20).round().astype(int).tolist())
    assert (study.holdout, study.train, study.replicates, len(PAPER)) == (2_000_000, 300, 200, 15)
    assert set(study.interval_sizes) <= set(study.sizes)
    assert set(PAPER) < set(ESTIMATORS)


def test_a_cell_has_the_estimates_of_calibdask():
    """Drawn again by hand: the first sample of a size, each model's score of its rows, and the estimator itself."""
    from experiments.ece_benchmark.models import MODELS, fitted, scores

    study = EceBenchmark(**SMALL)
    at = {"classes": 3, "features": 2, "draw": 0, "split": 0}
    seeds = Seeds(study.seed, tuple(at.items()))
    cell = study.computed(1)
    mixture = Mixture(3, 2, 0)
    train = mixture.shuffled(seeds.generator(part="train"), study.train)
    holdout = study._holdout(mixture, seeds)
    rows = seeds.generator(part="samples", size=150).integers(0, study.holdout, (8, 150), np.int32)[2]
    for model in (0, 3):
        predicted = scores(fitted(MODELS[model], train.features, train.labels), holdout.features[rows])
        labels = holdout.labels[rows]
        for name, limit in (("uniform-hard-10", 1e-6), ("euranova-ac-sqrt", 1e-6), ("density-silverman", 3e-4)):
            for number, setting in enumerate(("confidence", "classwise")):
                from dataclasses import replace

                metric = replace(ESTIMATORS[name], setting=setting)
                expected = float(cd.evaluate(labels, predicted, {"it": metric})["it"])
                actual = cell["estimate"][model, number, list(ESTIMATORS).index(name), 1, 2]
                assert actual == pytest.approx(expected, abs=limit)


def test_a_small_study(tmp_path: Path):
    counts = cd.run(EceBenchmark(**SMALL), tmp_path / "cube.zarr")
    assert (counts.done, counts.failed) == (2, 0)
    one = cd.open_cube(tmp_path / "cube.zarr").load()
    assert one.estimate.dtype == np.float32
    assert np.isfinite(one.estimate).all()
    assert (one.interval.sel(end="low") <= one.interval.sel(end="high")).all()
    classes = one.sel(classes=2).reliability.notnull().any(("model", "score")).squeeze(drop=True)
    assert classes.to_series().to_dict() == {"confidence": True, "class 0": True, "class 1": True, "class 2": False}
    # More rows, smaller errors: of 8 samples of 24 000 in the mean.
    best = one.truth.sel(norm="l1", outcome="posterior", bins=200).mean("kind")
    errors = np.abs(one.estimate.sel(estimator="density-silverman") - best).mean(("replicate", "model", "setting"))
    assert (errors.isel(size=1) < errors.isel(size=0)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"means": "paper"}, "means expects one of code, text"),
        ({"holdout": 199_999}, "holdout expects a multiple of 20, got 199999"),
        ({"sizes": ()}, "sizes, interval_sizes and replicates expect"),
        ({"interval_sizes": (1,)}, "sizes, interval_sizes and replicates expect"),
        ({"classes": (1,)}, "classes expects numbers from 2 on"),
        ({"train": 2}, "train expects ten rows for each class, 70 or more, got 2"),
        ({"level": 90.0}, "level expects a number between 0 and 1"),
        ({"draws": 0}, "has no cells: draw is empty"),
        ({"seed": -1}, "seed expects a non-negative integer"),
    ],
    ids=str,
)
def test_impossible_parameters_are_told_and_nothing_is_written(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        cd.run(EceBenchmark(**settings), tmp_path / "cube.zarr")
    assert not (tmp_path / "cube.zarr").exists()

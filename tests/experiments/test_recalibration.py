"""The studies of recalibration: their truth, their reference, and both from a small cube to tables and figures."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy import special
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

import calibdask as cd
from experiments.recalibration import outcome
from experiments.recalibration.calibrators import BINARY, NONE, ON_PROBABILITIES, fitted
from experiments.recalibration.distributions import CURVES, DENSITIES, Distribution
from experiments.recalibration.real_models import RealModels
from experiments.recalibration.study import Recalibration
from experiments.recalibration.summaries import win_rates

ROWS = 400_000


@pytest.mark.parametrize(
    ("density", "curve"), [*zip(DENSITIES, itertools.cycle(["overconfident", "beta-type", "step"]), strict=False)]
)
def test_the_truth_against_simulated_rows(density: str, curve: str) -> None:
    """Losses of a smooth map, of one with steps and of the scores themselves, within five standard errors."""
    distribution = Distribution(density, curve)
    truth = distribution.truth
    labels, scores = distribution.sample(np.random.default_rng(0), ROWS)
    assert truth.weight.sum() == pytest.approx(1, abs=1e-12)
    for apply in (
        lambda s: s,
        lambda s: special.expit(0.3 + 0.8 * special.logit(s)),
        lambda s: np.where(s < 0.02, 0.01, 0.4),
    ):
        squares = (apply(scores) - labels) ** 2
        best = truth.weight @ (truth.positive * truth.negative)
        assert abs(squares.mean() - best - truth.excess_brier(apply(truth.score))) < 5 * squares.std() / np.sqrt(ROWS)
        logs = np.where(labels, -np.log(apply(scores)), -np.log1p(-apply(scores)))
        entropy = truth.weight @ (special.entr(truth.positive) + special.entr(truth.negative))
        assert abs(logs.mean() - entropy - truth.excess_log_loss(apply(truth.score))) < 5 * logs.std() / np.sqrt(ROWS)


def test_infinite_losses_are_counted_and_clipped() -> None:
    truth = Distribution("normal", "calibrated").truth
    sure = np.where(truth.score < 0.1, 0.0, truth.score)
    expected = truth.weight @ (truth.positive * (truth.score < 0.1))
    assert truth.infinite(sure) == pytest.approx(expected, rel=1e-12) != 0
    assert truth.infinite(truth.score) == 0
    assert expected * 30 < truth.excess_log_loss(sure) < expected * 37


def test_curves_differ_and_only_one_is_calibrated() -> None:
    for density in DENSITIES:
        losses = {curve: Distribution(density, curve).truth for curve in CURVES}
        excess = {curve: truth.excess_log_loss(truth.score) for curve, truth in losses.items()}
        assert excess.pop("calibrated") == pytest.approx(0, abs=1e-12)
        assert min(excess.values()) > 1e-3, density
        assert len({round(value, 9) for value in excess.values()}) == len(excess)


def test_platt_scaling_on_probabilities_is_that_of_scikit_learn() -> None:
    labels, scores = Distribution("normal", "quadratic").sample(np.random.default_rng(1), 500)

    class Scores(cd.PlattScaling):
        """A classifier whose scores are its features."""

        def predict_proba(self, X):
            return np.stack([1 - X[:, 0], X[:, 0]], 1)

    model = Scores()
    model.classes_, model.n_features_in_ = np.array([0, 1]), 1
    peer = CalibratedClassifierCV(FrozenEstimator(model), method="sigmoid").fit(scores[:, None], labels.astype(int))
    ours = fitted(ON_PROBABILITIES, labels, scores).apply(scores)
    np.testing.assert_allclose(ours, peer.predict_proba(scores[:, None])[:, 1], atol=1e-4)


def test_samples_of_one_class_are_refused_and_left_as_they_are() -> None:
    scores = np.array([0.2, 0.3, 0.7])
    for name in set(BINARY) - {NONE}:
        fit = fitted(name, np.zeros(3, bool), scores)
        assert fit.refused, name
        assert fit.apply(scores) is scores


@pytest.fixture(scope="module")
def cubes(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("recalibration")
    small = {"densities": ("normal", "rare"), "curves": ("calibrated", "overconfident"), "sizes": (30, 2000)}
    studies = {
        "truth": Recalibration(**small, replicates=2),
        "models": RealModels(
            data=("iris", "breast cancer"), models=("logistic regression",), splits=1, sizes=(30, 100)
        ),
    }
    paths = []
    for name, study in studies.items():
        paths.append(str(folder / f"{name}.zarr"))
        cd.run(study, paths[-1], cluster="threads:1")
    return paths


def test_both_studies_from_cubes_to_pages(cubes: list[str], tmp_path: Path) -> None:
    assert outcome.main([*cubes, "--out", str(tmp_path)]) == 0
    results = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "4 of 4 cells." in results
    assert "### Multi-class: iris" in results
    assert "nan" not in results
    assert "beta ahead of isotonic" in (tmp_path / "claims.md").read_text(encoding="utf-8")
    assert (tmp_path / "remaining.png").stat().st_size > 10_000
    truth = xr.load_dataset(tmp_path / "truth.nc", engine="scipy")
    log = truth.sel(loss="log loss")
    excess = log.excess.sel(density="normal", curve="overconfident", size=2000)
    assert float(excess.sel(calibrator="platt")) < 0.1 * float(excess.sel(calibrator=NONE))
    assert (log.excess.sel(curve="calibrated", calibrator=NONE) < 1e-12).all()
    # One of two wins, or both half.
    wins = log.wins.transpose("size", "calibrator", "other").values
    np.testing.assert_allclose(wins + wins.swapaxes(1, 2), 1, atol=1e-6)
    assert float(win_rates(log.wins).mean()) == pytest.approx(0.5, abs=1e-6)


def test_losses_of_real_models_are_those_of_scikit_learn(cubes: list[str]) -> None:
    cube = cd.open_cube(cubes[1])
    one = cube.sel(data="iris", model="logistic regression", size=30, calibrator="isotonic, centred").isel(split=0)
    assert 0 < float(one.test_loss.sel(loss="brier")) < 0.5
    from experiments.recalibration.real_models import _losses

    rng = np.random.default_rng(0)
    scores, labels = rng.dirichlet(np.ones(3), 50), rng.integers(0, 3, 50)
    expected, squares, infinite = _losses(scores, labels)
    assert expected == pytest.approx(log_loss(labels, scores), rel=1e-12)
    assert squares == pytest.approx(((scores - np.eye(3)[labels]) ** 2).sum(1).mean(), rel=1e-12)
    assert infinite == 0


@pytest.mark.parametrize("bad", [{"densities": ("flat",)}, {"sizes": (1,)}, {"curves": ("flat",)}])
def test_parameters_that_cells_could_not_compute_are_refused(bad: dict[str, tuple[object, ...]]) -> None:
    assert list(Recalibration(**bad).problems())  # type: ignore[arg-type]


def test_cubes_of_other_studies_are_refused(
    cubes: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome.main([cubes[0], cubes[0], "--out", str(tmp_path)]) == 2
    assert "one cube or summary" in capsys.readouterr().err

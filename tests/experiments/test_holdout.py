"""The study that users run on their own models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from calibdask.cli import main

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 400)
COUNTRY = RNG.choice(["de", "fr", "it"], 400)
SCORES = {name: RNG.dirichlet([1, 1, 1], 400) for name in ("one", "two")}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    for name, scores in SCORES.items():
        np.savez(tmp_path / f"{name}.npz", labels=LABELS, scores=scores, country=COUNTRY)
    return {name: str(tmp_path / f"{name}.npz") for name in SCORES}


def run(store: Path, files: dict[str, str], *more: str) -> int:
    models = ",".join(f"{name}={path}" for name, path in files.items())
    settings = [word for setting in (f"models={models}", *more) for word in ("--set", setting)]
    return main(["run", str(ROOT / "experiments/holdout"), "--store", str(store), *settings])


def test_a_cube_of_models_metrics_replicates_and_slices(tmp_path: Path, files: dict[str, str]) -> None:
    assert run(tmp_path / "h.zarr", files, "by=country", "preset=quick", "metrics=brier,ece,skce", "seed=4") == 0
    cube = cd.open_cube(str(tmp_path / "h.zarr")).load()
    assert cube.sizes == {"model": 2, "metric": 3, "slice": 3, "replicate": 20, "bin": 15}
    chosen = {"brier": cd.BrierScore(), "ece": cd.ECE(), "skce": cd.SKCE(estimator="features")}
    options: dict[str, Any] = {"ci": 0.95, "n_boot": 20, "seed": 4, "keep_replicates": True}
    for model, scores in SCORES.items():
        expected = cd.evaluate(LABELS, scores, chosen, by={"slice": COUNTRY}, **options)
        for metric in chosen:
            actual = cube.sel(model=model, metric=metric)
            for kind, end in (("value", ""), ("low", "_low"), ("high", "_high"), ("replicates", "_replicates")):
                np.testing.assert_allclose(actual[kind], expected[f"{metric}{end}"], rtol=1e-9, err_msg=kind)
    np.testing.assert_array_equal(cube.rows.sel(model="one"), np.unique(COUNTRY, return_counts=True)[1])


def test_the_diagram_of_each_model_and_slice(tmp_path: Path, files: dict[str, str]) -> None:
    assert run(tmp_path / "h.zarr", files, "by=country", "preset=quick") == 0
    cube = cd.open_cube(str(tmp_path / "h.zarr")).load()
    for model, scores in SCORES.items():
        for country in ("de", "fr", "it"):
            rows = country == COUNTRY
            expected = cd.reliability_diagram(LABELS[rows], scores[rows])
            actual = cube.sel(model=model, slice=country)
            for part in ("score", "outcome", "count", "weight", "lower", "upper"):
                np.testing.assert_allclose(actual[f"diagram_{part}"], expected[part], rtol=1e-12, err_msg=part)
    # The error of a metric is that of its diagram.
    gaps = (cube.diagram_weight * abs(cube.diagram_outcome - cube.diagram_score)).sum("bin")
    ece = cube.value.sel(metric="ece", drop=True)
    np.testing.assert_allclose(gaps / cube.diagram_weight.sum("bin"), ece, rtol=1e-9)


def test_without_slices(tmp_path: Path, files: dict[str, str]) -> None:
    assert run(tmp_path / "h.zarr", files, "preset=quick") == 0
    cube = cd.open_cube(str(tmp_path / "h.zarr")).load()
    assert cube.slice.values.tolist() == ["all"]
    assert cube.value.sel(model="two", metric="ece").item() == pytest.approx(cd.ece(LABELS, SCORES["two"]))
    assert (cube.rows == 400).all()


def test_slices_that_a_model_lacks_are_nan_and_new_ones_are_errors(
    tmp_path: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    few, more = COUNTRY != "it", np.where(COUNTRY == "it", "us", COUNTRY)
    np.savez(tmp_path / "few.npz", labels=LABELS[few], scores=SCORES["one"][few], country=COUNTRY[few])
    np.savez(tmp_path / "more.npz", labels=LABELS, scores=SCORES["one"], country=more)
    files |= {"few": str(tmp_path / "few.npz"), "more": str(tmp_path / "more.npz")}
    assert run(tmp_path / "h.zarr", files, "preset=quick", "by=country") == 3
    cube = cd.open_cube(str(tmp_path / "h.zarr")).load()
    assert cube.value.sel(model="few", slice="it").isnull().all()
    assert cube.rows.sel(model="few", slice="it") == 0
    assert cube.value.sel(model="few", slice="de").notnull().all()
    assert cube.status.values.tolist() == [1, 1, 1, 2]
    main(["status", str(tmp_path / "h.zarr")])
    assert "country expects the values de, fr, it, got us." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["models=rows.npz"], "models expects NAME=DATA,NAME=DATA, got 'rows.npz'"),
        (["metrics=ece,accuracy"], "metrics expects some of brier, log-loss, ece"),
        (["metrics=ece,ece"], "models and metrics expect each name once"),
        (["metrics="], "metrics expects one name or more"),
        (["level=95"], "level expects a number between 0 and 1 such as 0.95, got 95.0"),
        (["n_boot=0"], "n_boot a number from 2 on"),
        (["models=a=x.npz,a=y.npz"], "models and metrics expect each name once"),
    ],
)
def test_bad_use(
    settings: list[str], message: str, tmp_path: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "h.zarr", files, *settings) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "h.zarr").exists()


def test_files_that_have_changed_are_another_cube(
    tmp_path: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "h.zarr", files, "preset=quick") == 0
    np.savez(files["two"], labels=LABELS[:200], scores=SCORES["two"][:200], country=COUNTRY[:200])
    assert run(tmp_path / "h.zarr", files, "preset=quick") == 2
    assert "inputs.two: " in capsys.readouterr().err


def test_models_of_the_same_rows_are_paired(tmp_path: Path, files: dict[str, str]) -> None:
    order = np.random.default_rng(0).permutation(len(LABELS))
    np.savez(tmp_path / "mixed.npz", labels=LABELS[order], scores=SCORES["two"][order], country=COUNTRY[order])
    files |= {"mixed": str(tmp_path / "mixed.npz")}
    assert run(tmp_path / "h.zarr", files, "preset=quick", "n_boot=100") == 0
    cube = cd.open_cube(str(tmp_path / "h.zarr")).load()
    assert cube.paired.values.tolist() == [1, 1, 0]
    drawn = cube.replicates.sel(metric="ece").squeeze("slice")
    spread = {name: float((drawn.sel(model=name) - drawn.sel(model="two")).std()) for name in ("one", "mixed")}
    # The same model on other replicates varies like two independent ones.
    assert spread["mixed"] == pytest.approx(2**0.5 * float(drawn.sel(model="two").std()), rel=0.3)

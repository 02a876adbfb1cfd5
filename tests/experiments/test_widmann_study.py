"""The study of estimates and tests of calibration on models whose calibration is known."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli import main
from calibdask.study.seeds import Seeds
from experiments.skce_tests import figures, outcome, resampling
from experiments.skce_tests import study as study_module
from experiments.skce_tests.data import MODELS, drawn, drawn_labels, drawn_scores
from experiments.skce_tests.figures import save_all
from experiments.skce_tests.published import MEANS
from experiments.skce_tests.study import CalibrationTests
from experiments.skce_tests.truth import true_ece

ROOT = Path(__file__).parents[2]
PARTITIONS = (resampling.uniform_cells, resampling.product_cells)


def looped_replicates(scores: Any, uniforms: Any) -> tuple[Any, Any]:
    """Rows and labels that one uniform each stands for."""
    rows = np.floor(uniforms * len(scores)).astype(int)
    left = uniforms * len(scores) - rows
    reached = np.cumsum(scores, axis=1)
    labels = [np.searchsorted(reached[i], u * reached[i, -1], side="right") for i, u in zip(rows, left, strict=True)]
    return rows, np.array(labels)


def looped_error(scores: Any, labels: Any, cells: Any) -> float:
    """Multi-class ECE from its formula."""
    total = 0.0
    for cell in np.unique(cells):
        here = cells == cell
        frequencies = np.bincount(labels[here], minlength=scores.shape[1]) / here.sum()
        total += here.sum() / len(labels) * np.abs(scores[here].mean(axis=0) - frequencies).sum() / 2
    return total


@pytest.mark.parametrize("classes", [2, 10])
def test_replicates_and_their_errors_are_those_of_plain_loops(classes: int) -> None:
    _, scores = drawn("M1", 120, classes, 3)
    chosen, labels = resampling.replicates(scores, 8, np.random.default_rng(5))
    uniforms = np.random.default_rng(5).random((8, 120))
    for r in range(8):
        rows, expected = looped_replicates(scores, uniforms[r])
        np.testing.assert_array_equal(chosen[r], rows)
        np.testing.assert_array_equal(labels[r], expected)
    for partition in PARTITIONS:
        cells = partition(scores)
        errors = resampling.cell_errors(scores, cells, chosen, labels)
        expected = [looped_error(scores[chosen[r]], labels[r], cells[chosen[r]]) for r in range(8)]
        np.testing.assert_allclose(errors, expected, rtol=1e-12)


def test_extreme_uniforms_draw_rows_and_classes_that_there_are() -> None:
    scores = np.array([[0.0, 1.0, 0.0], [0.3, 0.0, 0.7]])
    uniforms = np.array([[0.0, np.nextafter(0.5, 0), 0.5, np.nextafter(1, 0)]])
    chosen, labels = resampling.draw(np.cumsum(scores, axis=1), uniforms)
    assert chosen.tolist() == [[0, 0, 1, 1]]
    assert labels.tolist() == [[1, 1, 0, 2]]


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_uniform_cells_are_those_of_the_library(classes: int) -> None:
    rng = np.random.default_rng(0)
    # Multiples of 1 / 10 too, which lie on borders of bins.
    on_borders = rng.multinomial(10, np.full(classes, 1 / classes), 60) / 10
    scores = np.concatenate([drawn_scores(200, classes, rng), on_borders])
    labels = rng.integers(0, classes, len(scores))
    result = cd.evaluate(labels, scores, {"ece": cd.MulticlassECE()})
    cells = resampling.uniform_cells(scores)
    assert cells.max() + 1 == result.ece.attrs["cells"]
    assert resampling.cell_error(scores, labels, cells) == pytest.approx(float(result.ece), abs=1e-12)


def test_product_cells_merge_unlike_predictions() -> None:
    scores = np.array([[0.05, 0.95], [0.95, 0.05], [0.5, 0.5], [0.05, 0.95]])
    assert resampling.product_cells(scores).tolist() == [0, 0, 1, 0]
    assert resampling.uniform_cells(scores).tolist() == [0, 1, 2, 0]


def test_pvalues_are_those_of_the_consistency_test() -> None:
    test = cd.ConsistencyTest(statistic=cd.MulticlassECE(), resamples=2000, predictions="resampled")
    for k, classes in enumerate((2, 2, 3)):
        labels, scores = drawn("M1", 100, classes, k)
        cells = resampling.uniform_cells(scores)
        replicates = resampling.replicates(scores, 2000, np.random.default_rng(k))
        errors = resampling.cell_errors(scores, cells, *replicates)
        actual = resampling.pvalue(resampling.cell_error(scores, labels, cells), errors)
        expected = float(cd.evaluate(labels, scores, test).consistency_test_pvalue)
        # Both have standard errors of at most sqrt(0.25 / 2000); 5 of them, for three comparisons.
        assert abs(actual - expected) < 5 * np.sqrt(2 * 0.25 / 2000)


def test_pvalues_count_equal_errors() -> None:
    assert resampling.pvalue(0.3, np.array([0.1, 0.3 * (1 - 1e-15), 0.4])) == 0.75


@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("model", MODELS)
def test_analytical_ece_is_the_mean_distance(model: str, classes: int) -> None:
    scores = drawn_scores(40_000, classes, np.random.default_rng(1))
    first = np.arange(classes) == 0
    frequencies = {"M1": scores, "M2": scores / 2 + first / 2, "M3": np.full_like(scores, 1 / classes)}[model]
    distances = np.abs(scores - frequencies).sum(axis=1) / 2
    # Nine comparisons at 5 standard errors; M1 and the exact parts have none.
    assert true_ece(model, classes) == pytest.approx(distances.mean(), abs=5 * distances.std() / 200 + 1e-12)


def test_analytical_ece_of_the_paper() -> None:
    assert [true_ece(model, 10) for model in MODELS] == pytest.approx([0.0, 0.45, 0.7106418012], abs=1e-10)
    with pytest.raises(ValueError, match=r"model expects one of M1, M2, M3, got 'M4'\."):
        true_ece("M4", 10)


def test_labels_of_a_generator_are_those_of_drawn() -> None:
    for model in MODELS:
        rng = np.random.default_rng([list(MODELS).index(model), 50, 4, 9])
        scores = drawn_scores(50, 4, rng)
        labels, expected = drawn(model, 50, 4, 9)
        np.testing.assert_array_equal(scores, expected)
        np.testing.assert_array_equal(drawn_labels(model, scores, rng), labels)


TINY = CalibrationTests(classes=(3,), sets=50, sets_per_cell=50, rows=60, resamples=100)


def test_a_cell_has_the_numbers_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    # The study follows the paper, which draws no outcomes where rows are few.
    monkeypatch.setattr("calibdask.estimators.hypothesis_tests.skce.FEW_ROWS", 0)
    actual = TINY.computed(0)
    seeds = Seeds(0, (("classes", 3), ("batch", 0)))
    scores = drawn_scores(60, 3, seeds.generator("classes", set=30, draws="scores"))
    for m, model in enumerate(MODELS):
        labels = drawn_labels(model, scores, seeds.generator("classes", set=30, draws="labels", model=model))
        kernel: dict[str, Any] = {"bandwidth": "median-full"}
        estimates = [
            cd.MulticlassECE(),
            *(cd.SKCE(estimator=form, **kernel) for form in study_module.ESTIMATES.values()),
        ]
        expected = [float(cd.evaluate(labels, scores, {"x": metric}).x) for metric in estimates]
        assert actual["estimate"][m, 30, [0, 2, 3, 4]] == pytest.approx(expected, rel=1e-12)
        for t, (method, estimator) in enumerate(study_module.TESTS.values()):
            if (method, estimator) != ("asymptotic", "unbiased"):
                test = cd.SKCETest(method=method, estimator=estimator, **kernel)
                pvalue = float(cd.evaluate(labels, scores, {"x": test}).x_pvalue)
                assert actual["pvalue"][m, 30, t] == pytest.approx(pvalue, rel=1e-12)


def test_data_sets_do_not_depend_on_cells() -> None:
    one = TINY.computed(0)
    tenths = CalibrationTests(classes=(2, 3), sets=100, sets_per_cell=10, rows=60, resamples=100)
    for name, values in one.items():
        parts = [tenths.computed(number)[name] for number in range(10, 15)]
        np.testing.assert_array_equal(values, np.concatenate(parts, axis=1))


def test_expensive_numbers_of_classes_have_fewer_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = TINY.computed(0)
    monkeypatch.setattr(study_module, "_MANY", 3)
    study = CalibrationTests(classes=(3,), sets=4, sets_per_cell=4, rows=60, resamples=100, resampled_sets=1)
    result = study.computed(0)
    # Single precision changes estimates by rounding.
    np.testing.assert_allclose(result["estimate"], whole["estimate"][:, :4], rtol=1e-4, atol=1e-6)
    resampled = [CalibrationTests().inside()["test"].index(name) for name in ("A_uq", "C", "C_product")]
    assert np.isnan(result["pvalue"][:, 1:, resampled]).all()
    result["pvalue"][:, 1:, resampled] = whole["pvalue"][:, 1:4, resampled]
    np.testing.assert_allclose(result["pvalue"], whole["pvalue"][:, :4], rtol=1e-4, atol=0.011)


def test_bad_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(tmp_path / "x.zarr")
    for settings, message in (
        ("sets=150", "sets expects a multiple of sets_per_cell=100, got 150."),
        ("classes=1,2", "classes expects numbers from 2 on, got (1, 2)."),
    ):
        assert main(["run", str(ROOT / "experiments/skce_tests"), "--store", store, "--set", settings]) == 2
        assert message in capsys.readouterr().err


def made_cube() -> xr.Dataset:
    """Two cells of two data sets, the second cell not done."""
    inside = CalibrationTests(sets=2, sets_per_cell=2).inside()
    estimates = np.zeros((1, 2, 3, 2, 5)) + np.array([1.0, 3.0])[:, None]
    pvalues = np.zeros((1, 2, 3, 2, 7)) + np.array([0.05, 0.5])[:, None]
    pvalues[0, 0, 0, :, 5] = [0.2, np.nan]
    return xr.Dataset(
        {
            "estimate": (("classes", "batch", "model", "set", "estimator"), estimates),
            "pvalue": (("classes", "batch", "model", "set", "test"), pvalues),
            "status": (("classes", "batch"), [[1, 0]]),
        },
        {"classes": [10], "batch": [0, 1], **{name: list(values) for name, values in inside.items()}},
    )


def test_summary_of_known_values() -> None:
    summary = outcome.summarized(made_cube()).sel(classes=10)
    assert int(summary.sets) == 2
    assert (summary["mean"] == 2).all()
    np.testing.assert_allclose(summary["sd"], np.sqrt(2))
    assert (summary["count"].sum("bin") == 2).all()
    errors = summary["error"].sel(test="A_l")
    # M1 at 0.04, 0.05 and 0.5: up to the level; M2: above it.
    assert errors.sel(model="M1").isel(level=[4, 5, 50]).values.tolist() == [0, 0.5, 1]
    assert errors.sel(model="M2").isel(level=[4, 5, 50]).values.tolist() == [1, 0.5, 0]
    assert summary["pvalues"].sel(test="C").values.tolist() == [1, 2, 2]
    assert summary["error"].sel(test="C", model="M1").isel(level=[19, 20]).values.tolist() == [0, 1]
    assert summary["truth"].sel(model="M2").values.tolist() == [0.45, 0.45, 2, 2, 2]
    assert summary["truth"].sel(model="M1").values.tolist() == [0] * 5


def test_published_means_are_those_of_their_models() -> None:
    assert len(MEANS) == 4 * 5 * 3
    for (classes, name, model), value in MEANS.items():
        if name == "ece":
            assert value >= true_ece(model, classes)


def test_the_page_tells_where_fewer_data_sets_are_resampled() -> None:
    cube = made_cube()
    cube["status"][:] = 1
    assert "rest on" not in figures._lead(outcome.summarized(cube))
    cube["pvalue"].loc[{"batch": 1, "test": ["A_uq", "C", "C_product"]}] = np.nan
    assert figures._lead(outcome.summarized(cube)).endswith("With 10 classes A_uq and C rest on 2 of the 4 data sets.")


@dataclass(frozen=True, kw_only=True)
class Other(cd.Study):
    """Another study of one cell."""

    outputs: ClassVar = {"x": ()}

    def cells(self) -> dict[str, Any]:
        return {"number": range(1)}

    def inside(self) -> dict[str, Any]:
        return {}

    def cell(self, at: Mapping[str, Any], seeds: Any) -> dict[str, Any]:
        return {"x": 0.0}


def test_bad_cubes_are_told_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other, text = tmp_path / "other.zarr", tmp_path / "text"
    cd.run(Other(), str(other))
    text.write_text("no cube")
    for path, message in (
        (other, f"{other} is a cube of the study Other, expected one of CalibrationTests."),
        (tmp_path / "none", f"{tmp_path / 'none'} does not exist."),
        (tmp_path, "cannot be read as a cube"),
        (text, f"{text}"),
    ):
        assert outcome.main([str(path), "--out", str(tmp_path / "out")]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_run_and_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cube, out = str(tmp_path / "w.zarr"), tmp_path / "out"
    sizes = ("classes=10", "sets=50", "sets_per_cell=25", "resamples=200")
    settings = [word for setting in sizes for word in ("--set", setting)]
    assert main(["run", str(ROOT / "experiments/skce_tests"), "--store", cube, *settings]) == 0
    # Panels take their time; a few of each kind will do.
    few = {"model": ["M1"], "estimator": ["ece", "skce_uq"], "test": ["D_b", "C"]}
    monkeypatch.setattr(outcome, "save_all", lambda summary, folder: save_all(summary.sel(few), folder))
    assert outcome.main([cube, "--out", str(out)]) == 0
    names = ["figure1-10-classes.png", "figure2.png", "index.html", "summary.nc", "tables.md"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert all(name in capsys.readouterr().out for name in names[:1])
    with xr.open_dataset(out / "summary.nc", engine="scipy") as opened:
        summary = opened.load().sel(classes=10)
    check_ranges(summary)
    assert "## Published" in (out / "tables.md").read_text()
    assert "Figure 2" in (out / "index.html").read_text()


def check_ranges(summary: xr.Dataset) -> None:
    """Means and errors of 50 data sets where the paper has them: five standard errors, shares loosely."""
    error = 5 * summary["sd"] / np.sqrt(50)
    calibrated = {"model": "M1", "estimator": ["skce_uq", "skce_ul"]}
    assert (abs(summary["mean"].sel(calibrated)) < error.sel(calibrated)).all()
    published = {"M1": 0.2288, "M2": 0.5134, "M3": 0.3908}
    for model, value in published.items():
        at = {"model": model, "estimator": "ece_product"}
        assert abs(float(summary["mean"].sel(at)) - value) < float(error.sel(at))
    at_5 = summary["error"].isel(level=5)
    assert (at_5.sel(model="M1", test=["D_b", "D_uq", "D_ul"]) == 0).all()
    assert (at_5.sel(model="M1", test=["A_uq", "A_l"]) < 0.25).all()
    assert at_5.sel(model="M1", test="C") == 1
    assert (at_5.sel(model=["M2", "M3"], test=["A_uq", "C"]) == 0).all()
    assert (at_5.sel(model=["M2", "M3"], test="D_uq") == 1).all()

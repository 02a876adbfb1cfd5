"""The outcome of the benchmark: its summary, the paper's claims, tables and pictures, from cubes made up here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from experiments.ece_benchmark import claims, figures, outcome, rules, summaries, tables
from experiments.ece_benchmark.claims import CLAIMS
from experiments.ece_benchmark.estimators import PAPER
from experiments.ece_benchmark.rules import FAILS, HOLDS, IN_PART, UNJUDGED
from tests.experiments.fake_cubes import CELLS, FEW, MODELS, OURS, PUBLISHED, SETTINGS, fake_cube, inside


@pytest.fixture(scope="module")
def cube() -> xr.Dataset:
    return fake_cube()


@pytest.fixture(scope="module")
def summary() -> xr.Dataset:
    """Two choices of means, one with more estimators than the other."""
    parts = {
        "code": summaries.summarised(fake_cube((*PAPER, *OURS), (*PUBLISHED, 1300), 11, seed=1), draws=50),
        "text": summaries.summarised(fake_cube(PAPER, (*PUBLISHED, 1300), 11, seed=2), draws=50),
    }
    return summaries.combined(parts)


def over_distributions(cube: xr.Dataset, of: Callable[[Any, float, float, bool], Any], **at: Any) -> list[Any]:
    """A function of (estimates, best truth, paper's truth, flagged) of each score distribution, in plain loops."""
    norm = "l2" if at["estimator"].startswith("rms") else "l1"
    result = []
    for place in np.ndindex(tuple(cube.sizes[dim] for dim in (*CELLS, "model"))):
        one = cube.isel(dict(zip((*CELLS, "model"), place, strict=True)))
        truth = one.truth.sel(setting=at["setting"], norm=norm)
        high, low = (float(truth.sel(outcome="posterior", bins=500, kind=k)) for k in ("plug-in", "cross-fit"))
        paper = float(truth.sel(outcome="label", bins=2000, kind="plug-in"))
        best = (high + low) / 2
        result.append(of(one.estimate.sel(at).values, best, paper, abs(high - low) / 2 > 0.05 * best))
    return result


@pytest.mark.parametrize(("setting", "estimator"), [*zip((*SETTINGS, SETTINGS[0]), FEW, strict=True)])
def test_medians_against_plain_loops(cube: xr.Dataset, setting: str, estimator: str) -> None:
    at = {"setting": setting, "estimator": estimator, "size": 443}
    cube = cube.copy(deep=True)
    # Two distributions whose truth is not known.
    cube["truth"][0, 0, 0, 0, 1:3, :, :, :, :, 0] *= 1.2
    actual = summaries.summarised(cube, draws=2).sel(at)
    expected = {
        "absolute": lambda e, best, *_: np.percentile(np.abs(e - best), 95),
        "median_absolute": lambda e, best, *_: np.median(np.abs(e - best)),
        "bias": lambda e, best, *_: e.mean() - best,
        "spread": lambda e, *_: e.std(ddof=1),
        "rmse": lambda e, best, *_: np.sqrt(np.mean((e - best) ** 2)),
        "absolute_paper_truth": lambda e, _, paper, __: np.percentile(np.abs(e - paper), 95),
        "relative_paper_truth": lambda e, _, paper, __: np.percentile(np.abs(e - paper), 95) / paper,
    }
    for name, of in expected.items():
        assert float(actual[name]) == pytest.approx(np.median(over_distributions(cube, of, **at)), rel=1e-5), name
    relative = {
        "relative": lambda e, best, *_: np.percentile(np.abs(e - best), 95) / best,
        "median_relative": lambda e, best, *_: np.median(np.abs(e - best)) / best,
        "relative_bias": lambda e, best, *_: e.mean() / best - 1,
    }
    kept = [not flagged for flagged in over_distributions(cube, lambda *four: four[-1], **at)]
    assert kept.count(False) == 2
    for name, of in relative.items():
        every = np.array(over_distributions(cube, of, **at))
        assert float(actual[name]) == pytest.approx(np.median(every[kept]), rel=1e-5), name
    assert (actual.flagged == 2).all()
    tails = np.array(over_distributions(cube, relative["relative"], **at)).reshape(2, -1, len(MODELS))
    kept_of = np.array(kept).reshape(tails.shape)
    for i, model in enumerate(MODELS):
        expected_model = np.median(tails[..., i][kept_of[..., i]])
        assert float(actual.relative_by_model.sel(model=model)) == pytest.approx(expected_model, rel=1e-5)
    for i, classes in enumerate((2, 5)):
        expected_classes = np.median(tails[i][kept_of[i]])
        assert float(actual.relative_by_classes.sel(classes=classes)) == pytest.approx(expected_classes, rel=1e-5)


def test_statistics_by_hand() -> None:
    # Errors 0, 1, ..., 20 around a truth of 100; the paper's is 90.
    estimate = 100.0 + np.array([*range(0, 21, 2), *range(-1, -20, -2)])
    result = summaries.cell_statistics(estimate, np.array(100.0), np.array(90.0))
    assert result["tail"] == pytest.approx(19)
    assert result["median"] == pytest.approx(10)
    assert result["bias"] == pytest.approx(10 / 21)
    assert result["spread"] == pytest.approx(estimate.std(ddof=1))
    assert result["paper_tail"] == pytest.approx(np.percentile(np.abs(estimate - 90), 95))
    assert result["missing"] == 0
    with_gap = summaries.cell_statistics(np.array([np.nan, *estimate]), np.array(100.0), np.array(90.0))
    assert with_gap["missing"] == pytest.approx(1 / 22)
    assert {name: float(value) for name, value in with_gap.items() if name != "missing"} == pytest.approx(
        {name: float(value) for name, value in result.items() if name != "missing"}
    )


def test_intervals_resample_clusters() -> None:
    rng = np.random.default_rng(3)
    cluster = np.repeat(np.arange(6), 4)
    values = rng.normal(size=(24, 3))
    values[:5, 1] = np.nan
    values[:, 2] = np.nan
    counts = np.random.default_rng(0).multinomial(6, np.full(6, 1 / 6), 200)
    resampled = summaries.resampled_medians(values, cluster, draws=200)
    result = summaries.interval(resampled)
    for series in (0, 1):
        medians = [np.nanmedian(np.repeat(values[:, series], draw[cluster])) for draw in counts]
        np.testing.assert_allclose(resampled[:, series], medians, rtol=1e-12)
        np.testing.assert_allclose(result[:, series], np.percentile(medians, [5, 95]), rtol=1e-12)
    assert np.isnan(result[:, 2]).all()
    one = summaries.resampled_medians(values[:, :1], np.zeros(24, int), draws=10)
    np.testing.assert_allclose(one, np.median(values[:, 0]))


def test_some_resamples_are_kept(cube: xr.Dataset) -> None:
    result = summaries.summarised(cube, draws=40, kept=40)
    assert result["absolute_draws"].sizes == {"resample": 40, "setting": 2, "estimator": 3, "size": 3}
    for name in ("absolute", "relative"):
        ends = result[f"{name}_draws"].quantile([0.05, 0.95], "resample")
        np.testing.assert_allclose(ends.isel(quantile=0), result[f"{name}_low"], rtol=1e-5)
        np.testing.assert_allclose(ends.isel(quantile=1), result[f"{name}_high"], rtol=1e-5)


def test_splits_and_models_of_a_mixture_are_one_cluster() -> None:
    cube = fake_cube(shape=(2, 1, 2, 3))
    per = summaries.distributions(cube, summaries.truths(cube).load())
    number = summaries.clusters(per)
    assert per.sizes["cell"] == 12
    assert np.bincount(number).tolist() == [3, 3, 3, 3]


def test_equal_estimators_share_what_they_win() -> None:
    tail = xr.DataArray(
        np.array([[1.0, 1.0, 2.0], [2.0, 3.0, 1.0]])[:, None, None, :, None],
        dims=("cell", "model", "setting", "estimator", "size"),
        coords={"estimator": ["a", "b", "c"]},
    )
    assert summaries.best_shares(tail, ["a", "b", "c"]).values.ravel().tolist() == [0.25, 0.25, 0.5]
    few = summaries.best_shares(tail, ["a", "b"]).values.ravel()
    np.testing.assert_array_equal(few, [0.75, 0.25, np.nan])


def test_a_double_does_not_count_again() -> None:
    cube = fake_cube(("smooth", "residual-isj", "euranova-d-silverman"))
    estimate = cube["estimate"]
    confidence = {"setting": "confidence"}
    estimate.loc[{**confidence, "estimator": "smooth"}] = estimate.sel(**confidence, estimator="euranova-d-silverman")
    result = summaries.summarised(cube, draws=3)
    # The paper's come first, so that the other one is the double, and only for the confidence.
    assert result["best_all"].isnull().all("size").sel(setting="confidence").values.tolist() == [True, False, False]
    assert result["best_all"].sum("estimator").values == pytest.approx(1)
    assert result["best_all"].sel(setting="classwise").notnull().all()
    table = tables.markdown(summaries.combined({"code": result}))
    assert (
        len([line for line in table.splitlines() if line.startswith("| smooth") and line.endswith("| double |")]) == 2
    )
    assert "Best of all: a double equals an estimator above it everywhere" in table


def test_coverage(cube: xr.Dataset) -> None:
    interval = xr.DataArray(
        np.array([[0.5, 0.4, 0.45], [0.5, 0.2, 0.6], [0.5, np.nan, 0.6]])[:, None, None, None, None, :],
        dims=("cell", "model", "setting", "estimator", "interval_size", "end"),
        coords={"end": ["estimate", "low", "high"]},
    )
    truth = xr.DataArray(np.full((3, 1, 1, 1), 0.55), dims=("cell", "model", "setting", "estimator"))
    result = {name: values.item() for name, values in summaries.coverage(interval, truth).items()}
    # 0.55 is above the first interval, but no farther from its estimate than its low end; the third is left out.
    assert result == {"coverage_percentile": 0.5, "coverage_corrected": 1}


def test_unfinished_cells_are_left_out_and_said(cube: xr.Dataset) -> None:
    part = cube.copy(deep=True)
    part["status"][1, 0, 1, 0], part["status"][0, 1, 0, 0] = 0, 2
    part["estimate"][1, 0, 1, 0] = part["truth"][1, 0, 1, 0] = np.nan
    result = summaries.summarised(part, draws=3)
    assert int(result.cells_done) == 6
    assert int(result.distributions) == 24
    assert np.isfinite(result.absolute).all()
    table = tables.markdown(summaries.combined({"code": result}))
    assert "6 of 8 cells; **2 are not done and left out**; 24 score distributions" in table
    part["status"][:] = 0
    with pytest.raises(ValueError, match="no cell that is done"):
        summaries.summarised(part)


def test_missing_estimates_are_said(cube: xr.Dataset) -> None:
    part = cube.copy(deep=True)
    part["estimate"][..., 0, 1, :7] = np.nan
    table = tables.markdown(summaries.combined({"code": summaries.summarised(part, draws=3)}))
    assert "up to 33.3% of the estimates of euranova-l-10 are missing" in table


def test_the_smaller_grid_of_one_choice_of_means(summary: xr.Dataset, tmp_path: Path) -> None:
    assert summary.sizes["estimator"] == len(PAPER) + len(OURS)
    assert summary.absolute.sel(means="text", estimator="smooth").isnull().all()
    assert summary.best.sum("estimator").values == pytest.approx(1)
    assert summary.best_all.sel(means="code").sum("estimator").values == pytest.approx(1)
    assert summary.best.sel(estimator="smooth").isnull().all()
    assert (summary.absolute_low <= summary.absolute_high).where(summary.absolute.notnull()).min() == 1
    assert {values.dtype for values in summary.data_vars.values()} == {np.dtype(np.float32)}
    summary.assign_attrs(study="EceBenchmark").to_netcdf(tmp_path / "summary.nc", engine="scipy")
    again = outcome.summary_of([str(tmp_path / "summary.nc")])
    xr.testing.assert_equal(again, summary)
    assert (tmp_path / "summary.nc").stat().st_size < 300_000


def errors(confidence: Mapping[str, Any], classwise: Mapping[str, Any] | None = None, **more: Any) -> xr.Dataset:
    """A summary with these absolute errors by estimator, 1 for all others; relative ones are ten times as large."""
    values = np.ones((2, len(PAPER), len(PUBLISHED)))
    for i, setting in enumerate((confidence, classwise or {})):
        for name, value in setting.items():
            values[i, PAPER.index(name)] = value
    values *= more.get("scale", 1)
    dims = ("means", "setting", "estimator", "size")
    share = np.full(values.shape, 1 / len(PAPER))
    arrays = {"absolute": values, "relative": more.get("factor", 10) * values, "best": share}
    arrays |= {f"{name}_paper_truth": arrays[name] for name in ("absolute", "relative")}
    coords = {"means": ["code"], "setting": list(SETTINGS), "estimator": list(PAPER), "size": list(PUBLISHED)}
    return xr.Dataset({name: (dims, array[None]) for name, array in arrays.items()}, coords)


def at(sizes: int, low: Any, high: Any) -> np.ndarray:
    """One value at so many sizes, another at the others."""
    return np.where(np.arange(len(PUBLISHED)) < sizes, low, high)


def binned(family: str, value: Any) -> dict[str, Any]:
    return {f"euranova-{family}-{bins}": value for bins in ("10", "30", "sqrt")}


def rooted(ratio: Any) -> dict[str, Any]:
    return {f"euranova-{family}-sqrt": ratio for family in ("l", "a", "c", "ac")}


D = "euranova-d-silverman"
GROWING = np.linspace(1.1, 2, len(PUBLISHED))
# By claim: summaries that make it hold, hold in part, and not hold.
CASES: tuple[tuple[xr.Dataset, xr.Dataset, xr.Dataset], ...] = (
    (errors({D: at(10, 0.5, 2)}), errors({D: at(6, 0.5, 2)}), errors({D: at(5, 0.5, 2)})),
    (errors(binned("c", at(10, 0.9, 2))), errors(binned("c", at(6, 0.9, 2))), errors(binned("c", 1.1))),
    (errors(binned("ac", at(10, 0.9, 2))), errors(binned("ac", at(6, 0.9, 2))), errors(binned("ac", 1.1))),
    (errors(binned("a", at(10, 1.1, 0.5))), errors(binned("a", at(6, 1.1, 0.5))), errors(binned("a", 0.9))),
    (errors(rooted(GROWING)), errors(rooted(GROWING[::-1])), errors(rooted(0.9))),
    (
        errors(dict.fromkeys(PAPER[:10], 1.2)),
        errors(dict.fromkeys(PAPER[:10], 1.3)),
        errors(dict.fromkeys(PAPER[:11], 1.3)),
    ),
    (errors({}, {D: at(9, 0.5, 2)}), errors({}, {D: at(10, 0.5, 2)}), errors({}, {D: 0.5})),
    (
        errors({}, {"euranova-ac-sqrt": 0.5}),
        errors({}, {"euranova-ac-sqrt": at(3, 0.5, 2)}),
        errors({}, {"euranova-ac-sqrt": at(2, 0.5, 2)}),
    ),
    (
        errors({}, {"euranova-ac-10": at(5, 2, 0.5)}),
        errors({}, {"euranova-ac-10": at(8, 2, 0.5)}),
        errors({}, {"euranova-ac-10": at(9, 2, 0.5)}),
    ),
    (errors({}, rooted(GROWING)), errors({}, rooted(GROWING[::-1])), errors({}, rooted(0.9))),
    (errors({}, {D: 2}), errors({}, {D: at(6, 2, 1)}), errors({D: 2})),
    (errors({}, scale=0.01), errors({}, scale=0.1), errors({}, scale=0.3)),
)


def judged(number: int, summary: xr.Dataset, measure: str = "absolute") -> rules.Judgement:
    return rules.judged(CLAIMS[number].judge, summary.sel(means="code"), measure)


def test_each_claim_has_its_cases() -> None:
    assert len(CASES) == len(CLAIMS)


@pytest.mark.parametrize("number", range(len(CLAIMS)))
def test_each_verdict_can_be_reached(number: int) -> None:
    for expected, summary in zip((HOLDS, IN_PART, FAILS), CASES[number], strict=True):
        actual = judged(number, summary)
        assert actual.verdict == expected, actual.numbers


def test_stability_of_a_verdict() -> None:
    # D has the smallest error in the summary and in three of four resamples.
    whole = errors({D: 0.5}).sel(means="code")
    draws = [errors({D: error}).sel(means="code") for error in (0.5, 0.5, 0.9, 3)]
    names = ("absolute", "relative")
    kept = {f"{name}_draws": xr.concat([draw[name] for draw in draws], "resample") for name in names}
    result = claims.with_stability(whole.assign(kept))
    assert not {"absolute_draws", "resample"} & {*result.variables, *result.dims}
    assert result["stability"].sel(statement="1").values.tolist() == [0.75, 0.75]
    assert result["stability"].sel(statement="2, confidence, our convex mapping").isnull().all()
    words = claims.markdown(result.expand_dims("means"))
    assert (
        "1. Confidence: ECE_d with Silverman's rule is the best in almost all regimes. | holds (75%) | holds (75%) |"
        in words
    )
    assert "| code | absolute | holds | 75% | smallest at 11 of 11 sizes" in words


def test_equals_are_named() -> None:
    both = {"euranova-ac-10": at(5, 2, 0.5), "euranova-ac-sqrt": at(6, 2, 0.5 * (1 + 1e-8))}
    result = judged(8, errors({}, both))
    assert result.verdict == HOLDS
    assert "smallest at 6 of 6 sizes (at 5 with equals), median rank 1 of 15" in result.numbers
    assert "smallest error: euranova-ac-10 = euranova-ac-sqrt at 5, euranova-ac-10 at 1;" in result.numbers


def test_what_is_missing_is_not_judged() -> None:
    without = errors({}).drop_sel(estimator=D)
    result = judged(0, without)
    assert (result.verdict, result.numbers) == (UNJUDGED, f"no {D}")
    short = errors({}).isel(size=slice(3))
    assert judged(5, short, "relative").numbers == "no sizes above 300 up to 500"


def test_the_best_of_each_family(summary: xr.Dataset) -> None:
    code = summary.sel(means="code")
    entries = {figures._family(entry.name): entry for entry in figures.best_of_families(code)[:-1]}
    assert set(entries) == {
        "density",
        "equal-mass-hard",
        "equal-mass-convex",
        "equal-mass-inverted",
        "residual",
        "smooth",
    }
    levels = np.log(code.absolute).mean(("setting", "size"))
    least = min(
        ("residual-silverman", "residual-0.033", "residual-isj"), key=lambda name: float(levels.sel(estimator=name))
    )
    assert entries["residual"].name == least
    assert len({(entry.color, entry.dash) for entry in figures.paper_entries(code)}) == len(PAPER)


@dataclass(frozen=True, kw_only=True)
class EceBenchmark(cd.Study):
    """A study that gives out the cells of a made-up cube; named as the one whose cubes are read."""

    means: str = "code"
    classes: tuple[int, ...] = (2, 5)

    outputs: ClassVar = {
        "estimate": ("model", "setting", "estimator", "size", "replicate"),
        "truth": ("model", "setting", "norm", "outcome", "bins", "kind"),
        "interval": ("model", "setting", "estimator", "interval_size", "end"),
    }

    def cells(self) -> dict[str, Any]:
        return {"classes": self.classes, "features": (2,), "draw": range(2), "split": range(1)}

    def inside(self) -> dict[str, Any]:
        return inside(FEW, (30, 443, 1300)) | {"replicate": range(5)}

    def cell(self, at: Mapping[str, Any], seeds: Any) -> dict[str, Any]:
        if (at["classes"], at["draw"]) == (5, 1):
            raise RuntimeError("this cell fails")
        made = fake_cube(replicates=5, shape=(1, 1, 1, 1), seed=at["classes"] + 10 * at["draw"]).isel(
            dict.fromkeys(CELLS, 0)
        )
        return {name: made[name].values for name in self.outputs}


@dataclass(frozen=True, kw_only=True)
class Other(EceBenchmark):
    """The same under another name."""


ABSOLUTE: dict[str, Any] = {"quantities": [figures.ABSOLUTE]}


def test_all_files_from_stored_cubes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stores = [str(tmp_path / f"{means}.zarr") for means in ("code", "text")]
    for means, store in zip(("code", "text"), stores, strict=True):
        cd.run(EceBenchmark(means=means), store)
    every = figures.pictures
    # One picture of one quantity: HoloViews takes a second for each panel.
    monkeypatch.setattr(figures, "pictures", lambda summary: {"one": replace(every(summary)["ours-code"], **ABSOLUTE)})
    out = tmp_path / "out"
    monkeypatch.setattr(outcome, "KEPT", 2)
    assert outcome.main([*stores, "--out", str(out)]) == 0
    assert {path.name for path in out.iterdir()} == {
        "summary.nc",
        "results.md",
        "claims.md",
        "index.html",
        "one.png",
    }
    assert "means text: 3 of 4 cells; **1 are not done and left out**" in capsys.readouterr().out
    assert (out / "one.png").read_bytes()[:4] == b"\x89PNG"
    assert "Our estimators, the best of each family" in (out / "index.html").read_text(encoding="utf-8")
    result = xr.load_dataset(out / "summary.nc", engine="scipy")
    whole = summaries.summarised(cd.open_cube(stores[0]).load())
    np.testing.assert_array_equal(result.absolute_low.sel(means="code"), whole.absolute_low)
    assert result["stability"].sizes == {"means": 2, "statement": 22, "measure": 2}
    xr.testing.assert_equal(outcome.summary_of([str(out / "summary.nc")]), result)


def test_bad_cubes_are_told_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stores = {name: str(tmp_path / f"{name}.zarr") for name in ("code", "less", "other")}
    cd.run(EceBenchmark(classes=(2,)), stores["code"])
    cd.run(EceBenchmark(means="text", classes=(5,)), stores["less"])
    cd.run(Other(), stores["other"])
    text = tmp_path / "text.nc"
    text.write_text("no NetCDF")
    xr.Dataset({"x": 1}).to_netcdf(tmp_path / "else.nc", engine="scipy")
    (tmp_path / "folder").mkdir()
    for cubes, message in (
        ([stores["other"]], f"{stores['other']} is a cube of the study Other, expected one of EceBenchmark."),
        ([stores["code"], stores["code"]], f"{stores['code']} has the same means as {stores['code']}: code."),
        (
            [stores["code"], stores["less"]],
            "(there) differ in more than their means: classes: [2] there only, [5] here",
        ),
        ([str(tmp_path / "none")], f"{tmp_path / 'none'} does not exist."),
        ([str(tmp_path / "none.nc")], "No such file or directory"),
        ([str(tmp_path / "folder")], f"{tmp_path / 'folder'}"),
        ([str(text), stores["code"]], f"{text}"),
        ([str(text)], f"{text} is no NetCDF file: "),
        ([str(tmp_path / "else.nc")], "else.nc is no summary of cubes of EceBenchmark"),
    ):
        assert outcome.main([*cubes, "--out", str(tmp_path / "out")]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_all_pictures_have_all_their_curves(summary: xr.Dataset) -> None:
    made = figures.pictures(summary)
    assert len(made) == 14
    picture = made["figure2-code"]
    panels = list(figures.drawn(picture.summary, picture.entries, picture.quantities, "bokeh"))
    assert len(panels) == 4
    for panel in panels:
        curves = [element for element in panel if type(element).__name__ == "Curve"]
        assert len(curves) == len(PAPER)
        assert all(len(curve) == len(PUBLISHED) for curve in curves)


def test_bands_are_within_their_panels(summary: xr.Dataset) -> None:
    picture = figures.pictures(summary)["figure2-code"]
    (confidence, _) = figures.drawn(picture.summary, picture.entries, [figures.ABSOLUTE], "bokeh")
    bands = [element for element in confidence if type(element).__name__ == "Area"]
    assert len(bands) == 3
    low, high = confidence.opts.get("plot", "bokeh").kwargs["ylim"]
    for band in bands:
        assert low < band.dimension_values(1).min()
        assert high > band.dimension_values(2).max()

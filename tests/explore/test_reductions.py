"""Views of cubes: what is shown is what xarray computes of the whole, read by chunks, and in bounded memory."""

import tracemalloc
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.explore.cancellation import Cancelled, CancelToken
from calibdask.explore.cubes import reductions
from calibdask.explore.cubes.aggregates import Step
from calibdask.explore.cubes.block_reduction import BlockReduction, reduced_blocks
from calibdask.explore.cubes.reductions import Reductions
from calibdask.explore.cubes.suggested_view import suggested
from calibdask.explore.cubes.views import ERRORS, CubeView, Reference, positions_of, progress_text
from calibdask.study.cube import Cube
from calibdask.study.reading import block_dims, blocks, counts
from experiments.ece_benchmark import summaries
from tests.experiments.fake_cubes import fake_cube
from tests.explore.cube_views import FIGURE, L1, quantiles, whole
from tests.explore.explored_study import Estimates


@pytest.mark.parametrize("order", [1, -1])
def test_a_view_is_what_xarray_computes(cube: xr.Dataset, order: int) -> None:
    steps = FIGURE.steps[::order]
    view = CubeView("estimate", "size", ("estimator",), steps=steps, reference=L1)
    shown = Reductions(cube).values_of(view)
    expected = whole(cube)
    for step in steps:
        expected = quantiles(expected, step.number, step.dims)
    xr.testing.assert_allclose(shown.value, expected, rtol=1e-12)


@pytest.mark.parametrize("error", ERRORS)
def test_errors_against_a_reference(cube: xr.Dataset, error: str) -> None:
    view = CubeView(
        "estimate",
        "size",
        ("estimator", "model", "draw"),
        (),
        (Step("mean", ("replicate",)),),
        reference=Reference("truth", (("norm", "l2"),), error),
    )
    truth = cube.truth.sel(norm="l2", drop=True)
    gap = cube.estimate.astype(float) - truth
    gap = abs(gap) if error.startswith("absolute") else gap
    gap = gap / truth if error.endswith("reference") else gap
    expected = gap.where(cube.status == 1).mean("replicate")
    result = Reductions(cube).values_of(view).value.transpose(*expected.dims)
    xr.testing.assert_allclose(result, expected, rtol=1e-12)


def test_a_reference_of_zero_has_no_relative_error() -> None:
    reference = Reference("truth", error="absolute error / reference")
    result = reference.compared(np.array([1.0, 3.0]), np.array([0.0, -2.0]))
    np.testing.assert_array_equal(result, [np.nan, 2.5])


def test_filters_fixed_labels_and_bands(cube: xr.Dataset) -> None:
    view = CubeView(
        "estimate",
        "size",
        (),
        ("model",),
        (Step("mean", ("replicate",)), Step("median", ("draw",))),
        at=(("estimator", "debiased"),),
        only=(("replicate", (3, 5, 19)), ("draw", (0, 2)), ("size", (1000, 30)), ("model", ("svc", "forest"))),
        reference=L1,
        band=(0.1, 0.9),
    )
    shown = Reductions(cube).values_of(view)
    labels = {"estimator": "debiased", "replicate": [3, 5, 19], "draw": [0, 2], "size": [30, 1000]}
    errors = whole(cube).sel(labels).sel(model=["forest", "svc"]).drop_vars("estimator").mean("replicate")
    xr.testing.assert_allclose(shown.value.transpose("model", "size"), errors.median("draw"), rtol=1e-12)
    for end, share in (("low", 0.1), ("high", 0.9)):
        expected = errors.quantile(share, "draw").drop_vars("quantile")
        xr.testing.assert_allclose(shown[end].transpose("model", "size"), expected, rtol=1e-12)


def test_unknown_labels_are_named(cube: xr.Dataset) -> None:
    with pytest.raises(ValueError, match="model expects some of forest, linear, svc, got 'tree'"):
        positions_of(cube, {"model": ("tree",)})


def test_cells_that_are_not_done_are_no_numbers(tmp_path: Path) -> None:
    """Whole numbers are 0 in the store where a cell is not done."""
    study = Estimates(broken="linear")
    cd.run(study, tmp_path / "part.zarr")
    part = cd.open_cube(str(tmp_path / "part.zarr"))
    shown = Reductions(part).values_of(CubeView("rows", "model", ("draw",)))
    expected = np.full((3, 3), 7.0)
    expected[1, 1] = np.nan
    np.testing.assert_array_equal(shown.value.transpose("model", "draw"), expected)
    assert counts(part) == (9, 8, 1)
    assert progress_text(part) == "8 of 9 cells done, 1 failed"


def test_blocks_are_whole_chunks_and_those_without_done_cells_are_left(cube: xr.Dataset) -> None:
    assert block_dims(cube, "estimate") == ("model", "draw")
    result = [{dim: at.tolist() for dim, at in block.items()} for block in blocks(cube, "estimate", {})]
    # Chunks of two cells along the last axis: the second of a row of three has one.
    assert result == [{"model": [m], "draw": draws} for m in range(3) for draws in ([0, 1], [2])]
    only = {"model": np.array([1]), "draw": np.array([1])}
    assert list(blocks(cube, "estimate", only)) == []


def test_large_data_without_cells_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibdask.study.reading._BLOCK", 40)
    random = np.random.default_rng(0)
    results = xr.Dataset({"error": (("a", "b", "c"), random.normal(size=(4, 5, 30)))}, {"a": list("wxyz")})
    assert block_dims(results, "error") == ("a", "b")
    view = CubeView("error", "b", ("a",), steps=(Step("median", ("c",)),))
    xr.testing.assert_allclose(
        Reductions(results).values_of(view).value.transpose("a", "b"), results["error"].median("c")
    )


@pytest.mark.parametrize("how", ["median", "standard deviation"])
def test_what_does_not_fit_in_memory_is_read_in_slabs(
    cube: xr.Dataset, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All cells and replicates at once, for a few lines and sizes at a time."""
    view = CubeView(
        "estimate", "size", ("estimator",), steps=(Step(how, ("model", "draw", "replicate")),), reference=L1
    )
    expected = Reductions(cube).values_of(view)
    shares: list[float] = []
    monkeypatch.setattr(reductions, "HELD", 400)
    result = Reductions(cube).values_of(view, CancelToken(report=shares.append))
    xr.testing.assert_identical(result, expected)
    assert len(shares) > 6
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    monkeypatch.setattr(reductions, "HELD", 100)
    with pytest.raises(ValueError, match=r"All values over model, draw, replicate at once do not fit in memory"):
        Reductions(cube).values_of(view)


def test_too_many_points_are_refused(cube: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "SHOWN", 100)
    with pytest.raises(ValueError, match="at most 100 points, got size: 4, estimator: 3, replicate: 20; aggregate"):
        Reductions(cube).values_of(
            CubeView("estimate", "size", ("estimator", "replicate"), steps=(Step("mean", ("model",)),))
        )


def test_what_has_been_read_serves_other_views(cube: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = []

    def counted(*args: Any) -> xr.DataArray:
        passes.append(args[1])
        return reduced_blocks(*args)

    monkeypatch.setattr(reductions, "reduced_blocks", counted)
    cube_reductions = Reductions(cube)
    cube_reductions.values_of(FIGURE)
    assert cube_reductions.is_at_hand(FIGURE)
    rest = FIGURE.steps[:1]
    others = [
        CubeView("estimate", "estimator", ("size",), ("model",), (*rest, Step("mean", ("draw",))), reference=L1),
        CubeView("estimate", "size", ("model",), (), (*rest, Step("mean", ("draw", "estimator"))), reference=L1),
        CubeView(
            "estimate", "draw", (), (), rest, (("size", 30), ("estimator", "wide"), ("model", "svc")), reference=L1
        ),
        CubeView("estimate", "size", ("estimator",), steps=FIGURE.steps, only=(("draw", (0,)),), reference=L1),
    ]
    for view in others:
        cube_reductions.values_of(view)
    cube_reductions.rows(FIGURE, {"size": 30, "estimator": "wide"})
    # The fourth was asked for after one that aggregates nothing but replicates: its last step is not done in blocks.
    assert [reduction.steps for reduction in passes] == [rest, ()]
    cube_reductions.values_of(
        CubeView("estimate", "size", ("estimator",), steps=FIGURE.steps, only=(("replicate", (0, 1)),))
    )
    assert len(passes) == 3


def test_what_is_kept_is_bounded(cube: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "KEPT_BYTES", 2000)
    cube_reductions = Reductions(cube)
    for share in (0.1, 0.2, 0.3, 0.4):
        steps = (Step("quantile", ("replicate",), share), FIGURE.steps[1])
        cube_reductions.values_of(CubeView("estimate", "size", ("estimator",), steps=steps))
    # Nine cells, three estimators, four sizes: 864 bytes each.
    assert cube_reductions.nbytes == 2 * 864


def test_a_cube_larger_than_memory_opens_and_shows_what_is_done(tmp_path: Path) -> None:
    """Nothing but axes and states is read; memory holds a few chunks."""
    from calibdask.explore.cubes.controls import Controls

    study = Estimates(models=tuple("abcdefgh"), draws=200, replicates=25_000)
    large = Cube(str(tmp_path / "large.zarr"))
    large.lay_out(study)
    made = {"estimate": np.ones((3, 4, 25_000), np.float32), "truth": np.zeros(2), "rows": np.array(5)}
    made |= {"reliability": np.zeros(40), "density": np.ones(40)}
    large.write({0: made, 1: made})
    cube = cd.open_cube(large.url)
    assert cube["estimate"].nbytes > 1e9
    tracemalloc.start()
    try:
        controls = Controls(cube, lambda: None)
        view = controls.view()
        cube_reductions = Reductions(cube)
        assert not cube_reductions.is_at_hand(view)
        one = CubeView(
            "estimate", "size", ("estimator",), (), view.steps, only=(("model", ("a",)),), reference=view.reference
        )
        shown = cube_reductions.values_of(one)
        assert tracemalloc.get_traced_memory()[1] < 1e8
    finally:
        tracemalloc.stop()
    assert view.x == "size"
    np.testing.assert_array_equal(shown.value, 1)


def test_memory_holds_a_few_blocks(tmp_path: Path) -> None:
    study = Estimates(models=tuple(f"m{number}" for number in range(20)), draws=2, replicates=10_000)
    cd.run(study, tmp_path / "wide.zarr")
    cube = cd.open_cube(str(tmp_path / "wide.zarr"))
    # 40 cells of half a megabyte in chunks of two: 20 blocks of 2 MB as doubles.
    assert cube["estimate"].size * 8 > 37e6
    Reductions(cube).values_of(FIGURE)
    tracemalloc.start()
    try:
        Reductions(cube).values_of(FIGURE)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 30e6


def test_a_pass_can_be_cancelled(cube: xr.Dataset) -> None:
    cancelled = Event()

    def report(share: float) -> None:
        if share > 0.3:
            cancelled.set()

    with pytest.raises(Cancelled):
        reduced_blocks(cube, BlockReduction("estimate"), {}, CancelToken(cancelled.is_set, report))


def test_the_published_figure_of_a_benchmark() -> None:
    """The view that its README describes is the summary's own error against the truth of the paper."""
    cube = fake_cube(("euranova-l-10", "euranova-c-10", "residual-isj", "residual-0.033", "smooth"), shape=(2, 2, 2, 2))
    cells = ("classes", "features", "draw", "split", "model")
    at = (("norm", "l1"), ("outcome", "label"), ("bins", 2000), ("kind", "plug-in"))
    steps = (Step("quantile", ("replicate",), 0.95), Step("median", cells))
    view = CubeView("estimate", "size", ("estimator",), ("setting",), steps, reference=Reference("truth", at))
    shown = Reductions(cube).values_of(view).value
    expected = summaries.summarised(cube, draws=2)["absolute_paper_truth"]
    np.testing.assert_array_equal(shown.astype(np.float32), expected.transpose(*shown.dims))
    # What the page begins with is the same but for the bins.
    first = suggested(cube, "estimate")
    assert (first.x, first.lines, first.panels, first.steps) == ("size", ("estimator",), ("setting",), steps)
    assert first.reference == Reference("truth", (*at[:2], ("bins", 200), at[3]))

"""Views of cubes: what is shown is what xarray computes of the whole, read by chunks, and in bounded memory."""

import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.explore.cubes import reductions
from calibdask.explore.cubes.aggregates import HOWS, Step, aggregated, described
from calibdask.explore.cubes.cells import failures, numbers_at, pictures_at, status_at
from calibdask.explore.cubes.drawing import Scales, picture_of, ticks
from calibdask.explore.cubes.gathering import Gathering, gathered
from calibdask.explore.cubes.reductions import Reductions, worst_first
from calibdask.explore.cubes.suggestions import ends_of, is_geometric, references_of, suggested
from calibdask.explore.cubes.views import ERRORS, Reference, View, cells_told, places_of, variables_of
from calibdask.explore.latest import Latest, Stopped, Watch
from calibdask.study.cube import Cube
from calibdask.study.reading import block_dims, blocks, counts
from experiments.ece_benchmark import summaries
from tests.explored_study import Estimates
from tests.test_benchmark_outcome import fake_cube

L1 = Reference("truth", (("norm", "l1"),))
FIGURE = View(
    "estimate",
    "size",
    ("estimator",),
    (),
    (Step("quantile", ("replicate",), 0.95), Step("median", ("model", "draw"))),
    reference=L1,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A cube of nine cells, of which one has failed."""
    path = tmp_path_factory.mktemp("cubes") / "estimates.zarr"
    assert cd.run(Estimates(broken="linear"), path).failed == 1
    return str(path)


@pytest.fixture
def cube(store: str) -> xr.Dataset:
    return cd.open_cube(store)


def whole(cube: xr.Dataset, norm: str = "l1") -> xr.DataArray:
    """Absolute errors, all of them in memory."""
    error = abs(cube.load().estimate.astype(float) - cube.truth.sel(norm=norm, drop=True))
    return error.where(cube.status == 1)


def quantiles(values: xr.DataArray, share: float, dims: tuple[str, ...]) -> xr.DataArray:
    """Of values that there are; NumPy warns where there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return values.quantile(share, dims, skipna=True).drop_vars("quantile")


def by_numpy(how: str, values: np.ndarray, number: float) -> float:
    """One number of values without NaN."""
    if not values.size:
        return np.nan
    return {
        "median": lambda: np.median(values),
        "mean": lambda: values.mean(),
        "quantile": lambda: np.quantile(values, number),
        "standard deviation": lambda: values.std(ddof=1) if values.size > 1 else np.nan,
        "root mean square": lambda: np.sqrt((values**2).mean()),
        "smallest": lambda: values.min(),
        "largest": lambda: values.max(),
        "share at most": lambda: (values <= number).mean(),
    }[how]()


@pytest.mark.parametrize("how", HOWS)
def test_aggregates_are_those_of_numpy(how: str) -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(4, 3, 5, 2)).round(1)
    values[random.random(values.shape) < 0.3] = np.nan
    values[0, 0] = np.nan
    values[1, 0, 1:] = np.nan
    found = aggregated(xr.DataArray(values, dims=("a", "b", "c", "d")), Step(how, ("b", "d"), 0.37))
    assert found.dims == ("a", "c")
    for a in range(4):
        for c in range(5):
            some = values[a, :, c].ravel()
            expected = by_numpy(how, some[~np.isnan(some)], 0.37)
            np.testing.assert_allclose(found.values[a, c], expected, rtol=1e-12)


def test_aggregates_of_infinite_values() -> None:
    values = xr.DataArray([[1.0, 2.0, np.inf], [np.inf, np.inf, np.inf]], dims=("a", "b"))
    assert aggregated(values, Step("median", ("b",))).values.tolist() == [2.0, np.inf]
    assert aggregated(values, Step("largest", ("b",))).values.tolist() == [np.inf, np.inf]


@pytest.mark.parametrize("share", [-0.05, 1.05])
def test_quantiles_are_shares(share: float) -> None:
    with pytest.raises(ValueError, match="a number from 0 to 1"):
        aggregated(xr.DataArray([1.0, 2.0], dims="draw"), Step("quantile", ("draw",), share))


def test_the_order_of_steps_is_told() -> None:
    assert FIGURE.words() == (
        "|estimate − truth (norm l1)|: 95th percentile over replicate, then median over model, draw"
    )
    assert described(FIGURE.steps[::-1]) == "median over model, draw, then 95th percentile over replicate"


@pytest.mark.parametrize("order", [1, -1])
def test_a_view_is_what_xarray_computes(cube: xr.Dataset, order: int) -> None:
    steps = FIGURE.steps[::order]
    view = View("estimate", "size", ("estimator",), steps=steps, reference=L1)
    shown = Reductions(cube).shown(view)
    expected = whole(cube)
    for step in steps:
        expected = quantiles(expected, step.number, step.dims)
    xr.testing.assert_allclose(shown.value, expected, rtol=1e-12)


@pytest.mark.parametrize("error", ERRORS)
def test_errors_against_a_reference(cube: xr.Dataset, error: str) -> None:
    view = View(
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
    found = Reductions(cube).shown(view).value.transpose(*expected.dims)
    xr.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_reference_of_zero_has_no_relative_error() -> None:
    reference = Reference("truth", error="absolute error / reference")
    found = reference.compared(np.array([1.0, 3.0]), np.array([0.0, -2.0]))
    np.testing.assert_array_equal(found, [np.nan, 2.5])


def test_filters_fixed_labels_and_bands(cube: xr.Dataset) -> None:
    view = View(
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
    shown = Reductions(cube).shown(view)
    labels = {"estimator": "debiased", "replicate": [3, 5, 19], "draw": [0, 2], "size": [30, 1000]}
    some = whole(cube).sel(labels).sel(model=["forest", "svc"]).drop_vars("estimator").mean("replicate")
    xr.testing.assert_allclose(shown.value.transpose("model", "size"), some.median("draw"), rtol=1e-12)
    for end, share in (("low", 0.1), ("high", 0.9)):
        expected = some.quantile(share, "draw").drop_vars("quantile")
        xr.testing.assert_allclose(shown[end].transpose("model", "size"), expected, rtol=1e-12)


def test_labels_that_are_not_there_are_told(cube: xr.Dataset) -> None:
    with pytest.raises(ValueError, match="model expects some of forest, linear, svc, got 'tree'"):
        places_of(cube, {"model": ("tree",)})


def test_cells_that_are_not_done_are_no_numbers(tmp_path: Path) -> None:
    """Whole numbers are 0 in the store where a cell is not done."""
    study = Estimates(broken="linear")
    cd.run(study, tmp_path / "part.zarr")
    part = cd.open_cube(str(tmp_path / "part.zarr"))
    shown = Reductions(part).shown(View("rows", "model", ("draw",)))
    expected = np.full((3, 3), 7.0)
    expected[1, 1] = np.nan
    np.testing.assert_array_equal(shown.value.transpose("model", "draw"), expected)
    assert counts(part) == (9, 8, 1)
    assert cells_told(part) == "8 of 9 cells done, 1 failed"


def test_blocks_are_whole_chunks_and_those_without_done_cells_are_left(cube: xr.Dataset) -> None:
    assert block_dims(cube, "estimate") == ("model", "draw")
    found = [{dim: at.tolist() for dim, at in block.items()} for block in blocks(cube, "estimate", {})]
    # Chunks of two cells along the last axis: the second of a row of three has one.
    assert found == [{"model": [m], "draw": draws} for m in range(3) for draws in ([0, 1], [2])]
    only = {"model": np.array([1]), "draw": np.array([1])}
    assert list(blocks(cube, "estimate", only)) == []


def test_large_data_without_cells_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibdask.study.reading._BLOCK", 40)
    random = np.random.default_rng(0)
    results = xr.Dataset({"error": (("a", "b", "c"), random.normal(size=(4, 5, 30)))}, {"a": list("wxyz")})
    assert block_dims(results, "error") == ("a", "b")
    view = View("error", "b", ("a",), steps=(Step("median", ("c",)),))
    xr.testing.assert_allclose(Reductions(results).shown(view).value.transpose("a", "b"), results["error"].median("c"))


@pytest.mark.parametrize("how", ["median", "standard deviation"])
def test_what_cannot_be_held_is_read_in_slabs(cube: xr.Dataset, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All cells and replicates at once, for a few lines and sizes at a time."""
    view = View("estimate", "size", ("estimator",), steps=(Step(how, ("model", "draw", "replicate")),), reference=L1)
    expected = Reductions(cube).shown(view)
    told: list[float] = []
    monkeypatch.setattr(reductions, "_HELD", 400)
    found = Reductions(cube).shown(view, Watch(tell=told.append))
    xr.testing.assert_identical(found, expected)
    assert len(told) > 6
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1)
    monkeypatch.setattr(reductions, "_HELD", 100)
    with pytest.raises(ValueError, match=r"All values over model, draw, replicate at once are more than can be held"):
        Reductions(cube).shown(view)


def test_too_many_points_are_refused(cube: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "_SHOWN", 100)
    with pytest.raises(ValueError, match="at most 100 points, got size: 4, estimator: 3, replicate: 20; aggregate"):
        Reductions(cube).shown(View("estimate", "size", ("estimator", "replicate"), steps=(Step("mean", ("model",)),)))


def test_what_has_been_read_serves_other_views(cube: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = []

    def counted(*args: Any) -> xr.DataArray:
        passes.append(args[1])
        return gathered(*args)

    monkeypatch.setattr(reductions, "gathered", counted)
    there = Reductions(cube)
    there.shown(FIGURE)
    assert there.is_at_hand(FIGURE)
    rest = FIGURE.steps[:1]
    others = [
        View("estimate", "estimator", ("size",), ("model",), (*rest, Step("mean", ("draw",))), reference=L1),
        View("estimate", "size", ("model",), (), (*rest, Step("mean", ("draw", "estimator"))), reference=L1),
        View("estimate", "draw", (), (), rest, (("size", 30), ("estimator", "wide"), ("model", "svc")), reference=L1),
        View("estimate", "size", ("estimator",), steps=FIGURE.steps, only=(("draw", (0,)),), reference=L1),
    ]
    for view in others:
        there.shown(view)
    there.rows(FIGURE, {"size": 30, "estimator": "wide"})
    # The fourth was asked for after one that aggregates nothing but replicates: its last step is not done in blocks.
    assert [each.steps for each in passes] == [rest, ()]
    there.shown(View("estimate", "size", ("estimator",), steps=FIGURE.steps, only=(("replicate", (0, 1)),)))
    assert len(passes) == 3


def test_what_is_kept_is_bounded(cube: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "_KEPT_BYTES", 2000)
    there = Reductions(cube)
    for share in (0.1, 0.2, 0.3, 0.4):
        steps = (Step("quantile", ("replicate",), share), FIGURE.steps[1])
        there.shown(View("estimate", "size", ("estimator",), steps=steps))
    # Nine cells, three estimators, four sizes: 864 bytes each.
    assert len(there._kept) == 2


def test_a_cube_larger_than_memory_opens_and_shows_what_is_done(tmp_path: Path) -> None:
    """Nothing but axes and states is read; memory holds a few chunks."""
    from calibdask.explore.cubes.controls import Controls

    study = Estimates(models=tuple("abcdefgh"), draws=500, replicates=200_000)
    large = Cube(str(tmp_path / "large.zarr"))
    large.lay_out(study)
    made = {"estimate": np.ones((3, 4, 200_000), np.float32), "truth": np.zeros(2), "rows": np.array(5)}
    made |= {"reliability": np.zeros(40), "density": np.ones(40)}
    large.write({0: made, 1: made})
    cube = cd.open_cube(large.url)
    assert cube["estimate"].size > 9e9
    tracemalloc.start()
    try:
        controls = Controls(cube, lambda: None)
        view = controls.view()
        there = Reductions(cube)
        assert not there.is_at_hand(view)
        one = View(
            "estimate", "size", ("estimator",), (), view.steps, only=(("model", ("a",)),), reference=view.reference
        )
        shown = there.shown(one)
        assert tracemalloc.get_traced_memory()[1] < 4e8
    finally:
        tracemalloc.stop()
    assert view.x == "size"
    np.testing.assert_array_equal(shown.value, 1)


def test_memory_holds_a_few_blocks(tmp_path: Path) -> None:
    study = Estimates(models=tuple(f"m{number}" for number in range(20)), draws=2, replicates=20_000)
    cd.run(study, tmp_path / "wide.zarr")
    cube = cd.open_cube(str(tmp_path / "wide.zarr"))
    # 40 cells of a megabyte in chunks of two: 20 blocks of 4 MB as doubles.
    assert cube["estimate"].size * 8 > 75e6
    Reductions(cube).shown(FIGURE)
    tracemalloc.start()
    try:
        Reductions(cube).shown(FIGURE)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60e6


def test_a_pass_can_be_called_off(cube: xr.Dataset) -> None:
    called_off = Event()

    def tell(share: float) -> None:
        if share > 0.3:
            called_off.set()

    with pytest.raises(Stopped):
        gathered(cube, Gathering("estimate"), {}, Watch(called_off.is_set, tell))


def test_the_published_figure_of_a_benchmark() -> None:
    """The view that its README describes is the summary's own error against the truth of the paper."""
    cube = fake_cube(("euranova-l-10", "euranova-c-10", "residual-isj", "residual-0.033", "smooth"), shape=(2, 2, 2, 2))
    cells = ("classes", "features", "draw", "split", "model")
    at = (("norm", "l1"), ("outcome", "label"), ("bins", 2000), ("kind", "plug-in"))
    steps = (Step("quantile", ("replicate",), 0.95), Step("median", cells))
    view = View("estimate", "size", ("estimator",), ("setting",), steps, reference=Reference("truth", at))
    shown = Reductions(cube).shown(view).value
    expected = summaries.summarised(cube, draws=2)["absolute_paper_truth"]
    np.testing.assert_array_equal(shown.astype(np.float32), expected.transpose(*shown.dims))
    # What the page begins with is the same but for the bins.
    first = suggested(cube, "estimate")
    assert (first.x, first.lines, first.panels, first.steps) == ("size", ("estimator",), ("setting",), steps)
    assert first.reference == Reference("truth", (*at[:2], ("bins", 200), at[3]))


def test_rows_behind_a_point_worst_first(cube: xr.Dataset) -> None:
    point = {"size": 100, "estimator": "wide"}
    there = Reductions(cube)
    table = worst_first(there.rows(FIGURE, point))
    errors = quantiles(whole(cube).sel(point), 0.95, ("replicate",)).rename("error")
    expected = errors.to_series().dropna().sort_values(ascending=False)
    assert list(zip(table.model, table.draw, strict=True)) == expected.index.tolist()
    np.testing.assert_allclose(table.value, expected.values, rtol=1e-12)
    shown = float(there.shown(FIGURE).value.sel(point))
    assert np.median(table.value) == pytest.approx(shown, rel=1e-12)
    # The same without what was read for the figure.
    assert worst_first(Reductions(cube).rows(FIGURE, point)).equals(table)


def test_all_values_behind_a_point_and_a_row(cube: xr.Dataset) -> None:
    there, errors = Reductions(cube), whole(cube)
    found = there.raw(FIGURE, {"size": 30, "estimator": "wide"})
    expected = errors.sel(size=30, estimator="wide").values.ravel()
    np.testing.assert_allclose(np.sort(found), np.sort(expected[~np.isnan(expected)]), rtol=1e-12)
    row = {"size": 30, "estimator": "plain", "model": "svc", "draw": 2}
    np.testing.assert_allclose(there.raw(FIGURE, row), errors.sel(row), rtol=1e-12)


def test_signed_errors_are_ordered_by_their_distance_from_zero() -> None:
    rows = xr.DataArray([0.1, -0.5, np.nan, 0.3], {"draw": range(4)}, "draw")
    assert worst_first(rows, signed=True).draw.tolist() == [1, 3, 0]
    assert worst_first(rows).draw.tolist() == [3, 0, 1]


def test_one_cell(cube: xr.Dataset, store: str) -> None:
    at = {"model": "linear", "draw": 1}
    (broken,) = failures(cube, store)
    assert broken[0] == at
    assert "RuntimeError: this cell is broken" in broken[1]
    assert failures(cube, None) == []
    assert status_at(cube, at) == "failed"
    assert status_at(cube, {"model": "svc", "draw": 0}) == "done"
    assert status_at(cube, {"model": "svc"}) == ""
    assert pictures_at(cube, at) == []
    done = {"model": "svc", "draw": 0}
    (picture,) = pictures_at(cube, done)
    line = next(each for each in picture.traverse() if each.group == "Over")
    np.testing.assert_allclose(line["reliability"], cube.reliability.sel(done), atol=1e-12)
    numbers = {(each["variable"], each["where"]): each["value"] for each in numbers_at(cube, done)}
    assert numbers["rows", ""] == 7
    assert numbers["truth", "l2"] == pytest.approx(float(cube.truth.sel(**done, norm="l2")))


def test_diagrams_of_cells_are_recognised() -> None:
    rows = np.random.default_rng(0).random(200)
    diagram = cd.evaluate((rows < 0.5).astype(int), rows, {"diagram": cd.ReliabilityDiagram(bins=5)})
    cube = diagram.expand_dims(model=["a", "b"])
    (picture,) = pictures_at(cube, {"model": "b"})
    assert len(picture) == 2


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([30, 67, 151, 339, 759], True),
        ([2, 5, 7], False),
        ([1, 2, 3, 4], False),
        ([0, 1, 10, 100], False),
        ([100, 10, 1], False),
        (["1", "10", "100"], False),
        ([1, 10], False),
    ],
)
def test_geometric_labels(labels: list[Any], expected: bool) -> None:
    assert is_geometric(labels) is expected


def test_first_views_of_other_stores(cube: xr.Dataset) -> None:
    assert variables_of(cube)[0] == "estimate"
    first = suggested(cube, "estimate")
    assert first.words().endswith(": 95th percentile over replicate, then median over draw")
    assert (first.x, first.lines, first.panels, first.reference) == ("size", ("estimator",), ("model",), L1)
    assert references_of(cube, "estimate") == ["density", "reliability", "truth", "rows"]
    # Labels that only one variable has are parts of it, and looked at one at a time.
    parts = cube[["truth"]].assign(end=cube.estimate.isel(replicate=0, drop=True).expand_dims(side=["low", "high"]))
    assert dict(suggested(parts, "end").at)["side"] == "low"
    many = xr.Dataset(
        {"error": (("size", "name"), np.zeros((3, 40)))}, {"size": [1, 10, 100], "name": [f"n{i}" for i in range(40)]}
    )
    assert dict(suggested(many, "error").only)["name"] == tuple(f"n{i}" for i in range(8))
    holdout = xr.Dataset(
        {name: (("model", "metric"), np.zeros((2, 4))) for name in ("value", "low", "high")},
        {"model": ["a", "b"], "metric": ["ece", "brier", "skce", "mce"]},
    )
    assert ends_of(holdout, "value") == ("low", "high")
    view = suggested(holdout, "value")
    assert (view.x, view.lines, view.band) == ("metric", ("model",), ("low", "high"))
    shown = Reductions(holdout.assign(low=holdout.low - 1)).shown(view)
    assert (shown.low == -1).all()
    assert (shown.high == 0).all()


def test_a_picture_of_a_view(cube: xr.Dataset) -> None:
    shown = Reductions(cube).shown(FIGURE)
    picture = picture_of(FIGURE, shown, Scales())
    assert (picture.logx, picture.logy, picture.x_name, picture.y_name) == (True, True, "size", "absolute error")
    (panel,) = picture.panels
    for line in panel.lines:
        np.testing.assert_array_equal(line.value, shown.value.sel(estimator=line.label))
    for estimator in ("plain", "wide"):
        for size in (30, 1000):
            y = float(shown.value.sel(estimator=estimator, size=size))
            at = {"estimator": estimator, "size": size}
            assert picture.nearest(panel, size * 1.02, y * 0.99) == at
            assert picture.place(panel, at) == (size, y)
    assert picture.place(panel, {"estimator": "other", "size": 30}) is None
    low, high = picture.limits()
    assert 0 < low < shown.value.min() < shown.value.max() < high
    assert not picture_of(FIGURE, shown, Scales("linear", "linear")).logy


def test_names_along_the_x_axis_stand_beside_each_other(cube: xr.Dataset) -> None:
    view = View("estimate", "model", ("estimator",), steps=(Step("mean", ("replicate", "draw", "size")),), reference=L1)
    picture = picture_of(view, Reductions(cube).shown(view), Scales("log"))
    assert not picture.logx
    places = np.array([picture.positions(number, 3) for number in range(3)])
    np.testing.assert_allclose(places[1], [0, 1, 2])
    assert (np.diff(places, axis=0) > 0.1).all()
    assert (abs(places - places[1]) < 0.4).all()
    (panel,) = picture.panels
    x, y = picture.place(panel, {"estimator": "debiased", "model": "svc"}) or (0, 0)
    assert picture.nearest(panel, x, y) == {"estimator": "debiased", "model": "svc"}


def test_what_is_not_drawn_is_told() -> None:
    values = np.array([[0.0, -1.0], [1.0, np.nan]])
    shown = xr.Dataset({"value": (("line", "x"), values)}, {"line": ["a", "b"], "x": [1, 2]})
    view = View("error", "x", ("line",))
    picture = picture_of(view, shown, Scales(y="log"))
    assert picture.notes == ["2 of 3 points are 0 or less, and not on a logarithmic axis."]
    many = xr.Dataset({"value": (("line", "x"), np.ones((40, 2)))}, {"line": range(40), "x": [1, 2]})
    picture = picture_of(view, many, Scales())
    assert picture.notes == ["12 of 40 lines are not drawn; choose some labels."]
    assert len(picture.panels[0].lines) == 28
    assert picture.panels[0].lines[3].label == "line 3"
    nothing = picture_of(view, shown * np.nan, Scales())
    assert nothing.notes[0].startswith("There are no numbers here")
    assert nothing.limits() == (0.0, 1.0)


def test_ticks_of_logarithmic_axes() -> None:
    assert ticks(0.004, 0.3) == [0.005, 0.01, 0.02, 0.05, 0.1, 0.2]
    assert ticks(1e-9, 1.0) == [10.0**power for power in range(-9, 1)]


class Document:
    """Runs what is to be done on the event loop when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.added = Event()

    def add_next_tick_callback(self, act: Callable[[], None]) -> None:
        self.waiting.append(act)
        self.added.set()

    def run(self) -> None:
        assert self.added.wait(10)
        self.added.clear()
        while self.waiting:
            self.waiting.pop(0)()


@contextmanager
def working(document: Document | None) -> Iterator[Latest]:
    latest = Latest(document)
    try:
        yield latest
    finally:
        latest.close()


def test_only_the_newest_job_is_shown() -> None:
    document, shown = Document(), []
    begun = Event()

    def slow(watch: Watch) -> str:
        begun.set()
        while not watch.is_stopped():
            pass
        raise Stopped

    with working(document) as latest:
        latest.start(slow, show=shown.append, fail=shown.append)
        assert begun.wait(10)
        latest.start(lambda _: "second", show=shown.append, fail=shown.append)
        document.run()
        assert shown == ["second"]
        # Finished, but no longer wanted when its turn comes.
        latest.start(lambda _: "third", show=shown.append, fail=shown.append)
        assert document.added.wait(10)
        latest.start(lambda _: "fourth", show=shown.append, fail=shown.append, is_quick=True)
        document.run()
    assert shown == ["second", "fourth"]


def test_what_goes_wrong_is_shown() -> None:
    document, shown = Document(), []

    def broken(_: Watch) -> None:
        raise ValueError("too much")

    with working(document) as latest:
        latest.start(broken, show=shown.append, fail=lambda error: shown.append(str(error)))
        document.run()
    with working(None) as latest:
        latest.start(broken, show=shown.append, fail=lambda error: shown.append(str(error)))
    assert shown == ["too much", "too much"]


@pytest.mark.parametrize("document", [Document(), None])
def test_what_cannot_be_shown_is_told(document: Document | None) -> None:
    told: list[str] = []

    def show(found: int) -> None:
        raise ValueError(f"{found} cannot be drawn")

    with working(document) as latest:
        latest.start(lambda _: 42, show=show, fail=lambda error: told.append(str(error)))
        if document is not None:
            document.run()
    assert told == ["42 cannot be drawn"]


def test_a_choice_taken_back_calls_off_what_is_on_its_way(cube: xr.Dataset, store: str) -> None:
    import panel as pn

    from calibdask.explore.cubes.page import _CubePage

    pn.extension("tabulator")
    page, document = _CubePage(cube, "estimates.zarr", store), Document()
    page.page()
    first = page._view
    assert first is not None
    words = page._words.object
    page._work.close()
    with working(document) as page._work, pytest.MonkeyPatch.context() as patched:
        patched.setattr(page._reductions, "is_at_hand", lambda view: False)
        page._controls.hows[0].value = "mean"
        assert page._words.object != words
        assert document.added.wait(10)
        page._controls.hows[0].value = first.steps[0].how
        document.run()
    assert (page._view, page._words.object) == (first, words)
    assert not page._figure.loading


def test_widgets_describe_the_view(cube: xr.Dataset) -> None:
    from calibdask.explore.cubes.controls import Controls

    told: list[View] = []
    controls = Controls(cube, lambda: told.append(controls.view()))
    assert controls.view() == suggested(cube, "estimate")
    # One dimension at a time is along the x axis: the other takes its place.
    controls.roles["estimator"].value = "x axis"
    assert (told[-1].x, told[-1].lines) == ("estimator", ("size",))
    controls.roles["size"].value = "fixed"
    controls.at["size"].value = 300
    controls.only["estimator"].value = ["plain", "wide"]
    controls.hows[0].value = "mean"
    controls.against.value = "nothing: as they are"
    controls.band.value = "middle half"
    assert told[-1] == View(
        "estimate",
        "estimator",
        panels=("model",),
        steps=(Step("mean", ("replicate",), 0.95), Step("median", ("draw",))),
        at=(("size", 300),),
        only=(("estimator", ("plain", "wide")),),
        band=(0.25, 0.75),
    )
    before = len(told)
    controls.variable.value = "truth"
    assert told[-1] == suggested(cube, "truth")
    # All the widgets that change then are one change.
    assert len(told) == before + 1


def test_long_dimensions_are_chosen_by_places() -> None:
    from calibdask.explore.cubes.controls import Controls

    data = xr.Dataset({"error": (("size", "replicate"), np.arange(900.0).reshape(3, 300))}, {"size": [1, 10, 100]})
    controls = Controls(data, lambda: None)
    assert controls.view().only == ()
    controls.only["replicate"].value = (298, 299)
    view = controls.view()
    assert view.only == (("replicate", (298, 299)),)
    assert Reductions(data).shown(view).value.values.tolist() == [298.5, 598.5, 898.5]


def test_a_page_without_a_server(cube: xr.Dataset, store: str) -> None:
    import panel as pn

    from calibdask.explore.cubes.page import cube_page

    pn.extension("tabulator")
    page = cube_page(cube, "estimates.zarr", store)
    assert page.title == "estimates.zarr"
    words = " ".join(str(pane.object) for pane in pn.Column(*page.main).select(pn.pane.HTML))
    assert "8 of 9 cells done, 1 failed" in words
    assert "95th percentile over replicate, then median over draw" in words

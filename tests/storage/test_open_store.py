"""What a path holds: rows, a summary, the cube of a study or a result, told once; and each path is opened once."""

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import calibdask as cd
from calibdask import report
from calibdask.analyses.calibrator_comparison import CompareCalibrators
from calibdask.cli import main
from calibdask.engine.sources.memory import MemorySource
from calibdask.explore.application import page_of
from calibdask.storage.array_files import ArrayFile
from calibdask.storage.column_files import ColumnFiles
from calibdask.storage.location import Location
from calibdask.storage.npz_files import NPZ
from calibdask.storage.open_store import StoredCube, StoredResult, open_store, read_rows
from calibdask.storage.readers import StoredRows
from calibdask.storage.summary import Summary, is_summary
from calibdask.storage.writers import write_dataset
from calibdask.study.cube import Cube
from calibdask.study.example import Means
from calibdask.study.reading import errors_of
from tests.explore.explored_study import Estimates
from tests.storage.test_readers import FORMATS
from tests.storage.written_rows import write_all, write_zarr

pytestmark = pytest.mark.usefixtures("without_recalibration")

RNG = np.random.default_rng(3)
ROWS = 300
SCORES = RNG.random(ROWS)
LABELS = (RNG.random(ROWS) < SCORES).astype(int)
COUNTRY = np.array(["de", "fr"])[RNG.integers(0, 2, ROWS)]
DAY = RNG.integers(1, 3, ROWS)


def summary() -> xr.Dataset:
    return cd.summarize(LABELS, SCORES, by={"country": COUNTRY, "day": DAY})


def result() -> xr.Dataset:
    return cd.evaluate(LABELS, SCORES, {"ece": cd.ECE(), "brier": cd.BrierScore()}, ci=0.9, n_boot=10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_all(tmp_path_factory.mktemp("stores"))
    write_zarr(path / "data.zarr", {"labels": LABELS, "scores": SCORES})
    columns = zip(LABELS, SCORES, COUNTRY, DAY, strict=True)
    lines = ["label,score,country,day", *(",".join(map(str, line)) for line in columns)]
    (path / "data.csv").write_text("\n".join(lines))
    for suffix in ("zarr", "nc"):
        write_dataset(summary(), path / f"summary.{suffix}")
        write_dataset(result(), path / f"result.{suffix}")
    cd.run(Means(rows=(4, 5), replicates=3), str(path / "cube.zarr"))
    xr.Dataset({"error": (("size", "model"), [[0.1, 0.2]])}).to_netcdf(path / "numbers.nc", engine="h5netcdf")
    xr.Dataset({"error": ("size", [0.1])}).to_zarr(path / "numbers.zarr", zarr_format=3, consolidated=False)
    return path


class TestKinds:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            *((name, StoredRows) for name in FORMATS),
            ("data.zarr", StoredRows),
            ("numbers.nc", StoredRows),
            ("numbers.zarr", StoredRows),
            ("summary.zarr", Summary),
            ("summary.nc", Summary),
            ("cube.zarr", StoredCube),
            ("result.zarr", StoredResult),
            ("result.nc", StoredResult),
        ],
    )
    def test_each_kind(self, folder: Path, name: str, kind: type) -> None:
        store = open_store(str(folder / name))
        assert type(store) is kind
        assert store.url == str(folder / name)

    def test_what_they_hold(self, folder: Path) -> None:
        rows, cube = open_store(str(folder / "data.zarr")), open_store(str(folder / "cube.zarr"))
        assert isinstance(rows, StoredRows)
        assert isinstance(cube, StoredCube)
        np.testing.assert_array_equal(rows.read().scores, SCORES)
        assert (cube.fingerprint["study"], cube.dataset.attrs["study"]) == ("Means", "Means")
        for suffix in ("zarr", "nc"):
            stored = open_store(str(folder / f"result.{suffix}"))
            assert isinstance(stored, StoredResult)
            xr.testing.assert_identical(stored.dataset.load(), result())

    def test_names_that_say_nothing(self, folder: Path, tmp_path: Path) -> None:
        write_dataset(summary(), tmp_path / "summary.zarr")
        (tmp_path / "summary.zarr").rename(tmp_path / "summary")
        assert isinstance(open_store(str(tmp_path / "summary")), Summary)
        write_dataset(summary(), tmp_path / "summary.nc")
        (tmp_path / "summary.nc").rename(tmp_path / "summary.nc4")
        assert isinstance(open_store(str(tmp_path / "summary.nc4")), Summary)
        assert isinstance(open_store(f"file://{folder}/cube.zarr"), StoredCube)

    def test_results_of_any_version(self, tmp_path: Path) -> None:
        """Those of 0.1 have no attribute ``format``."""
        old = result().assign_attrs(calibdask_version="0.1.0")
        old.attrs.pop("format", None)
        write_dataset(old, tmp_path / "old.nc")
        assert isinstance(open_store(str(tmp_path / "old.nc")), StoredResult)

    def test_results_of_the_command(self, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for command, suffix in ((["evaluate"], "nc"), (["evaluate", "--panel", "tests"], "zarr")):
            out = tmp_path / f"{command[-1]}.{suffix}"
            assert main([*command, str(folder / "data.csv"), "--out", str(out)]) == 0
            assert isinstance(open_store(str(out)), StoredResult)
        capsys.readouterr()

    def test_errors_of_cells(self, tmp_path: Path) -> None:
        store = str(tmp_path / "cube.zarr")
        cd.run(Means(rows=(4, 5), replicates=3), store)
        assert errors_of(cd.open_cube(store)) == {}
        broken = str(tmp_path / "broken.zarr")
        assert cd.run(Estimates(broken="linear"), broken).failed == 1
        found = errors_of(cd.open_cube(broken))
        assert found == Cube(broken).errors()
        assert len(found) == 1


def nothing(_: Path) -> None:
    """No file at all."""


def text(path: Path) -> None:
    path.write_text("text")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def bare_array(path: Path) -> None:
    zarr.save_array(path, SCORES)


def torn(path: Path) -> None:
    path.mkdir()
    (path / "zarr.json").write_text("{")


def half_cube(path: Path) -> None:
    zarr.open_group(path, mode="w", attributes={"calibdask_study": ""}).create_array("status", data=LABELS)


def later_summary(path: Path) -> None:
    write_dataset(summary().assign_coords(calibdask_summary=3), path)


def lost_rows(path: Path) -> None:
    write_dataset(summary().drop_vars("rows"), path)


BROKEN: list[tuple[str, Callable[[Path], object], str]] = [
    ("x.zarr", nothing, "x.zarr does not exist"),
    ("x.nc", nothing, "x.nc does not exist"),
    ("x", nothing, "x does not exist"),
    ("x.zarr", text, "x.zarr cannot be read as a Zarr group"),
    ("x.zarr", empty, "x.zarr cannot be read as a Zarr group"),
    ("x.zarr", torn, "x.zarr cannot be read as a Zarr group"),
    ("x.zarr", Path.mkdir, "x.zarr cannot be read as a Zarr group"),
    ("x.zarr", bare_array, "x.zarr is a Zarr array; give the group"),
    ("x.nc", text, "x.nc cannot be read as netCDF"),
    ("x.nc", empty, "x.nc cannot be read as netCDF"),
    ("x.txt", text, r"x.txt expects a name that ends in one of \.npz, \.zarr, \.nc, \.parquet, \.csv"),
    ("x", Path.mkdir, "x is a folder of unknown format"),
    ("x.zarr", half_cube, r"x.zarr is an incomplete cube, whose creation was interrupted; run .* \(--overwrite\)"),
    ("x.zarr", later_summary, "reads summaries of formats up to 2, this one has 3; use the version that wrote it"),
    ("x.nc", later_summary, "reads summaries of formats up to 2, this one has 3; use the version that wrote it"),
    ("x.nc", lost_rows, "This summary has lost rows"),
]


@pytest.mark.parametrize(("name", "make", "message"), BROKEN)
def test_what_cannot_be_opened_is_one_sentence(
    name: str, make: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    make(tmp_path / name)
    with pytest.raises(ValueError, match=message) as caught:
        open_store(str(tmp_path / name))
    assert "\n" not in str(caught.value)


class TestUses:
    """What commands say of a store that they have no use for."""

    @pytest.mark.parametrize(
        ("command", "name", "message"),
        [
            ("evaluate", "cube.zarr", "is the cube of a study, which holds no scored rows; look at it by"),
            ("evaluate", "result.nc", "is a result of calibdask, which holds no scored rows; look at it by"),
            ("evaluate", "numbers.nc", "has no variable 'labels'; it has error"),
            ("evaluate", "numbers.zarr", "has no array 'labels'; it has error"),
            ("report", "result.zarr", "is a result of calibdask, which holds no scored rows"),
            ("summarize", "summary.zarr", "is already a stored summary; summarize expects scored rows."),
            ("summarize", "cube.zarr", "is the cube of a study, which holds no scored rows"),
            ("evaluate --panel tests", "summary.nc", "is a stored summary; --panel tests expects scored rows."),
            ("evaluate --panel tests", "result.nc", "is a result of calibdask, which holds no scored rows"),
            ("explore", "data.zarr", "scored rows are summarized first: calibdask summarize"),
            ("explore", "rows.nc", "scored rows are summarized first: calibdask summarize"),
            ("explore", "rows.parquet", "scored rows are summarized first: calibdask summarize"),
        ],
    )
    def test_commands(
        self, command: str, name: str, message: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = {"report": ["--out", str(tmp_path / "x.html")], "summarize": ["--out", str(tmp_path / "x.zarr")]}
        assert main([*command.split(), str(folder / name), *out.get(command, [])]) == 2
        captured = capsys.readouterr()
        assert message in captured.err
        assert (captured.out, captured.err.count("\n")) == ("", 1)
        assert list(tmp_path.iterdir()) == []

    def test_reading(self, folder: Path) -> None:
        for name in ("summary.nc", "cube.zarr", "result.nc"):
            with pytest.raises(ValueError, match="which holds no scored rows; "):
                read_rows(str(folder / name))
        with pytest.raises(
            ValueError, match=r"is not a study cube, which calibdask run creates; it is a stored summary"
        ):
            cd.open_cube(str(folder / "summary.zarr"))

    @pytest.mark.parametrize(
        ("name", "page"),
        [
            ("cube.zarr", "_stored_cube_page"),
            ("summary.zarr", "summary_page"),
            ("numbers.nc", "cube_page"),
            ("numbers.zarr", "cube_page"),
        ],
    )
    def test_pages(self, folder: Path, name: str, page: str) -> None:
        assert page_of(str(folder / name)).func.__name__ == page  # type: ignore[attr-defined]

    @pytest.mark.parametrize("name", ["result.zarr", "result.nc"])
    def test_results_without_axes(self, folder: Path, name: str) -> None:
        with pytest.raises(ValueError, match="is a result without slices or other axes to explore"):
            page_of(str(folder / name))


class TestSummary:
    def test_labels(self, folder: Path) -> None:
        for given in (summary(), xr.open_zarr(folder / "summary.zarr", consolidated=False)):
            described = Summary.of(given)
            assert (described.slices, described.batch, described.rows) == (("country", "day"), (), ROWS)
            assert {name: labels.tolist() for name, labels in described.labels.items()} == {
                "country": ["de", "fr"],
                "day": [1, 2],
            }
            assert described.classes.tolist() == [0, 1]
            assert described.step == 1 / 3600
        assert Summary.of(described) is described
        assert is_summary(described)
        assert is_summary(given)
        assert not is_summary(result())

    def test_pooling(self) -> None:
        described = Summary.of(summary())
        pooled = described.pooled(["day"])
        xr.testing.assert_identical(pooled.dataset, summary().sum("country", keep_attrs=True))
        assert (pooled.slices, pooled.rows) == (("day",), ROWS)
        assert [described.pooled(by).slices for by in ((), ("day", "country"))] == [(), ("day", "country")]
        with pytest.raises(ValueError, match="by expects slices of the summary, country, day, got month"):
            described.pooled(["month"])

    def test_models_are_never_added_up(self) -> None:
        both = xr.DataArray(np.stack([SCORES, SCORES**2]), dims=("model", "sample"))
        described = Summary.of(cd.summarize(LABELS, both, by={"day": DAY}))
        assert (described.slices, described.batch, described.rows) == (("day",), ("model",), ROWS)
        pooled = described.pooled()
        assert (pooled.slices, pooled.batch, pooled.rows) == ((), ("model",), ROWS)

    def test_evaluation(self, folder: Path) -> None:
        stored = open_store(str(folder / "summary.nc"))
        assert isinstance(stored, Summary)
        expected = cd.evaluate(summary(), metrics=cd.ECE())
        xr.testing.assert_identical(cd.evaluate(stored, metrics=cd.ECE()), expected)
        # Class-wise histograms answer for a single class.
        names = stored.variables(stored.source.layout.setting(None))
        assert names == [name for name in stored.dataset.data_vars if str(name).startswith("classwise")]


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each path is opened, by whatever opens files and stores."""
    count: Counter[str] = Counter()

    def count_calls(module: Any, name: str) -> None:
        function = getattr(module, name)

        def counted(path: Any, *arguments: Any, **options: Any) -> Any:
            # What a path has been opened as, such as a store, is no path.
            opened = path.files.location if isinstance(path, ColumnFiles) else path
            opened = path.location if isinstance(path, ArrayFile) and path.reader is NPZ else opened
            if isinstance(opened, str | Path | Location):
                count[Path(str(opened)).name] += 1
            return function(path, *arguments, **options)

        monkeypatch.setattr(module, name, counted)

    for module, name in (
        (zarr, "open"),
        (xr, "open_dataset"),
        (xr, "open_zarr"),
        (ArrayFile, "read"),
        (ColumnFiles, "read"),
    ):
        count_calls(module, name)
    return count


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many requests each pass over the data answered."""
    made: list[int] = []
    answer = MemorySource.answer

    def counted(self: MemorySource, statistics: tuple[Any, ...]) -> Any:
        made.append(len(statistics))
        return answer(self, statistics)

    monkeypatch.setattr(MemorySource, "answer", counted)
    return made


class TestOnce:
    @pytest.mark.parametrize(
        ("arguments", "name"),
        [
            (["report", "data.zarr", "--n-boot", "10", "--out", "OUT.html"], "data.zarr"),
            (["report", "summary.zarr", "--slice-limit", "0.1", "--n-boot", "10", "--out", "OUT.html"], "summary.zarr"),
            (["report", "cube.zarr", "--out", "OUT.html"], "cube.zarr"),
            (["evaluate", "summary.nc", "--report", "OUT.html"], "summary.nc"),
            (["evaluate", "data.csv", "--by", "day", "--report", "OUT.html"], "data.csv"),
            (["summarize", "data.zarr", "--out", "OUT.zarr"], "data.zarr"),
            (["evaluate", "data.zarr", "--panel", "tests", "--setting", "confidence"], "data.zarr"),
        ],
        ids=" ".join,
    )
    def test_a_path_is_opened_once(
        self,
        arguments: list[str],
        name: str,
        folder: Path,
        tmp_path: Path,
        openings: Counter[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(folder)
        assert main([word.replace("OUT", str(tmp_path / "out")) for word in arguments]) == 0
        assert openings[name] == 1

    @pytest.mark.parametrize(("by", "alone"), [(["--by", "day"], 2), (["--by", "day", "--by", "country"], 4)], ids=str)
    def test_a_report_adds_the_passes_of_recalibration_alone(
        self, by: list[str], alone: int, folder: Path, tmp_path: Path, passes: list[int], monkeypatch: Any
    ) -> None:
        """All rows, each column of slices by itself; all columns together only where there are several."""
        monkeypatch.setattr("calibdask.report.measuring.CompareCalibrators", CompareCalibrators)
        data = [str(folder / "data.csv"), *by]
        assert main(["evaluate", *data, "--report", str(tmp_path / "out.html"), "--metric", "ece,density-ece"]) == 0
        assert len(passes) == alone + 2


EVERY = ["--metric", "ece,ece-d,smooth-ece,corp,ecce,brier-decomposition,mean-gap,skce,skce-test,log-loss,mce"]


@pytest.mark.parametrize(
    ("metrics", "by", "ci", "name"),
    [
        (EVERY, ["--by", "day"], ["--ci", "0.9", "--n-boot", "20", "--seed", "4"], "data.csv"),
        ([], ["--by", "day", "--by", "country"], [], "data.csv"),
        (["--metric", "ece", "--norm", "l2"], [], ["--ci", "0.9", "--n-boot", "20"], "summary.zarr"),
        ([], ["--by", "day"], [], "summary.zarr"),
    ],
    ids=lambda value: "_".join(value).replace(",", "_")[:20] if isinstance(value, list) else value,
)
def test_a_report_changes_no_number_of_the_table(
    name: str,
    ci: list[str],
    by: list[str],
    metrics: list[str],
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Those of the report itself, where the command names none: 200 would change the table no more than these.
    monkeypatch.setattr(report, "measure", partial(report.measure, n_boot=20))
    command = ["evaluate", str(folder / name), *metrics, *ci, *by, "--json"]
    assert main(command) == 0
    alone = json.loads(capsys.readouterr().out)
    out, stored = str(tmp_path / "out.html"), str(tmp_path / "out.nc")
    assert main([*command, "--report", out, "--out", stored]) == 0
    assert json.loads(capsys.readouterr().out) == alone
    assert Path(out).read_text().startswith("<!DOCTYPE html>")
    with xr.open_dataset(stored) as written:
        assert not any(str(variable).startswith("report_") for variable in written.variables)

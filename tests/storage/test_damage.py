"""Stores that are damaged, cut short or lost in part are refused, or give the same numbers: never others."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import xarray as xr
import zarr

import calibdask as cd
from calibdask.calibrators import applying
from calibdask.errors import Damaged
from calibdask.storage import applied_manifest
from calibdask.storage.open_store import open_store
from calibdask.storage.readers import StoredRows
from calibdask.storage.summary_totals import TOTALS
from calibdask.study.example import Means
from calibdask.study.reading import counts
from calibdask.study.running import lay_out
from tests.storage import damage
from tests.storage.damage_catalogue import DAMAGE, first, with_status
from tests.storage.earlier_versions import downgraded_group
from tests.storage.integrity import ROWS, write_applied
from tests.storage.made_up import CASES as MADE_UP

Stores = dict[str, tuple[Path, Any]]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    """Whole stores, and what is read from them."""
    folder = tmp_path_factory.mktemp("whole")
    for name, write in damage.STORES.items():
        write(folder / name)
    return {name: (folder / name, damage.read(folder / name)) for name in damage.STORES}


def copied(path: Path, to: Path) -> Path:
    (shutil.copytree if path.is_dir() else shutil.copy)(path, to / path.name)
    return to / path.name


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_told(case: str, stores: Stores, tmp_path: Path) -> None:
    name, harm, message = DAMAGE[case]
    broken = copied(stores[name][0], tmp_path)
    harm(broken)
    with pytest.raises(ValueError, match=message) as caught:
        damage.read(broken)
    assert str(broken) in str(caught.value)


@pytest.mark.parametrize("case", MADE_UP)
def test_values_that_no_pass_writes(case: str, tmp_path: Path) -> None:
    make, message = MADE_UP[case]
    metrics, dataset = {"ece": cd.ECE(), "brier": cd.BrierScore()}, make()
    with pytest.raises(ValueError, match=message):
        cd.evaluate(dataset, metrics=metrics)
    if case in ("counts are NaN", "weights are text", "cells are in another order"):
        dataset.to_netcdf(tmp_path / "made.nc", engine="h5netcdf")
        with pytest.raises(ValueError, match=message):
            cd.evaluate(open_store(str(tmp_path / "made.nc")).dataset, metrics=metrics)  # type: ignore[union-attr]


def test_status_that_no_study_writes(stores: Stores, tmp_path: Path) -> None:
    cube = copied(stores["cube.zarr"][0], tmp_path)
    with_status(7)(cube)
    message = "status of a cube expects 0, 1 or 2, got 7, which calibdask never writes: it is damaged, or made by hand"
    for look in (lambda: counts(cd.open_cube(str(cube))), lambda: cd.run(Means(replicates=3, rows=(10, 20, 40)), cube)):
        with pytest.raises(ValueError, match=message):
            look()


def test_chunks_that_were_not_written_may_stand_for_the_fill_value(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "rows.zarr", mode="w")
    labels = (np.arange(damage.ROWS) > 200).astype(np.int8)
    for name, values in (("labels", labels), ("scores", damage.SCORES)):
        group.create_array(name, data=values, chunks=(40,))
    rows = str(tmp_path / "rows.zarr")
    assert not (tmp_path / "rows.zarr" / "labels" / "c" / "0").exists()
    with pytest.raises(Damaged, match=r"the chunk labels/c/\d is missing"):
        cd.read_rows(rows).labels.compute()
    assert cd.read_rows(rows, missing_chunks="fill").labels.compute().tolist() == labels.tolist()
    with pytest.raises(ValueError, match="missing_chunks expects 'error' or 'fill', got 'nothing'"):
        cd.read_rows(rows, missing_chunks="nothing")  # type: ignore[arg-type]


def test_cells_to_do_have_no_chunks(tmp_path: Path) -> None:
    study, store = Means(replicates=3, rows=(10, 20, 40)), tmp_path / "cube.zarr"
    lay_out(study, store)
    cd.run(study, store, shard=(0, 2))
    cube = cd.open_cube(str(store)).load()
    assert cube.status.values.tolist() == [1, 0, 1]
    assert np.isnan(cube.average.values).all(axis=1).tolist() == [False, True, False]
    first(store, "average/c/2/0").unlink()
    with pytest.raises(Damaged, match="average/c/2/0 is missing"):
        cd.open_cube(str(store)).load()
    # Of a cube that is laid out anew nothing is read as if it were still the old one.
    opened = cd.open_cube(str(store))
    cd.run(study, store, overwrite=True)
    with pytest.raises(Damaged, match="is missing"):
        opened.load()


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
def test_what_is_not_calibdasks_own_is_read_as_before(tmp_path: Path) -> None:
    for whole in (damage.summary().compute(), damage.summary(sample_weight=damage.WEIGHTS).compute()):
        expected = cd.evaluate(whole, metrics=cd.ECE())
        old = whole.assign_coords(calibdask_summary=1, vector=True).drop_vars(TOTALS).drop_encoding()
        whole.to_netcdf(tmp_path / "whole.nc", engine="h5netcdf")
        old.to_zarr(tmp_path / "old.zarr", zarr_format=3, consolidated=False, mode="w")
        for path in (tmp_path / "whole.nc", tmp_path / "old.zarr"):
            xr.testing.assert_identical(cd.evaluate(open_store(str(path)).dataset, metrics=cd.ECE()), expected)


@pytest.mark.parametrize("name", ["summary.zarr", "result.zarr"])
def test_stores_without_manifests_are_read_as_before(name: str, stores: Stores, tmp_path: Path) -> None:
    path, truth = stores[name]
    old = copied(path, tmp_path)
    downgraded_group(old)
    assert damage.same(damage.read(old), truth)
    chunk = first(old, "day/c/0")
    chunk.write_bytes(b"x" + chunk.read_bytes()[1:])
    with pytest.raises(Damaged, match="is not what was written"):
        damage.read(old)


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
@pytest.mark.parametrize("weights", [None, damage.WEIGHTS], ids=["plain", "weighted"])
def test_chunks_that_are_lost_are_seen_by_xarray_too(weights: Any, tmp_path: Path) -> None:
    """Who opens a summary without calibdask, and evaluates it, sees no other numbers."""
    path = tmp_path / "s.zarr"
    damage.summary(sample_weight=weights).to_zarr(path, zarr_format=3, consolidated=False)
    expected = cd.evaluate(damage.summary(sample_weight=weights).compute(), metrics=cd.ECE())
    chunks = [file for file in damage.files(path) if file.name != "zarr.json" and "class_1_" in str(file)]
    # One of each variable.
    for chunk in {file.relative_to(path).parts[0]: file for file in chunks}.values():
        content = chunk.read_bytes()
        chunk.unlink()
        with pytest.raises(ValueError, match="calibdask never writes"):
            cd.evaluate(xr.open_zarr(path, consolidated=False), metrics=cd.ECE())
        chunk.write_bytes(content)
    xr.testing.assert_identical(cd.evaluate(xr.open_zarr(path, consolidated=False), metrics=cd.ECE()), expected)


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
def test_what_is_selected_from_a_store_is_no_longer_the_store(stores: Stores, tmp_path: Path) -> None:
    """xarray carries attributes along: of the checksums, which are those of the whole, it must not."""
    for name, dim in (("summary.zarr", "day"), ("result.zarr", "day"), ("cube.zarr", "rows")):
        opened: Any = open_store(str(stores[name][0]))
        opened.dataset.isel({dim: [0]}).load().to_zarr(tmp_path / name, consolidated=False, zarr_format=3)
        damage.read(tmp_path / name)


@pytest.fixture
def applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], Path]:
    """Writes the rows of a seed in several parts, by `calibdask apply`."""
    (tmp_path / "days").mkdir()
    monkeypatch.setattr(applying, "TARGET_BYTES", 1000)

    def write(name: str, seed: int) -> Path:
        write_applied(str(tmp_path / name), seed)
        assert len([*(tmp_path / name).glob("*.parquet")]) > 2
        return tmp_path / name

    return write


def rows_of(url: Path | str) -> int:
    store = open_store(str(url))
    assert isinstance(store, StoredRows)
    return len(store.read().labels)


def test_patterns_of_parts_are_held_against_their_manifest(applied: Callable[[str, int], Path]) -> None:
    folder, other = applied("day=1.parquet", 1), applied("other.parquet", 2)
    parts = [path.name for path in sorted(folder.glob("*.parquet"))]
    pattern = folder / "part-*.parquet"
    assert rows_of(pattern) == rows_of(folder) == ROWS
    # A choice of parts is one of the user's.
    assert 0 < rows_of(folder / "part-0000[01].parquet") < ROWS
    second = rows_of(folder / parts[1])
    content = (folder / parts[1]).read_bytes()
    doubled = folder / "part-00099.parquet"
    doubled.write_bytes(content)
    with pytest.raises(Damaged, match=r"holds part-00099\.parquet, which _calibdask\.json does not list.*Remove it\.$"):
        rows_of(pattern)
    doubled.unlink()
    (folder / parts[1]).write_bytes((other / parts[1]).read_bytes())
    for place in (pattern, folder / "part-0000[01].parquet", folder / parts[1]):
        with pytest.raises(Damaged, match=f"{parts[1]} is not what was written there"):
            rows_of(place)
    (folder / parts[1]).unlink()
    for place in (pattern, folder / "part-0000[01].parquet", folder.parent / "day=*" / "*.parquet"):
        with pytest.raises(Damaged, match=f"is incomplete: {parts[1]} is missing"):
            rows_of(place)
    assert rows_of(folder / parts[0]) + rows_of(folder / "part-0000[2-9].parquet") == ROWS - second


def test_outputs_within_a_folder_are_held_against_their_manifests(applied: Callable[[str, int], Path]) -> None:
    days = [applied(f"days/day={day}.parquet", day) for day in (1, 2)]
    whole, places = days[0].parent, (days[0].parent, days[0].parent / "day=*", days[0].parent / "**/part-*.parquet")
    # Other rows beside them have no manifest.
    shutil.copy(whole.parent / "days" / "rows-day=1-1.parquet", whole / "own.parquet")
    for path in whole.glob("rows-*"):
        path.unlink()
    assert [rows_of(place) for place in places] == [3 * ROWS, 2 * ROWS, 2 * ROWS]
    last = sorted(days[1].glob("*.parquet"))[-1]
    content, manifest = last.read_bytes(), (days[1] / "_calibdask.json").read_bytes()
    last.unlink()
    for place in places:
        with pytest.raises(Damaged, match=rf"day=2\.parquet is incomplete: {last.name} is missing"):
            rows_of(place)
    last.write_bytes(content)
    (days[1] / "_calibdask.json").unlink()
    for place in places[:2]:
        with pytest.raises(Damaged, match=r"day=2\.parquet is incomplete: .* _calibdask\.json, which lists them"):
            rows_of(place)
    (days[1] / "_calibdask.json").write_bytes(manifest)
    (days[1] / "more").mkdir()
    shutil.copy(whole / "own.parquet", days[1] / "more" / "rows.parquet")
    for place in places[:2]:
        with pytest.raises(Damaged, match=r"day=2\.parquet holds more/rows\.parquet, which _calibdask\.json does not"):
            rows_of(place)


def test_parts_that_are_replaced_after_they_were_compared_are_refused(
    applied: Callable[[str, int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = applied("one.parquet", 1), applied("other.parquet", 2)
    part = sorted(folder.glob("*.parquet"))[1]
    hashed = applied_manifest.file_hash

    def hashed_and_replaced(file: Any) -> str:
        found = hashed(file)
        if file.path == str(part):
            shutil.copy(other / part.name, part.with_suffix(".new"))
            part.with_suffix(".new").replace(part)
        return found

    monkeypatch.setattr(applied_manifest, "file_hash", hashed_and_replaced)
    with pytest.raises(ValueError, match=rf"^\S*{part.name} was replaced or written to while it was read"):
        rows_of(folder)


def test_empty_objects_that_stand_for_folders_hold_no_rows(applied: Callable[[str, int], Path]) -> None:
    memory = fsspec.filesystem("memory")
    folder = applied("one.parquet", 1)
    for path in folder.iterdir():
        memory.pipe_file(f"/marked/one.parquet/{path.name}", path.read_bytes())
    found = memory.find
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(memory), "find", lambda _, path, **named: [f"{path}/", *found(path, **named)])
        assert rows_of("memory://marked/one.parquet") == ROWS
    memory.rm("/marked", recursive=True)

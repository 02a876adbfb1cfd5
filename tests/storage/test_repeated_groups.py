"""Groups of one structure: what is written chunk by chunk is what xarray writes."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.storage import period_log, repeated_groups
from calibdask.storage.location import Location
from calibdask.storage.open_store import open_store
from calibdask.storage.repeated_groups import write_repeated
from calibdask.storage.summary import Summary
from calibdask.storage.writers import write_dataset
from calibdask.storage.zarr_files import open_group
from tests.storage.damage import same

ROWS = 40
SLICES = {
    "texts of one width": np.array(["a", "b", "c", "d"]),
    "texts of any width": np.array(["a", "ä\0", "", "dd" * 40], object),
    "numbers": np.array([3, -1, 7, 8]),
    "floats": np.array([0.5, np.nan, -0.0, np.inf]),
    "dates": np.array(["2026-01-01", "2026-02-01", "1969-01-01", "2030-12-31"], "M8[ns]"),
    "spans": np.array([1, 2, 3, 4], "m8[s]"),
    "flags": np.array([True, False]),
}


def part(kind: str, seed: int, weighted: bool = False) -> xr.Dataset:
    rng = np.random.default_rng(seed)
    scores = rng.random(ROWS)
    labels = (rng.random(ROWS) < scores).astype(int)
    slices = SLICES[kind][np.arange(ROWS) % len(SLICES[kind])]
    weights = rng.random(ROWS) if weighted else None
    return cd.summarize(
        labels, scores, by={"slice": slices}, settings=["binary"], step=1 / 300, sample_weight=weights
    ).load()


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def plain(name: str, content: bytes) -> object:
    """A file without what belongs to one store."""
    if not name.endswith("zarr.json"):
        return content
    metadata = json.loads(content)
    del metadata["attributes" if name == "zarr.json" else "calibdask_store"]
    return metadata


@pytest.mark.parametrize(("kind", "weighted"), [*((kind, False) for kind in SLICES), ("numbers", True)])
def test_files_are_those_that_xarray_writes(
    kind: str, weighted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated_groups, "_known", type(repeated_groups._known)())
    first, second = part(kind, 1, weighted), part(kind, 2, weighted)
    # Three slices in a chunk, of which the last one has fewer.
    sizes = {name: (min(3, len(first["slice"])), *second[name].shape[1:]) for name in ("class_1_count", "rows")}
    write_repeated(first, tmp_path / "first", sizes)
    written = []
    monkeypatch.setattr(repeated_groups, "write_dataset", lambda *given: written.append(given))
    write_repeated(second, tmp_path / "repeated.zarr", sizes)
    assert not written
    write_dataset(second, tmp_path / "whole.zarr", sizes)
    found, expected = files(tmp_path / "repeated.zarr"), files(tmp_path / "whole.zarr")
    assert [*sorted(found)] == [*sorted(expected)]
    for name, content in expected.items():
        assert plain(name, found[name]) == plain(name, content), name
    whole, repeated = (open_store(str(tmp_path / name)) for name in ("whole.zarr", "repeated.zarr"))
    assert isinstance(whole, Summary)
    assert isinstance(repeated, Summary)
    assert same(repeated.dataset.load().to_dict(), whole.dataset.load().to_dict())
    group = open_group(Location.parse(str(tmp_path / "repeated.zarr")))
    assert group.attrs["_nc_calibdask_checksums"]["store"] in found["rows/zarr.json"].decode()


def test_other_structures_are_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_groups, "_known", type(repeated_groups._known)())
    given = part("numbers", 1)
    changes = [
        given,
        given.assign_attrs(note="other"),
        given.isel(slice=[0, 1]),
        given.assign(rows=given["rows"].assign_attrs(note="other")),
        part("numbers", 1, weighted=True),
        part("floats", 1),
        part("texts of any width", 1),
    ]
    for number, one in enumerate(changes):
        write_repeated(one, tmp_path / str(number), {})
        assert len(repeated_groups._known) == number + 1
    monkeypatch.setattr(repeated_groups, "_MOST", 3)
    write_repeated(given.assign_attrs(note="third"), tmp_path / "more", {})
    assert len(repeated_groups._known) == 3


def test_an_append_reads_each_record_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, read = tmp_path / "s.zarr", []
    for day in range(4):
        cd.append(part("numbers", day), store, {"day": f"2026-11-0{day + 1}"})
    contents = period_log.contents
    monkeypatch.setattr(period_log, "contents", lambda folder, names: read.extend(names) or contents(folder, names))
    cd.append(part("numbers", 5), store, {"day": "2026-11-05"})
    assert sorted(read) == [f"{number:08d}.jsonl" for number in range(5)]
    assert cd.open_summary(store)["day"].values.tolist() == [f"2026-11-0{day + 1}" for day in range(5)]

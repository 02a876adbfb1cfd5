"""Sums over all slices of each period, beside its numbers: the same to the last bit, and checked as they are read."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli import main
from calibdask.errors import Damaged
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.storage.open_store import open_store
from calibdask.storage.period_arrays import PeriodArray
from calibdask.storage.summary import Summary
from calibdask.storage.summary_totals import with_totals

DAYS = ("2026-01-01", "2026-01-02", "2026-01-03", "2026-04-20")


def rows(day: int, models: int = 0, **options: Any) -> xr.Dataset:
    rng = np.random.default_rng(day)
    # Not every day has each country.
    country = rng.choice(["at", "de", "fr"][: 1 + day % 3], 60)
    scores = rng.dirichlet(np.ones(3), (models, 60) if models else 60)
    by = {"country": country, "kind": rng.integers(0, 2, 60)}
    return cd.summarize(rng.integers(0, 3, scores.shape[:-1]), scores, by=by, step=0.01, task="multiclass", **options)


def opened(path: Path) -> Summary:
    summary = open_store(str(path))
    assert isinstance(summary, Summary)
    return summary


def stored(path: Path, **options: Any) -> Summary:
    for number, day in enumerate(DAYS):
        cd.append(rows(number, **options), path, {"day": day})
    return opened(path)


@pytest.fixture
def without_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """No numbers of slices can be read."""

    def refused(*_: object) -> None:
        raise AssertionError("Slices were read.")

    monkeypatch.setattr(PeriodArray, "__getitem__", refused)


def test_they_are_the_sums_of_slices(tmp_path: Path) -> None:
    stored(tmp_path / "s.zarr", models=2)
    cd.append(rows(7, 2), tmp_path / "s.zarr", {"day": DAYS[1]}, replace="again")
    cd.expire(tmp_path / "s.zarr", "30d")
    summary = opened(tmp_path / "s.zarr")
    whole = summary.dataset.load()
    assert whole.day.values.tolist() == ["2026-01", "2026-04-20"]
    for by in ((), ("day",)):
        gone = [dim for dim in ("day", "country", "kind") if dim not in by]
        expected = with_totals(whole.sum(gone, keep_attrs=True), summary.batch)
        xr.testing.assert_identical(summary.pooled(by).dataset.load(), expected)


def test_all_rows_are_read_without_slices(
    tmp_path: Path, without_slices: None, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = stored(tmp_path / "s.zarr")
    together = cd.merge(*(rows(number) for number in range(4)))
    expected = cd.evaluate(with_totals(together.sum(["country", "kind"]), ()), metrics=cd.ECE())
    pool = Pool(summary)
    xr.testing.assert_equal(cd.evaluate(pool.pooled(Selection(), "confidence").dataset, metrics=cd.ECE()), expected)
    assert pool.is_read("confidence")
    assert main(["watch", str(tmp_path / "s.zarr"), "--dry-run"]) == 1
    assert "in 4 periods up to 2026-04-20" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="Slices were read"):
        pool.pooled(Selection((("country", (0,)),)), "confidence")


def test_selections_are_those_of_the_same_summary_in_memory(tmp_path: Path) -> None:
    summary = stored(tmp_path / "s.zarr")
    pools = Pool(summary), Pool(summary.dataset.load())
    chosen = (("day", (0, 3)),), (("country", (0,)),), (("day", (1,)), ("country", (0, 1, 2)))
    for selection in map(Selection, chosen):
        of_store, in_memory = (pool.pooled(selection, "classwise").dataset for pool in pools)
        xr.testing.assert_equal(of_store, in_memory)
    for dims in (["day"], ["country"], ["day", "country"]):
        grouped = [pool.grouped(pool.groups(dims, Selection()), "confidence").dataset for pool in pools]
        xr.testing.assert_equal(*grouped)


def test_sums_of_weights_are_not_kept(tmp_path: Path) -> None:
    summary = stored(tmp_path / "s.zarr", sample_weight=np.linspace(0.5, 2, 60))
    assert summary.by_period is None
    assert not [*(tmp_path / "s.zarr" / "periods").glob("*.zip")]
    assert Pool(summary).rows(Selection()) == summary.pooled().rows == 240


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def turned(path: Path) -> None:
    content = bytearray(path.read_bytes())
    # Within the compressed numbers of the first variable.
    content[60] ^= 1
    path.write_bytes(content)


def test_damage_is_told(tmp_path: Path) -> None:
    summary = stored(tmp_path / "s.zarr")
    file = min((tmp_path / "s.zarr" / "periods").glob("*.zip"))
    content = file.read_bytes()
    for harm in (cut, turned, Path.unlink):
        file.write_bytes(content)
        harm(file)
        with pytest.raises(Damaged, match=r"s\.zarr is damaged: periods/.*\.zip is not there, or not what was written"):
            summary.pooled().dataset.load()


def test_a_file_that_is_changed_after_it_was_read_is_damaged(tmp_path: Path) -> None:
    by_period = stored(tmp_path / "s.zarr").by_period
    assert by_period is not None
    plain = by_period.dataset.load().copy(deep=True)
    by_period = opened(tmp_path / "s.zarr").by_period
    assert by_period is not None
    name, further = "classwise_count", by_period.dataset
    # The places of what is in the files are known from here on.
    np.testing.assert_array_equal(further[name].values, plain[name].values)
    (file, *_) = sorted((tmp_path / "s.zarr" / "periods").glob("*.zip"))
    content = file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        start, size = archive.getinfo(name).header_offset, archive.getinfo(name).compress_size
    packed = start + 30 + len(name)

    def numbers(place: int | None = None) -> bytes | None:
        """What is decompressed, perhaps with one bit changed: of repeated numbers it may be the same."""
        there = bytearray(content[packed : packed + size])
        if place is not None:
            there[place] ^= 1
        try:
            return zlib.decompress(there, -zlib.MAX_WBITS)
        except zlib.error:
            return None

    middle = packed + next(place for place in range(size // 2, size) if numbers(place) != numbers())
    for place in (start, start + 27, start + 31, packed, middle, packed + size - 1):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(Damaged, match="not what was written"):
            further[name].values  # noqa: B018
    file.write_bytes(content[: packed + size // 2])
    with pytest.raises(Damaged, match="not what was written"):
        further[name].values  # noqa: B018
    file.write_bytes(content)
    np.testing.assert_array_equal(further[name].values, plain[name].values)


def test_slices_that_a_day_lacks_in_the_middle_are_zero(tmp_path: Path) -> None:
    for day, countries in (("2026-01-01", ["at", "de", "fr"] * 2), ("2026-01-02", ["at", "fr"] * 3)):
        part = cd.summarize([0, 1] * 3, [0.2, 0.9] * 3, by={"country": countries}, settings=["binary"])
        cd.append(part, tmp_path / "s.zarr", {"day": day})
    summary = opened(tmp_path / "s.zarr")
    (name, *_) = (name for name in summary.dataset.data_vars if str(name).endswith("_count"))
    counts = summary.dataset[name]
    assert counts.sum(counts.dims[2:]).values.tolist() == [[2, 2, 2], [3, 0, 3]]
    # Apart from each other, the two that are there lie at either end.
    assert counts[1:, ::2].sum(counts.dims[2:]).values.tolist() == [[3, 3]]

"""Audits at size: the same rows however many, and what the tables say of them."""

from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from experiments.scaling import audits


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "UNIT", 2000)


def test_rows_are_keyed_by_their_number(tmp_path: Path) -> None:
    audits.write_parquet(tmp_path / "few.parquet", 3000)
    audits.write_parquet(tmp_path / "many.parquet", 5000)
    few, many = (parquet.ParquetFile(tmp_path / f"{name}.parquet") for name in ("few", "many"))
    assert (few.num_row_groups, many.num_row_groups) == (2, 3)
    assert few.read().equals(many.read().slice(0, 3000))
    columns = many.read().to_pandas()
    assert [np.unique(columns[f"x{i}"]).tolist() for i in range(audits.FEATURES)] == [[0, 1, 2, 3, 4]] * 20
    # Two of five share the cause in nine of a hundred rows, besides the fifth by chance.
    assert np.mean(columns.x0 == columns.x1) == pytest.approx(0.2 + 0.8 * 0.09, abs=0.03)


def test_a_measurement(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    audits.write_parquet(path, 5000)
    row = audits.measured(audits.Case("Parquet", 5000, 4, 2, 2), str(path))
    assert row["segments"] == 1 + 4 * 5 + 6 * 25
    assert row["passes"] == 3
    assert row["seconds"] > 0 < row["reading_seconds"]
    assert row["ns_a_row"] == pytest.approx(1e9 * row["processor_seconds"] / 5000)


def test_a_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(audits, "fresh", audits.measured)
    page = tmp_path / "page.md"
    monkeypatch.setattr("sys.argv", ["audits", "--rows", "2000", "6000", "--depths", "1", "--out", str(page)])
    audits.main()
    written = page.read_text()
    assert written.count("| Parquet | 6000 | 20 |") == written.count("| memory | 6000 | 20 |") == 1
    assert "### fewer features" not in written
    assert "| 1 | 3 |" in written

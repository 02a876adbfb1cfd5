"""A kill at every change of names while a map is applied: the old output is there or the new one, and it goes on."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

import calibdask as cd
from calibdask.calibrators import applying
from calibdask.calibrators.applying import apply_map
from calibdask.calibrators.stored_map import StoredMap
from calibdask.errors import Unavailable
from calibdask.storage.open_store import open_store
from calibdask.storage.readers import StoredRows
from tests.cli.sample_rows import LABELS, SCORES
from tests.cli.test_apply import contents
from tests.storage.kills import Killed, killed_at


@pytest.mark.parametrize("name", ["out.zarr", "out.parquet"])
def test_each_death(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Two chunks.
    monkeypatch.setattr(applying, "TARGET_BYTES", 250 * 16)
    pd.DataFrame({"score": SCORES[:, 0]}).to_parquet("rows.parquet")
    rows = open_store("rows.parquet")
    assert isinstance(rows, StoredRows)

    def work(smooth_targets: bool) -> None:
        fitted = cd.PlattScaling(smooth_targets=smooth_targets).fit(LABELS == 0, SCORES[:, 0])
        Path("map.json").write_text(json.dumps(fitted.to_dict()))
        apply_map(StoredMap.read("map.json"), rows, name, overwrite=True)

    out = tmp_path / name
    work(False)
    old = contents(out)
    shutil.copytree(out, "old")
    work(True)
    new = contents(out)
    assert new != old
    number = 0
    while True:
        shutil.rmtree(out)
        shutil.copytree("old", out)
        with killed_at(number) as begun, suppress(Killed, Unavailable):
            work(True)
        assert contents(out) in (old, new)
        if len(begun) <= number:
            break
        work(True)
        assert sorted(contents(out)) == sorted(new), f"killed before change {number}, {begun[-1]}"
        assert contents(out) == new, f"killed before change {number}, {begun[-1]}"
        assert {path.name for path in tmp_path.iterdir()} == {name, "old", "map.json", "rows.parquet"}
        number += 1
    assert number > 5

"""``calibdask calibrate --features``: maps by features at the shell, as the library fits them and applies them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr

import calibdask as cd
from calibdask.calibrators import applying
from calibdask.calibrators.stored_map import StoredMap
from tests.cli.sample_rows import Run

NAMES = ["age", "country", "phone"]


def rows(seed: int, n: int = 20_000) -> pd.DataFrame:
    """Rows of which one group is off, with missing values of two kinds."""
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 5, n)
    frame = pd.DataFrame({"id": [f"r{i}" for i in range(n)], "age": rng.integers(18, 90, n).astype(float)})
    frame["country"] = rng.choice(["be", "fr", "se"], n)
    phone = rng.random(n) < 0.3
    off = (frame.age > 75) & phone
    frame["phone"] = pd.array(phone, dtype="boolean")
    # In the first parts alone, so that others have booleans.
    frame.loc[: n // 10, "phone"] = pd.NA
    frame.loc[rng.random(n) < 0.05, "age"] = np.nan
    return frame.assign(score=p, label=(rng.random(n) < np.where(off, 0.4 * p, p)).astype(int))


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mending")
    rows(0).to_parquet(folder / "rows.parquet", row_group_size=1500, index=False)
    rows(1).to_parquet(folder / "fresh.parquet", row_group_size=1500, index=False)
    map_ = cd.MulticalibratedScaling(folds=2).fit(folder / "rows.parquet", features=NAMES)
    (folder / "map.json").write_text(json.dumps(map_.to_dict()))
    return folder


@pytest.fixture
def folder(once: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for path in once.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(applying, "TARGET_BYTES", 100_000)
    return tmp_path


def stored(path: str) -> cd.MulticalibratedScaling:
    return cd.MulticalibratedScaling.from_dict(json.loads(Path(path).read_text()))


def mended(frame: pd.DataFrame) -> np.ndarray:
    return stored("map.json").predict_proba(frame.score, frame[NAMES])[:, 1]


def test_what_is_found_is_mended_and_then_nothing_is_left(run: Run, folder: Path) -> None:
    given = ("--features", "age,country", "--features", "phone")
    status, out, _ = run("audit", "fresh.parquet", *given)
    assert (status, "age > 75, phone = True" in out) == (1, True)
    method = ("--method", "multicalibrated(folds=2)")
    status, out, err = run("calibrate", "rows.parquet", *given, *method, "--out", "own.json")
    assert (status, err) == (0, "")
    own, expected = stored("own.json"), stored("map.json")
    assert own.to_dict() == expected.to_dict()
    assert out.startswith("MulticalibratedScaling\n")
    (line,) = [words.split() for words in out.splitlines() if "phone = True" in words]
    assert (line[0], line[-2:]) == ("1", [f"{own.offset_[0]:+.4f}", f"{own.slope_[0]:+.4f}"])
    low, high = own.improvement_low_, own.improvement_high_
    assert f"Improvement {own.improvement_:.4f} (95 % interval {low:.4f} to {high:.4f}, p < 0.001)" in out
    status, out, err = run("apply", "own.json", "fresh.parquet", "--out", "mended.parquet")
    assert (status, err) == (0, "")
    assert out.startswith("wrote mended.parquet: 20000 rows") or "20,000 rows, by age, phone" in out
    assert run("audit", "mended.parquet", *given)[0] == 0


@pytest.mark.parametrize("name", ["out.parquet", "out.zarr"])
def test_chunks_are_mapped_as_all_rows_are(name: str, run: Run, folder: Path) -> None:
    expected = mended(rows(1))
    assert run("apply", "map.json", "fresh.parquet", "--out", name)[0] == 0
    np.testing.assert_array_equal(np.asarray(cd.read_rows(name).scores), expected)
    if name == "out.zarr":
        assert zarr.open_group(name, mode="r")["scores"].chunks[0] < 5000
    assert (expected != rows(1).score).sum() > 500
    command = ("evaluate", "fresh.parquet", "--map", "map.json", "--metric", "log-loss", "--json")
    value = json.loads(run(*command)[1])["metrics"]["log_loss"]["value"]
    assert value == pytest.approx(cd.log_loss(rows(1).label, expected), abs=1e-12)


def test_a_killed_run_goes_on(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apply_block = StoredMap.apply
    left = [4]

    def stopped(*arguments: object, **options: object) -> object:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return apply_block(*arguments, **options)

    monkeypatch.setattr(StoredMap, "apply", stopped)
    assert run("apply", "map.json", "fresh.parquet", "--out", "o.parquet")[0] == 130
    monkeypatch.setattr(StoredMap, "apply", apply_block)
    status, _, err = run("apply", "map.json", "fresh.parquet", "--out", "o.parquet")
    assert (status, err.startswith("calibdask: went on at row ")) == (0, True)
    np.testing.assert_array_equal(np.asarray(cd.read_rows("o.parquet").scores), mended(rows(1)))


def test_values_that_were_not_there_are_counted(run: Run, folder: Path) -> None:
    whole = rows(0).assign(phone=rows(0).phone.fillna(False).astype(bool))
    whole.to_parquet("whole.parquet", index=False)
    method = "multicalibrated(folds=2)"
    assert run("calibrate", "whole.parquet", "--features", "age,phone", "--method", method, "--out", "m.json")[0] == 0
    status, _, err = run("apply", "m.json", "fresh.parquet", "--out", "o.parquet")
    assert status == 0
    assert err == (
        "calibdask: 2,001 of 20,000 rows have values of age, phone that are unknown to the map; they get no offset by "
        "these columns\n"
    )
    written = np.asarray(cd.read_rows("o.parquet").scores)
    np.testing.assert_array_equal(written[:2001], rows(1).score[:2001])


@pytest.mark.filterwarnings("default:Feature id has")
def test_only_columns_that_change_something_are_needed(run: Run, folder: Path) -> None:
    method = ("--method", "multicalibrated(folds=2)")
    status, _, err = run("calibrate", "rows.parquet", "--features", "all", *method, "--out", "all.json")
    assert (status, err.startswith("calibdask: Feature id has")) == (0, True)
    rows(1).drop(columns=["id", "country"]).to_parquet("few.parquet", index=False)
    assert stored("all.json").feature_columns_ == ("id", *NAMES)
    assert run("apply", "all.json", "few.parquet", "--out", "o.parquet")[0] == 0
    np.testing.assert_array_equal(np.asarray(cd.read_rows("o.parquet").scores), mended(rows(1)))


OUT = ("--out", "o.json")
BAD = [
    (["calibrate", "rows.parquet", "--method", "multicalibrated", *OUT], "multicalibrated expects --features"),
    (["calibrate", "rows.parquet", "--features", "age", "--method", "platt", *OUT], "no effect with --method platt"),
    (["calibrate", "rows.parquet", "--features", "age", "--by", "phone", *OUT], "--by has no effect with --features"),
    (["calibrate", "rows.parquet", "--features", "age", "--compare"], "--features has no effect with --compare"),
    (
        ["calibrate", "rows.parquet", "--features", "age", "--min-rows", "5", *OUT],
        '--method "multicalibrated(min_rows=5)"',
    ),
    (["calibrate", "rows.parquet", "--features", "city", *OUT], "has no column 'city'"),
    (["calibrate", "three.parquet", "--features", "age", *OUT], "two classes, (n,) or (n, 2), got 3 classes"),
    (["calibrate", "s.nc", "--features", "age", *OUT], "expects rows; s.nc is a summary"),
    (["apply", "map.json", "short.parquet", "--out", "o.parquet"], "short.parquet has no column 'phone'"),
    (["evaluate", "short.parquet", "--map", "map.json"], "short.parquet has no column 'phone'"),
    (["apply", "map.json", "texts.parquet", "--out", "o.parquet"], "Feature 'age' expects numbers, as when the map"),
    (["evaluate", "texts.parquet", "--map", "map.json"], "Feature 'age' expects numbers, as when the map"),
]


def test_bad_use(run: Run, folder: Path) -> None:
    frame = rows(1, 300)
    frame.drop(columns="phone").to_parquet("short.parquet", index=False)
    frame.assign(age="old").to_parquet("texts.parquet", index=False)
    frame.drop(columns="score").assign(score_0=0.5, score_1=0.25, score_2=0.25).to_parquet("three.parquet", index=False)
    cd.summarize(frame.label, frame.score).to_netcdf("s.nc", engine="h5netcdf")
    before = sorted(path.name for path in folder.iterdir())
    for arguments, message in BAD:
        status, out, err = run(*arguments)
        assert (status, out, err.count("\n")) == (2, "", 1), err
        assert message in err
        assert sorted(path.name for path in folder.iterdir()) == before

"""``calibdask apply``: any format in, Zarr or Parquet out, equal to the library's own numbers to the last bit."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import zarr
from pyarrow import feather, ipc, parquet

import calibdask as cd
from calibdask.calibrators import applying
from calibdask.cli import main
from calibdask.storage import csv_files
from calibdask.storage.resumable_output import ResumableOutput
from tests.cli.sample_rows import COUNTRY, DAY, LABELS, SCORES, Run

FRAME = pd.DataFrame(
    {"id": np.arange(len(LABELS)), "label": LABELS, "country": COUNTRY, "day": DAY}
    | {f"score_{k}": SCORES[:, k] for k in range(3)}
)
ARRAYS = {"labels": LABELS, "scores": SCORES, "country": COUNTRY, "day": DAY, "id": np.arange(len(LABELS))}


@pytest.fixture(scope="module")
def calibrator() -> Any:
    with pytest.warns(UserWarning, match="1 of 4 slices"):
        return cd.PlattScaling().fit(LABELS, SCORES, by={"country": COUNTRY, "day": DAY}, min_rows=1)


@pytest.fixture
def folder(tmp_path: Path, calibrator: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    # Some chunks of some dozens of rows.
    monkeypatch.setattr(applying, "TARGET_BYTES", 10_000)
    (tmp_path / "map.json").write_text(json.dumps(calibrator.to_dict()))
    return tmp_path


def write_rows(path: Path) -> Path:
    """The rows, in a format that the name tells."""
    table = pa.Table.from_pandas(FRAME)
    match "".join(path.suffixes):
        case ".npz":
            np.savez(path, **ARRAYS)
        case ".zarr":
            group = zarr.create_group(path)
            for name, values in ARRAYS.items():
                given = values.astype(object) if values.dtype.kind == "U" else values
                array = group.create_array(
                    name,
                    shape=given.shape,
                    dtype=str if given.dtype == object else given.dtype,
                    chunks=(70, *given.shape[1:]),
                    config={"write_empty_chunks": True},
                )
                array[:] = given
        case ".nc":
            dims = {name: ("sample", "class")[: values.ndim] for name, values in ARRAYS.items()}
            import xarray as xr

            variables = {name: (dims[name], values) for name, values in ARRAYS.items()}
            xr.Dataset(variables).to_netcdf(path, engine="h5netcdf")
        case ".parquet":
            parquet.write_table(table, path, row_group_size=90)
        case ".csv" | ".csv.gz":
            FRAME.to_csv(path, index=False)
        case ".feather":
            feather.write_feather(FRAME, path, chunksize=110)
        case ".arrow":
            with ipc.new_stream(str(path), table.schema) as stream:
                stream.write_table(table, max_chunksize=60)
        case "":
            for number, rows in enumerate(np.array_split(np.arange(len(FRAME)), 3)):
                (path / f"shard={number}").mkdir(parents=True)
                FRAME.iloc[rows].to_csv(path / f"shard={number}" / "rows.csv", index=False)
    return path


NAMES = ["r.npz", "r.zarr", "r.nc", "r.csv.gz", "r.feather", "r.arrow", "shards"]


@pytest.mark.parametrize("name", NAMES)
def test_any_format_in_and_both_out(name: str, run: Run, folder: Path, calibrator: Any) -> None:
    expected = calibrator.predict_proba(SCORES, by={"country": COUNTRY, "day": DAY})
    write_rows(folder / name)
    for out in ("out.zarr", "out.parquet"):
        status, said, err = run("apply", "map.json", name, "--out", out)
        assert (status, err) == (0, "")
        assert said.startswith(f"wrote {out}: {len(LABELS)} rows, by PlattScaling of map.json, fitted to 400 rows")
        by: Any = {"by": ["country", "day"]}
        table = cd.read_rows(out, **by)
        np.testing.assert_array_equal(np.asarray(table.scores), expected)
        np.testing.assert_array_equal(np.asarray(table.labels), LABELS)
        np.testing.assert_array_equal(np.asarray(table.by["country"]), COUNTRY)
        np.testing.assert_array_equal(np.asarray(table.by["day"]), DAY)
    group = zarr.open_group(folder / "out.zarr", mode="r")
    np.testing.assert_array_equal(group["id"][:], np.arange(len(LABELS)))
    assert group["scores"].chunks[0] < len(LABELS) / 2
    frame = pd.read_parquet(folder / "out.parquet")
    own = [name for name in frame if name != "shard"]
    assert sorted(own) == sorted(FRAME)
    np.testing.assert_array_equal(frame["id"], np.arange(len(LABELS)))
    assert len([*(folder / "out.parquet").glob("*.parquet")]) > 2
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_the_scores_may_stay_beside_and_labels_be_absent(run: Run, folder: Path) -> None:
    scores = SCORES[:, 0].astype(np.float32)
    calibrator = cd.PlattScaling().fit(LABELS == 0, scores)
    (folder / "map.json").write_text(json.dumps(calibrator.to_dict()))
    frame = pd.DataFrame({"id": [f"r{i}" for i in range(400)], "score": scores, "note": [None, *"abc"] * 100})
    frame["when"] = pd.date_range("2026-01-01", periods=400)
    frame["tags"] = [["a"]] * 400
    frame.to_parquet("rows.parquet")
    expected = calibrator.predict_proba(scores)[:, 1]
    assert run("apply", "map.json", "rows.parquet", "--out", "o.parquet", "--score-name", "p_new")[0] == 0
    written = parquet.read_table("o.parquet")
    assert written.select(frame.columns).to_pylist() == parquet.read_table("rows.parquet").to_pylist()
    np.testing.assert_array_equal(written["p_new"], expected)
    assert written.num_columns == frame.shape[1] + 1
    status, _, err = run("apply", "map.json", "rows.parquet", "--out", "o.zarr", "--score-name", "p_new")
    assert (status, err) == (0, "calibdask: left out tags, which it cannot hold; .parquet keeps all\n")
    group = zarr.open_group("o.zarr", mode="r")
    np.testing.assert_array_equal(group["p_new"][:], expected)
    np.testing.assert_array_equal(group["scores"][:], scores)
    assert group["note"][:2].tolist() == ["missing", "a"]
    assert group["when"][3] == np.datetime64("2026-01-04")
    assert "labels" not in group


@pytest.mark.parametrize("out", ["o.parquet", "o.csv", "o.zarr"])
def test_rows_without_a_score_stay_without_one(out: str, run: Run, folder: Path, calibrator: Any) -> None:
    """Of each class, and in slices; and a map is evaluated without them, as by the library."""
    lacking = FRAME.id % 7 == 3
    FRAME.assign(score_1=FRAME.score_1.mask(lacking)).to_parquet("gaps.parquet")
    command = ("apply", "map.json", "gaps.parquet", "--out", out)
    assert run(*command)[0] == 2
    status, _, err = run(*command, "--skip-missing")
    assert (status, err) == (0, f"calibdask: kept {lacking.sum()} of 400 rows without a score as they are\n")
    wrong = FRAME.assign(score_1=FRAME.score_1.mask(lacking).where(FRAME.id != 11, 1.5))
    wrong.to_parquet("wrong.parquet")
    assert "in row 11;" in run("apply", "map.json", "wrong.parquet", "--out", f"w{out}", "--skip-missing")[2]
    known = calibrator.predict_proba(SCORES, by={"country": COUNTRY, "day": DAY})
    expected = np.where(lacking.to_numpy()[:, None], np.nan, known)
    readers = {
        "o.parquet": lambda: pd.read_parquet(out),
        "o.csv": lambda: pd.read_csv(out),
        "o.zarr": lambda: zarr.open_group(out, mode="r")["scores"][:],
    }
    written = readers[out]()
    values = written if out == "o.zarr" else written[[f"score_{k}" for k in range(3)]].to_numpy()
    np.testing.assert_array_equal(values, expected)
    options = ("--map", "map.json", "--skip-missing", "--metric", "ece", "--json")
    status, shown, err = run("evaluate", "gaps.parquet", *options)
    assert status == 0, err
    kept = ~lacking.to_numpy()
    assert json.loads(shown)["metrics"]["ece"]["value"] == cd.ece(LABELS[kept], known[kept])


def test_slices_that_the_map_does_not_know(run: Run, folder: Path, calibrator: Any) -> None:
    # Longer than any that is known, and beginning like one.
    country = np.where(np.arange(400) % 4 == 0, "de-by", COUNTRY)
    day = np.where(np.arange(400) % 5 == 0, 1.5, DAY)
    FRAME.assign(country=country, day=day).to_parquet("new.parquet")
    unknown = (country == "de-by") | (day == 1.5)
    status, _, err = run("apply", "map.json", "new.parquet", "--out", "o.zarr")
    assert status == 0
    assert err == (
        f"calibdask: {unknown.sum()} of 400 rows have values of country, day that are unknown to the map; they get the "
        "map of all rows\n"
    )
    known = calibrator.predict_proba(SCORES, by={"country": COUNTRY, "day": DAY})
    expected = np.where(unknown[:, None], calibrator.predict_proba(SCORES), known)
    np.testing.assert_array_equal(zarr.open_group("o.zarr", mode="r")["scores"][:], expected)


def test_csv_keeps_every_text_that_it_does_not_use(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "_CSV_BLOCK_BYTES", 300)
    scores = SCORES[:, 0].round(4)
    calibrator = cd.PlattScaling().fit(LABELS == 0, scores)
    (folder / "map.json").write_text(json.dumps(calibrator.to_dict()))
    notes = ["1.10", "", "NA", '"a, b"', '"said ""no"""', "1e5", "007", "12345678901234567890"]
    rows = [
        f"{int(y == 0)},{s:.4f},{notes[i % 8]},{i:05d}" for i, (y, s) in enumerate(zip(LABELS, scores, strict=True))
    ]
    (folder / "r.csv").write_text("label,score,note,id\n" + "\n".join(rows) + "\n")
    assert run("apply", "map.json", "r.csv", "--out", "o.csv")[0] == 0
    assert run("apply", "map.json", "r.csv", "--out", "both.csv", "--score-name", "p")[0] == 0
    expected = calibrator.predict_proba(scores)[:, 1]
    for name, column in (("o.csv", 1), ("both.csv", 4)):
        written = (folder / name).read_text().splitlines()
        given = (folder / "r.csv").read_text().splitlines()
        assert len(written) == len(given)
        values = []
        for before, after in zip(given[1:], written[1:], strict=True):
            fields = next(csv.reader([after]))
            values.append(float(fields.pop(column)))
            ours = next(csv.reader([before]))
            assert fields == ([ours[0], *ours[2:]] if column == 1 else ours)
        np.testing.assert_array_equal(values, expected)
    assert run("apply", "map.json", "r.csv", "--out", "o.parquet")[0] == 0
    frame = parquet.read_table("o.parquet")
    assert frame["id"].to_pylist() == [f"{i:05d}" for i in range(len(LABELS))]
    assert frame["note"][0].as_py() == "1.10"


@pytest.mark.parametrize("out", ["o.csv"])
def test_columns_that_only_a_later_file_has(out: str, run: Run, folder: Path, calibrator: Any) -> None:
    Path("days").mkdir()
    FRAME[:200].drop(columns="id").to_parquet("days/1.parquet", row_group_size=90)
    FRAME[200:].to_parquet("days/2.parquet", row_group_size=90)
    assert run("apply", "map.json", "days", "--out", out)[0] == 0
    written = pd.read_csv(out) if out.endswith(".csv") else pd.read_parquet(out)
    assert written["id"].isna().sum() == 200
    assert written["id"][200:].tolist() == list(range(200, 400))


BAD = [
    (["map.json", "r.parquet", "--out", "o.txt"], "ends in one of .zarr, .parquet, .csv"),
    (["map.json", "r.parquet", "--out", "r.parquet", "--overwrite"], "would replace the input"),
    (["map.json", "r.parquet", "--out", "there.zarr"], "'there.zarr' already exists; choose another name"),
    (["map.json", "r.parquet", "--out", "file.parquet", "--overwrite"], "has another type"),
    (["map.json", "s.nc", "--out", "o.zarr"], "a summary holds none"),
    (["map.json", "r.parquet", "--out", "o.zarr", "--score", "p"], "has neither a column 'p' nor columns p_0"),
    (["map.json", "r.parquet", "--out", "o.zarr", "--score", "score_0"], "expects scores of 3 classes"),
    (
        ["map.json", "r.parquet", "--out", "o.zarr", "--score", "country"],
        "calibdask: r.parquet: column 'country' expects numbers",
    ),
    (["map.json", "bad.parquet", "--out", "o.zarr"], "bad.parquet, rows 288 to 383: y_prob expects finite scores"),
    (["map.json", "short.parquet", "--out", "o.zarr"], "has no column 'day'"),
    (["map.json", "empty.parquet", "--out", "o.zarr"], "holds no rows"),
    (["map.json", "torn.parquet", "--out", "o.zarr"], "torn.parquet cannot be read as Parquet"),
    (["r.npz", "r.parquet", "--out", "o.zarr"], "r.npz is not a map: it is not JSON"),
    (["later.json", "r.parquet", "--out", "o.zarr"], "it expects format 1 or 2, got 3"),
]


def test_bad_use(run: Run, folder: Path) -> None:
    for name in ("r.parquet", "r.npz", "there.zarr"):
        write_rows(folder / name)
    FRAME.to_parquet("file.parquet")
    FRAME.assign(score_0=FRAME.score_0.where(FRAME.id != 300)).to_parquet("bad.parquet", row_group_size=90)
    FRAME.drop(columns="day").to_parquet("short.parquet")
    FRAME[:0].to_parquet("empty.parquet")
    Path("torn.parquet").write_bytes(Path("r.parquet").read_bytes()[:-100])
    Path("later.json").write_text(json.dumps(json.loads(Path("map.json").read_text()) | {"format": 3}))
    cd.summarize(LABELS, SCORES).to_netcdf("s.nc", engine="h5netcdf")
    before = sorted(path.name for path in folder.iterdir())
    for arguments, message in BAD:
        status, out, err = run("apply", *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1), arguments
        assert message in err
        assert sorted(path.name for path in folder.iterdir()) == before, arguments


CHUNKS_AND_DIE = """
import os, signal, sys
from calibdask.calibrators import applying
from calibdask.cli import main
from calibdask.storage import csv_files
from calibdask.storage.resumable_output import ResumableOutput
from calibdask.storage.resumable_output import ResumableOutput
applying.TARGET_BYTES = 10_000
save, left = ResumableOutput.save, [int(sys.argv[1])]
def dying(self, **state):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    save(self, **state)
ResumableOutput.save = dying
sys.exit(main(sys.argv[2:]))
"""


def contents(out: Path) -> dict[str, bytes]:
    if out.is_file():
        return {"": out.read_bytes()}
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def test_killed_for_real(run: Run, folder: Path) -> None:
    name = "out.zarr"
    write_rows(folder / "r.csv")
    command = ["apply", "map.json", "r.csv", "--out", name]
    assert main(command) == 0
    whole = contents(folder / name)
    os.rename(name, f"first-{name}")
    killed = subprocess.run([sys.executable, "-c", CHUNKS_AND_DIE, "3", *command], check=False)
    assert killed.returncode == -9
    assert not Path(name).exists()
    # Another map, other data and other options are refused, unless it is begun anew.
    Path("other.json").write_text(json.dumps(cd.PlattScaling().fit(LABELS, SCORES).to_dict()))
    write_rows(folder / "r.npz")
    for other, what in (
        (["other.json", "r.csv"], "another map"),
        (["map.json", "r.npz"], "another data"),
        (["map.json", "r.csv", "--label", "id"], "another options"),
    ):
        status, _, err = run("apply", *other, "--out", name)
        assert (status, what in err) == (2, True), err
    status, _, err = run(*command)
    assert (status, err.startswith("calibdask: went on at row ")) == (0, True)
    assert contents(folder / name) == whole
    assert run(*command)[0] == 2, "it is whole, and not replaced unasked"
    assert run("apply", "other.json", "r.csv", "--out", name, "--overwrite")[0] == 0
    assert contents(folder / name) != whole


def test_an_input_that_was_replaced_is_noticed_whatever_its_time(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows(folder / "r.csv")
    command = ["apply", "map.json", "r.csv", "--out", "out.parquet"]
    save, left = ResumableOutput.save, [3]

    def interrupted(output: ResumableOutput, **state: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        save(output, **state)

    with monkeypatch.context() as patch:
        patch.setattr(ResumableOutput, "save", interrupted)
        assert run(*command)[0] == 130
    before = os.stat("r.csv")
    header, *lines = Path("r.csv").read_text().splitlines(keepends=True)
    Path("other.csv").write_text("".join([header, *lines[::-1]]))
    os.utime("other.csv", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace("other.csv", "r.csv")
    after = os.stat("r.csv")
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    status, _, err = run(*command)
    assert (status, "was started with another data and is incomplete" in err) == (2, True), err
    assert run(*command, "--overwrite")[0] == 0
    Path("table.csv").write_text(Path("r.csv").read_text())
    assert run("apply", "map.json", "table.csv", "--out", "table.parquet")[0] == 0
    out, table = (cd.read_rows(name).scores.compute() for name in ("out.parquet", "table.parquet"))
    assert out.tolist() == table.tolist()

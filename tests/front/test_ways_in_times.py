"""Times with offsets: every container gives slices, features, periods and keys on the clock where they were taken."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import calibdask as cd
from calibdask.data.periods import periods
from calibdask.storage import csv_files, json_files
from tests.cli.sample_rows import Run
from tests.combinations import pairwise

ROWS = 240
RNG = np.random.default_rng(5)
SCORES = RNG.random(ROWS).round(3)
LABELS = (RNG.random(ROWS) < SCORES).astype(int)
NUMBER = np.arange(ROWS)
# Late in the evening there, the next day of UTC.
EVENING = np.array(["2024-05-01T23:30:00", "2024-05-02T22:15:00", "2024-05-03T09:00:00"])[NUMBER % 3]
OFFSETS = {
    "one": np.full(ROWS, "-05:00"),
    "several": np.array(["-05:00", "+02:00", "-04"])[NUMBER // 90],
    "some UTC": np.array(["-05:00", "Z"])[NUMBER // 200],
}
CLOCK = pd.Series(EVENING)
FORMATS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "rows.csv": lambda frame, path: frame.to_csv(path, index=False),
    "rows.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "rows.jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
}
AWARE: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "rows.parquet": lambda frame, path: parquet.write_table(aware(frame), path, row_group_size=50),
    "rows.feather": lambda frame, path: feather.write_feather(aware(frame), str(path), chunksize=50),
}


def frame_of(offsets: np.ndarray) -> pd.DataFrame:
    texts = [f"{text}{offset}" for text, offset in zip(EVENING, offsets, strict=True)]
    return pd.DataFrame({"label": LABELS, "score": SCORES, "ts": texts})


def aware(frame: pd.DataFrame) -> pa.Table:
    times = pa.array(frame["ts"]).cast(pa.timestamp("us", "-05:00"))
    table = pa.Table.from_pandas(frame)
    return table.set_column(table.column_names.index("ts"), "ts", times)


def counts(values: Any) -> dict[str, int]:
    return pd.Series(values).value_counts().to_dict()


def rows_of(result: Any, name: str) -> dict[str, int]:
    labels = [str(label)[:19] for label in pd.Series(result[name].values).astype(str).str.replace(" ", "T")]
    return dict(zip(labels, result.rows.values.tolist(), strict=True))


def evaluated(run: Run, *words: Any) -> dict[str, int]:
    status, out, err = run("evaluate", *words, "--metric", "brier", "--json")
    assert status == 0, err
    return {next(iter(one["by"].values())): one["rows"] for one in json.loads(out)["slices"]}


CASES = [(name, kind) for name in FORMATS for kind in OFFSETS] + [(name, "one") for name in AWARE]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "_CSV_BLOCK_BYTES", 3000)
    monkeypatch.setattr(json_files, "_BLOCK_BYTES", 3000)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("name", "kind"), CASES, ids=[f"{name}, {kind}" for name, kind in CASES])
def test_files(name: str, kind: str, tmp_path: Path, run: Run) -> None:
    frame = frame_of(OFFSETS[kind])
    (FORMATS | AWARE)[name](frame, tmp_path / name)
    path, times = tmp_path / name, pd.to_datetime(CLOCK)
    result = cd.evaluate(str(path), metrics="brier", by=["ts"])
    assert rows_of(result, "ts") == counts(CLOCK)
    assert {f"{label}:00": n for label, n in evaluated(run, path, "--by", "ts").items()} == counts(CLOCK)
    hours = {text for segment in cd.audit(str(path), features=["ts"]).segment.values for text in segment.split(", ")}
    assert {text for text in hours if "hour" in text} <= {f"ts.hour = {hour}" for hour in (9, 22, 23)}
    words = path, "--period", "ts", "--every", "day"
    assert evaluated(run, *words) == counts(times.dt.strftime("%Y-%m-%d"))
    if name in FORMATS:
        instants = pd.to_datetime(frame["ts"], utc=True).dt.tz_convert("Europe/Paris")
        assert evaluated(run, *words, "--zone", "Europe/Paris") == counts(instants.dt.strftime("%Y-%m-%d"))


class Stream:
    """Nothing but the protocol of Arrow."""

    def __init__(self, table: Any) -> None:
        self.table, self.schema = table, None

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


CONTAINERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "objects": lambda frame: frame.assign(ts=pd.Series([pd.Timestamp(text) for text in frame["ts"]], dtype=object)),
    "times of pandas": lambda frame: frame.assign(ts=pd.to_datetime(frame["ts"], utc=True).dt.tz_convert("Etc/GMT+5")),
    "Arrow": aware,
    "Polars": lambda frame: pl.from_arrow(aware(frame)),
    "Polars lazy": lambda frame: pl.from_arrow(aware(frame)).lazy(),  # type: ignore[union-attr]
    "reader": lambda frame: Stream(aware(frame)),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_containers(container: str) -> None:
    """One zone, of UTC with an offset, has one offset alone; objects may have several."""
    kind = "several" if container == "objects" else "one"
    given = CONTAINERS[container](frame_of(OFFSETS[kind]))
    assert rows_of(cd.evaluate(given, metrics="brier", by=["ts"]), "ts") == counts(CLOCK)


@pytest.mark.parametrize(
    ("form", "kind", "zone"), pairwise(["texts", "objects", "dask"], OFFSETS, [None, "Europe/Paris"])
)
def test_periods(form: str, kind: str, zone: str | None) -> None:
    import dask.array as da

    frame = frame_of(OFFSETS[kind])
    instants = pd.to_datetime(frame["ts"], utc=True)
    times = pd.to_datetime(CLOCK) if zone is None else instants.dt.tz_convert(zone)
    texts = frame["ts"].to_numpy(object)
    given: dict[str, Any] = {
        "texts": texts,
        "objects": np.array([pd.Timestamp(text) for text in texts], object),
        "dask": da.from_array(texts, chunks=37),
    }
    assert np.asarray(periods(given[form], "day", zone)).tolist() == times.dt.strftime("%Y-%m-%d").tolist()


def test_what_is_not_used_is_written_as_it_came(tmp_path: Path, run: Run) -> None:
    frame = frame_of(OFFSETS["several"])
    for name in ("rows.csv", "rows.jsonl"):
        FORMATS[name](frame, tmp_path / name)
        status, _, err = run("calibrate", tmp_path / name, "--method", "platt", "--out", tmp_path / f"{name}.json")
        assert status == 0, err
        for out in ("out.csv", "out.parquet"):
            target = tmp_path / f"{name}-{out}"
            status, _, err = run("apply", tmp_path / f"{name}.json", tmp_path / name, "--out", target)
            assert status == 0, err
            written = pd.read_csv(target) if out == "out.csv" else pd.read_parquet(target)
            assert written["ts"].tolist() == frame["ts"].tolist()


def test_keys_are_instants(tmp_path: Path, run: Run) -> None:
    """The same clock at different offsets is another row; the same instant at different offsets is the same row."""
    times = pd.date_range("2024-10-27 00:00", periods=ROWS, freq="1min", tz="UTC")
    frame = pd.DataFrame({"label": LABELS, "score": SCORES})
    frame.assign(ts=times.tz_convert("Europe/Paris")).to_csv(tmp_path / "a.csv", index=False)
    utc = frame.assign(ts=times.strftime("%Y-%m-%dT%H:%M:%SZ"))[::-1]
    utc.to_json(tmp_path / "b.jsonl", orient="records", lines=True)
    words = "--key", "ts", "--n-boot", 5, "--json"
    status, out, err = run("compare", tmp_path / "a.csv", tmp_path / "b.jsonl", *words)
    assert status == 0, err
    assert json.loads(out)["rows"] == ROWS

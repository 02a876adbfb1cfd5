"""``calibdask summarize --append``: days of rows, one after the other, in a store that all commands read."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from tests.cli.sample_rows import COUNTRY, LABELS, ROWS, SCORES, Run

DAYS = ("2026-08-30", "2026-08-31", "2026-12-01")
DAY = np.array(DAYS)[np.arange(ROWS) % 3]
OPTIONS = ("--setting", "confidence", "--step", "0.003", "--by", "country")
WHOLE = cd.summarize(
    LABELS, SCORES, by={"day": DAY, "country": COUNTRY}, settings=["confidence"], step=0.003
).drop_attrs()


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    columns = {f"score_{k}": SCORES[:, k] for k in range(3)}
    frame = pd.DataFrame({"label": LABELS, "country": COUNTRY, "day": DAY, **columns})
    frame.to_parquet("rows.parquet")
    for day in DAYS:
        frame[day == DAY].to_parquet(f"{day}.parquet")
    return tmp_path


def append(run: Run, day: str, *options: str) -> tuple[int, str, str]:
    status, out, err = run("summarize", f"{day}.parquet", *OPTIONS, "--append", "s.zarr", "--period", *options)
    return status, out, err


def test_day_by_day(run: Run, rows: Path) -> None:
    status, out, err = append(run, DAYS[2], f"day={DAYS[2]}")
    assert (status, err) == (0, "")
    assert out == f"added day {DAYS[2]} to s.zarr: {np.count_nonzero(DAYS[2] == DAY)} rows, 2 slices, 3 classes\n"
    # The column has the same label.
    assert append(run, DAYS[0], "day")[:2][0] == 0
    status, out, err = append(run, DAYS[0], f"day={DAYS[0]}")
    assert (status, out) == (2, "")
    assert "s.zarr has the day 2026-08-30 already" in err
    assert "--replace --reason TEXT" in err
    status, out, err = append(run, DAYS[0], f"day={DAYS[0]}", "--replace", "--reason", "late labels")
    assert (status, err) == (0, "")
    assert out.startswith("put day 2026-08-30 into s.zarr: ")
    status, out, err = append(run, DAYS[1], f"day={DAYS[1]}", "--expire", "90d")
    assert (status, err) == (0, "")
    assert out.splitlines()[1:] == ["merged 2 periods into 2026-08 in s.zarr"]
    assert (
        run("summarize", "--append", "s.zarr", "--expire", "90d")[1]
        == "nothing to merge: no month ended 90d before the latest period in s.zarr\n"
    )
    status, out, err = run("summarize", "--append", "s.zarr", "--drop", DAYS[2], "--reason", "test rows")
    assert (status, out, err) == (0, f"removed {DAYS[2]} from s.zarr\n", "")
    assert append(run, DAYS[2], f"day={DAYS[2]}")[0] == 0
    opened = cd.open_summary("s.zarr")
    assert "late labels" in opened.attrs["history"]
    pooled = [cd.merge(given.sum("day")).drop_attrs() for given in (opened, WHOLE)]
    xr.testing.assert_identical(*pooled)
    status, out, err = run("evaluate", "s.zarr", "--by", "day", "--metric", "ece")
    assert (status, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines() if line.startswith("20")] == ["2026-08", "2026-12-01"]


def test_many_days_and_whole_numbers(run: Run, rows: Path) -> None:
    status, out, err = run("summarize", "rows.parquet", *OPTIONS, "--append", "s.zarr", "--period", "day")
    assert (status, err) == (0, "")
    assert out.startswith(f"added day {', '.join(DAYS)} to s.zarr: {ROWS} rows, 6 slices")
    xr.testing.assert_identical(cd.open_summary("s.zarr").load().drop_attrs(), WHOLE)
    for week in ("10", "9"):
        assert run("summarize", "rows.parquet", "--append", "w.zarr", "--period", f"week={week}")[0] == 0
    assert cd.open_summary("w.zarr").week.values.tolist() == [9, 10]


BAD = [
    (["rows.parquet"], "Missing option '--out', or '--append'"),
    (["rows.parquet", "--out", "x.zarr", "--append", "x.zarr", "--period", "day=1"], "give only one of them"),
    (["rows.parquet", "--out", "x.zarr", "--period", "day=1"], "--period NAME=LABEL has no effect without --append"),
    (["rows.parquet", "--append", "x.zarr"], "expects the --period that DATA is of, such as day=2026-11-22"),
    (["rows.parquet", "--append", "x.zarr", "--period", "day=1", "--overwrite"], "--overwrite has no effect"),
    (["rows.parquet", "--append", "x.zarr", "--period", "day=1", "--replace"], "require a --reason"),
    (["rows.parquet", "--append", "x.zarr", "--period", "day=1", "--into", "day"], "--into has no effect without"),
    (["rows.parquet", "--append", "x.zarr", "--period", "day="], "--period expects NAME=LABEL"),
    (["--append", "x.zarr", "--period", "day=1"], "Missing argument 'DATA...'"),
    (
        ["rows.parquet", "--append", "x.zarr", "--period", "day=1", "--drop", "1", "--reason", "y"],
        "--drop removes periods",
    ),
    (["--append", "x.zarr", "--drop", "1"], "require a --reason"),
    (["--append", "x.zarr", "--drop", "1", "--reason", "y"], "expects a store with periods added by calibdask.append"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_bad_use(arguments: list[str], message: str, run: Run, rows: Path) -> None:
    status, out, err = run("summarize", *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert not Path("x.zarr").exists()


def test_scores_of_sampled_training_data(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"label": generator.random(600) < 0.1, "score": generator.random(600), "day": ["a", "b"] * 300}
    )
    frame.to_parquet("rows.parquet")
    for day in "ab":
        frame[frame.day == day].to_parquet(f"{day}.parquet")
        status, _, err = run(
            "summarize", f"{day}.parquet", "--append", "s.zarr", "--period", "day", "--sampling-rate", "0.1"
        )
        assert (status, err) == (0, "")
    population = cd.Population(sampling_rate=0.1)
    expected = cd.evaluate("rows.parquet", metrics=["mean-gap", "brier-score"], population=population)
    stored = cd.evaluate("s.zarr", by=[], metrics=["mean-gap", "brier-score"])
    xr.testing.assert_allclose(stored.drop_attrs(), expected.drop_attrs(), rtol=1e-12)
    assert stored.attrs["population"] == population.text
    for words in (["evaluate", "s.zarr"], ["watch", "s.zarr"], ["threshold", "s.zarr", "--risk", "0.9"]):
        assert "scores corrected for negatives kept at 10 %" in " ".join(run(*words)[1].split())
    # Frequencies differ from day to day.
    status, _, err = run("summarize", "a.parquet", "--append", "s.zarr", "--period", "day", "--prevalence", "0.01")
    assert status == 2
    assert "give --prevalence and --train-prevalence to the command that reads the store" in err

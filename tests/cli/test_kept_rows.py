"""Ways in which people keep rows, from public reports: the right number, or how to convert them, in one sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from calibdask.data.periods import periods
from tests.cli.sample_rows import Run

ROWS = 240
RNG = np.random.default_rng(38)
SCORES = RNG.random(ROWS).round(6)
LABELS = (RNG.random(ROWS) < SCORES).astype(int)
FRAME = pd.DataFrame({"label": LABELS, "score": SCORES})
# Two days of Paris, the second of 25 hours.
TIMES = pd.date_range("2024-10-26 12:00", periods=ROWS, freq="9min", tz="UTC").tz_convert("Europe/Paris")


def brier(keep: Any = slice(None), scores: np.ndarray = SCORES) -> float:
    return float(np.mean((scores[keep] - LABELS[keep]) ** 2))


def slices(run: Run, *words: Any) -> dict[Any, tuple[int, float]]:
    status, out, err = run("evaluate", *words, "--metric", "brier", "--json")
    assert status == 0, err
    result = json.loads(out)
    found = result.get("slices") or [{"by": {}, **result}]
    return {
        next(iter(one["by"].values()), None): (one["rows"], next(iter(one["metrics"].values()))["value"])
        for one in found
    }


def expected(values: Any) -> dict[Any, Any]:
    values = np.asarray(values)
    return {
        value: (int((values == value).sum()), pytest.approx(brier(values == value)))
        for value in dict.fromkeys(values.tolist())
    }


def test_digits_in_names_of_folders(run: Run, tmp_path: Path) -> None:
    code, hour = np.array(["01001", "01002"])[np.arange(ROWS) % 2], np.array(["00", "09"])[np.arange(ROWS) // 120]
    for (one, other), rows in FRAME.assign(code=code, hour=hour).groupby(["code", "hour"]):
        (tmp_path / f"code={one}" / f"hour={other}").mkdir(parents=True)
        rows[["label", "score"]].to_csv(tmp_path / f"code={one}" / f"hour={other}" / "0.csv", index=False)
    assert slices(run, tmp_path, "--by", "code") == expected(code)
    assert slices(run, tmp_path, "--by", "hour") == expected(hour)


@pytest.mark.parametrize("name", ["True", "true", "1"])
def test_booleans_are_named_as_they_are_typed(run: Run, tmp_path: Path, name: str) -> None:
    FRAME.assign(label=LABELS.astype(bool)).to_csv(tmp_path / "rows.csv", index=False)
    assert slices(run, tmp_path / "rows.csv", "--pos-label", name) == {None: (ROWS, pytest.approx(brier()))}
    negative = slices(run, tmp_path / "rows.csv", "--pos-label", "False")
    assert negative == {None: (ROWS, pytest.approx(float(np.mean((SCORES - (1 - LABELS)) ** 2))))}


def test_bare_arrays(run: Run, tmp_path: Path) -> None:
    logits = np.log(SCORES / (1 - SCORES))
    for name, array in {"y": LABELS, "p": SCORES, "l": logits, "c": SCORES[:, None], "g": np.arange(ROWS) % 2}.items():
        np.save(tmp_path / f"{name}.npy", array)
    y, p, group = (tmp_path / f"{name}.npy" for name in "ypg")
    whole = {None: (ROWS, pytest.approx(brier()))}
    assert slices(run, p, "--label", y) == slices(run, p, "--label", y, "--score", p) == whole
    assert slices(run, tmp_path / "l.npy", "--label", y, "--logits") == whole
    assert slices(run, p, "--label", y, "--by", group) == expected(np.arange(ROWS) % 2)
    status, _, err = run("compare", f"a={p}", f"b={p}", "--label", y, "--metric", "brier", "--n-boot", 5, "--json")
    assert status == 0, err
    for words, message in (
        ([tmp_path / "c.npy", "--label", y], "y_prob has a single class column; give the vector"),
        ([p], "with the scores in it, name the file of labels: --label y.npy"),
    ):
        status, _, err = run("evaluate", *words)
        assert status == 2
        assert message in err


def test_periods_of_times_with_offsets(run: Run, tmp_path: Path) -> None:
    FRAME.assign(ts=TIMES).to_csv(tmp_path / "paris.csv", index=False)
    FRAME.assign(ts=TIMES.tz_convert("UTC")).to_csv(tmp_path / "utc.csv", index=False)
    FRAME.assign(ts=TIMES.tz_convert("UTC")).to_parquet(tmp_path / "utc.parquet")
    words = "--period", "ts", "--every", "day"
    days = expected(TIMES.strftime("%Y-%m-%d"))
    for name in ("paris.csv", "utc.csv", "utc.parquet"):
        assert slices(run, tmp_path / name, *words, "--zone", "Europe/Paris") == days
    assert slices(run, tmp_path / "utc.csv", *words) == expected(TIMES.tz_convert("UTC").strftime("%Y-%m-%d"))
    assert slices(run, tmp_path / "paris.csv", *words) == days
    FRAME.assign(ts=TIMES.tz_convert("UTC").tz_localize(None)).to_parquet(tmp_path / "naive.parquet")
    status, _, err = run("evaluate", tmp_path / "naive.parquet", *words, "--zone", "Europe/Paris", "--metric", "brier")
    assert status == 0
    assert "the timestamps of ts have no time zone, and were taken as UTC; without --zone" in err
    assert slices(run, tmp_path / "naive.parquet", *words) == expected(TIMES.tz_convert("UTC").strftime("%Y-%m-%d"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([1729944000, 1729944001]), r"got numbers, such as 1729944000; convert seconds since 1970"),
        (np.array([2024.0, np.nan]), "got numbers, such as 2024.0"),
        (np.array(["05.10.2024", "26.10.2024"], object), "the first is '05.10.2024'. Convert them, for example"),
    ],
)
def test_times_that_would_be_guessed(values: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        periods(values, "day")


def test_keys_of_two_time_zones(run: Run, tmp_path: Path) -> None:
    FRAME.assign(id=TIMES).to_parquet(tmp_path / "a.parquet")
    FRAME.assign(id=TIMES.tz_convert("UTC")).to_parquet(tmp_path / "b.parquet")
    status, _, err = run("compare", tmp_path / "a.parquet", tmp_path / "b.parquet", "--key", "id")
    assert status == 2
    assert "timestamps of one time zone in all files, got Europe/Paris in a and UTC in b" in err


def test_models_in_columns_are_named_one_by_one(run: Run, tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    status, _, err = run("evaluate", tmp_path / "rows.csv", "--score", "a=score,b=score")
    assert status == 2
    assert "is repeated for each model: --score a=score --score b=score." in err
    words = "--score", "a=score", "--score", "b=score", "--limit", "ece=0.1"
    status, _, err = run("check", tmp_path / "rows.csv", *words)
    assert status == 2
    assert "names models to compare by --baseline; without it, check expects the columns of one model" in err


def _text(content: str) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content.encode()) and None


def _struct(path: Path) -> None:
    vectors = pa.array([{"type": 1, "values": [1 - score, score]} for score in SCORES])
    parquet.write_table(pa.table({"label": LABELS, "score": vectors}), path)


_LINES = "\n".join(json.dumps({"label": 1, "score": 0.5 if row else "high"}) for row in range(3))


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("rows.csv", _text("# made by a job\nlabel,score\n1,0.5\n"), "begins with a comment, where names of columns"),
        ("rows.csv", _text("\nlabel,score\n1,0.5\n"), "its first line is empty; delete the lines before names"),
        ("rows.csv", _text("label,score\r1,0.5\r"), r"carriage returns only; convert it, for example by tr '\r' '\n'"),
        ("rows.csv", _text("label,score\n1,51.2%\n"), "write percentages as fractions of 1, without the sign"),
        ("rows.csv", _text("label;score\n1;0,512\n"), "write decimal commas as points"),
        (
            "rows.csv",
            _text('label,score\n1,"1,100"\n'),
            "without separators of thousands, and decimal commas",
        ),
        ("rows.jsonl", _text('[{"label": 1, "score": 0.5}]'), "it is a single JSON array, but one object per line"),
        ("rows.jsonl", _text(_LINES), "some of its values are texts: correct these"),
        ("rows.parquet", _struct, "pyarrow.compute.struct_field(table['score'], 'values')"),
    ],
)
def test_how_to_convert_files(run: Run, tmp_path: Path, name: str, write: Any, message: str) -> None:
    write(tmp_path / name)
    status, printed, err = run("evaluate", tmp_path / name)
    assert (status, printed, len(err.splitlines())) == (2, "", 1)
    assert message in err

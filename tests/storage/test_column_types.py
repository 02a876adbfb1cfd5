"""Types of columns: those of all files whatever their order, and texts that stay texts."""

import decimal
import itertools
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import feather, parquet

import calibdask as cd
from calibdask.storage import csv_files, json_files
from calibdask.storage.open_store import open_store, read_rows
from calibdask.storage.text_types import kinds_of, type_of, typed

N = 40
RNG = np.random.default_rng(3)
SCORES = RNG.random(N)
LABELS = (RNG.random(N) < SCORES).astype(int)


def table(**columns: Any) -> pa.Table:
    return pa.table({"label": LABELS, "score": SCORES, **columns})


def write_csv(columns: pa.Table, path: Path) -> None:
    columns.to_pandas().to_csv(path, index=False)


def write_json(columns: pa.Table, path: Path) -> None:
    path.write_text("\n".join(json.dumps(row) for row in columns.to_pylist()))


WRITERS = {
    ".parquet": parquet.write_table,
    ".feather": lambda columns, path: feather.write_feather(columns, str(path)),
    ".csv": write_csv,
    ".jsonl": write_json,
}
TEXTS = pa.array(["a", "b"] * (N // 2))
# What one file may have in the place of texts: nothing, or nothing but missing values of any type.
WITHOUT = {
    "no column": {},
    "nulls": {"g": pa.nulls(N)},
    "null numbers": {"g": pa.nulls(N, pa.float64())},
    "a dictionary": {"g": TEXTS.dictionary_encode()},
}


@pytest.mark.parametrize("without", WITHOUT)
@pytest.mark.parametrize("suffix", WRITERS)
def test_files_have_the_columns_of_all(suffix: str, without: str, tmp_path: Path) -> None:
    folder = tmp_path / "days"
    folder.mkdir()
    # The file without texts comes first or last, in turn.
    order = (0, 1) if ([*WRITERS].index(suffix) + [*WITHOUT].index(without)) % 2 else (1, 0)
    for name, columns in zip(order, (table(g=TEXTS), table(**WITHOUT[without])), strict=True):
        WRITERS[suffix](columns, folder / f"{name}{suffix}")
    result = cd.evaluate(str(folder), metrics=cd.ECE(), by="g")
    found = dict(zip(result.g.values.tolist(), result.rows.values.tolist(), strict=True))
    expected = {"a": N, "b": N} if without == "a dictionary" else {"a": N // 2, "b": N // 2, "missing": N}
    assert found == expected


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".jsonl"])
def test_types_that_have_nothing_in_common_are_refused_with_both_files(suffix: str, tmp_path: Path) -> None:
    for name, values in (("1", TEXTS), ("2", pa.array(range(N)))):
        WRITERS[suffix](table(g=values), tmp_path / f"{name}{suffix}")
    with pytest.raises(ValueError, match=rf"'g' holds string in .*1\{suffix}, and int64 in .*2\{suffix}; write both"):
        read_rows(str(tmp_path), by=["g"])


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_booleans_with_missing_values_stay_what_they_are(suffix: str, tmp_path: Path) -> None:
    """In every block, whether one is missing there or not."""
    flags = [True, False] * (N // 2 - 1) + [None, True]
    counts = [*range(N - 1), None]
    columns = table(flag=flags, id=counts)
    if suffix == ".parquet":
        parquet.write_table(columns, tmp_path / "rows.parquet", row_group_size=10)
    else:
        feather.write_feather(columns, str(tmp_path / "rows.feather"), chunksize=10)
    read = read_rows(str(tmp_path / f"rows{suffix}"), by=["flag", "id"], chunk_rows=10)
    assert np.asarray(read.by["flag"]).tolist() == flags
    assert [block.compute().dtype.kind for block in read.by["flag"].blocks] == ["O"] * 4
    np.testing.assert_array_equal(np.asarray(read.by["id"]), np.array(counts, float))
    of_frame = cd.evaluate(columns.to_pandas(types_mapper=pd.ArrowDtype), metrics="ece", by=["flag"])
    of_file = cd.evaluate(read.labels, read.scores, "ece", by={"flag": read.by["flag"]})
    assert of_file.flag.values.tolist() == of_frame.flag.values.tolist() == ["False", "True", "missing"]
    assert of_file.rows.values.tolist() == of_frame.rows.values.tolist()


ODD = {
    "decimals": pa.array([decimal.Decimal(str(round(score, 3))) for score in SCORES]),
    "wide decimals": pa.array([decimal.Decimal(str(round(score, 3))) for score in SCORES], pa.decimal256(60, 30)),
    "halves": pa.array(SCORES.astype(np.float16)),
    "dictionary": pa.array(SCORES.round(1)).dictionary_encode(),
}


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
@pytest.mark.parametrize("kind", ODD)
def test_numbers_of_odd_types(kind: str, suffix: str, tmp_path: Path) -> None:
    WRITERS[suffix](pa.table({"label": LABELS, "score": ODD[kind]}), tmp_path / f"rows{suffix}")
    values = np.array([float(value) for value in ODD[kind].to_pylist()])
    assert cd.ece(read_rows(str(tmp_path / f"rows{suffix}")).labels, values) == pytest.approx(
        float(cd.evaluate(str(tmp_path / f"rows{suffix}"), metrics="ece").ece), abs=1e-7
    )


REFUSED = {
    "texts": (TEXTS, r"got 'a', of type str, in row 0; correct these.*cast\('float64'\)"),
    "bytes": (pa.array([b"x"] * N), r"got binary"),
    "structs": (pa.array([{"p": 0.5}] * N), r"struct_field\(table\['score'\], 'p'\)"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_scores_of_other_types_are_refused_with_the_code_that_converts_them(kind: str, tmp_path: Path) -> None:
    values, message = REFUSED[kind]
    parquet.write_table(pa.table({"label": LABELS, "score": values}), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=f"column 'score' expects numbers, .*{message}"):
        read_rows(str(tmp_path / "rows.parquet"))


def test_columns_that_nobody_asked_for(tmp_path: Path) -> None:
    """Of one name, of types that nothing here knows, or of several types: others are read."""
    twice = pa.Table.from_arrays([pa.array(LABELS), pa.array(SCORES), TEXTS, TEXTS], ["label", "score", "x", "x"])
    parquet.write_table(twice, tmp_path / "twice.parquet")
    feather.write_feather(twice, str(tmp_path / "twice.feather"))
    lines = [f"{label},{score},a,b" for label, score in zip(LABELS, SCORES, strict=True)]
    (tmp_path / "twice.csv").write_text("label,score,x,x\n" + "\n".join(lines))
    rows = [
        {"label": int(label), "score": score, "x": [1, "a", {}][i % 3]}
        for i, (label, score) in enumerate(zip(LABELS, SCORES, strict=True))
    ]
    (tmp_path / "mixed.jsonl").write_text("\n".join(map(json.dumps, rows)))
    odd = table(maps=pa.array([[("a", 1)]] * N, pa.map_(pa.string(), pa.int8())), nothing=pa.nulls(N))
    parquet.write_table(odd, tmp_path / "odd.parquet")
    duckdb.from_arrow(table()).select("*, INTERVAL 1 DAY AS span, uuid() AS id, 3::HUGEINT AS huge").write_parquet(
        str(tmp_path / "spans.parquet")
    )
    for path in sorted(tmp_path.iterdir()):
        read = read_rows(str(path))
        assert cd.ece(read.labels, read.scores) == cd.ece(LABELS, SCORES), path.name
    for name in ("twice.parquet", "twice.feather", "twice.csv"):
        with pytest.raises(ValueError, match="several columns called 'x'"):
            read_rows(str(tmp_path / name), by=["x"])
    with pytest.raises(ValueError, match="'x' expects numbers, texts or dates"):
        read_rows(str(tmp_path / "mixed.jsonl"), by=["x"])


CANONICAL = [
    ["1", "2", "10"],
    ["0.5", "1.25", ""],
    ["1.0", "2.0", "0.5"],
    ["True", "False", ""],
    ["2024-01-31", "2024-02-01"],
    ["1.10", "1.1"],
    ["01", "02"],
    ["12345678901234567890", "12345678901234567891"],
    ["1", "1.0"],
    ["+1", "1"],
    ["1e5", "2"],
    ["10:00", "11:30"],
    ["NA", "x"],
    ["true", "True"],
    ["0.1234567890123456789"],
    ["-0", "0"],
    ["1.", "2"],
    ["0x10", "1"],
    [" 1", "1"],
    ["1_000", "2"],
]


@pytest.mark.parametrize("values", CANONICAL, ids=map(repr, CANONICAL))
def test_slices_of_csv_are_texts_unless_every_text_can_be_had_back(
    values: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(f"{i % 2},0.{i + 1},{value}\n" for i, value in enumerate(values * 2))
    (tmp_path / "rows.csv").write_text(f"label,score,g\n{lines}")
    for block_bytes in (1 << 20, 20):
        monkeypatch.setattr(csv_files, "_CSV_BLOCK_BYTES", block_bytes)
        read = np.asarray(read_rows(str(tmp_path / "rows.csv"), by=["g"]).by["g"])
        if read.dtype == object:
            assert ["" if value is None else str(value) for value in read.tolist()] == values * 2
        else:
            texts = {str(value) for value in np.unique(read).tolist()} - {"nan"}
            assert texts == {value for value in values if value}


def test_features_of_csv_are_numbers_where_they_can_be(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("label,score,x,z\n1,0.5,0.50,01\n0,0.2,1.25,02\n")
    store: Any = open_store(str(tmp_path / "rows.csv"))
    read = store.read(features=["x", "z"]).by
    assert (read["x"].tolist(), read["z"].tolist()) == ([0.5, 1.25], ["01", "02"])
    assert store.read(by=["x"]).by["x"].tolist() == ["0.50", "1.25"]


_SIGNS, _DIGITS, _ENDS = ("", "-", "+"), ("0", "1", "07", "10", "250"), ("", ".", ".0", ".5", ".50", "e5", ".1e-7")
_NUMBERS = ["".join(parts) for parts in itertools.product(_SIGNS, _DIGITS, _ENDS)]


@settings(deadline=None)
@given(st.lists(st.sampled_from(_NUMBERS), min_size=1, max_size=6))
@example(["0.0", "-0.0"])
def test_numbers_of_texts_do_not_depend_on_how_they_are_cut(texts: list[str]) -> None:
    column = pa.chunked_array([texts])
    whole = kinds_of(column)
    for cut in range(len(texts)):
        parts = [pa.chunked_array([texts[:cut]], pa.string()), pa.chunked_array([texts[cut:]], pa.string())]
        assert frozenset().union(*map(kinds_of, parts)) == whole
    kind = type_of(whole)
    if kind != pa.string():
        values = dict(zip(texts, typed(column, kind).to_pylist(), strict=True))
        for one, other in itertools.combinations(values, 2):
            assert values[one] != values[other], f"{one} and {other} are told apart as texts"


@pytest.mark.parametrize("late", ["B", "0.5", ""], ids=["text", "fraction", "missing"])
def test_types_that_change_late(late: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{label},{score:.6f},1" for label, score in zip(LABELS, SCORES, strict=True)]
    lines[-1] = lines[-1].removesuffix("1") + late
    for name, size in (("small", 1 << 20), ("large", 100)):
        monkeypatch.setattr(csv_files, "_CSV_BLOCK_BYTES", size)
        (tmp_path / f"{name}.csv").write_text("label,score,g\n" + "\n".join(lines) + "\n")
        result = cd.evaluate(str(tmp_path / f"{name}.csv"), metrics="ece", by="g")
        assert result.rows.values.tolist() == sorted([1, N - 1], reverse=late != "0.5") + [N] * 0, name


def test_labels_that_change_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "_CSV_BLOCK_BYTES", 100)
    lines = [f"{label},{score:.6f}" for label, score in zip(LABELS, SCORES, strict=True)]
    for last, message in (("1.0", ""), ("", "label nan"), ("yes", f"column 'label' .* line {N + 1}: .*'yes'.*--label")):
        (tmp_path / "rows.csv").write_text("label,score\n" + "\n".join([*lines[:-1], f"{last},0.5"]) + "\n")
        if not message:
            assert cd.evaluate(str(tmp_path / "rows.csv"), metrics="ece").attrs["rows"] == N
            continue
        with pytest.raises(ValueError, match=message):
            cd.evaluate(str(tmp_path / "rows.csv"), metrics="ece")


def test_keys_of_json_may_come_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[dict[str, Any]] = [{"label": int(y), "score": p} for y, p in zip(LABELS, SCORES, strict=True)]
    rows[-1] |= {"g": "01"}
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    for size in (1 << 20, 200):
        monkeypatch.setattr(json_files, "_BLOCK_BYTES", size)
        result = cd.evaluate(str(tmp_path / "rows.jsonl"), metrics="ece", by="g")
        assert dict(zip(result.g.values.tolist(), result.rows.values.tolist(), strict=True)) == {
            "01": 1,
            "missing": N - 1,
        }
        assert float(cd.evaluate(str(tmp_path / "rows.jsonl"), metrics="ece").ece) == cd.ece(LABELS, SCORES)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ('"country"', r'"b\uD800"', r"column 'country' expects texts of whole characters, got 'b\\ud800' in row 1,003"),
        ('"words"', r'["a", "\udfff"]', r"column 'words' expects texts .* got '\\udfff' in row 1,003"),
        (r'"\ud800"', '"b"', r"Each name of a column expects texts .* got '\\ud800' in row 1,003"),
    ],
)
def test_halves_of_characters_are_named_by_column_and_row(
    key: str, value: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ['{"label": 1, "score": 0.5, "country": "a\\\\u"}\n'] * 1003
    (tmp_path / "rows.jsonl").write_text("".join([*lines, f'\n{{"label": 1, "score": 0.5, {key}: {value}}}\n', *lines]))
    for block_bytes in (1 << 26, 10_000):
        monkeypatch.setattr(json_files, "_BLOCK_BYTES", block_bytes)
        with pytest.raises(ValueError, match=message):
            cd.read_rows(str(tmp_path / "rows.jsonl"), by=["country"])

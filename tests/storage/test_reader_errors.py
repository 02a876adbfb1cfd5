"""Readers: one clear sentence for everything that is wrong with a file."""

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.ipc
import pytest
import xarray as xr
import zarr

import calibdask as cd
from calibdask.storage import csv_files
from calibdask.storage.open_store import read_rows
from calibdask.study.example import Means
from tests.storage.written_rows import LABELS, SCORES, frame, write_all, write_zarr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all(tmp_path_factory.mktemp("rows"))


def damaged(path: Path, source: Path) -> None:
    content = bytearray(source.read_bytes())
    content[len(content) // 3 : len(content) // 3 + 200] = b"\xff" * 200
    path.write_bytes(content)


def some_frame(**columns: Any) -> Callable[[Path], None]:
    return lambda path: pd.DataFrame(columns).to_csv(path, index=False)


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


def arrays(**given: Any) -> Callable[[Path], None]:
    return lambda path: np.savez(path, **given)


def object_archive(path: Path) -> None:
    np.savez(path, labels=np.array([{}, 1], object), scores=[0.5, 0.5], allow_pickle=True)


def bare_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, SCORES)


def list_scores(path: Path) -> None:
    pd.DataFrame({"label": LABELS, "score": [row[: 2 + (i > 0)] for i, row in enumerate(SCORES)]}).to_parquet(path)


def zarr_array(path: Path) -> None:
    zarr.save_array(path, SCORES)


def netcdf(**variables: Any) -> Callable[[Path], None]:
    return lambda path: xr.Dataset(variables).to_netcdf(path, engine="h5netcdf")


def cut(path: Path) -> None:
    with gzip.open(path, "wt") as file:
        frame().to_csv(file, index=False)
    path.write_bytes(path.read_bytes()[:2000])


def second_stream(compress: Callable[[bytes], bytes], at: int) -> Callable[[Path], None]:
    """Two compressed streams, of the second one a byte changed."""

    def make(path: Path) -> None:
        first, second = compress(b"label,score\n0,0.5\n"), bytearray(compress(b"1,0.5\n" * 10))
        second[at] ^= 255
        path.write_bytes(first + second)

    return make


def open_stream(path: Path) -> None:
    """A stream of Arrow that was cut off after its first batch."""
    table = pyarrow.table({"label": [0, 1], "score": [0.5, 0.5]})
    with path.open("wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
        end = file.tell()
    path.write_bytes(path.read_bytes()[:end])


def two_streams(path: Path) -> None:
    content = io.BytesIO()
    table = pyarrow.table({"label": [0, 1], "score": [0.5, 0.5]})
    with pyarrow.ipc.new_stream(content, table.schema) as writer:
        writer.write_table(table)
    path.write_bytes(content.getvalue() * 2)


def zipped(path: Path) -> None:
    with ZipFile(path, "w") as archive:
        for name in ("a.csv", "b.csv"):
            archive.writestr(name, "label,score\n0,0.5\n1,0.5\n")


def hudi(path: Path) -> None:
    (path / ".hoodie").mkdir(parents=True)
    frame().to_parquet(path / "rows.parquet")


def packed(zarr_format: int, **encoding: Any) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        rows = xr.Dataset({"labels": ("row", [0, 1, 1]), "scores": ("row", [0.25, 0.5, 0.75])})
        encodings = {name: {"dtype": "int16", **options} for name, options in encoding.items()}
        rows.to_zarr(path, zarr_format=zarr_format, consolidated=False, encoding=encodings)

    return make


def with_metadata(**fields: Any) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        write_zarr(path, {"labels": LABELS, "scores": SCORES})
        file = path / "labels" / "zarr.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))

    return make


# Without a limit the process ends here, for its stack does.
DEEP = f'{{"label": 1, "score": 0.5, "x": {"[" * 100_000}{"]" * 100_000}}}\n'

BAD: list[tuple[str, Callable[[Path], object], str]] = [
    ("nothing.csv", lambda _: None, r"nothing\.csv does not exist"),
    ("nothing.zarr", lambda _: None, r"nothing\.zarr does not exist"),
    ("rows.xlsx", text("x"), r"expects a name that ends in one of \.npz, \.zarr, \.nc, \.parquet, \.csv"),
    ("rows", lambda path: path.mkdir(), "expected a name that ends in one of"),
    ("rows.npz", text("no archive"), "cannot be read as a NumPy archive"),
    ("rows.npz", bare_array, "one bare array"),
    ("rows.npz", object_archive, "Object arrays cannot be loaded"),
    ("rows.npz", arrays(scores=[0.5], labl=[1]), "has no array 'labels'; it has labl, scores"),
    ("rows.npz", arrays(labels=1, scores=0.5), "expects one entry for each row"),
    ("rows.npz", arrays(labels=[], scores=[]), "holds no rows"),
    ("rows.npz", lambda path: path.mkdir(), "cannot be read"),
    ("rows.csv", text(""), "cannot be read as CSV: it is empty"),
    ("rows.csv", text("label,score\n"), "holds no rows"),
    ("rows.csv", text("label:score\n1:0.5\n"), "has no column 'label'; it has label:score"),
    ("rows.csv", some_frame(label=[1], q=[0.5]), "neither a column 'score' nor columns score_0"),
    ("rows.csv", some_frame(label=[1], score=[0.5], score_0=[0.5]), "has both 'score' and score_0"),
    ("rows.csv", some_frame(label=[1], score_1=[0.5], score_2=[0.5]), "without gaps, got score_1, score_2"),
    ("rows.csv", some_frame(label=[1], score_0=[0.5], score_2=[0.5]), "without gaps, got score_0, score_2"),
    ("rows.csv", some_frame(label=[1], score_0=[0.5], score_00=[0.5]), "without gaps"),
    ("rows.csv", some_frame(label=[0], score_0=[1.0]), "one class only"),
    ("rows.csv", some_frame(label=[1], score=["high"]), "conversion error to double: invalid value 'high'"),
    ("rows.csv", text("label,score\n1,0.5\n1,0.5,0.5\n"), "Expected 2 columns, got 3"),
    ("rows.csv", text("label,score\n1,0,5\n0,0,5\n"), "Expected 2 columns, got 3"),
    ("rows.csv", text("label,score\n1,0.5\n1\n"), "Expected 2 columns, got 1"),
    ("rows.csv", lambda path: path.write_bytes(b"label,sc\xff\n1,1\n"), "cannot be read as CSV"),
    (
        "rows.csv",
        text('label,score,c\n0,0.5,"a\n1,0.5,b\n'),
        r"at byte 20, before 'a\\n1,0\.5,b\\n', is not closed",
    ),
    ("rows.csv.bz2", second_stream(bz2.compress, 0), "cannot be read as CSV: Invalid data stream"),
    ("rows.csv.xz", second_stream(lzma.compress, 3), "cannot be read as CSV: Input format not supported"),
    ("rows.jsonl.xz", second_stream(lzma.compress, -5), "cannot be read as JSON Lines: "),
    ("rows.csv.bz2", lambda path: path.write_bytes(bz2.compress(b"label,score\n0,0.5\n") + b"more"), "Invalid data"),
    ("rows.arrow", open_stream, "the stream has no end-of-stream mark"),
    ("rows.arrows", two_streams, "there is data after the end of the stream"),
    ("rows.csv.gz", text("not compressed"), "cannot be read as CSV"),
    ("rows.csv.gz", cut, "cannot be read as CSV"),
    ("rows.parquet", text("no Parquet"), "cannot be read as Parquet"),
    ("rows.parquet", lambda path: path.mkdir(), "cannot be read as Parquet: the folder holds no files"),
    ("rows.parquet", lambda path: frame()[:0].to_parquet(path), "holds no rows"),
    ("rows.parquet", list_scores, "one value for each class in every row, got lists of 2 and of 3"),
    ("rows.parquet", lambda path: frame().drop(columns="label").to_parquet(path), "has no column 'label'"),
    ("rows.zarr", lambda path: path.mkdir(), "cannot be read as a Zarr group"),
    ("rows.zarr", zarr_array, "is a Zarr array; give the group"),
    ("rows.zarr", lambda path: write_zarr(path, {"labels": LABELS}), "has no array 'scores'; it has labels"),
    ("rows.zarr", lambda path: cd.run(Means(), str(path)), "is the cube of a study, which holds no scored rows"),
    ("rows.csv", text("klass,score\n1,0.5\n"), "it has klass, score. Name the columns by --label and --score"),
    ("rows.zarr", lambda path: write_zarr(path, {"labels": LABELS[:0], "scores": SCORES[:0]}), "holds no rows"),
    (
        "rows.zarr",
        packed(3, scores={"dtype": "float32", "scale_factor": 0.25, "_FillValue": -9.0}),
        r"packed ones \(scale_factor=0\.25, _FillValue=.*\); decode",
    ),
    ("rows.zarr", packed(2, labels={"add_offset": 1, "_FillValue": -9}), r"'labels' .* \(add_offset=1\); decode"),
    ("rows.zarr", packed(3, labels={"_FillValue": -1}), r"array 'labels' .* packed ones \(_FillValue=-1\)"),
    ("rows.jsonl", text(DEEP), "cannot be read as JSON Lines: it is nested more than 64 levels deep"),
    ("rows.zarr", with_metadata(shape=[-5]), r"rows\.zarr cannot be read as a Zarr group: .*non-negative"),
    ("rows.zarr", with_metadata(codecs=[{"name": "x"}]), r"rows\.zarr cannot be read as a Zarr group: .*codec"),
    ("rows.csv.zip", zipped, r"the archive holds several files, a\.csv, b\.csv; unpack it"),
    ("rows", hudi, "rows is a Hudi table, which is not read here"),
    ("rows.nc", text("no netCDF"), "cannot be read as netCDF"),
    ("rows.nc", netcdf(labels=("a", [1])), "has no variable 'scores'; it has labels"),
    ("rows.nc", netcdf(labels=("a", [1]), scores=("b", [0.5])), "expects the dimension 'a' of 'labels'"),
    ("rows.nc", netcdf(labels=(("a", "b"), [[1]]), scores=("b", [0.5])), "expects one dimension, of samples"),
]


@pytest.mark.parametrize(("name", "make", "message"), BAD, ids=[f"{i}-{name}" for i, (name, _, _) in enumerate(BAD)])
def test_what_is_wrong_is_said(name: str, make: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    make(tmp_path / name)
    with pytest.raises(ValueError, match=message) as caught:
        read_rows(str(tmp_path / name))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nosuch://bucket/rows.csv", "cannot be read: Protocol not known: nosuch"),
        ("memory://nothing/rows.zarr", "does not exist"),
        ("memory://nothing/rows.parquet", "does not exist"),
    ],
)
def test_bad_urls(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_rows(url)


def test_further_names(folder: Path) -> None:
    for name in ("rows.npz", "rows.zarr", "rows.nc", "rows.parquet", "rows.csv"):
        for options in ({"by": ["nowhere"]}, {"weight": "nowhere"}, {"label": "nowhere"}):
            with pytest.raises(ValueError, match=r"has no (array|variable|column) 'nowhere'"):
                read_rows(str(folder / name), **options)
    with pytest.raises(ValueError, match="chunk_rows expects a positive number"):
        read_rows(str(folder / "rows.zarr"), chunk_rows=0)


def test_damage_inside_is_said_with_its_place(tmp_path: Path, folder: Path) -> None:
    write_zarr(tmp_path / "rows.zarr", {"labels": LABELS, "scores": SCORES})
    next((tmp_path / "rows.zarr" / "scores" / "c" / "3").iterdir()).write_bytes(b"damaged")
    damaged(tmp_path / "rows.parquet", folder / "rows.parquet")
    for name, place in (("rows.zarr", "array 'scores'"), ("rows.parquet", "Parquet")):
        table = read_rows(str(tmp_path / name))
        with pytest.raises(ValueError, match=rf"{name} cannot be read as {place}"):
            cd.ece(table.labels, table.scores)
    frame().to_csv(tmp_path / "rows.csv", index=False)


def test_checksums_of_parquet_pages(tmp_path: Path) -> None:
    """A changed sign leaves a readable file, with other numbers."""
    options = {"compression": None, "use_dictionary": False, "write_page_checksum": True}
    frame().to_parquet(tmp_path / "rows.parquet", index=False, **options)
    content = (tmp_path / "rows.parquet").read_bytes()
    at = content.index(SCORES[300, 1].tobytes())
    (tmp_path / "rows.parquet").write_bytes(content[: at + 1] + bytes([content[at + 1] ^ 1]) + content[at + 2 :])
    with pytest.raises(ValueError, match=r"cannot be read as Parquet, .*CRC checksum"):
        read_rows(str(tmp_path / "rows.parquet"))


def test_damage_in_a_csv_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "_CSV_BLOCK_BYTES", 5000)
    monkeypatch.setattr(csv_files, "_CSV_SAMPLE_BYTES", 500)
    table = frame().astype({"score_1": object})
    table.loc[500, "score_1"] = "high"
    table.to_csv(tmp_path / "rows.csv", index=False)
    rows = read_rows(str(tmp_path / "rows.csv"))
    with pytest.raises(ValueError, match=r"CSV, block from byte \d+: .*invalid value 'high'"):
        cd.ece(rows.labels, rows.scores)


ROWS_OF_TEXT = b"label,score\n0,0.2\n1,0.7\n"


@pytest.mark.parametrize(
    ("name", "written_as", "hint"),
    [
        ("rows.csv", "rows.csv.gz", r"begins like gzip: its name should end in \.gz"),
        ("rows.csv", "rows.csv.bz2", r"begins like bzip2: its name should end in \.bz2"),
        ("rows.csv", "rows.csv.xz", r"begins like xz: its name should end in \.xz"),
        ("rows.csv", "rows.parquet", r"begins like Parquet: its name should end in \.parquet"),
        ("rows.csv", "utf-16", "begins like UTF-16: iconv -f UTF-16 -t UTF-8 converts it"),
        ("rows.jsonl", "rows.jsonl.gz", r"begins like gzip: its name should end in \.gz"),
        ("rows.parquet", "rows.feather", r"begins like Arrow: its name should end in \.arrow"),
        ("rows.parquet", "rows.csv", "begins like a text, such as CSV: rename it"),
        ("rows.feather", "rows.csv", "begins like a text, such as CSV: rename it"),
        ("rows.npz", "rows.csv", "begins like a text, such as CSV: rename it"),
    ],
)
def test_contents_of_another_format_than_the_name(name: str, written_as: str, hint: str, tmp_path: Path) -> None:
    rows = pd.read_csv(io.BytesIO(ROWS_OF_TEXT))
    written = tmp_path / f"written.{written_as}"
    if written_as == "utf-16":
        written.write_text(ROWS_OF_TEXT.decode(), "utf-16")
    elif ".csv" in written_as:
        rows.to_csv(written, index=False)
    elif ".jsonl" in written_as:
        rows.to_json(written, orient="records", lines=True)
    else:
        getattr(rows, {".parquet": "to_parquet", ".feather": "to_feather"}[written.suffix])(written)
    written.rename(tmp_path / name)
    with pytest.raises(ValueError, match=hint):
        cd.evaluate(str(tmp_path / name), metrics="ece")


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv.gz"])
def test_damaged_files_have_their_name(name: str, folder: Path, tmp_path: Path) -> None:
    """Only the content of another format is a reason to rename a file."""
    content = (folder / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="cannot be read as") as caught:
        cd.evaluate(str(tmp_path / name), metrics="ece")
    assert "begins like" not in str(caught.value)

"""Blocks of CSV files end where the reader's rows end."""

import io
import random
from contextlib import nullcontext

import pyarrow as pa
import pytest
from pyarrow import csv

from calibdask.storage.csv_rows import check_closed, header_of, row_blocks, rows_end


def rows_of(text: bytes, separator: str = ",") -> int:
    options = csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=lambda row: "skip")
    names = [f"c{number}" for number in range(3)]
    try:
        read = csv.ReadOptions(column_names=names)
        return csv.read_csv(io.BytesIO(text), parse_options=options, read_options=read).num_rows
    except pa.ArrowInvalid:
        return -1


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_blocks_have_the_rows_of_the_whole(separator: str) -> None:
    for seed in range(15):
        draw = random.Random(seed)
        fields = ["1", "0.25", "fr", f'"a{separator}b"', '"two\nlines"', '"said ""no""\n"', '5" pipe', 'x"y', '""']
        lines = [separator.join(draw.choices(fields, k=3)) for _ in range(60)]
        text = ("\n".join(lines) + "\n" * draw.randrange(2)).encode()
        blocks = list(row_blocks(io.BytesIO(text), 0, len(text), draw.randrange(1, 200), separator))
        assert sum(length for _, length in blocks) == len(text), seed
        parts = [rows_of(text[start : start + length], separator) for start, length in blocks]
        assert parts.count(-1) == 0, seed
        assert sum(parts) == rows_of(text, separator) == 60, seed


def test_a_mark_that_is_not_closed() -> None:
    assert rows_end(b'1,"open\n2,x\n') == 0
    assert rows_end(b'1,x\n1,"open\n2,x\n') == 4


@pytest.mark.parametrize("seeds", [range(start, start + 10) for start in range(0, 100, 10)])
def test_files_that_end_within_quotation_marks(seeds: range) -> None:
    """Cut anywhere: an error exactly where Arrow would read the rest of the file as one text."""
    fields = ["1", "fr", '"a,b"', '"two\nlines"', '"said ""no""\n"', '5" pipe', 'x"y', '""', '"""x"']
    for seed in seeds:
        draw = random.Random(seed)
        text = "\n".join(",".join(draw.choices(fields, k=3)) for _ in range(20)).encode()
        cut = text[: draw.randrange(1, len(text))]
        # A further row is one of its own, unless it is within the open text.
        is_open = _last_field(cut + b"\nthe,last,row") != "row"
        with pytest.raises(ValueError, match="is not closed") if is_open else nullcontext():
            check_closed(cut, ",", 0)
        with pytest.raises(ValueError, match="is not closed") if is_open else nullcontext():
            list(row_blocks(io.BytesIO(cut), 0, len(cut), 30))


def _last_field(text: bytes) -> str:
    """The last field of the last row, by a loop over the signs."""
    within, field, begins = False, "", True
    signs = text.decode()
    number = 0
    while number < len(signs):
        sign = signs[number]
        if within and sign == '"' and signs[number + 1 : number + 2] == '"':
            field += sign
            number += 1
        elif within:
            within = sign != '"'
            field += sign if within else ""
        elif sign == '"' and begins:
            within, begins = True, False
        elif sign in ",\n":
            field, begins = "", True
        else:
            field, begins = field + sign, False
        number += 1
    return field


@pytest.mark.parametrize("size", [3, 1000])
def test_headers(size: int) -> None:
    file = io.BytesIO('\ufeff"score\nof it",label\n1,0\n'.encode())
    header = header_of(file.read, size)
    assert header.names == ["score\nof it", "label"]
    assert file.getvalue()[header.end :] == b"1,0\n"
    assert header_of(io.BytesIO(b'"score;",label\n').read, size).separator == ","
    assert header_of(io.BytesIO(b"score;label\n").read, size).names == ["score", "label"]
    assert header_of(io.BytesIO(b"name, first\tlabel\n").read, size, "\t").names == ["name, first", "label"]
    assert header_of(io.BytesIO(b"a,b").read, size)[:2] == (["a", "b"], 3)
    with pytest.raises(ValueError, match="it is empty"):
        header_of(io.BytesIO(b"").read, size)

"""Parquet: columns in row groups."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from calibdask.storage.column_reader import ColumnReader, FilePart, Header
from calibdask.storage.location import Location


def _schema(file: Location) -> Header:
    with _opened(file) as opened:
        return Header(opened.schema_arrow, details=opened.metadata)


def _parts(file: Location, header: Header) -> list[FilePart]:
    metadata = header.details
    return [FilePart(group, metadata.row_group(group).num_rows) for group in range(metadata.num_row_groups)]


def _load(file: Location, layout: None, places: Sequence[int], columns: Mapping[str, Any]) -> Any:
    with _opened(file) as opened:
        return opened.read_row_groups([*places], columns=[*columns]).select([*columns])


@contextmanager
def _opened(file: Location) -> Iterator[Any]:
    """The file; checksums of pages are held against them where the writer has left some."""
    from pyarrow.parquet import ParquetFile

    with (
        nullcontext(file.path) if file.local else file.open() as source,
        ParquetFile(source, pre_buffer=True, page_checksum_verification=True) as opened,
    ):
        yield opened


def _has_missing(header: Header, name: str) -> bool | None:
    metadata = header.details
    leaves = [leaf for leaf in range(metadata.num_columns) if metadata.schema.column(leaf).path == name]
    known = [
        metadata.row_group(group).column(leaf).statistics for leaf in leaves for group in range(metadata.num_row_groups)
    ]
    if not leaves or any(statistics is None or not statistics.has_null_count for statistics in known):
        return None
    return any(statistics.null_count for statistics in known)


PARQUET = ColumnReader(
    "Parquet", _schema, _parts, _load, "row group {}", (".parquet", ".pq", ".parq"), has_missing=_has_missing
)

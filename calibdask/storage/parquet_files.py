"""Parquet: columns in row groups, of single files, folders of them, and Delta tables."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from calibdask.storage.column_reader import ColumnReader, Header, Part
from calibdask.storage.file_sets import FileSet
from calibdask.storage.location import Location

# Features of Delta tables whose files are not simply all rows, by the names of the protocol.
_NOT_PLAIN = {"columnMapping", "deletionVectors"}


def delta_files(location: Location) -> FileSet:
    """The Parquet files of a Delta table as of its last version.

    Raises
    ------
    ValueError
        If the package deltalake is not installed, or the table is not a set of plain files.
    """
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise ValueError(
            f"{location.url} is a Delta table, which expects the package deltalake; install it: "
            'pip install "calibdask[delta]"'
        ) from error
    import pyarrow

    with location.reading("a Delta table"):
        table = DeltaTable(location.path if location.local else location.address)
        features = _NOT_PLAIN & {*(table.protocol().reader_features or ())}
        if features:
            raise ValueError(
                f"it has the feature {', '.join(sorted(features))}, which is not read here; read it by Spark or DuckDB "
                "(delta_scan), or run OPTIMIZE or REORG on it."
            )
        actions = pyarrow.table(table.get_add_actions(flatten=True))
        types = dict(zip(*_columns(pyarrow.schema(table.schema().to_arrow())), strict=True))
        partitions = {
            name: actions.column(f"partition.{name}").to_pylist() for name in table.metadata().partition_columns
        }
        paths = tuple(location.child(path).path for path in _decoded(actions.column("path").to_pylist()))
    return FileSet(location, paths, partitions, types)


def _columns(schema: Any) -> tuple[list[str], list[Any]]:
    return schema.names, schema.types


def _decoded(paths: Sequence[str]) -> list[str]:
    """Paths of the files in a table; the protocol writes them as parts of URLs."""
    from urllib.parse import unquote

    outside = [path for path in paths if "://" in path or path.startswith("/")]
    if outside:
        raise ValueError(f"its file {outside[0]} is outside its folder, as of a shallow clone; make a deep one.")
    return [unquote(path) for path in paths]


def _schema(file: Location) -> Header:
    with _opened(file) as opened:
        return Header(opened.schema_arrow, details=opened.metadata)


def _parts(file: Location, header: Header) -> list[Part]:
    metadata = header.details
    return [Part(group, metadata.row_group(group).num_rows) for group in range(metadata.num_row_groups)]


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


PARQUET = ColumnReader("Parquet", _schema, _parts, _load, "row group {}")

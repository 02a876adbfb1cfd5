"""Delta tables: the Parquet files of the last version, with the column metadata of the table."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

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
                f"it has the unsupported feature {', '.join(sorted(features))}; read it by Spark or DuckDB "
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
    outside = [path for path in paths if "://" in path or path.startswith("/")]
    if outside:
        raise ValueError(f"its file {outside[0]} is outside its folder, as in a shallow clone; make a deep clone.")
    return [unquote(path) for path in paths]

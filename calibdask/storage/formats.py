"""The formats of columns: each is a file of this folder, and a name in this list."""

from pathlib import PurePosixPath

from calibdask.storage.arrow_files import ARROW
from calibdask.storage.column_reader import ColumnReader
from calibdask.storage.compressed_files import COMPRESSIONS
from calibdask.storage.csv_files import CSV
from calibdask.storage.json_files import JSON_LINES
from calibdask.storage.parquet_files import PARQUET

# By the first of their suffixes, which stands for the format.
COLUMN_FORMATS: dict[str, ColumnReader] = {reader.suffixes[0]: reader for reader in (PARQUET, CSV, ARROW, JSON_LINES)}
_BY_SUFFIX = {suffix: name for name, reader in COLUMN_FORMATS.items() for suffix in reader.suffixes}
# Files of text may be compressed.
_OF_TEXTS = {*CSV.suffixes, *JSON_LINES.suffixes}


def column_format(path: str) -> str | None:
    """Columnar format by file suffix, ignoring the suffix of a compressed text file.

    Examples
    --------
    >>> column_format("day=1/rows.csv.gz"), column_format("rows.feather"), column_format("rows.npz")
    ('.csv', '.arrow', None)
    """
    suffixes = [suffix.lower() for suffix in PurePosixPath(path).suffixes]
    while suffixes and suffixes[-1] in COMPRESSIONS and _OF_TEXTS & {*suffixes[:-1]}:
        suffixes.pop()
    return _BY_SUFFIX.get(suffixes[-1]) if suffixes else None

"""Names of data: models by file name, sources and sizes as text."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import click

from calibdask.cli.rows_request import RowsRequest, stem_of
from calibdask.safe_text import visible, without_credentials

_UNIT = 1000


def named_data(given: Sequence[str]) -> dict[str, str]:
    """Files by the name of their model: ``NAME=FILE``, or the name of the file without its suffixes.

    What exists under the whole word is a file, such as ``day=1.csv``.

    Raises
    ------
    click.UsageError
        If two would have the same name.

    Examples
    --------
    >>> named_data(["forest=a/rows.csv", "b/logistic.parquet", "s3://bucket/x=1/part.csv.gz"])
    {'forest': 'a/rows.csv', 'logistic': 'b/logistic.parquet', 'part': 's3://bucket/x=1/part.csv.gz'}
    """
    files: dict[str, str] = {}
    for words in given:
        name, equals, data = words.partition("=")
        if Path(words).exists() or not (name and equals and data) or "/" in name:
            name, data = stem_of(words), words
        if name in files:
            raise click.UsageError(
                f"{files[name]} and {data} would both be called {name!r}; name one of them, as in NAME={data}."
            )
        files[name] = data
    return files


def size_of(data: str) -> str:
    """How large a local file is, in words; empty for folders, patterns and URLs, which nobody has to list for it."""
    path = Path(data)
    if not path.is_file():
        return ""
    size, units = float(path.stat().st_size), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= _UNIT and len(units) > 1:
        size, units = size / _UNIT, units[1:]
    return f"{size:.3g} {units[0]}"


def source_of(request: RowsRequest) -> str:
    """Name of the data in a report."""
    return visible(PurePosixPath(without_credentials(request.data).rstrip("/")).name)

"""Files that are read as one: a single one, those in a folder, or those that a pattern names; with their partitions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from calibdask.storage.file_version import Version
from calibdask.storage.formats import column_format
from calibdask.storage.location import Location

_MISSING = "__HIVE_DEFAULT_PARTITION__"


def is_pattern(location: Location) -> bool:
    """Whether a name that does not exist is a pattern, such as ``data/*.parquet``."""
    # In addresses of the web a question mark begins a query.
    signs = "[*]" if location.address.startswith(("http://", "https://")) else r"[*?\[]"
    return re.search(signs, location.path) is not None and not location.exists


@dataclass(frozen=True)
class FileSet:
    """Files of one format, in the order of their names.

    Attributes
    ----------
    location : Location
        What the user named.
    paths : tuple of str
        The files, in the file system of the location.
    table_columns : mapping from name to values, or None
        Columns of one value in each file; None: those in the names of folders.
    types : mapping from name to type of Arrow
        Types of columns that a table says for all of its files.
    versions : mapping from path to version
        Of files whose contents were looked at before: no other ones are read.
    """

    location: Location
    paths: tuple[str, ...]
    table_columns: Mapping[str, list[Any]] | None = None
    types: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Version] = field(default_factory=dict)

    @classmethod
    def of(cls, location: Location) -> "FileSet":
        """The files of columns that a file, a folder or a pattern stands for.

        Raises
        ------
        ValueError
            If there is none.
        """
        fs = location.fs
        with location.reading():
            if is_pattern(location):
                roots = sorted(fs.glob(location.path))
                if not roots:
                    raise ValueError("no file matches this pattern.")
            else:
                roots = [location.path]
            paths: list[str] = []
            for root in roots:
                if not fs.isdir(root):
                    paths.append(root)
                    continue
                found = sorted(path for path in fs.find(root) if not _is_hidden(path.removeprefix(root)))
                # Consoles of object stores make folders as empty objects, whose names end like this.
                inside = [path for path in found if not path.endswith("/")]
                # Spark writes parts without suffixes, and marks of its own.
                paths += [path for path in inside if column_format(path) is not None] or inside
        files = cls(location, tuple(paths))
        for path in files.paths:
            files.member(path).check_file()
        return files

    @property
    def formats(self) -> list[str]:
        """Their formats, each once; of files of other kinds the suffixes."""
        members = map(self.member, self.paths)
        return list(dict.fromkeys(column_format(file.named) or file.suffix for file in members))

    @property
    def single(self) -> bool:
        """Whether the user named one file."""
        return self.paths == (self.location.path,)

    def member(self, path: str) -> Location:
        """One of the files; messages call it as the user does where there is only one."""
        return self.location if self.single else Location(path, self.location.fs, path)

    @cached_property
    def constants(self) -> Mapping[str, list[Any]]:
        """Columns of one value in each file, as in folders like ``day=1``: for each the value of every file."""
        if self.table_columns is not None:
            return self.table_columns
        found = [_keys(self.member(path).named) for path in self.paths]
        names = [name for name in dict(found[0]) if all(name in dict(keys) for keys in found)] if found else []
        return {name: _values([dict(keys)[name] for keys in found]) for name in names}


def _is_hidden(path: str) -> bool:
    return any(part.startswith(("_", ".")) for part in PurePosixPath(path).parts)


def _keys(path: str) -> tuple[tuple[str, str], ...]:
    folders: Sequence[str] = PurePosixPath(path).parts[:-1]
    return tuple((name, unquote(value)) for name, equals, value in (part.partition("=") for part in folders) if equals)


def _values(texts: list[str]) -> list[Any]:
    """Whole numbers where every text can be had back from its number, as in a CSV file; else texts; None if missing."""
    whole = all(re.fullmatch(r"0|-?[1-9]\d{,17}", text) for text in texts if text != _MISSING)
    return [None if text == _MISSING else int(text) if whole else text for text in texts]

"""The manifest of a folder of Parquet files that ``calibdask apply`` wrote, and its check before the files are read."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from calibdask.errors import Damaged
from calibdask.safe_text import listed
from calibdask.storage.documents import parse_json
from calibdask.storage.file_sets import FileSet
from calibdask.storage.location import Location
from calibdask.storage.manifest import HASH, IDENTITY, file_hash, is_intact, sealed
from calibdask.storage.retry import with_retries
from calibdask.storage.writers import APPLIED

# Hashing releases the lock of the interpreter, and files of an object store are read side by side.
_AT_ONCE = 4
_MEND = "copy the folder again, or apply the map again"


def manifest_text(mark: Mapping[str, Any], store: str, members: Sequence[Mapping[str, Any]]) -> str:
    """The manifest as JSON: inputs, identity, and name, rows and hash of each file in order."""
    return json.dumps(sealed({**mark, "store": store, "members": [*members]}), indent=2)


def intact_files(files: FileSet) -> FileSet:
    """The files, in the order of the manifest if they have one, after each was compared with its hash.

    Raises
    ------
    Damaged
        If a file is missing, was changed or belongs elsewhere; if the folder has lost its manifest.
    """
    location = files.location
    if files.single or not location.is_folder:
        return files
    if not location.has(APPLIED):
        _check_foreign(files)
        return files
    place = location.child(APPLIED)
    with location.reading():
        content = place.content()
    try:
        document = parse_json(content)
        if HASH not in document and "members" not in document:
            # Earlier versions wrote the number of rows alone.
            return files
        if not is_intact(document):
            raise ValueError("its hash does not match its contents")
        members = {str(member["name"]): str(member["hash"]) for member in document["members"]}
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{location.url} is damaged: {APPLIED} is not what was written ({error}); {_MEND}.") from error
    root = location.path.rstrip("/")
    there = [path.removeprefix(f"{root}/") for path in files.paths]
    if missing := [name for name in members if name not in there]:
        raise Damaged(f"{location.url} is incomplete: {listed(missing)} is missing; {_MEND}.")
    if foreign := [name for name in there if name not in members]:
        raise Damaged(
            f"{location.url} holds {listed(foreign)}, which {APPLIED} does not list, so its rows would be counted as "
            "well. Remove it, or give a pattern that names the files to read."
        )
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        hashes = [*pool.map(lambda name: _hash_of(location.child(name)), members)]
    for (name, expected), found in zip(members.items(), hashes, strict=True):
        if found != expected:
            raise Damaged(f"{location.url} is damaged: {name} is not what was written there; {_MEND}.")
    return FileSet(location, tuple(f"{root}/{name}" for name in members))


def _hash_of(place: Location) -> str:
    def hashed() -> str:
        with place.open() as file:
            return file_hash(file)

    with place.reading():
        return with_retries(hashed)


def _check_foreign(files: FileSet) -> None:
    """Raise Damaged if the first file is a member of a folder whose manifest is not there."""
    from pyarrow import parquet

    if not files.paths:
        return
    first = files.member(files.paths[0])
    with files.location.reading("Parquet"), first.open() as file:
        metadata = parquet.read_schema(file).metadata or {}
    if IDENTITY.encode() in metadata:
        raise Damaged(
            f"{files.location.url} is incomplete: its files were written by calibdask apply, but {APPLIED}, which "
            f"lists them, is missing; {_MEND}, or give a pattern that names the files to read."
        )

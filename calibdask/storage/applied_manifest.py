"""The manifest of a folder of Parquet files that ``calibdask apply`` wrote, and its check before files are read."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from calibdask.errors import Damaged
from calibdask.safe_text import listed
from calibdask.storage.documents import parse_object
from calibdask.storage.file_sets import FileSet
from calibdask.storage.file_version import Version, version_of
from calibdask.storage.location import WEB, Location
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
    """Compare each file with its hash; returns the files, in the order of their manifest if there is one.

    Manifests are looked for beside all files: in the folder that the user named, in folders within it or that match a
    pattern, and in those of single files.

    Raises
    ------
    Damaged
        If a file is missing, was changed or belongs elsewhere; if a folder has lost its manifest.
    """
    location = files.location
    if location.path.startswith(WEB):
        # No folders there, and an address that is signed opens nothing beside the file.
        return files
    folders = {folder: None for path in files.paths for folder in _folders(location, path)}
    if location.is_folder:
        folders[location.path.rstrip("/")] = None
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        has_manifest = dict(
            zip(folders, pool.map(lambda folder: _has_manifest(location, folder), folders), strict=True)
        )
    slots: dict[str, list[int]] = {folder: [] for folder, has in has_manifest.items() if has}
    for slot, path in enumerate(files.paths):
        inside = _folders(location, path)
        slots.setdefault(next((folder for folder in inside if has_manifest[folder]), inside[0]), []).append(slot)
    paths = [*files.paths]
    versions: dict[str, Version] = {}
    for folder, places in slots.items():
        there = [paths[slot] for slot in places]
        if has_manifest[folder]:
            there, known = _listed(files, folder, there)
            versions |= known
        else:
            _check_unlisted(files, folder, there)
        for slot, path in zip(places, there, strict=True):
            paths[slot] = path
    return replace(files, paths=tuple(paths), versions=versions) if versions else files


def _folders(location: Location, path: str) -> list[str]:
    """The folder of a file, and those above it that the user named, from within."""
    first, *above = map(str, PurePosixPath(path).parents)
    return [first, *(folder for folder in above if _is_named(location, folder))]


def _folder(location: Location, path: str) -> Location:
    """A folder, as the user called it if so."""
    return location if path == location.path.rstrip("/") else Location(path, location.fs, path)


def _has_manifest(location: Location, path: str) -> bool:
    try:
        return _folder(location, path).has(APPLIED)
    except ValueError as error:
        # Whoever may read single files may not be allowed to ask for others.
        if _is_named(location, path) or not isinstance(error.__cause__, PermissionError):
            raise
        return False


def _check_unlisted(files: FileSet, path: str, there: Sequence[str]) -> None:
    """Raise Damaged if files of a folder were written with a manifest, which is not there."""
    if _is_named(files.location, path) and _is_member(files, there[0]):
        raise Damaged(
            f"{_folder(files.location, path).url} is incomplete: its files were written by calibdask apply, but "
            f"{APPLIED}, which lists them, is missing; {_MEND}, or give a pattern that names the files to read."
        )


def _listed(files: FileSet, path: str, there: list[str]) -> tuple[list[str], dict[str, Version]]:
    """Files of a folder, and of those in it, in the order of its manifest; versions of those that it lists."""
    location, folder = files.location, _folder(files.location, path)
    members = {f"{path}/{name}": expected for name, expected in _members(folder).items()}
    if not members:
        return there, {}
    present = set(there)
    if missing := [one for one in members if one not in present and _is_named(location, one)]:
        raise Damaged(f"{folder.url} is incomplete: {_names(path, missing)} is missing; {_MEND}.")
    is_whole = _is_named(location, path)
    unlisted = [one for one in there if one not in members]
    if foreign := [one for one in unlisted if is_whole or _is_member(files, one)]:
        mend = "Remove it, or give a pattern that names the files to read." if is_whole else "Remove it."
        raise Damaged(
            f"{folder.url} holds {_names(path, foreign)}, which {APPLIED} does not list, so its rows would be counted "
            f"as well. {mend}"
        )
    chosen = [one for one in members if one in present]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        looked_at = [*pool.map(lambda one: _version_and_hash(files.member(one)), chosen)]
    for one, (_, found) in zip(chosen, looked_at, strict=True):
        if found != members[one]:
            raise Damaged(f"{folder.url} is damaged: {_names(path, [one])} is not what was written there; {_MEND}.")
    versions = {one: version for one, (version, _) in zip(chosen, looked_at, strict=True)}
    return [*chosen, *unlisted], versions


def _members(folder: Location) -> dict[str, str]:
    """Names and hashes of the files that a manifest lists; none if an earlier version wrote it."""
    place = folder.child(APPLIED)
    with folder.reading():
        content = place.content()
    try:
        document = parse_object(content)
        if HASH not in document and "members" not in document:
            # Earlier versions wrote the number of rows alone.
            return {}
        if not is_intact(document):
            raise ValueError("its hash does not match its contents")
        return {str(member["name"]): str(member["hash"]) for member in document["members"]}
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{folder.url} is damaged: {APPLIED} is not what was written ({error}); {_MEND}.") from error


def _is_named(location: Location, path: str) -> bool:
    """Whether the user named this file or folder, one above it, or a pattern of either."""
    named = location.path.rstrip("/")
    if path == named or path.startswith(f"{named}/"):
        return True
    above = [path, *map(str, PurePosixPath(path).parents)]
    levels = named.count("/")
    return any(fnmatchcase(one, named) for one in above if "**" in named or one.count("/") == levels)


def _names(folder: str, paths: Sequence[str]) -> str:
    return listed([path.removeprefix(f"{folder}/") for path in paths])


def _version_and_hash(place: Location) -> tuple[Version, str]:
    """The hash of a file, and the version before it was read for it."""

    def hashed() -> str:
        with place.open() as file:
            return file_hash(file)

    with place.reading():
        return version_of(place), with_retries(hashed)


def _is_member(files: FileSet, path: str) -> bool:
    """Whether a file was written as a member of a folder with a manifest."""
    from pyarrow import parquet

    with files.location.reading("Parquet"), files.member(path).open() as file:
        metadata = parquet.read_schema(file).metadata or {}
    return IDENTITY.encode() in metadata

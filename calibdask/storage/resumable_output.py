"""Outputs written in pieces; after a kill, rerunning the command resumes them.

Until the last piece is written, all lies in a folder beside the output, whose name begins with a dot and ends in
``.unfinished``: what has the name of the output is whole.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calibdask.storage.atomic_replace import is_other_running, owned_name, put_in_place
from calibdask.storage.documents import parse_object, read_bytes
from calibdask.storage.file_sets import FileSet
from calibdask.storage.file_version import version_of
from calibdask.storage.location import Location
from calibdask.storage.manifest import is_intact, path_hash, sealed

_PROGRESS = "progress.json"
_OLD = "old"
# In the state: all is written, and is given its name.
_PLACING = "placing"
# What remote stores say of a version of a file.
_VERSIONS = ("ETag", "etag", "LastModified", "last_modified", "mtime", "generation")


def digest(document: Any) -> str:
    """A short text that is another one for any other document of JSON."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()[:32]


def files_digest(location: Location) -> str:
    """A text that is another one once a file of the data has changed, by names, sizes and times.

    On this machine one of the times is that of any change, which the system alone sets: a copy may have the size and
    the other time of the file that it replaces.
    """
    fs = location.fs
    with location.reading():
        if location.is_zarr:
            infos = {info["name"]: info for info in fs.find(location.path, detail=True).values()}
        else:
            files = FileSet.of(location)
            # Without the query of an address of the web: one that signs it is another one the next time.
            infos = {files.member(path).named: fs.info(path) for path in files.paths}
        if location.local:
            versions = [[path, *version_of(Location(path, fs, info["name"]))] for path, info in infos.items()]
        else:
            versions = [
                [path, info.get("size"), *(str(info.get(name)) for name in _VERSIONS)] for path, info in infos.items()
            ]
    return digest(versions)


def _check_state(state: Mapping[str, Any]) -> None:
    """Raise ValueError for numbers that no run keeps."""
    rows, chunks, unknown = (state.get(name, 0) for name in ("rows", "chunks", "unknown"))
    records = state.get("records", [])
    if not 0 <= unknown <= rows or chunks != len(records) or rows != sum(record["rows"] for record in records):
        raise ValueError(f"it counts {rows} rows, {unknown} of them unknown, in {chunks} chunks")


@dataclass(frozen=True)
class ResumableOutput:
    """An output that is being written.

    Parameters
    ----------
    target : Path
        The output, a folder.
    key : mapping of str to str
        Digests of what it is made of, by what that is called: those of an output that is gone on with are equal.
    mark_of : function
        What a whole output says of itself, the key among it.
    state : dict
        How far it is.
    """

    target: Path
    key: Mapping[str, str]
    mark_of: Callable[[Path], Mapping[str, Any]]
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where it lies until it is whole."""
        return self.target.with_name(f".{self.target.name}.unfinished")

    @property
    def part(self) -> Path:
        """Path of the unfinished output."""
        return self.folder / self.target.name

    def begin(self, check: Callable[[Mapping[str, Any]], None], *, anew: bool) -> bool:
        """Resume an unfinished output or start a new one; return whether the output is already complete.

        Parameters
        ----------
        check : function
            Raises ValueError if the files of a saved state are not those that were written.
        anew : bool
            Begin anew if the unfinished output is another one, or damaged.

        Raises
        ------
        ValueError
            If another process writes it; if it was begun with something else or is damaged, and ``anew`` is false.
        """
        begun = self.folder.exists()
        owner, key, state = self._progress(check, anew=anew)
        if is_other_running(owner):
            raise ValueError(
                f"{str(self.target)!r} is being written by another process; wait for it, or stop it first."
            )
        if key == self.key:
            self.state.update(state)
            if state.get(_PLACING):
                if not self._is_placed:
                    put_in_place(self.part, self.target, self.folder / _OLD)
                self.remove()
                return True
            self._save()
            return False
        if key is not None and not anew:
            other = " and ".join(what for what, value in self.key.items() if key.get(what) != value)
            raise ValueError(
                f"{str(self.target)!r} was started with another {other} and is incomplete; give the same again, with "
                "unchanged files, to resume, or overwrite=True (--overwrite at the shell) to start over."
            )
        shutil.rmtree(self.folder, ignore_errors=True)
        if begun and key is None and self._is_whole:
            return True
        # Nobody else reads a result of which nobody knows yet who may.
        self.folder.mkdir(0o700)
        self._save()
        return False

    def _progress(
        self, check: Callable[[Mapping[str, Any]], None], *, anew: bool
    ) -> tuple[str, Mapping[str, str] | None, dict[str, Any]]:
        """Who writes it, the key and the state; empty if it was killed before anything was written.

        Raises
        ------
        ValueError
            If they are not what was written, and ``anew`` is false.
        """
        path = self.folder / _PROGRESS
        try:
            content = read_bytes(path)
        except FileNotFoundError:
            return "", None, {}
        try:
            known = parse_object(content)
            if not is_intact(known):
                raise ValueError("its hash does not match its contents")
            owner, key, state = str(known["owner"]), known["key"], dict(known["state"])
            _check_state(state)
            if key == self.key and not is_other_running(owner):
                self._check_files(state, check)
            return owner, key, state
        except (ValueError, KeyError, TypeError) as error:
            if anew:
                return "", None, {}
            raise ValueError(
                f"{str(path)!r}, which says how far {str(self.target)!r} is, is damaged, or files that it lists are "
                f"({error}); give overwrite=True (--overwrite at the shell) to start over."
            ) from error

    def _check_files(self, state: Mapping[str, Any], check: Callable[[Mapping[str, Any]], None]) -> None:
        """Raise ValueError unless a state has the files that it was saved with."""
        if not (placing := state.get(_PLACING)):
            check(state)
            return
        self.state.update(state)
        if self._is_placed:
            return
        if not self.part.exists():
            raise ValueError(f"{str(self.part)!r} is missing")
        if placing is not True and self.part.is_file() and path_hash(self.part) != placing:
            raise ValueError(f"{str(self.part)!r} is not what was written")

    @property
    def _is_placed(self) -> bool:
        """Whether the completely written output has been renamed to its final name."""
        placing = self.state[_PLACING]
        return self._is_whole or bool(
            placing is not True and self.target.is_file() and path_hash(self.target) == placing
        )

    @property
    def _is_whole(self) -> bool:
        return bool(self.target.exists() and self.mark_of(self.target).get("key") == self.key)

    def save(self, **state: Any) -> None:
        """Keep how far it is, at once."""
        self.state.update(state)
        self._save()

    def _save(self) -> None:
        document = sealed({"owner": owned_name(), "key": dict(self.key), "state": self.state})
        begun = self.folder / f"{_PROGRESS}.new"
        with begun.open("w", encoding="utf-8") as file:
            file.write(json.dumps(document))
            file.flush()
            os.fsync(file.fileno())
        os.replace(begun, self.folder / _PROGRESS)

    def clear(self) -> None:
        """Remove everything written before the first saved state."""
        if self.part.exists():
            shutil.rmtree(self.part)

    def finish(self) -> None:
        """Give it its name, in the place of what has that name."""
        # A folder has a manifest, and a file none.
        self.save(**{_PLACING: path_hash(self.part) if self.part.is_file() else True})
        put_in_place(self.part, self.target, self.folder / _OLD)
        self.remove()

    def remove(self) -> None:
        """Remove what there is of it."""
        for path in (self.part, self.folder / _OLD):
            shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

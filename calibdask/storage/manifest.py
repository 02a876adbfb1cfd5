"""Manifests: the members of a store with their content hashes, and a hash over the whole manifest.

Checksums inside files detect flipped bits, but not files that changed places, were copied from another store or were
restored from a backup. Every store that calibdask writes therefore has one document that lists its members:

==================  =====================================================  ===========================================
store               manifest                                               members
==================  =====================================================  ===========================================
Zarr, written once  attribute `MANIFEST` of the group                      metadata and chunks of each array, in order
store of periods    records in ``log/``, counted and hashed by the head    the periods (each a Zarr store), their totals
cube of a study     attribute of the group; hashes of each cell            metadata of the arrays, values of the cells
folder of Parquet   ``_calibdask.json``                                    the files, in order, with their rows
map, state, netCDF  the document itself                                    none
==================  =====================================================  ===========================================

The manifest is written last, by replacing one file, so a store has either all of its members or no manifest. The
identity of the store is a random number, written into the metadata of every member that has metadata; a chunk needs
none, because its hash in the manifest belongs to one place of one store. The identity of an output of `apply` is not
random: it is a digest of the map, the files of rows and the options, so that the same command writes the same bytes.
Members of two such outputs of the same inputs are therefore not told apart; they are the same to the last bit.

icechunk was evaluated for the store of periods and not adopted. Its commits are atomic, but independent writers lost
commits on a local file system (39 of 44 snapshots were left after 40 concurrent commits; the package itself warns
against it) and on an emulated S3 server (1 of 24), where the log with exclusively created records lost none. It adds
115 MB of dependencies, and plain Zarr readers cannot open its stores. These figures are of one measurement, in November
2026; its script is not part of this repository, so measure again before they decide anything else.
"""

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# xarray does not copy attributes that begin like this: a selection that is stored elsewhere does not claim to be the
# whole store.
MANIFEST = "_nc_calibdask_checksums"
IDENTITY = "calibdask_store"
# The entry of a document that holds the hash of all others.
HASH = "hash"
# 15 bytes are 20 characters in base64, without padding.
_HASH_BYTES, HASH_LENGTH = 15, 20
_BLOCK = 1 << 20


def new_identity() -> str:
    """A random identity for a new store."""
    return secrets.token_hex(16)


def content_hash(*parts: Any) -> str:
    """Hash of bytes: the first 120 bits of SHA-256, in base64.

    Examples
    --------
    >>> content_hash(b"one", b"two") == content_hash(b"onetwo"), len(content_hash(b""))
    (True, 20)
    """
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(part)
    return _text(hashed)


def file_hash(file: Any) -> str:
    """Hash of an open file, read in blocks."""
    hashed = hashlib.sha256()
    while block := file.read(_BLOCK):
        hashed.update(block)
    return _text(hashed)


def path_hash(path: Path) -> str:
    """Hash of a file on this machine."""
    with path.open("rb") as file:
        return file_hash(file)


def _text(hashed: Any) -> str:
    return base64.urlsafe_b64encode(hashed.digest()[:_HASH_BYTES]).decode()


def document_hash(document: Mapping[str, Any]) -> str:
    """Hash of a JSON document, whatever the order of its keys."""
    return content_hash(json.dumps(document, sort_keys=True).encode())


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with its own hash.

    Examples
    --------
    >>> is_intact(sealed({"rows": 3})), is_intact({**sealed({"rows": 3}), "rows": 4}), is_intact({"rows": 3})
    (True, False, False)
    """
    plain = {name: value for name, value in document.items() if name != HASH}
    return {**plain, HASH: document_hash(plain)}


def is_intact(document: Any) -> bool:
    """Whether a document has the hash that it was written with."""
    return isinstance(document, Mapping) and document.get(HASH) == sealed(document)[HASH]


@dataclass(frozen=True)
class ArrayRecord:
    """Manifest record of a Zarr array.

    Parameters
    ----------
    metadata : str or int or None
        Hash of its metadata; a CRC-32 in stores of earlier versions; None: not recorded.
    chunks : str or None
        Hashes of all chunks in the order of their numbers, joined; None where only the chunks' own checksums exist.
    """

    metadata: str | int | None
    chunks: str | None = None

    def chunk(self, number: int) -> str | None:
        """The hash of the chunk of this number; None if it is not recorded."""
        if self.chunks is None:
            return None
        return self.chunks[number * HASH_LENGTH : (number + 1) * HASH_LENGTH]

"""Whether a Zarr group without a manifest has arrays of a store that had one."""

from contextlib import suppress
from functools import partial

from calibdask.errors import Damaged
from calibdask.storage.location import Location
from calibdask.storage.manifest import IDENTITY
from calibdask.storage.retry import with_retries


def check_members(location: Location) -> None:
    """Raise Damaged if a group without a manifest has an array of a store with one."""
    with location.reading(), suppress(FileNotFoundError, NotImplementedError):
        for path in sorted(map(str, location.fs.ls(location.path, detail=False))):
            metadata = location.child(f"{path.rstrip('/').rpartition('/')[2]}/zarr.json")
            with suppress(OSError):
                if IDENTITY.encode() in with_retries(partial(metadata.fs.cat_file, metadata.path)):
                    raise Damaged(
                        f"{location.url} is damaged: its manifest is lost, to which its arrays belong; copy the store "
                        "again, or compute it again."
                    )
                # All arrays are of one store.
                return

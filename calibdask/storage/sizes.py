"""How much a file may declare: sizes that no machine works through are refused before anything is read."""

import math
from collections.abc import Sequence

# Ten thousand million rows are within reach of a cluster in a day, and a few bytes of metadata can declare any number.
_MOST_ROWS = 10**11
# A scheduler keeps about a kilobyte for each block.
MOST_BLOCKS = 100_000
# HDF5 allows no larger chunks either; each thread holds several blocks.
_MOST_BLOCK_BYTES = 1 << 32
# Blocks smaller than this are read several at a time, as long as this many blocks are left to work on side by side.
TARGET_BYTES = 16 << 20
_ENOUGH_BLOCKS = 64


def check_rows(url: str, rows: int) -> None:
    """Raise ValueError if a file declares more rows than can be worked through.

    Examples
    --------
    >>> check_rows("rows.zarr", 10**12)
    Traceback (most recent call last):
    ValueError: rows.zarr declares 1,000,000,000,000 rows, and at most 100,000,000,000 are read; is it damaged?
    """
    if rows > _MOST_ROWS:
        raise ValueError(f"{url} declares {rows:,} rows, and at most {_MOST_ROWS:,} are read; is it damaged?")


def check_size(url: str, name: str, shape: Sequence[int], chunks: Sequence[int], item_bytes: int) -> None:
    """Raise ValueError if a stored array has too many blocks to schedule, or blocks too large to hold.

    Examples
    --------
    >>> check_size("rows.zarr", "scores", (10**9,), (1000,), 8)
    Traceback (most recent call last):
    ValueError: rows.zarr: array 'scores' would be read in 1,000,000 blocks of (1000,), and at most 100,000 are
    scheduled; give a larger chunk_rows, or store it in larger chunks.
    """
    check_rows(url, max(shape, default=0))
    blocks = math.prod(-(-size // max(1, chunk)) for size, chunk in zip(shape, chunks, strict=True))
    if blocks > MOST_BLOCKS:
        raise ValueError(
            f"{url}: array {name!r} would be read in {blocks:,} blocks of {tuple(chunks)}, and at most {MOST_BLOCKS:,} "
            "are scheduled; give a larger chunk_rows, or store it in larger chunks."
        )
    block_bytes = item_bytes * math.prod(map(min, shape, chunks))
    if block_bytes > _MOST_BLOCK_BYTES:
        raise ValueError(
            f"{url}: array {name!r} is stored in chunks of {block_bytes / 1e9:,.1f} GB, and at most "
            f"{_MOST_BLOCK_BYTES / 1e9:.1f} GB are held in memory; store it in smaller chunks."
        )


def block_rows(rows: int, stored: int, row_bytes: int, chunk_rows: int | None) -> int:
    """Rows to read at a time: a multiple of the stored chunk, so that no chunk is read twice.

    Examples
    --------
    >>> block_rows(10_000_000, stored=1000, row_bytes=80, chunk_rows=None)
    156000
    """
    stored = max(1, stored)
    if chunk_rows is not None:
        return stored * max(1, chunk_rows // stored)
    together = min(TARGET_BYTES // max(1, row_bytes * stored), rows // (stored * _ENOUGH_BLOCKS))
    # Larger ones of more rows than would fit into blocks that can all be scheduled.
    return stored * max(1, together, -(-rows // (stored * MOST_BLOCKS)))

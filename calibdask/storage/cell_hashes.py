"""Hashes of the values of cells, by which a chunk of a cube is known to belong where it is.

Cells are written by many processes, and chunks that several cells share are written again when further cells are done.
So the manifest of a cube cannot list hashes of chunks. In their place an array beside the status holds a hash of each
variable of each cell: of the layout, the variable, the number of the cell, and its values. A chunk that changed places,
was copied from another cube, or was restored from before further cells were done has other hashes.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numcodecs import vlen, zstd

# The array of the hashes, and its attribute with the names of the variables along the last axis.
CELL_HASHES, VARIABLES = "cell_hashes", "variables"
# The last axis, which only this array has.
HASHED = "hashed"
# None is 0, which stands for a cell without values.
_NONE, _HASH_BYTES = 0, 8
_SUM_BYTES = 4


def cell_hash(layout: str, variable: str, number: int, values: Any) -> int:
    """The hash of one variable of a cell; values are numbers, or a text.

    Examples
    --------
    >>> one = cell_hash("layout", "value", 3, np.array([0.5]))
    >>> one == cell_hash("layout", "value", 4, np.array([0.5])), one == cell_hash("layout", "value", 3, np.float64(0.5))
    (False, True)
    """
    array = None if isinstance(values, str) else np.ascontiguousarray(values)
    content = str(values).encode() if array is None else array.astype(array.dtype.newbyteorder("<")).tobytes()
    hashed = hashlib.sha256(f"{layout}\0{variable}\0{number}\0".encode() + content)
    return int.from_bytes(hashed.digest()[:_HASH_BYTES], "little") or 1


@dataclass(frozen=True)
class ChunkCells:
    """An array of a cube, and where the cells are in its chunks.

    Parameters
    ----------
    metadata : mapping
        Of the array, as Zarr stores it.
    axes : int
        Number of axes of cells, the first ones.
    """

    metadata: Mapping[str, Any]
    axes: int

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Of the cells."""
        return tuple(self.metadata["shape"][: self.axes])

    @cached_property
    def _chunks(self) -> tuple[int, ...]:
        return tuple(self.metadata["chunk_grid"]["configuration"]["chunk_shape"])

    def numbers(self, chunk: Sequence[int]) -> Iterator[tuple[int, int]]:
        """The cells of a chunk: the place of each in the chunk, and its number among all cells."""
        sizes = self._chunks[: self.axes]
        for place, offsets in enumerate(np.ndindex(*sizes)):
            position = [index * size + offset for index, size, offset in zip(chunk, sizes, offsets, strict=True)]
            if all(at < size for at, size in zip(position, self.shape, strict=True)):
                yield place, int(np.ravel_multi_index(position, self.shape))

    def values(self, content: npt.NDArray[np.uint8]) -> Any:
        """Values of a chunk, one for each position of a cell; ``content`` is the file."""
        codecs = [codec["name"] for codec in self.metadata["codecs"]]
        stored: Any = content[:-_SUM_BYTES].tobytes()
        if "zstd" in codecs:
            stored = zstd.decompress(stored)
        cells = math.prod(self._chunks[: self.axes])
        if self.metadata["data_type"] == "string":
            return [str(text) for text in vlen.VLenUTF8().decode(stored)]
        values = np.frombuffer(stored, np.dtype(self.metadata["data_type"]).newbyteorder("<"))
        return values.reshape(cells, -1)


def first_wrong(
    layout: str,
    variable: str,
    cells: ChunkCells,
    chunk: Sequence[int],
    content: npt.NDArray[np.uint8],
    due: npt.NDArray[np.bool_],
    expected: npt.NDArray[np.uint64],
) -> int | None:
    """The number of the first cell whose values are not those that were written for it; None if all are right.

    Parameters
    ----------
    due : array of bool
        Whether the cell at each place has values.
    expected : array of uint64
        The hash of each place.
    """
    try:
        values = cells.values(content)
    except Exception as error:
        # Bytes of another kind of array make decompressors raise errors of many kinds.
        raise ValueError(f"the values of cells in a chunk of {variable} cannot be read ({error})") from error
    for place, number in cells.numbers(chunk):
        if due[place] and cell_hash(layout, variable, number, values[place]) != int(expected[place]):
            return number
    return None

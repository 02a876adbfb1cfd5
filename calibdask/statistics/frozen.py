"""Arrays inside frozen descriptions: compared and hashed by their contents."""

from typing import Any

import numpy as np
import numpy.typing as npt


class FrozenArray:
    """A hashable, read-only array: equal if type, shape and bytes are.

    Examples
    --------
    >>> FrozenArray([0.0, 0.5]) == FrozenArray([0.0, 0.5])
    True
    """

    __slots__ = ("_hash", "values")

    def __init__(self, values: npt.ArrayLike) -> None:
        array = np.array(values)
        array.flags.writeable = False
        self.values: npt.NDArray[Any] = array
        self._hash = hash((array.dtype.str, array.shape, array.tobytes()))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FrozenArray)
            and self._hash == other._hash
            and self.values.dtype == other.values.dtype
            and self.values.shape == other.values.shape
            and self.values.tobytes() == other.values.tobytes()
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type["FrozenArray"], tuple[npt.NDArray[Any]]]:
        return FrozenArray, (self.values,)

    def __repr__(self) -> str:
        return f"FrozenArray({np.array2string(self.values, threshold=6, edgeitems=2)})"


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only view of the array, so that kernels are compiled for one kind of array only.

    Some files give such arrays and others not.
    """
    view = array.view()
    view.flags.writeable = False
    return view

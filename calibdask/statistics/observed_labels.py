"""Labels of a block in the forms that kernels take them in."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.kernels.labels import Labels, is_packable, packed
from calibdask.statistics.frozen import read_only


@dataclass(frozen=True, eq=False)
class ObservedLabels:
    """Labels as given: integers, booleans, or floats that should be whole numbers.

    Attributes
    ----------
    given : ndarray, shape (1 or batch, n)
    """

    given: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.given)

    @cached_property
    def codes(self) -> npt.NDArray[np.int64]:
        """Labels as int64; copied unless they have this type."""
        if self.given.dtype.kind == "f":
            # No class is beyond 2**31, and casting a float out of range is undefined.
            codes = np.clip(np.nan_to_num(self.given, nan=-1.0), -1.0, 2.0**31).astype(np.int64, order="C")
        elif self.given.dtype == np.uint64:
            codes = np.minimum(self.given, 2**62).astype(np.int64, order="C")
        else:
            codes = np.ascontiguousarray(self.given, np.int64)
        return read_only(codes)

    @cached_property
    def _packed(self) -> list[Labels]:
        return [packed(own if is_packable(own) else self.codes[b]) for b, own in enumerate(self.given)]

    def of(self, b: int) -> npt.NDArray[np.int64]:
        """Labels (n,) of batch element b, as int64."""
        return self.codes[b % len(self.codes)]

    def packed_of(self, b: int) -> Labels:
        """Labels of batch element b in their stored type, for kernels that read them in place."""
        return self._packed[b % len(self._packed)]

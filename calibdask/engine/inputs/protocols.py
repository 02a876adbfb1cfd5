"""Arrays of other libraries as NumPy arrays, by the protocols that they share."""

from typing import Any

import numpy as np


def speaks_protocols(array: Any) -> bool:
    """Whether this offers its numbers to other libraries, by ``__array__`` or DLPack."""
    return any(hasattr(array, name) for name in ("__array__", "__dlpack__", "__cuda_array_interface__"))


def host_array(name: str, array: Any) -> np.ndarray:
    """A NumPy array of the numbers of a tensor; those on a device are copied to the host.

    Raises
    ------
    ValueError
        If the library refuses, with its reason and how to mend it.

    Examples
    --------
    >>> host_array("y_prob", np.float32([0.25, 0.5]))
    array([0.25, 0.5 ], dtype=float32)
    """
    if getattr(array, "requires_grad", False) is True:
        raise ValueError(f"{name} requires gradients, which numbers to be measured do not have; give {name}.detach().")
    refusals: list[Exception] = []
    for convert in (_by_array, _by_dlpack, _by_copy):
        try:
            converted = convert(array)
        # Whatever the other library raises.
        except Exception as error:
            refusals.append(error)
            continue
        if converted is not None:
            return converted
    reason = " ".join(str(refusals[0]).split()).rstrip(".") if refusals else "it offers no numbers"
    raise ValueError(
        f"{name} cannot be converted to a NumPy array: {reason}. Copy it to the host as float32 or float64 first."
    ) from (refusals[0] if refusals else None)


def _by_array(array: Any) -> np.ndarray | None:
    # A masked array stays one.
    return np.asanyarray(array) if hasattr(array, "__array__") else None


def _by_dlpack(array: Any) -> np.ndarray | None:
    if not hasattr(array, "__dlpack__"):
        return None
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return np.from_dlpack(array, device="cpu", copy=True)


def _by_copy(array: Any) -> np.ndarray | None:
    """Arrays on a GPU copy themselves where they cannot be shared."""
    if not hasattr(array, "__cuda_array_interface__"):
        return None
    copy = getattr(array, "get", None) or getattr(array, "copy_to_host", None)
    return None if copy is None else np.asarray(copy())

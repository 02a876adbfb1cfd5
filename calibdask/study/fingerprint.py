"""What makes two cubes the same study, as plain data; and how two differ, in words."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from calibdask.cluster.versions import installed
from calibdask.study.study import Study

__all__ = ["FORMAT", "differences", "fingerprint", "versions"]

# Raised when the layout of cubes changes.
FORMAT = 2
_PACKAGES = ("calibdask", "numpy", "scipy", "scikit-learn", "zarr")


def fingerprint(study: Study) -> dict[str, Any]:
    """The study as data that JSON holds: equal fingerprints fill the same cube.

    Raises
    ------
    TypeError
        If a parameter or a coordinate is neither number nor text, nor a sequence or a mapping of these.
    """
    return {
        "format": FORMAT,
        "study": study.name,
        "version": study.version,
        "parameters": _data(study.parameters()),
        "inputs": _data(study.inputs()),
        "cells": _data(study.cells()),
        "inside": _data(study.inside()),
        "outputs": _data(study.outputs),
        "types": _data(study.types),
    }


def versions() -> dict[str, str]:
    """Versions of what computes; told, not compared: another release of a package is not another study."""
    return installed(_PACKAGES)


def differences(there: Any, here: Any, path: str = "") -> Iterator[str]:
    """One line for everything in which two fingerprints differ."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for name in dict.fromkeys((*there, *here)):
            yield from differences(there.get(name), here.get(name), f"{path}.{name}" if path else str(name))
    elif there != here:
        yield f"{path}: {_compared(there, here)}"


def _compared(there: Any, here: Any) -> str:
    """Both values; of sequences what only one of them has, since their beginnings may be alike."""
    if isinstance(there, list) and isinstance(here, list):
        only = [[each for each in one if each not in other] for one, other in ((there, here), (here, there))]
        if any(only):
            pairs = zip(only, ("there", "here"), strict=True)
            return ", ".join(f"{_short(part)} {where} only" for part, where in pairs if part)
    return f"{_short(there)} there, {_short(here)} here"


def _data(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _data(each) for name, each in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list | range | np.ndarray):
        return [_data(each) for each in value]
    raise TypeError(f"A study expects parameters and coordinates of numbers and texts, got {value!r}.")


def _short(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."

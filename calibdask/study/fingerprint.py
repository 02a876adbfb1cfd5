"""Fingerprints of studies as plain data, and the differences between two of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from calibdask.cluster.versions import installed
from calibdask.safe_text import data_without_credentials, visible
from calibdask.study.study import Study

# Increased when the layout of cubes changes.
FORMAT = 3
# Cubes of format 2 have no checksums, and no folder of their own for each layout; they may be continued.
READABLE = (2, 3)
KERNELS = "blas"
_PACKAGES = ("calibdask", "numpy", "scipy", "scikit-learn", "zarr")


def fingerprint(study: Study) -> dict[str, Any]:
    """The study as JSON data; cells of studies with equal fingerprints may share a cube.

    Credentials in addresses are no part of it: they are not stored, and a new token continues the same study.

    Raises
    ------
    TypeError
        If a parameter or a coordinate is neither a number nor a text, nor a sequence or mapping of these.
    """
    plain = {
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
    return {name: data_without_credentials(value) for name, value in plain.items()}


def versions(kernels: str = "") -> dict[str, str]:
    """Versions recorded in cubes; other versions give a warning, because they do not make another study.

    Parameters
    ----------
    kernels : str
        The BLAS kernels, on which trained models depend; "": unknown.
    """
    return {**installed(_PACKAGES), **({KERNELS: kernels} if kernels else {})}


def other_versions(recorded: Sequence[Mapping[str, str]], here: Mapping[str, str]) -> str:
    """Describe differences between recorded versions and the versions of a run; empty without any."""
    if here in recorded:
        return ""
    # Earlier versions of calibdask did not record kernels, and who only lays out a cube does not know its own.
    pairs = [({KERNELS: here.get(KERNELS), **other}, {KERNELS: other.get(KERNELS), **here}) for other in recorded]
    return ", ".join(dict.fromkeys(text for pair in pairs for text in differences(*pair)))


def differences(there: Any, here: Any, path: str = "") -> Iterator[str]:
    """One line for every difference between two fingerprints."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for name in dict.fromkeys((*there, *here)):
            yield from differences(there.get(name), here.get(name), f"{path}.{name}" if path else str(name))
    elif there != here:
        yield f"{visible(path)}: {_compared(there, here)}"


def _compared(there: Any, here: Any) -> str:
    """Both values; of sequences the elements that only one of them has."""
    if isinstance(there, list) and isinstance(here, list):
        pairs = ((there, here), (here, there))
        only = [[value for value in values if value not in others] for values, others in pairs]
        if any(only):
            sides = zip(only, ("there", "here"), strict=True)
            return ", ".join(f"{_short(values)} {side} only" for values, side in sides if values)
    return f"{_short(there)} there, {_short(here)} here"


def _data(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _data(item) for name, item in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list | range | np.ndarray):
        return [_data(item) for item in value]
    raise TypeError(f"A study expects parameters and coordinates of numbers and texts, got {value!r}.")


def _short(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."

"""Random numbers that depend only on a root seed and on coordinates."""

import hashlib
import json
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibdask.safe_text import data_without_credentials, listed


@dataclass(frozen=True)
class Seeds:
    """Random numbers of one cell.

    They do not depend on the order of cells, the number of workers or interruptions: a generator is keyed by the root
    and by the values of coordinates. Generators keyed by a subset of coordinates are shared by cells that differ only
    in the others: leave the model out to give all models the same draws.

    Parameters
    ----------
    root : int
        The seed of the study.
    at : tuple of (str, value)
        Coordinates of the cell.

    Examples
    --------
    >>> first, second = (Seeds(0, (("rows", 10), ("model", model))) for model in ("a", "b"))
    >>> first.generator("rows").random() == second.generator("rows").random()
    True
    >>> first.generator().random() == second.generator().random()
    False
    """

    root: int
    at: tuple[tuple[str, Hashable], ...]

    def generator(self, *names: str, **more: Hashable) -> np.random.Generator:
        """A generator for the named coordinates (all by default) and any further keys.

        Raises
        ------
        ValueError
            If the cell has no such coordinate, or a further key has the name of a coordinate.
        """
        return np.random.Generator(np.random.Philox(self.sequence(*names, **more)))

    def sequence(self, *names: str, **more: Hashable) -> np.random.SeedSequence:
        """The seed sequence of `generator`, for other kinds of generators."""
        coordinates = dict(self.at)
        for name in names:
            if name not in coordinates:
                raise ValueError(f"The cell has the coordinates {listed(coordinates)}, got {name!r}.")
        if shared := sorted(coordinates.keys() & more.keys()):
            raise ValueError(f"{listed(shared)} is a coordinate of the cell; use other names for further keys.")
        chosen = {name: coordinates[name] for name in names} if names else coordinates
        return np.random.SeedSequence(self.root, spawn_key=_words({**chosen, **more}))


def _words(key: dict[str, Any]) -> tuple[int, ...]:
    """Four 32-bit words for named values, independent of their order and of credentials in addresses."""
    text = json.dumps(data_without_credentials(key), sort_keys=True, default=_plain)
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return tuple(int(word) for word in np.frombuffer(digest, "<u4"))


def _plain(value: Any) -> Any:
    """Convert NumPy numbers to Python numbers, so that keys are equal."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"Coordinates are numbers or texts, got {value!r}.")

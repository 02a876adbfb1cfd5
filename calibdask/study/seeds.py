"""Random numbers that depend on a root and on coordinates, and on nothing else."""

import hashlib
import json
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Seeds"]


@dataclass(frozen=True)
class Seeds:
    """Random numbers of one cell.

    The same for any order of cells, any number of workers, after any interruption: a generator is keyed by the root and
    by the values of coordinates. Cells that name fewer coordinates share their numbers with those that differ in
    others: models that are to see the same draws leave the model out.

    Parameters
    ----------
    root : int
        The seed of the study.
    at : tuple of (str, value)
        Coordinates of the cell.

    Examples
    --------
    >>> one, other = (Seeds(0, (("rows", 10), ("model", model))) for model in ("a", "b"))
    >>> one.generator("rows").random() == other.generator("rows").random()
    True
    >>> one.generator().random() == other.generator().random()
    False
    """

    root: int
    at: tuple[tuple[str, Hashable], ...]

    def generator(self, *names: str, **more: Hashable) -> np.random.Generator:
        """A generator for the named coordinates (without names: for all) and any further key.

        Raises
        ------
        ValueError
            If the cell has no such coordinate, or a further key has the name of one.
        """
        return np.random.Generator(np.random.Philox(self.sequence(*names, **more)))

    def sequence(self, *names: str, **more: Hashable) -> np.random.SeedSequence:
        """What `generator` is made from, for those who need another kind of generator."""
        there = dict(self.at)
        for name in names:
            if name not in there:
                raise ValueError(f"The cell has the coordinates {', '.join(there)}, got {name!r}.")
        both = sorted(there.keys() & more.keys())
        if both:
            raise ValueError(f"{', '.join(both)} is a coordinate of the cell; give further keys another name.")
        chosen = {name: there[name] for name in names} if names else there
        return np.random.SeedSequence(self.root, spawn_key=_words({**chosen, **more}))


def _words(key: dict[str, Any]) -> tuple[int, ...]:
    """Four words of 32 bits for named values, whatever their order."""
    text = json.dumps(key, sort_keys=True, default=_plain)
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return tuple(int(word) for word in np.frombuffer(digest, "<u4"))


def _plain(value: Any) -> Any:
    """NumPy's numbers as those of Python, so that they are the same keys."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"Coordinates are numbers or texts, got {value!r}.")

"""Work on its way to other processes, unpacked only where it is done."""

import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

__all__ = ["Parcel", "packed"]


@dataclass(frozen=True)
class Parcel:
    """A function of one argument as bytes: schedulers, which look at all that passes through them, need not know it.

    Parameters
    ----------
    root : str
        Where its module was imported from: workers look for it there too.
    content : bytes
    """

    root: str
    content: bytes

    def __call__(self, argument: Any) -> Any:
        """Unpack the function and call it."""
        return _unpacked(self.root, self.content)(argument)


def packed(function: Callable[[Any], Any], kind: type[Any]) -> Parcel:
    """A parcel; ``kind`` is the class whose module workers may have to look for."""
    import cloudpickle

    return Parcel(_root(kind), cloudpickle.dumps(function))


@lru_cache(maxsize=8)
def _unpacked(root: str, content: bytes) -> Callable[[Any], Any]:
    if root and root not in sys.path:
        # Last: what a worker finds by itself comes first.
        sys.path.append(root)
    function: Callable[[Any], Any] = pickle.loads(content)
    return function


def _root(kind: type[Any]) -> str:
    """The folder that has the topmost package, or the module, of a class; nothing for what was typed in."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is None or kind.__module__ == "__main__":
        return ""
    path = Path(file).resolve()
    return str(path.parents[kind.__module__.count(".") + (path.name == "__init__.py")])

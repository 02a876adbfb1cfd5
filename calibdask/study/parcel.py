"""Work on its way to other processes, unpacked only where it is done, and only by the same code."""

import hashlib
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["Parcel", "packed"]


@dataclass(frozen=True)
class Parcel:
    """A function of one argument as bytes: schedulers, which look at all that passes through them, need not know it.

    Parameters
    ----------
    module : str
        Of the class that it works with; empty if it travels in the bytes.
    root : str
        Where that module was imported from: workers look for it there too.
    code : str
        Digest of the files of its package: workers must have the same.
    content : bytes
    """

    module: str
    root: str
    code: str
    content: bytes

    def __call__(self, argument: Any) -> Any:
        """Unpack the function and call it.

        Raises
        ------
        ImportError
            If the module is not there.
        ValueError
            If it is there with other code.
        """
        return _unpacked(self)(argument)


def packed(function: Callable[[Any], Any], kind: type[Any]) -> Parcel:
    """A parcel; ``kind`` is the class whose module workers may have to look for."""
    import cloudpickle

    content = cloudpickle.dumps(function)
    path = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if path is None or kind.__module__ == "__main__":
        return Parcel("", "", "", content)
    file = Path(path).resolve()
    root = file.parents[kind.__module__.count(".") + (file.name == "__init__.py")]
    return Parcel(kind.__module__, str(root), _digest(file), content)


@lru_cache(maxsize=8)
def _unpacked(parcel: Parcel) -> Callable[[Any], Any]:
    if parcel.module:
        if parcel.root not in sys.path:
            # Last: what a worker finds by itself comes first.
            sys.path.append(parcel.root)
        if _code_of(parcel.module) != parcel.code:
            raise ValueError(
                f"A worker has other code of {parcel.module} than this process. Restart the workers, or give them the "
                "same files."
            )
    function: Callable[[Any], Any] = pickle.loads(parcel.content)
    return function


@cache
def _code_of(module: str) -> str:
    """Of what this process imports, or has imported: files that change later are not those that it has."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ImportError(f"No module named {module!r}", name=module)
    return _digest(Path(spec.origin).resolve())


def _digest(file: Path) -> str:
    """Of all code beside a file."""
    found = hashlib.sha256()
    for path in sorted(file.parent.glob("*.py")):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()

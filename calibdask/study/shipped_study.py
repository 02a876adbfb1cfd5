"""Serialised tasks of a study; workers deserialise them only if their code is identical."""

import hashlib
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ShippedStudy:
    """A function of one argument as bytes, so that the scheduler, which deserialises tasks, need not import its module.

    Parameters
    ----------
    module : str
        Module of the study's class; empty if the class is part of the bytes.
    root : str
        Folder that the module was imported from, which workers search too.
    code : str
        Digest of the files beside the module, which must be the same on workers.
    content : bytes
    """

    module: str
    root: str
    code: str
    content: bytes

    def __call__(self, argument: Any) -> Any:
        """Deserialise the function and call it.

        Raises
        ------
        ImportError
            If the module cannot be found.
        ValueError
            If its code differs.
        """
        return _loaded(self)(argument)


def ship(function: Callable[[Any], Any], kind: type[Any]) -> ShippedStudy:
    """Serialise a function that needs the module of a study's class."""
    import cloudpickle

    content = cloudpickle.dumps(function)
    path = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if path is None or kind.__module__ == "__main__":
        return ShippedStudy("", "", "", content)
    file = Path(path).resolve()
    root = file.parents[kind.__module__.count(".") + (file.name == "__init__.py")]
    return ShippedStudy(kind.__module__, str(root), _digest(file), content)


@lru_cache(maxsize=8)
def _loaded(shipped: ShippedStudy) -> Callable[[Any], Any]:
    if shipped.module:
        if shipped.root not in sys.path:
            # Last, so that the modules that the worker has itself take precedence.
            sys.path.append(shipped.root)
        if _code_of(shipped.module) != shipped.code:
            raise ValueError(
                f"A worker has other code of {shipped.module} than this process. Restart the workers, or install "
                "the same files there."
            )
    function: Callable[[Any], Any] = pickle.loads(shipped.content)
    return function


@cache
def _code_of(module: str) -> str:
    """Digest of a module in this process, cached because files that change later are not the imported ones."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ImportError(f"No module named {module!r}", name=module)
    return _digest(Path(spec.origin).resolve())


def _digest(file: Path) -> str:
    """Digest of all code in the folder of a file."""
    digest = hashlib.sha256()
    for path in sorted(file.parent.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()

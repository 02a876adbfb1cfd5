"""What one task does: compute some cells, and write them chunk by chunk."""

import pickle
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibdask.cluster.versions import installed, unlike
from calibdask.study.cube import Cube
from calibdask.study.study import Study

__all__ = ["Task"]


@dataclass(frozen=True)
class Task:
    """Cells of a study, into its cube.

    Parameters
    ----------
    study : Study
    cube : Cube
    versions : mapping from str to str, optional
        Of the process that hands it out, if it may be another one than computes: they have to be the same.
    """

    study: Study
    cube: Cube
    versions: Mapping[str, str] | None = None

    def __call__(self, numbers: list[int]) -> list[int]:
        """Compute and write the cells; the numbers of those that failed.

        Raises
        ------
        ValueError
            If other versions compute.
        OSError
            If the store cannot be written: no cell could be, so it is no error of a cell.
        """
        if self.versions is not None and (problem := unlike(self.versions, installed(), "that was to compute cells")):
            raise ValueError(problem)
        return [number for chunk in self.cube.chunks(numbers) for number in self._written(chunk)]

    def __reduce__(self) -> tuple[Callable[..., "Task"], tuple[str, bytes]]:
        """With the folder that the module of the study was imported from: workers look for it there too."""
        import cloudpickle

        return _unpacked, (_root(type(self.study)), cloudpickle.dumps((self.study, self.cube, self.versions)))

    def _written(self, chunk: list[int]) -> list[int]:
        """Compute the cells of one chunk, and write them together."""
        computed, errors = {}, {}
        for number in chunk:
            try:
                computed[number] = self.study.computed(number)
            except Exception:
                errors[number] = traceback.format_exc()
        if computed:
            self.cube.write(computed)
        for number, text in errors.items():
            self.cube.fail(number, text)
        return list(errors)


def _unpacked(root: str, content: bytes) -> Task:
    if root and root not in sys.path:
        # Last: what a worker finds by itself comes first.
        sys.path.append(root)
    return Task(*pickle.loads(content))


def _root(kind: type[Any]) -> str:
    """The folder that has the topmost package, or the module, of a class; nothing for what was typed in."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is None or kind.__module__ == "__main__":
        return ""
    path = Path(file).resolve()
    depth = kind.__module__.count(".") + (path.name == "__init__.py")
    return str(path.parents[depth])

"""A task: compute some cells, and write them chunk by chunk."""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass

from calibdask.cluster.versions import installed, version_mismatch
from calibdask.study.cube import Cube
from calibdask.study.study import Study

__all__ = ["Task"]


@dataclass(frozen=True)
class Task:
    """Computes cells of a study and writes them to its cube.

    Parameters
    ----------
    study : Study
    cube : Cube
    versions : mapping from str to str, optional
        Versions in the process of the driver, if workers must have the same.
    """

    study: Study
    cube: Cube
    versions: Mapping[str, str] | None = None

    def __call__(self, numbers: list[int]) -> list[int]:
        """Compute and write cells, and return the numbers of those that failed.

        Raises
        ------
        ValueError
            If the versions of this process differ.
        OSError
            If the store cannot be written, which concerns all cells and is not an error of one.
        """
        if self.versions is not None and (problem := version_mismatch(self.versions, installed(), "of a task")):
            raise ValueError(problem)
        return [number for chunk in self.cube.chunks(numbers) for number in self._written(chunk)]

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

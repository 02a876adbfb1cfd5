"""What one task does: compute some cells, and write them chunk by chunk."""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass

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

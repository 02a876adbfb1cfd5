"""An example of a study: means of uniform numbers, whose error shrinks with the number of rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from calibdask.study.seeds import Seeds
from calibdask.study.study import Study


@dataclass(frozen=True, kw_only=True)
class Means(Study):
    """Means of uniform numbers by the number of rows."""

    rows: tuple[int, ...] = (10, 100)
    replicates: int = 20

    outputs: ClassVar = {"average": ("replicate",)}
    presets: ClassVar = {"quick": {"replicates": 3}}

    def cells(self) -> dict[str, Any]:
        """One cell per number of rows."""
        return {"rows": self.rows}

    def inside(self) -> dict[str, Any]:
        """All replicates of one number of rows at once."""
        return {"replicate": range(self.replicates)}

    def cell(self, at: Mapping[str, Any], seeds: Seeds) -> dict[str, Any]:
        """The mean of each replicate."""
        draws = seeds.generator().random((self.replicates, at["rows"]))
        return {"average": draws.mean(axis=1)}

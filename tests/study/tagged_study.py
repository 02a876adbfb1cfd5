"""A study whose values say which study they are of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import calibdask as cd
from calibdask.study.seeds import Seeds


@dataclass(frozen=True, kw_only=True)
class Tagged(cd.Study):
    """Two cells share a chunk."""

    tag: int = 1
    numbers: int = 6

    outputs: ClassVar = {"value": (), "index": ()}
    types: ClassVar = {"index": "int64"}
    batch: ClassVar = 2

    def cells(self) -> dict[str, Any]:
        return {"number": range(self.numbers)}

    def inside(self) -> dict[str, Any]:
        return {}

    def cell(self, at: Mapping[str, Any], seeds: Seeds) -> dict[str, Any]:
        return {"value": self.tag + at["number"] / 8, "index": 10 * self.tag + at["number"]}

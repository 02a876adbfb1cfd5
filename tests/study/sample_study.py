"""Studies for the tests, in a module that other processes can import."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import calibdask as cd
from calibdask.study.seeds import Seeds


@dataclass(frozen=True, kw_only=True)
class Walks(cd.Study):
    """Random walks of several lengths, whose models share their steps; tells a file of the cells that it computes."""

    lengths: tuple[int, ...] = (5, 20, 40)
    models: tuple[str, ...] = ("up", "down")
    replicates: int = 4
    seconds: float = 0.0
    scale: float = 1.0
    log: str = ""
    broken: str = ""

    outputs: ClassVar = {"end": ("replicate",), "path": ("replicate", "step"), "longest": ()}
    presets: ClassVar = {"quick": {"replicates": 2, "lengths": (5,)}}

    def cells(self) -> dict[str, Any]:
        return {"length": self.lengths, "model": self.models}

    def inside(self) -> dict[str, Any]:
        return {"replicate": range(self.replicates), "step": [0.25, 0.5, 1.0]}

    def cell(self, at: Mapping[str, Any], seeds: Seeds) -> dict[str, Any]:
        if self.log:
            with Path(self.log).open("a") as log:
                log.write(f"{at['length']} {at['model']} {os.getpid()}\n")
        time.sleep(self.seconds)
        if self.broken and Path(self.broken).exists() and at["model"] == "down" and at["length"] == 20:
            raise RuntimeError("this cell is broken")
        steps = seeds.generator("length").normal(size=(self.replicates, at["length"])) * self.scale
        walks = (1 if at["model"] == "up" else -1) * steps.cumsum(axis=1)
        places = [max(1, int(at["length"] * share)) - 1 for share in (0.25, 0.5, 1.0)]
        return {"end": walks[:, -1], "path": walks[:, places], "longest": abs(walks).max()}


@dataclass(frozen=True, kw_only=True)
class Misshapen(cd.Study):
    """Announces other shapes than it returns."""

    outputs: ClassVar = {"end": ("replicate",)}

    def cells(self) -> dict[str, Any]:
        return {"length": [1, 2]}

    def inside(self) -> dict[str, Any]:
        return {"replicate": range(3)}

    def cell(self, at: Mapping[str, Any], seeds: Seeds) -> dict[str, Any]:
        return {"end": [0.0] * at["length"]} if at["length"] == 1 else {"beginning": [0.0] * 3}

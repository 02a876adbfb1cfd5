"""A study whose cells take a moment, and one of them, if told so, its worker with it."""

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import calibdask as cd
from calibdask.study.seeds import Seeds


@dataclass(frozen=True, kw_only=True)
class Moments(cd.Study):
    """Moments of normal numbers.

    ``deadly`` is the cell that kills the process it is computed in, unless that is the one that reads this. Cells that
    have begun wait for the file ``gate``.
    """

    samples: tuple[int, ...] = tuple(range(100, 130))
    orders: tuple[int, ...] = (1, 2)
    seconds: float = 0.15
    deadly: int = 0
    log: str = ""
    gate: str = ""

    outputs: ClassVar = {"moment": ("replicate",), "largest": ()}
    batch: ClassVar = 2

    def cells(self) -> dict[str, Any]:
        return {"samples": self.samples, "order": self.orders}

    def inside(self) -> dict[str, Any]:
        return {"replicate": range(50)}

    def cell(self, at: Mapping[str, Any], seeds: Seeds) -> dict[str, Any]:
        if self.log:
            with Path(self.log).open("a") as log:
                log.write(f"{at['samples']} {at['order']} {os.getpid()}\n")
        if self.deadly == at["samples"] and at["order"] == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        while self.gate and not Path(self.gate).exists():
            time.sleep(0.05)
        time.sleep(self.seconds)
        draws = seeds.generator().normal(size=(50, at["samples"]))
        return {"moment": (draws ** at["order"]).mean(axis=1), "largest": draws.max()}


@dataclass(frozen=True, kw_only=True)
class Heavy(cd.Study):
    """Large cells, for disks that are too small."""

    numbers: tuple[int, ...] = tuple(range(40))

    outputs: ClassVar = {"noise": ("place",)}

    def cells(self) -> dict[str, Any]:
        return {"number": self.numbers}

    def inside(self) -> dict[str, Any]:
        return {"place": range(20_000)}

    def cell(self, at: Mapping[str, Any], seeds: Seeds) -> dict[str, Any]:
        return {"noise": seeds.generator().random(20_000)}

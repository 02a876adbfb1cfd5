"""A study for the tests of the explorer: estimates of a truth, with curves, chunks of two cells, and one that fails."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import calibdask as cd
from calibdask.study.seeds import Seeds

ESTIMATORS = ("plain", "wide", "debiased")
SCORES = (np.arange(40) + 0.5) / 40


@dataclass(frozen=True, kw_only=True)
class Estimates(cd.Study):
    """Estimates whose errors shrink with the size; the cell of ``broken`` and draw 1 fails."""

    models: tuple[str, ...] = ("forest", "linear", "svc")
    draws: int = 3
    sizes: tuple[int, ...] = (30, 100, 300, 1000)
    replicates: int = 20
    broken: str = ""

    outputs: ClassVar = {
        "estimate": ("estimator", "size", "replicate"),
        "truth": ("norm",),
        "rows": (),
        "reliability": ("score",),
        "density": ("score",),
    }
    types: ClassVar = {"estimate": "float32", "rows": "int64"}
    batch: ClassVar = 2

    def cells(self) -> dict[str, Any]:
        return {"model": self.models, "draw": range(self.draws)}

    def inside(self) -> dict[str, Any]:
        return {
            "estimator": ESTIMATORS,
            "size": self.sizes,
            "replicate": range(self.replicates),
            "norm": ("l1", "l2"),
            "score": SCORES.tolist(),
        }

    def cell(self, at: Mapping[str, Any], seeds: Seeds) -> dict[str, Any]:
        if at["model"] == self.broken and at["draw"] == 1:
            raise RuntimeError("this cell is broken")
        random = seeds.generator()
        truth = np.array([0.05, 0.08]) * (1 + random.random())
        noise = random.normal(size=(len(ESTIMATORS), len(self.sizes), self.replicates))
        noise *= np.array([1.0, 2.0, 0.7])[:, None, None] / np.sqrt(self.sizes)[None, :, None]
        estimate = truth[0] + noise
        # Some estimates do not exist.
        estimate[1, 0, : self.replicates // 4] = np.nan
        bend = 0.2 * SCORES * (1 - SCORES)
        return {
            "estimate": estimate,
            "truth": truth,
            "rows": 7,
            "reliability": SCORES - bend,
            "density": np.ones(len(SCORES)),
        }


@dataclass(frozen=True, kw_only=True)
class Recommended(Estimates):
    """The same, of which two estimators matter most."""

    views: ClassVar = {"estimate": {"estimator": ("debiased", "plain")}, "rows": {}}

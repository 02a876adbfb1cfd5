"""Promises of intervals, tests, gates and guarantees, measured where data are weighted, rare, few or saturated."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import calibdask as cd
from experiments.calibration.cases import CALIBRATED, CASES, OFF
from experiments.calibration.declared import FAMILIES, PROMISES
from experiments.calibration.measured import Measurement
from experiments.calibration.measured_gates import gates


@dataclass(frozen=True, kw_only=True)
class Promises(cd.Study):
    """How often promises are kept, by case, model, number of rows and family of promises.

    Parameters
    ----------
    cases : tuple of str
        Names in `CASES`.
    families : tuple of str
        Groups of promises: each has cells of its own, which can be measured again by themselves.
    rows : tuple of int
    sets : int
        Data sets of formulas and tests; a quarter of them of tests that take their time.
    replicated_sets : int
        Data sets of intervals by replicates, of gates, comparisons and audits; 0 leaves these and slow tests out.
    n_boot : int
        Replicates.
    only : tuple of str
        Names in `PROMISES`, of intervals, tests and gates that are measured again; all by default.
    """

    cases: tuple[str, ...] = tuple(CASES)
    families: tuple[str, ...] = FAMILIES
    rows: tuple[int, ...] = (50, 500)
    sets: int = 200
    replicated_sets: int = 100
    n_boot: int = 100
    only: tuple[str, ...] = ()

    outputs: ClassVar = dict.fromkeys(("sets", "given", "share", "standard_error"), ("promise",))
    presets: ClassVar = {
        "formulas": {"families": ("formulas", "guarantees"), "replicated_sets": 0},
        "quick": {"cases": ("rare",), "rows": (50,), "sets": 20, "replicated_sets": 5, "n_boot": 20},
        "large": {"rows": (30, 100, 500, 3000), "sets": 2000, "replicated_sets": 400, "n_boot": 200},
    }

    def problems(self) -> Iterator[str]:
        """Values that cells could not compute."""
        if unknown := sorted({*self.cases} - {*CASES}):
            yield f"cases expects some of {', '.join(CASES)}, got {', '.join(unknown)}."
        if unknown := sorted({*self.families} - {*FAMILIES}):
            yield f"families expects some of {', '.join(FAMILIES)}, got {', '.join(unknown)}."
        if unknown := sorted({*self.only} - {*PROMISES}):
            yield f"only expects names of promises, got {', '.join(unknown)}."
        if not self.rows or min(*self.rows, self.sets, self.replicated_sets or 2, self.n_boot) < 2:
            yield "rows, sets, replicated_sets and n_boot expect numbers from 2 on, or replicated_sets=0."
        if self.replicated_sets > self.sets:
            yield "replicated_sets expects at most sets."

    def cells(self) -> dict[str, Any]:
        """A cell for each family, number of rows, model and case."""
        return {"family": self.families, "rows": self.rows, "model": (CALIBRATED, OFF), "case": self.cases}

    def inside(self) -> dict[str, Any]:
        """The promises."""
        return {"promise": tuple(PROMISES)}

    def cell(self, at: Mapping[str, Any], seeds: Any) -> dict[str, Any]:
        """Measure the promises of one case; NaN where one is not measured in it.

        ``sets`` data sets, of which the share ``given`` has a result; of these the ``share`` in which an interval
        holds, a test rejects or a gate decides wrongly, with its standard ``standard_error``.
        """
        measurement = Measurement(
            CASES[at["case"]],
            at["model"],
            at["rows"],
            self.sets,
            self.replicated_sets,
            self.n_boot,
            lambda name: seeds.generator(of=name),
            frozenset(self.only or PROMISES),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            of = gates(measurement) if at["family"] == "gates" else measurement.measured(at["family"])
            measured = dict(of)
        missing = (np.nan,) * 4
        columns = np.array([measured.get(promise, missing) for promise in PROMISES]).T
        return dict(zip(("sets", "given", "share", "standard_error"), columns, strict=True))

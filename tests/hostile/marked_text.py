"""Texts that are markup, each with the name of the field that it is in, and stores that hold them in all fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr

import calibdask as cd
from calibdask.storage.writers import write_dataset
from calibdask.study.seeds import Seeds

# An element that a text adds to a page has this attribute.
MARK = "data-hostile"
ROWS = 800
RNG = np.random.default_rng(8)
SCORES = RNG.random(ROWS)
LABELS = (RNG.random(ROWS) < SCORES**1.6).astype(int)


def hostile(field: str) -> str:
    """A text that ends attributes, adds elements, runs a script, and fills in templates where it can."""
    return f"'\"><b {MARK}={field}><img src=x onerror=ran('{field}')>{{{{7*7}}}}<%=7*7%>$$1$$"


# In their order, as those of dates are, which makes them a period.
DAYS = np.array([f"2026-01-{day:02} {hostile('day')}" for day in range(1, 9)])


def pairs(field: str) -> np.ndarray:
    """One of two names for each row; scores of the second are off by far."""
    return np.array([hostile(field), hostile(f"{field}-off")], object)[(SCORES * 1000).astype(int) % 2]


def summary(path: Path) -> Path:
    """Two models, slices in two columns, versions and days."""
    model, days = hostile("model-dim"), DAYS[np.arange(ROWS) * len(DAYS) // ROWS]
    probabilities = xr.DataArray(
        [SCORES, SCORES**2], dims=(model, "sample"), coords={model: [hostile("model"), hostile("model-two")]}
    )
    by = {hostile("column"): pairs("slice"), "day": days}
    write_dataset(cd.summarize(LABELS, probabilities, by=by, step=0.01), path)
    return path


def classes(path: Path) -> Path:
    """Three classes with names."""
    names = [hostile("class-a"), hostile("class-b"), hostile("class-c")]
    chosen = RNG.integers(0, 3, ROWS)
    probabilities = RNG.dirichlet([1.0, 1.0, 1.0], ROWS)
    write_dataset(
        cd.summarize(np.array(names, object)[chosen], probabilities, labels=names, by={"column": pairs("slice")}), path
    )
    return path


def featured() -> pd.DataFrame:
    """Rows whose columns are features: groups of the second value are off."""
    value = pairs("feature-value")
    is_off = np.array(["-off" in text for text in value])
    labels = np.where(is_off, RNG.random(ROWS) < 0.2, LABELS).astype(int)
    return pd.DataFrame(
        {"label": labels, "score": SCORES, hostile("feature"): value, "age": RNG.integers(20, 80, ROWS)}
    )


def groups(path: Path) -> Path:
    """Groups by features."""
    write_dataset(cd.summarize(featured(), features=[hostile("feature"), "age"]), path)
    return path


@dataclass(frozen=True, kw_only=True)
class Marked(cd.Study):
    """A study all of whose names are markup; a cell fails with such a text."""

    outputs: ClassVar = {hostile("output"): (hostile("inner"), hostile("many"))}

    def cells(self) -> dict[str, Any]:
        return {hostile("axis"): (hostile("axis-label"), hostile("axis-label-two"))}

    def inside(self) -> dict[str, Any]:
        return {
            hostile("inner"): (hostile("inner-label"), hostile("inner-label-two")),
            hostile("many"): [f"{number} {hostile('many-label')}" for number in range(60)],
        }

    def cell(self, at: Mapping[str, Any], seeds: Seeds) -> dict[str, Any]:
        if at[hostile("axis")] == hostile("axis-label-two"):
            raise RuntimeError(hostile("error"))
        return {hostile("output"): seeds.generator().random((2, 60))}


# Studies are called as their classes are, and a store may be from anybody.
Marked.__name__ = hostile("study")


def cube(path: Path) -> Path:
    """Its store, with a failed cell."""
    assert cd.run(Marked(), path).failed == 1
    return path

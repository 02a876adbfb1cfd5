"""Summaries with values that no pass writes, by name, and what the error must say."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from tests.storage.damage import WEIGHTS, summary

# The cell of a slice.
CELL = (1, 40, 0)
NO_PASS = "which calibdask never writes: it is damaged, made by hand, or was lost in a join or a selection. Copy the"
FROM_ZERO = "numbers from 0 on (a cell holds up to 2**33 rows; where there are more, keep slices apart)"
WHOLE = "Sums of unweighted rows must be whole numbers; fill values that a join left missing with 0"


def made(name: str, value: Any, at: Any = ..., **options: Any) -> Callable[[], xr.Dataset]:
    """A summary with a value of somebody's own."""

    def dataset() -> xr.Dataset:
        whole = summary(**options).compute()
        values = whole[name].values.astype(object if isinstance(value, str) else np.result_type(whole[name], value))
        values[at] = value
        return whole.assign({name: (whole[name].dims, values.astype(str if isinstance(value, str) else values.dtype))})

    return dataset


def weighted(name: str, value: Any, at: Any = CELL) -> Callable[[], xr.Dataset]:
    return made(name, value, at, sample_weight=WEIGHTS)


def no_pass(name: str, expected: str, got: str) -> str:
    return re.escape(f"{name} of a summary expects {expected}, got {got}, {NO_PASS}")


def text(name: str) -> str:
    return f"{name} of a summary expects numbers, got the type <U"


def sorted_by(name: str) -> Callable[[], xr.Dataset]:
    return lambda: summary().compute().sortby(name, ascending=False)


CASES: dict[str, tuple[Callable[[], xr.Dataset], str]] = {
    "outcomes are in another order": (
        sorted_by("outcome"),
        "cells and outcomes in their order, and 'outcome' does not",
    ),
    "cells are in another order": (
        sorted_by("cell_lower"),
        "cells and outcomes in their order, and 'cell_lower' does not",
    ),
    "counts are NaN": (made("class_1_count", np.nan, CELL), WHOLE),
    "counts are infinite": (made("class_1_count", np.inf, CELL), WHOLE),
    "counts are negative": (made("class_1_count", -1, CELL), no_pass("class_1_count", FROM_ZERO, "-1")),
    "counts are 2**62": (made("class_1_count", 2**62, CELL), no_pass("class_1_count", FROM_ZERO, str(2**62))),
    "counts are text": (made("class_1_count", "many"), text("class_1_count")),
    "counts do not add up": (
        made("class_1_count", 70, CELL),
        "class_1_count .* expects 80 rows in all cells of",
    ),
    "weights are NaN": (weighted("class_1_count", np.nan), no_pass("class_1_count", FROM_ZERO, "nan")),
    "weights are infinite": (weighted("class_1_square", np.inf), no_pass("class_1_square", FROM_ZERO, "inf")),
    "weights are text": (weighted("class_1_offset", "some"), text("class_1_offset")),
    "rows of weights": (weighted("class_1_rows", 7), "class_1_rows .* expects 80 rows in all cells of"),
    "positions beyond the cell": (made("class_1_offset", 2**61, CELL), "expects positions from 0 to 1 in a cell"),
    "positions are negative": (made("class_1_offset", -5, CELL), no_pass("class_1_offset", FROM_ZERO, "-5")),
    "rows are negative": (made("rows", -80, 0), no_pass("rows", f"numbers from 0 to {1 << 53:,}", "-80")),
    "rows are a fraction": (made("rows", 0.5, 0), no_pass("rows", "whole numbers", "0.5")),
    "rows are NaN": (made("rows", np.nan, 0), no_pass("rows", "whole numbers", "nan")),
    "rows are text": (made("rows", "eighty"), text("rows")),
    "no classes": (made("classes", 0), no_pass("classes", f"numbers from 2 to {1 << 31:,}", "0")),
    "classes are text": (made("classes", "two"), text("classes")),
    "a billion cells": (made("cells", 10**9), no_pass("cells", f"numbers from 1 to {1 << 24:,}", "1000000000")),
    "no cells": (made("cells", 0), no_pass("cells", f"numbers from 1 to {1 << 24:,}", "0")),
    "neither vector nor matrix": (made("vector", 7), no_pass("vector", "0 or 1", "7")),
    "a format in words": (made("calibdask_summary", "second"), "the number of a format, got second, which calibdask"),
    "too many clipped": (
        made("clipped_rows", 81, 0),
        "clipped_rows .* no more than the rows of a slice, got 81",
    ),
    "scores are negative": (made("brier_sum", -3, (0, 0)), "brier_sum of a summary expects numbers from 0 on"),
}

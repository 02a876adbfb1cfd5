"""One clear error from the counts of invalid rows."""

from collections.abc import Callable

import numpy as np

from calibdask.statistics.layout import Layout
from calibdask.statistics.validity import KINDS, Validity, ValidityState

__all__ = ["raise_if_invalid", "raise_if_nothing"]


def raise_if_invalid(
    state: ValidityState, checked: Validity, layout: Layout, row_of: Callable[[int], int] = lambda position: position
) -> None:
    """Raise ValueError that names what was expected, how many rows are invalid, the first one and its value.

    ``row_of`` turns the position noted in a state into a global row number.
    """
    invalid = np.flatnonzero(state.invalid)
    if invalid.size:
        kind = int(invalid[np.argmin(state.first[invalid])])
        count, first, value = int(state.invalid[kind]), row_of(int(state.first[kind])), float(state.value[kind])
        others = sum(int(state.invalid[k]) for k in invalid if k != kind)
        raise ValueError(_message(KINDS[kind], count, first, value, checked, layout, int(state.rows), others))


def raise_if_nothing(state: ValidityState) -> None:
    """Raise ValueError if there are no rows, or none of positive weight."""
    if state.rows == 0:
        raise ValueError("Expected at least one row of scores and labels, got none.")
    if state.positive == 0:
        raise ValueError(f"At least one sample weight must be positive, all {int(state.rows)} are zero.")


def _message(
    kind: str, count: int, first: int, value: float, checked: Validity, layout: Layout, rows: int, others: int
) -> str:
    shown = int(value) if kind == "label" and value.is_integer() and abs(value) < 2**53 else value
    expected, mend = {
        "not finite": ("finite scores", "Drop or repair the rows with NaN or infinity."),
        "out of range": (
            f"scores in [0, 1] (within {checked.tolerance:g})",
            "Logits must first go through a softmax or a sigmoid.",
        ),
        "row sum": (
            f"the scores of a row to sum to 1 (within {checked.sum_tolerance:g})",
            "Normalise the rows, or set sum_tolerance.",
        ),
        "label": (
            f"labels that are whole numbers from 0 to {layout.classes - 1}",
            "Number the classes in the order of the score columns.",
        ),
        "weight": (
            "finite, non-negative sample weights (0, or between 1e-100 and 1e100)",
            "Drop these rows or give them weight 0.",
        ),
    }[kind]
    what = {"row sum": "sum", "label": "label", "weight": "weight"}.get(kind, "score")
    if value != value:
        mend = f"Drop the rows without a {what}, or leave them out by skip_missing=True (--skip-missing)."
    more = f" {others} more rows are invalid in other ways." if others else ""
    differ = "differs" if count == 1 else "differ"
    return (
        f"Expected {expected}, but {count} of {rows} rows {differ}; the first is row {first} with {what} {shown}."
        f"{more} {mend}"
    )

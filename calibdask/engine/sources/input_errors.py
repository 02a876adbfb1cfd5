"""One clear error from the counts of invalid rows."""

from collections.abc import Callable, Mapping

import numpy as np

from calibdask.engine.one_hot import one_hot_fault
from calibdask.statistics.layout import Layout
from calibdask.statistics.validity import KINDS, Validity, ValidityState


def raise_if_invalid(
    state: ValidityState, checked: Validity, layout: Layout, row_of: Callable[[int], int] = lambda position: position
) -> None:
    """Raise ValueError for invalid rows: the expectation, their number, the first row and its value.

    ``row_of`` turns the position noted in a state into a global row number.
    """
    invalid = np.flatnonzero(state.invalid)
    if invalid.size:
        kind = int(invalid[np.argmin(state.first[invalid])])
        count, first, value = int(state.invalid[kind]), row_of(int(state.first[kind])), float(state.value[kind])
        others = sum(int(state.invalid[k]) for k in invalid if k != kind)
        raise ValueError(_message(KINDS[kind], count, first, value, checked, layout, int(state.rows), others))


def raise_if_nothing(state: ValidityState, excluded: Mapping[str, int]) -> None:
    """Raise ValueError if there are no rows, or none of positive weight."""
    if state.rows == 0 and (gone := excluded.get("ignored", 0) + excluded.get("skipped", 0)):
        raise ValueError(
            f"Expected at least one row of scores and labels, got none: all {gone} rows were left out, "
            f"{excluded['ignored']} with the label to be ignored and {excluded['skipped']} with missing values."
        )
    if state.rows == 0:
        raise ValueError("Expected at least one row of scores and labels, got none.")
    if state.positive == 0:
        raise ValueError(f"At least one sample weight must be positive, all {int(state.rows)} are zero.")


def _message(
    kind: str, count: int, first: int, value: float, checked: Validity, layout: Layout, rows: int, others: int
) -> str:
    shown = int(value) if kind == "label" and value.is_integer() and abs(value) < 2**53 else value
    what = {"row sum": "sum", "label": "label", "weight": "weight"}.get(kind, "logit" if layout.logits else "score")
    expected, mend = _expectation(kind, checked, layout)
    if value != value:
        mend = f"Drop the rows whose {what} is NaN, or leave them out by skip_missing=True (--skip-missing)."
    with_value = f"with {what} {shown}"
    if kind == "label" and layout.one_hot and value < 0:
        with_value = one_hot_fault(value)
    more = f" {others} more rows are invalid in other ways." if others else ""
    differ = "differs" if count == 1 else "differ"
    return (
        f"Expected {expected}, but {count} of {rows} rows {differ}; the first is row {first} {with_value}.{more} {mend}"
    )


def _expectation(kind: str, checked: Validity, layout: Layout) -> tuple[str, str]:
    """The expectation for a row, and advice for rows that fail it."""
    one_hot = layout.one_hot and kind == "label"
    return {
        "not finite": (
            "finite logits" if layout.logits else "finite scores",
            "Drop or repair the rows with NaN or infinity.",
        ),
        "out of range": (
            f"scores in [0, 1] (within {checked.tolerance:g})",
            "If they are logits, say so by logits=True (--logits); divide percentages by 100.",
        ),
        "row sum": (
            f"the scores of a row to sum to 1 (within {checked.sum_tolerance:g})",
            "If the columns are independent labels, say task='multilabel'; if they are several models, give them a "
            "dimension with a name, or task='binary' and the shape (models, n); if logits, logits=True; if they are "
            "rounded, a larger sum_tolerance.",
        ),
        "label": (
            "one-hot rows of labels, a single 1 and zeros"
            if one_hot
            else f"labels that are whole numbers from 0 to {layout.classes - 1}",
            "If every column is an independent label, say task='multilabel'."
            if one_hot
            else "Number the classes in the order of the score columns, or name them: "
            + ("pos_label=..." if layout.vector else "labels=...")
            + "; leave out rows without a class by ignore_label=....",
        ),
        "weight": (
            "finite, non-negative sample weights (0, or between 1e-100 and 1e100)",
            "Drop these rows or give them weight 0.",
        ),
    }[kind]

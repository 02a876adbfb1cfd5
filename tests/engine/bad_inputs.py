"""Bad inputs, by name: fresh labels, scores and options of `evaluate`, and what the error must say of them."""

from collections.abc import Callable
from typing import Any

import numpy as np

Inputs = tuple[Any, Any, dict[str, Any]]
ROWS, OFFENDERS = 50, [17, 23, 31, 44]
# Labels and scores of two classes as a vector, and of three classes; sums of rows are exactly 1.
VECTOR = np.arange(ROWS) % 2, np.arange(1, ROWS + 1) / 64
MATRIX = (
    np.arange(ROWS) % 3,
    np.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.25, 0.25, 0.5]])[np.arange(ROWS) % 3],
)

FINITE = "Expected finite scores, but"
RANGE = r"Expected scores in \[0, 1\] \(within 1e-06\), but"
SUMS = r"Expected the scores of a row to sum to 1 \(within 0.001\), but"
LABELS = "Expected labels that are whole numbers from 0 to {}, but"
WEIGHTS = r"Expected finite, non-negative sample weights .*, but"


def spoilt(array: Any, value: Any) -> Any:
    """A copy with the value in the rows that offend, of a matrix in its middle column; or with whole rows."""
    array = np.array(array)
    array[(OFFENDERS, 1) if array.ndim == 2 and np.ndim(value) == 0 else OFFENDERS] = value
    return array


def of_rows(expected: str, kind: str, shown: str) -> str:
    """The message on rows that offend: how many, the first of them counted from 0, and its value."""
    return rf"^{expected} 4 of 50 rows differ; the first is row 17 with {kind} {shown.replace('.', '[.]')}\. "


def scores(
    value: Any, expected: str, data: Any = VECTOR, kind: str = "score", shown: str = "", dtype: Any = float
) -> Any:
    return lambda: (data[0], spoilt(data[1].astype(dtype), value), {}), of_rows(expected, kind, shown or str(value))


def labels(value: float, shown: str, data: Any = MATRIX, dtype: Any = int) -> Any:
    message = of_rows(LABELS.format(2 if data is MATRIX else 1), "label", shown)
    return lambda: (spoilt(data[0].astype(dtype), value), data[1], {}), message


def weights(value: float) -> Any:
    options = {"sample_weight": spoilt(np.ones(ROWS), value)}
    return lambda: (*VECTOR, options), of_rows(WEIGHTS, "weight", str(value))


def sums(total: float, dtype: Any = float) -> Any:
    return scores((0.25, 0.25, total - 0.5), SUMS, MATRIX, "sum", str(total), dtype)


CASES: dict[str, tuple[Callable[[], Inputs], str]] = {
    **{f"score is {value}": scores(value, FINITE) for value in (np.nan, np.inf, -np.inf)},
    **{f"matrix score is {value}": scores(value, FINITE, MATRIX) for value in (np.nan, np.inf, -np.inf)},
    # Two of them are just past the tolerance.
    **{f"score is {value}": scores(value, RANGE) for value in (-0.25, -2e-06, 1.25, 1.000002, 87.5)},
    "negative in rows that sum to 1": scores((0.625, -0.25, 0.625), RANGE, MATRIX, shown="-0.25"),
    "whole-number scores with a 2": scores(2, RANGE, (VECTOR[0], VECTOR[0][::-1]), shown="2.0", dtype=int),
    "float32 score is above 1": scores(1.5, RANGE, dtype=np.float32),
    **{f"sum is {total}": sums(total) for total in (1.25, 0.75, 0.998046875)},
    "float32 sum is just past the tolerance": sums(1.001953125, np.float32),
    "label is negative": labels(-1, "-1"),
    "label is K": labels(3, "3"),
    **{f"label is the float {value}": labels(value, shown, dtype=float) for value, shown in ((3, "3"), (1.5, "1.5"))},
    "label is NaN": labels(np.nan, "nan", dtype=float),
    **{f"binary label is {value}": labels(value, str(value), VECTOR) for value in (2, -1)},
    **{f"weight is {value}": weights(value) for value in (-0.5, np.nan, np.inf)},
    "all weights are zero": (
        lambda: (*VECTOR, {"sample_weight": np.zeros(ROWS)}),
        "At least one sample weight must be positive, all 50 are zero",
    ),
    "too few weights": (
        lambda: (*VECTOR, {"sample_weight": np.ones(49)}),
        "weights expect equally many rows, got 50 rows of scores and 49 weights",
    ),
    "labels are strings": (
        lambda: (np.array(["cat", "dog"])[VECTOR[0]], VECTOR[1], {}),
        "y_true expects the class numbers 0 and 1, got type <U3",
    ),
    **{
        f"{number} labels": (
            lambda number=number: (np.resize(VECTOR[0], number), VECTOR[1], {}),
            rf"labels expect equally many rows, got 50 rows of scores and {number} labels",
        )
        for number in (49, 51)
    },
    "labels are a matrix and scores a vector": (
        lambda: (np.eye(2, dtype=int)[VECTOR[0]], VECTOR[1], {}),
        r"y_true and y_prob expect shapes .* got shapes \(50, 2\) and \(50,\)",
    ),
    "no rows": (lambda: (VECTOR[0][:0], VECTOR[1][:0], {}), "Expected at least one row"),
    "no rows of a matrix": (lambda: (MATRIX[0][:0], MATRIX[1][:0], {}), "Expected at least one row"),
    "scores are one number": (lambda: (VECTOR[0], np.array(0.5), {}), "y_prob expects at least one dimension"),
    "scores are complex": (lambda: (VECTOR[0], VECTOR[1] + 0j, {}), "y_prob expects real numbers .* type complex128"),
    "scores are objects": (
        lambda: (VECTOR[0], np.array([*VECTOR[1][1:], "x"], object), {}),
        r"y_prob expects numbers, got 'x', of type str, in row \d+; repair",
    ),
    "one column": (
        lambda: (VECTOR[0], VECTOR[1][:, None], {}),
        r"single class column; give the vector .*shape \(n,\), or two columns \(1 - p, p\)",
    ),
    "scores of no class": (
        lambda: (VECTOR[0], np.zeros((ROWS, 0)), {}),
        "y_prob expects a column for each of at least 2 classes, got 0",
    ),
    "too few codes in by": (
        lambda: (*VECTOR, {"by": np.zeros(49, int)}),
        "by 'by' expects one value for each of the 50 rows, got .*49",
    ),
}

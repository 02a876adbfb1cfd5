"""A catalogue of bad inputs: for each, what a clear ValueError must say.

Every case has 50 rows unless its length is what is wrong. Where single rows offend they are the four of OFFENDERS, and
the message must name how many there are, the first of them (counted from 0) and its value. Fragments are regular
expressions, each to be found somewhere in the message, in any case and order.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Inputs = tuple[Any, Any, dict[str, Any]]

ROWS = 50
CLASSES = 3
OFFENDERS = (17, 23, 31, 44)


@dataclass(frozen=True)
class BadInput:
    """One bad call: `make` gives fresh (y_true, y_prob, keyword arguments) for `evaluate`."""

    name: str
    make: Callable[[], Inputs]
    fragments: tuple[str, ...]
    count: int | None = None
    first_row: int | None = None
    value: float | None = None

    def missing_from(self, message: str) -> list[str]:
        """The fragments that the message lacks."""
        return [fragment for fragment in self.fragments if not re.search(fragment, message, re.IGNORECASE)]


def number(value: float) -> str:
    """Regular expression for a number as Python or NumPy may print it, and not as part of a longer one."""
    if np.isnan(value):
        return r"\bnan\b"
    if np.isinf(value):
        return r"-inf\b" if value < 0 else r"(?<![-\w])inf\b"
    if float(value).is_integer():
        spelling = rf"{value:.0f}(?:\.0*(?=\D|$))?"
    else:
        spellings = {repr(float(value)), f"{value:.6f}", f"{value:.6g}", f"{value:.0e}".replace("e-0", "e-")}
        exact = [s for s in spellings if not float(s).is_integer() and abs(float(s) - value) <= 1e-5 * abs(value)]
        spelling = "(?:" + "|".join(re.escape(s) for s in sorted(exact, key=len, reverse=True)) + r")\d*"
    return rf"(?<![\d.+-]){spelling}(?!\.?\d)"


def vector_labels() -> NDArray[np.int64]:
    """Good binary labels."""
    return (np.arange(ROWS) % 2).astype(np.int64)


def vector_scores() -> NDArray[np.float64]:
    """Good scores P(y = 1)."""
    return np.arange(1, ROWS + 1) / 64


def matrix_labels() -> NDArray[np.int64]:
    """Good labels of three classes."""
    return (np.arange(ROWS) % CLASSES).astype(np.int64)


def matrix_scores() -> NDArray[np.float64]:
    """Good scores of three classes, with rows that sum to exactly 1."""
    return np.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.25, 0.25, 0.5]])[np.arange(ROWS) % CLASSES]


def offending(array: NDArray[Any], value: Any) -> NDArray[Any]:
    """The array with the value in the offending rows (of a matrix: in its middle column)."""
    array[(list(OFFENDERS), 1) if array.ndim == 2 else list(OFFENDERS)] = value
    return array


def row_case(name: str, make: Callable[[], Inputs], value: float, *fragments: str) -> BadInput:
    """A case in which the rows OFFENDERS offend and `value` is what the message must show of the first."""
    positions = (number(len(OFFENDERS)), r"\brow", number(OFFENDERS[0]), number(value))
    return BadInput(name, make, fragments + positions, len(OFFENDERS), OFFENDERS[0], value)


def vector_score_case(name: str, value: float, *fragments: str) -> BadInput:
    """A vector of scores with the value in the offending rows."""
    return row_case(name, lambda: (vector_labels(), offending(vector_scores(), value), {}), value, SCORE, *fragments)


def matrix_score_case(name: str, value: float, *fragments: str) -> BadInput:
    """A matrix of scores with the value in the middle column of the offending rows."""
    return row_case(name, lambda: (matrix_labels(), offending(matrix_scores(), value), {}), value, SCORE, *fragments)


def label_case(name: str, value: float, *fragments: str, dtype: type = np.int64) -> BadInput:
    """Labels of three classes with the value in the offending rows."""
    return row_case(
        name,
        lambda: (offending(matrix_labels().astype(dtype), value), matrix_scores(), {}),
        value,
        LABEL,
        *fragments,
    )


def weight_case(name: str, value: float, *fragments: str) -> BadInput:
    """Weights with the value in the offending rows."""
    return row_case(
        name,
        lambda: (vector_labels(), vector_scores(), {"sample_weight": offending(np.ones(ROWS), value)}),
        value,
        WEIGHT,
        *fragments,
    )


def rows_with(row: tuple[float, float, float], dtype: type = np.float64) -> NDArray[Any]:
    """Scores of three classes with the offending rows replaced by `row`."""
    scores: NDArray[Any] = matrix_scores().astype(dtype)
    scores[list(OFFENDERS)] = row
    return scores


def row_sum_case(name: str, total: float, dtype: type = np.float64) -> BadInput:
    """Scores in [0, 1] of three classes whose offending rows sum to `total`."""
    return row_case(
        name,
        lambda: (matrix_labels(), rows_with((0.25, 0.25, total - 0.5), dtype), {}),
        total,
        SCORE,
        r"\bsum",
    )


def bare_case(name: str, make: Callable[[], Inputs], *fragments: str) -> BadInput:
    """A case without single offending rows."""
    return BadInput(name, make, fragments)


SCORE = r"scores?\b|y_prob|probabilit"
LABEL = r"labels?\b|y_true"
WEIGHT = r"weight"
FINITE = r"\bnan\b|finite"
RANGE = r"\[0, ?1\]|between 0 and 1|0\.?0?\.\.1|from 0 to 1|range"
WHOLE = r"whole|integer"
CLASS_RANGE = r"0\s?\.\.\.?\s?2|0\s(?:to|-|and)\s2|\[0, ?2\]|\[0, ?3\)|\{0, ?1, ?2\}|0, 1, 2|3 classes|K = 3|K=3"
BINARY_RANGE = r"0\s?\.\.\.?\s?1|0\s(?:or|to|and)\s1|\[0, ?1\]|\{0, ?1\}|0, 1|2 classes|two classes|K = 2|K=2"
NUMERIC = r"number|numeric|integer|real|float"
DIMENSIONS = r"dimension|\bshape|scalar|0-d|\bndim|vector"
ZERO = r"zero|\b0\b|positive"
EMPTY = r"\bno rows|empty|at least one row|\b0 rows|zero rows"


CASES: tuple[BadInput, ...] = (
    vector_score_case("score is NaN", np.nan, FINITE),
    vector_score_case("score is +inf", np.inf, r"\binf|finite"),
    vector_score_case("score is -inf", -np.inf, r"\binf|finite"),
    vector_score_case("score is negative", -0.25, RANGE),
    vector_score_case("score is negative, just past the tolerance", -2e-6, RANGE),
    vector_score_case("score is above 1", 1.25, RANGE),
    vector_score_case("score is above 1, just past the tolerance", 1.000002, RANGE),
    vector_score_case("score is a percentage", 87.5, RANGE),
    matrix_score_case("matrix score is NaN", np.nan, FINITE),
    matrix_score_case("matrix score is +inf", np.inf, r"\binf|finite"),
    matrix_score_case("matrix score is -inf", -np.inf, r"\binf|finite"),
    row_case(
        "matrix score is negative in rows that sum to 1",
        lambda: (matrix_labels(), rows_with((0.625, -0.25, 0.625)), {}),
        -0.25,
        SCORE,
        RANGE,
    ),
    row_case(
        "whole-number scores with a 2",
        lambda: (vector_labels(), offending(vector_labels()[::-1].copy(), 2), {}),
        2,
        SCORE,
        RANGE,
    ),
    row_case(
        "float32 score is above 1",
        lambda: (vector_labels(), offending(vector_scores().astype(np.float32), 1.5), {}),
        1.5,
        SCORE,
        RANGE,
    ),
    row_sum_case("row sums to more than 1", 1.25),
    row_sum_case("row sums to less than 1", 0.75),
    row_sum_case("row sum is just past the tolerance", 0.998046875),
    row_sum_case("float32 row sum is just past the tolerance", 1.001953125, np.float32),
    label_case("label is negative", -1, CLASS_RANGE),
    label_case("label is K", CLASSES, CLASS_RANGE),
    label_case("label is K, as a float", CLASSES, CLASS_RANGE, dtype=np.float64),
    label_case("label is 1.5", 1.5, WHOLE, dtype=np.float64),
    label_case("label is NaN", np.nan, WHOLE + "|" + FINITE, dtype=np.float64),
    row_case(
        "binary label is 2",
        lambda: (offending(vector_labels(), 2), vector_scores(), {}),
        2,
        LABEL,
        BINARY_RANGE,
    ),
    row_case(
        "binary label is -1",
        lambda: (offending(vector_labels(), -1), vector_scores(), {}),
        -1,
        LABEL,
        BINARY_RANGE,
    ),
    weight_case("weight is negative", -0.5, r"negative|>= ?0|non-?negative|not be below 0"),
    weight_case("weight is NaN", np.nan, FINITE),
    weight_case("weight is inf", np.inf, r"\binf|finite"),
    bare_case(
        "all weights are zero",
        lambda: (vector_labels(), vector_scores(), {"sample_weight": np.zeros(ROWS)}),
        WEIGHT,
        ZERO,
    ),
    bare_case(
        "too few weights",
        lambda: (vector_labels(), vector_scores(), {"sample_weight": np.ones(ROWS - 1)}),
        WEIGHT,
        r"\b49\b",
        r"\b50\b",
    ),
    bare_case(
        "labels are strings",
        lambda: (np.array(["cat", "dog"])[vector_labels()], vector_scores(), {}),
        LABEL,
        NUMERIC,
        r"<U3|\bstr|text|'?cat'?",
    ),
    bare_case(
        "more labels than scores",
        lambda: (np.append(vector_labels(), 1), vector_scores(), {}),
        LABEL,
        r"\b51\b",
        r"\b50\b",
    ),
    bare_case(
        "fewer labels than scores",
        lambda: (matrix_labels()[:-1], matrix_scores(), {}),
        LABEL,
        r"\b49\b",
        r"\b50\b",
    ),
    bare_case(
        "labels are a matrix and scores a vector",
        lambda: (np.eye(2, dtype=np.int64)[vector_labels()], vector_scores(), {}),
        LABEL,
        r"\(50, ?2\)|\b2\b",
        r"\(50,?\)|\b50\b",
    ),
    bare_case("no rows", lambda: (vector_labels()[:0], vector_scores()[:0], {}), EMPTY),
    bare_case("no rows of a matrix", lambda: (matrix_labels()[:0], matrix_scores()[:0], {}), EMPTY),
    bare_case("scores are one number", lambda: (vector_labels(), np.array(0.5), {}), SCORE, DIMENSIONS),
    bare_case("scores are complex", lambda: (vector_labels(), vector_scores() + 0j, {}), SCORE, r"complex"),
    bare_case("scores are objects", lambda: (vector_labels(), vector_scores().astype(object), {}), SCORE, r"object"),
    bare_case(
        "scores are a matrix of one column",
        lambda: (vector_labels(), vector_scores()[:, np.newaxis], {}),
        SCORE,
        r"vector|1-d|one-dimensional|\(n,\)|ravel|\[:, 0\]",
        r"two columns|2 columns|\(n, 2\)|1 ?- ?p",
    ),
    bare_case("scores of no class", lambda: (vector_labels(), np.zeros((ROWS, 0)), {}), SCORE, r"2 classes", r"\b0\b"),
    bare_case(
        "too few codes in by",
        lambda: (vector_labels(), vector_scores(), {"by": np.zeros(ROWS - 1, dtype=np.int64)}),
        r"\bby\b",
        r"\b49\b",
        r"\b50\b",
    ),
)

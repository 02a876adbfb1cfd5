"""The 30-row toy example of the ECML-PKDD 2020 tutorial and its exact values."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

# p_1, p_2, p_3 and y as on the slides, where classes count from 1; five rows a line, a new true class every two lines.
TABLE = """
1.0 0.0 0.0 1, 0.9 0.1 0.0 1, 0.8 0.1 0.1 1, 0.7 0.1 0.2 1, 0.6 0.3 0.1 1,
0.4 0.1 0.5 1, 1/3 1/3 1/3 1, 1/3 1/3 1/3 1, 0.2 0.4 0.4 1, 0.1 0.5 0.4 1,
0.8 0.2 0.0 2, 0.7 0.0 0.3 2, 0.5 0.2 0.3 2, 0.4 0.4 0.2 2, 0.4 0.2 0.4 2,
0.3 0.4 0.3 2, 0.2 0.3 0.5 2, 0.1 0.6 0.3 2, 0.1 0.3 0.6 2, 0.0 0.2 0.8 2,
0.8 0.2 0.0 3, 0.8 0.1 0.1 3, 0.8 0.0 0.2 3, 0.6 0.0 0.4 3, 0.3 0.0 0.7 3,
0.2 0.6 0.2 3, 0.2 0.4 0.4 3, 0.0 0.4 0.6 3, 0.0 0.3 0.7 3, 0.0 0.3 0.7 3
"""

EXACT_SCORES: list[list[Fraction]] = [[Fraction(cell) for cell in row.split()[:3]] for row in TABLE.split(",")]
"""The scores as rational numbers, (30, 3)."""

SCORES: NDArray[np.float64] = np.array([[float(cell) for cell in row] for row in EXACT_SCORES])
"""The scores as the nearest float64, (30, 3)."""

LABELS: NDArray[np.int64] = np.array([int(row.split()[3]) - 1 for row in TABLE.split(",")], dtype=np.int64)
"""The labels, counted from 0, (30,)."""

BINS = 5

EXACT: dict[tuple[str, str | int, str], Fraction] = {
    ("ece", 0, "right"): Fraction(169, 900),
    ("ece", 1, "right"): Fraction(131, 900),
    ("ece", 2, "right"): Fraction(91, 450),
    ("ece", "classwise", "right"): Fraction(241, 1350),
    ("ece", "confidence", "right"): Fraction(19, 90),
    ("mce", 0, "right"): Fraction(17, 35),
    ("mce", "confidence", "right"): Fraction(3, 10),
    ("ece", 0, "left"): Fraction(7, 36),
    ("ece", 1, "left"): Fraction(121, 900),
    ("ece", 2, "left"): Fraction(73, 450),
    ("ece", "classwise", "left"): Fraction(221, 1350),
    ("ece", "confidence", "left"): Fraction(61, 225),
    ("brier", "multiclass", ""): Fraction(1597, 2250),
}
"""Exact values by (measure, setting, closed side), uniform bins; an int is the class counted from 0."""

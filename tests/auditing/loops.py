"""The numbers of an audit by loops over rows, written from the formulas."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def segment_rows(conditions: dict[str, Sequence[str]], depth: int) -> dict[str, list[int]]:
    """Rows of each segment, by its text; ``conditions`` has the text of the value of every row, by feature."""
    rows: dict[str, list[int]] = {}
    for i in range(len(next(iter(conditions.values())))):
        for size in range(depth + 1):
            for names in itertools.combinations(conditions, size):
                text = ", ".join(conditions[name][i] for name in names) or "all rows"
                rows.setdefault(text, []).append(i)
    return rows


def numbers(y: Sequence[int], p: Sequence[float], w: Sequence[float], cells: Sequence[int]) -> dict[str, Any]:
    """Numbers of the rows of one segment, by cells of scores in order."""
    weight = sum(w)
    by_cell: dict[int, float] = {}
    for o, s, v, cell in zip(y, p, w, cells, strict=True):
        by_cell[cell] = by_cell.get(cell, 0.0) + v * (o - s)
    path, total = [0.0], 0.0
    for cell in sorted(by_cell):
        total += by_cell[cell]
        path.append(total / weight)
    return {
        "rows": len(y),
        "events": sum(y),
        "mean_score": sum(v * s for s, v in zip(p, w, strict=True)) / weight,
        "frequency": sum(v * o for o, v in zip(y, w, strict=True)) / weight,
        "gap": sum(v * (o - s) for o, s, v in zip(y, p, w, strict=True)) / weight,
        "ece": sum(abs(gap) for gap in by_cell.values()) / weight,
        "ecce": max(path) - min(path),
        "sigma": math.sqrt(sum(v * v * s * (1 - s) for s, v in zip(p, w, strict=True))) / weight,
    }


def exact_tail(p: Sequence[float], y: int) -> float:
    """Twice the probability of so many outcomes or more extreme ones on that side, if scores are right."""
    chances = np.array([1.0])
    for s in p:
        chances = np.append(chances * (1 - s), 0.0) + np.append(0.0, chances * s)
    return float(min(1.0, 2 * (chances[y:].sum() if y > sum(p) else chances[: y + 1].sum())))

"""Numbers in words and figures: points, cases of a hundred, p-values, intervals."""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

__all__ = ["cases", "counted", "figure", "interval", "joined", "named", "percent", "points", "pvalue", "spanned"]

_LEAST_PVALUE = 0.001
_MOST_NAMES = 5


def points(value: float) -> str:
    """Percentage points of a share, in the digits that tables show of it.

    Examples
    --------
    >>> points(0.0699), points(0.00699), points(0.0000123)
    ('6.99', '0.70', '0.00123')
    """
    if not math.isfinite(value):
        return figure(value)
    return format(Decimal(figure(float(value)).replace("−", "-").replace(",", "")).scaleb(2), "f").replace("-", "−")


def spanned(low: float, high: float) -> str:
    """An interval in percentage points.

    Examples
    --------
    >>> spanned(0.06343, 0.0765)
    '6.34 to 7.65'
    """
    return f"{points(low)} to {points(high)}"


def interval(low: float, high: float, level: float | None) -> str:
    """An interval and its level.

    Examples
    --------
    >>> interval(0.0634, 0.0765, 0.95)
    '95 % interval 6.34 to 7.65'
    """
    return f"{percent(level or 0.0)} interval {spanned(low, high)}"


def percent(share: float) -> str:
    """A share in per cent, with three digits at most.

    Examples
    --------
    >>> percent(0.95), percent(0.12345)
    ('95 %', '12.3 %')
    """
    return f"{100 * share:.3g} %"


def pvalue(value: float) -> str:
    """A p-value, as far as it means anything.

    Examples
    --------
    >>> pvalue(8e-298), pvalue(0.0449), pvalue(float("nan"))
    ('p < 0.001', 'p = 0.045', 'no p-value')
    """
    if math.isnan(value):
        return "no p-value"
    return f"p < {_LEAST_PVALUE}" if value < _LEAST_PVALUE else f"p = {value:.3f}"


def figure(value: Any) -> str:
    """A number of a table.

    Examples
    --------
    >>> figure(0.0699523), figure(0.0000123), figure(12345), figure(float("nan")), figure(36.88)
    ('0.0700', '1.23e-05', '12,345', '–', '36.88')
    """
    if isinstance(value, float):
        if math.isnan(value):
            return "–"
        if math.isinf(value):
            return "∞" if value > 0 else "−∞"
        if abs(value) >= 10:
            return f"{value:,.2f}"
        text = f"{value:.4f}" if value == 0 or abs(value) >= 1e-4 else f"{value:.2e}"
        return f"−{text[1:]}" if text.startswith("-") else text
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def cases(score: float, *frequencies: float) -> tuple[str, str, list[float]]:
    """Of how many cases to speak, the score in words, and the frequencies as numbers of cases.

    Examples
    --------
    >>> cases(0.9, 0.84, 0.8, 0.88)
    ('100', '0.90', [84.0, 80.0, 88.0])
    >>> cases(0.004, 0.011)[:2]
    ('10,000', '0.0040')
    """
    rarest = min(score, 1 - score)
    of = 100 if rarest >= 0.05 else 1000 if rarest >= 0.005 else 10_000
    digits = len(str(of)) - 1
    return f"{of:,}", f"{score:.{digits}f}", [of * each for each in frequencies]


def joined(words: Sequence[str], last: str = "and") -> str:
    """A list in words.

    Examples
    --------
    >>> joined(["a", "b", "c"])
    'a, b and c'
    """
    *first, end = words
    return f"{', '.join(first)} {last} {end}" if first else end


def named(names: Sequence[str]) -> str:
    """Names in words, at most a few of them.

    Examples
    --------
    >>> named(["a", "b"]), named(list("abcdefgh"))
    ('a and b', 'a, b, c, d, e and 3 more')
    """
    left = len(names) - _MOST_NAMES
    return joined([*names[:_MOST_NAMES], f"{left:,} more"] if left > 0 else names)


def counted(number: int, word: str, words: str = "") -> str:
    """A number of things.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row"), counted(2, "class", "classes")
    ('1 row', '2,000 rows', '2 classes')
    """
    return f"{number:,} {word if number == 1 else words or word + 's'}"

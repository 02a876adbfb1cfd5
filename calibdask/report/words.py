"""Numbers in words and figures: points, cases of a hundred, p-values, intervals."""

import math
from collections.abc import Sequence
from typing import Any

__all__ = ["cases", "counted", "decimals", "figure", "interval", "joined", "percent", "points", "pvalue", "spanned"]

_LEAST_PVALUE = 0.001


def decimals(size: float) -> int:
    """How many decimals of percentage points suit a number of this size, given as a share.

    Examples
    --------
    >>> decimals(0.07), decimals(0.004), decimals(0.0003)
    (1, 2, 3)
    """
    return 1 if abs(size) >= 0.01 else 2 if abs(size) >= 0.001 else 3


def points(value: float, like: float | None = None) -> str:
    """Percentage points of a share, with the decimals that suit ``like``.

    Examples
    --------
    >>> points(0.0699), points(0.0699, like=0.004)
    ('7.0', '6.99')
    """
    return f"{100 * value:.{decimals(value if like is None else like)}f}"


def spanned(low: float, high: float, like: float) -> str:
    """An interval in percentage points, rounded outwards: the words must not promise more than it does.

    Examples
    --------
    >>> spanned(0.0634, 0.0765, like=0.07)
    '6.3 to 7.7'
    """
    unit = 10.0 ** decimals(like)
    # What rounding has left of a number that is whole is no reason to move on.
    ends = math.floor(100 * low * unit + 1e-9) / unit, math.ceil(100 * high * unit - 1e-9) / unit
    return " to ".join(_signed(end, decimals(like)) for end in ends)


def _signed(value: float, digits: int) -> str:
    """With a minus sign that is one, and none before 0."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def interval(low: float, high: float, level: float | None, like: float) -> str:
    """An interval and its level.

    Examples
    --------
    >>> interval(0.0634, 0.0765, 0.95, like=0.07)
    '95 % interval 6.3 to 7.7'
    """
    return f"{percent(level or 0.0)} interval {spanned(low, high, like)}"


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


def counted(number: int, word: str, words: str = "") -> str:
    """A number of things.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row"), counted(2, "class", "classes")
    ('1 row', '2,000 rows', '2 classes')
    """
    return f"{number:,} {word if number == 1 else words or word + 's'}"

"""Numbers, labels and intervals as text: the one place that formats them."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

# Units of dates that name no day.
_COARSE = ("Y", "M")
_LEAST_PVALUE = 0.001
_MOST_NAMES = 5
# Digits after the point: of numbers of a few rows, and beyond which there is an exponent.
_FEWEST_DECIMALS, _MOST_DECIMALS = 2, 7
_SIGNIFICANT = 2
_LEAST_DECIMAL = 1e-6
_TEN_POINTS = 0.1
_LONGEST_NUMBER = 6
# Ends nearer to 0, in half-widths of the interval, are 0 but for rounding.
_LEAST_SHARE = 1e-4


def rests_on(attributes: Mapping[str, Any]) -> list[str]:
    """Basis of the numbers of a result as text: rows, passes, replicates."""
    rows, passes = attributes["rows"], attributes["passes"]
    words = [counted(rows, "row") + (f" of {attributes['rows_of']}" if "rows_of" in attributes else "")]
    words.append(f"{counted(passes, 'pass', 'passes')} over the data" if passes else "from their summary")
    if "population" in attributes:
        words.insert(1, str(attributes["population"]))
    if "ci" in attributes:
        replicates = f" of {attributes['n_boot']} replicates" if "n_boot" in attributes else ""
        words.append(f"{100 * attributes['ci']:g} % intervals{replicates}")
    return words


def shown_number(value: Any) -> str:
    """A number in few digits; a dash for what does not exist.

    Examples
    --------
    >>> shown_number(0.25), shown_number(1e-9), shown_number(float("nan")), shown_number(12000)
    ('0.250000', '1.00e-09', '-', '12,000')
    """
    if isinstance(value, float):
        if math.isnan(value):
            return "-"
        return f"{value:.6f}" if value == 0 or abs(value) >= 1e-4 else f"{value:.2e}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def shown_texts(value: Any, low: Any = None, high: Any = None, *, kind: str = "", rows: float = 0) -> list[str]:
    """A number and the ends of its interval in significant digits.

    Two digits of half the width of the interval; without one, of the standard deviation that a frequency of so many
    rows may have, and always two digits of the number. P-values have three decimals, differences a sign.

    Examples
    --------
    >>> shown_texts(0.0312345, 0.0281, 0.03515), shown_texts(0.0312345, rows=20_000), shown_texts(0.0312345, rows=100)
    (['0.0312', '0.0281', '0.0352'], ['0.0312'], ['0.031'])
    >>> shown_texts(-0.0123, kind="difference", rows=10_000), shown_texts(1e-9, kind="pvalue"), shown_texts(12, rows=9)
    (['-0.0123'], ['<0.001'], ['12'])
    >>> shown_texts(2632.0, kind="count"), shown_texts(2861.65, kind="count")
    (['2,632'], ['2,861.7'])
    """
    numbers = [value] if low is None else [value, low, high]
    if kind == "pvalue":
        return [_pvalue_alone(number) for number in numbers]
    if not isinstance(value, float):
        return [shown_number(number) for number in numbers]
    if kind == "count":
        return [_count_text(number) for number in numbers]
    decimals = _decimals(value, low, high, rows)
    return [_in_decimals(number, decimals, "+" if kind == "difference" else "") for number in numbers]


def _count_text(number: float) -> str:
    """A count, or a sum of weights, which may be no whole number."""
    if not math.isfinite(number):
        return "-"
    return f"{number:,.0f}" if number.is_integer() else f"{number:,.1f}"


def _decimals(value: float, low: Any, high: Any, rows: float) -> int:
    """Digits after the point."""
    half = math.nan if low is None else (high - low) / 2
    known = math.isfinite(half) and half > 0
    decimals = _digits_of(half if known else 0.5 / math.sqrt(max(rows, 1)))
    if math.isfinite(value) and value:
        size = math.floor(math.log10(abs(value)))
        decimals = min(decimals if known else max(decimals, _SIGNIFICANT - 1 - size), _LONGEST_NUMBER - 1 - size)
    return max(decimals, _FEWEST_DECIMALS if abs(value) < 1000 else 0)


def _in_decimals(number: float, decimals: int, sign: str) -> str:
    if not math.isfinite(number):
        return "-"
    if decimals > _MOST_DECIMALS and number:
        return f"{number:{sign}.2e}"
    # Adding 0 takes the minus off a zero.
    return f"{round(number, decimals) + 0.0:{sign},.{decimals}f}"


def _pvalue_alone(pvalue: float) -> str:
    """A p-value for a column headed as such."""
    text = pvalue_text(pvalue)
    return text.removeprefix("p").removeprefix(" = ").replace(" ", "") if text.startswith("p ") else "-"


def slice_text(label: Any) -> str:
    """The label of a slice in words; NaN and NaT are the rows without a value.

    Examples
    --------
    >>> slice_text("be"), slice_text(np.float64("nan")), slice_text(np.datetime64("NaT", "ns"))
    ('be', 'missing', 'missing')
    """
    text = plain(label)
    return "missing" if text is None else str(text)


def plain(value: Any) -> Any:
    """What JSON can hold: a number that is none is null, dates are texts, without a time where it is midnight.

    Examples
    --------
    >>> plain(np.datetime64("2026-01-06T00:00:00.000000000")), plain(np.datetime64("2026-01")), plain(float("nan"))
    ('2026-01-06', '2026-01', None)
    """
    if isinstance(value, np.ndarray):
        # Of dates in nanoseconds numpy would make integers.
        value = value[()] if not value.ndim else list(value) if value.dtype.kind in "mM" else value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.datetime64) and np.datetime_data(value)[0] not in _COARSE:
        return None if np.isnat(value) else str(np.datetime_as_string(value, unit="auto"))
    if isinstance(value, np.datetime64 | np.timedelta64):
        return None if np.isnat(value) else str(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def figure(value: Any) -> str:
    """A number of a table on a page, in four decimals or two.

    Examples
    --------
    >>> figure(0.0699523), figure(0.0000123), figure(12345), figure(float("nan")), figure(36.88), figure(1.234e-9)
    ('0.0700', '0.000012', '12,345', '–', '36.88', '1.23e−09')
    """
    if isinstance(value, float):
        if math.isnan(value):
            return "–"
        if math.isinf(value):
            return "∞" if value > 0 else "−∞"
        if abs(value) >= 10:
            return f"{value:,.2f}"
        if value == 0 or abs(value) >= 1e-4:
            text = f"{value:.4f}"
        elif abs(value) >= _LEAST_DECIMAL:
            # Beside numbers in decimals an exponent would be overlooked.
            text = f"{value:.{_SIGNIFICANT - 1 - math.floor(math.log10(abs(value)))}f}"
        else:
            text = f"{value:.2e}"
        return text.replace("-", "−")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def number_of(text: str) -> float:
    """The number that a text of `figure` or `figures` shows.

    Examples
    --------
    >>> number_of("−1,234.50"), number_of("1.23e−09")
    (-1234.5, 1.23e-09)
    """
    return float(text.replace("−", "-").replace(",", ""))


def figures(value: float, low: float, high: float, more: int = 0) -> tuple[str, str, str]:
    """A number and the ends of its interval on a page, in the digits that the interval carries.

    All three have two significant digits of half the width, and two decimals at least, or so many ``more``; without a
    width, the digits of `figure`.

    Examples
    --------
    >>> figures(0.0699, 0.0634, 0.0765), figures(0.00021, 0.00018, 0.00024)
    (('0.0699', '0.0634', '0.0765'), ('0.000210', '0.000180', '0.000240'))
    >>> figures(-0.0000047, -0.0076, 0.0081), figures(0.0699, 0.0021, 0.1923)
    (('0.0000', '−0.0076', '0.0081'), ('0.070', '0.002', '0.192'))
    >>> figures(0.0503, 0.0003, 0.1003)
    ('0.0503', '0.0003', '0.1003')
    """
    return _as_narrow_as(figure, (value, low, high), _FEWEST_DECIMALS, more=more)


def points_of(value: float, low: float, high: float) -> tuple[str, str, str]:
    """A share and the ends of its interval in percentage points, as `figures`, with one decimal at least.

    Examples
    --------
    >>> points_of(0.0699, 0.0634, 0.0765), points_of(0.00021, 0.00018, 0.00024), points_of(0.07, 0.002, 0.192)
    (('6.99', '6.34', '7.65'), ('0.0210', '0.0180', '0.0240'), ('7.0', '0.2', '19.2'))
    """
    return _as_narrow_as(points, (value, low, high), 1, 100)


def _as_narrow_as(
    write: Callable[[float], str], numbers: tuple[float, float, float], fewest: int, times: int = 1, more: int = 0
) -> tuple[str, str, str]:
    """Multiples of three numbers in the digits of the width of the last two; without a width, as `write` does."""
    value, low, high = (times * number for number in numbers)
    half = (high - low) / 2
    decimals = max(_digits_of(half), fewest) if math.isfinite(half) and half > 0 else _MOST_DECIMALS + 1
    nearest = min(abs(low), abs(high))
    if (low > 0 or high < 0) and nearest > half * _LEAST_SHARE:
        # An end that is not 0 is not rounded to 0.
        decimals = max(decimals, -math.floor(math.log10(2 * nearest)))
    decimals += more
    if decimals > _MOST_DECIMALS:
        texts = [write(number) for number in numbers]
    else:
        texts = [_on_page(number, decimals, write) for number in (value, low, high)]
    return texts[0], texts[1], texts[2]


def _digits_of(width: float) -> int:
    """Decimals that show two significant digits of a width."""
    return _SIGNIFICANT - 1 - math.floor(math.log10(width))


def _on_page(number: float, decimals: int, write: Callable[[float], str]) -> str:
    """A number with these decimals."""
    if not math.isfinite(number):
        return write(number)
    # Adding 0 takes the sign off a zero.
    return f"{round(number, decimals) + 0.0:,.{decimals}f}".replace("-", "−")


def signed_column(values: Iterable[float], fewest: int = 1) -> list[str]:
    """Numbers of a column with their sign; nothing for NaN.

    One decimal (or as many as asked for), or more so that the largest has two significant digits.

    Examples
    --------
    >>> signed_column([1.23, -0.04]), signed_column([0.0521, -0.0049, float("nan")])
    (['+1.2', '+0.0'], ['+0.052', '−0.005', ''])
    """
    column = list(values)
    largest = max((abs(one) for one in column if math.isfinite(one)), default=0.0)
    needed = _SIGNIFICANT - 1 - math.floor(math.log10(largest)) if largest > 0 else 1
    decimals = max(fewest, min(needed, _MOST_DECIMALS))
    # Adding 0 takes the sign off a zero.
    texts = [f"{round(one, decimals) + 0.0:+.{decimals}f}" if math.isfinite(one) else "" for one in column]
    return [text.replace("-", "−") for text in texts]


def minus(words: str) -> str:
    """With the minus sign before negative numbers, as pages write them; names and dates are left as they are.

    Examples
    --------
    >>> minus("a-1 of 2026-11-23: -0.0002 (-0.1 to 0.2)")
    'a-1 of 2026-11-23: −0.0002 (−0.1 to 0.2)'
    """
    return re.sub(r"(?<![^\s(])-(?=\d)", "−", words)


def points(value: float) -> str:
    """A share in percentage points, with the digits that `figure` gives it; of ten and more with one decimal.

    Examples
    --------
    >>> points(0.0699), points(0.00699), points(0.0000123), points(-0.14302)
    ('6.99', '0.70', '0.0012', '−14.3')
    """
    if not math.isfinite(value):
        return figure(value)
    if abs(value) >= _TEN_POINTS:
        return f"{100 * value:.1f}".replace("-", "−")
    return format(Decimal(figure(float(value)).replace("−", "-").replace(",", "")).scaleb(2), "f").replace("-", "−")


@dataclass(frozen=True)
class Scale:
    """How a sentence writes the values of a metric: its numbers, and their unit in full and in short.

    Examples
    --------
    >>> POINTS.span(0.06343, 0.0765), PLAIN.span(0.06343, 0.0765)
    ('6.34 to 7.65', '0.0634 to 0.0765')
    >>> POINTS.interval(0.0634, 0.0765, 0.95)
    '95 % interval 6.34 to 7.65'
    """

    number: Callable[[float], str]
    numbers: Callable[[float, float, float], tuple[str, str, str]]
    unit: str = ""
    short_unit: str = ""

    def span(self, low: float, high: float) -> str:
        """Both ends of an interval."""
        _, least, most = self.numbers(math.nan, low, high)
        return f"{least} to {most}"

    def estimate(self, value: float, low: float | None, high: float | None) -> str:
        """A number in the digits of its interval, if it has one."""
        return self.number(value) if low is None or high is None else self.numbers(value, low, high)[0]

    def interval(self, low: float, high: float, level: float | None) -> str:
        """An interval and its level."""
        return f"{percent(level or 0.0)} interval {self.span(low, high)}"


# Errors that are shares are written in percentage points, others as they are.
POINTS = Scale(points, points_of, " percentage points", " points")
PLAIN = Scale(figure, figures)


def percent(share: float) -> str:
    """A share in per cent, with three digits at most.

    Examples
    --------
    >>> percent(0.95), percent(0.12345)
    ('95 %', '12.3 %')
    """
    return f"{100 * share:.3g} %"


def pvalue_text(pvalue: float) -> str:
    """A p-value, in as many digits as matter.

    Examples
    --------
    >>> pvalue_text(8e-298), pvalue_text(0.0449), pvalue_text(float("nan"))
    ('p < 0.001', 'p = 0.045', 'no p-value')
    """
    if math.isnan(pvalue):
        return "no p-value"
    return f"p < {_LEAST_PVALUE}" if pvalue < _LEAST_PVALUE else f"p = {pvalue:.3f}"


def cases(score: float, *frequencies: float) -> tuple[str, str, list[float]]:
    """A round number of cases to speak of, the score as text, and the frequencies as numbers of these cases.

    Examples
    --------
    >>> cases(0.9, 0.84, 0.8, 0.88)
    ('100', '0.90', [84.0, 80.0, 88.0])
    >>> cases(0.004, 0.011)[:2]
    ('10,000', '0.0040')
    """
    rarest = min(score, 1 - score)
    number = 100 if rarest >= 0.05 else 1000 if rarest >= 0.005 else 10_000
    digits = len(str(number)) - 1
    return f"{number:,}", f"{score:.{digits}f}", [number * frequency for frequency in frequencies]


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number of things.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row"), counted(2, "class", "classes")
    ('1 row', '2,000 rows', '2 classes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def joined(words: Sequence[str], last: str = "and") -> str:
    """An enumeration.

    Examples
    --------
    >>> joined(["a", "b", "c"])
    'a, b and c'
    """
    *first, end = words
    return f"{', '.join(first)} {last} {end}" if first else end


def named(names: Sequence[str]) -> str:
    """An enumeration of names that stops after a few.

    Examples
    --------
    >>> named(["a", "b"]), named(list("abcdefgh"))
    ('a and b', 'a, b, c, d, e and 3 more')
    """
    left = len(names) - _MOST_NAMES
    return joined([*names[:_MOST_NAMES], f"{left:,} more"] if left > 0 else names)

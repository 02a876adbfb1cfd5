"""Limits on numbers, declared before they are measured: of all rows, and of each slice."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NoReturn

from calibdask.estimators.about import PartInfo
from calibdask.estimators.expression import Expression, parse_metrics
from calibdask.inference.choice import check_confidence
from calibdask.safe_text import listed, visible
from calibdask.statistics.layout import Layout
from calibdask.storage.documents import read_toml

# name, or name(choices), with a part after a dot.
_TARGET = re.compile(r"\s*([\w-]+(?:\(.*\))?)(?:\.([\w-]+))?\s*")
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"\s*({_NUMBER})?\s*\.\.\s*({_NUMBER})?\s*")
_TABLES = {"limits", "slice-limits"}
_KEYS = {*_TABLES, "profile", "confidence", "by", "groups", "owner", "declared"}
_EXAMPLE = "ece=0.03, or a range such as calibration-slope.slope=0.9..1.1"


@dataclass(frozen=True)
class Limit:
    """A limit for one number.

    Parameters
    ----------
    metric : Expression
        The metric, with its options.
    part : str
        The part of the metric; empty for its main number.
    bound : float, optional
        The maximum of a loss or of the absolute value of an error or difference, or the minimum of a metric for which
        higher is better.
    low, high : float
        A range instead of a bound.

    Examples
    --------
    >>> Limit.parse("ece(bins=10)=0.03").text
    'ece(bins=10)'
    >>> Limit.parse("mean-gap=-0.01..0.02").high
    0.02
    """

    metric: Expression
    part: str = ""
    bound: float | None = None
    low: float = -math.inf
    high: float = math.inf

    def __str__(self) -> str:
        """The text that `parse` reads, with all digits."""
        if self.bound is not None:
            return f"{self.text}={self.bound!r}"
        low, high = (repr(end) if math.isfinite(end) else "" for end in (self.low, self.high))
        return f"{self.text}={low}..{high}"

    @classmethod
    def parse(cls, text: str, name: str = "A limit") -> "Limit":
        """Of ``METRIC=X`` or ``METRIC.PART=X..Y``; a fraction alone limits the ECE. Messages say ``name``.

        Raises
        ------
        ValueError
            If there is no such metric, or no number.
        """
        if re.fullmatch(rf"{_NUMBER}|nan|[-+]?inf", text.strip()):
            if not 0 < float(text) < 1:
                raise ValueError(
                    f"{name} expects a fraction between 0 and 1, such as 0.03 for 3 percentage points, got {text}."
                )
            text = f"ece={text}"
        target, equals, value = text.rpartition("=")
        if not equals:
            raise ValueError(f"A limit expects a metric and a number, {_EXAMPLE}; got {visible(text)!r}.")
        return cls.of(target, value)

    @classmethod
    def of(cls, target: str, value: Any) -> "Limit":
        """Of the name of a metric, with its part, and a number, a pair of numbers, or a range as text.

        Raises
        ------
        ValueError
            If there is no such metric, or no number.
        """
        match = _TARGET.fullmatch(target)
        if match is None:
            raise ValueError(f"A limit expects a metric and a number, {_EXAMPLE}; got {visible(target)!r}.")
        (metric,) = parse_metrics(match[1])
        part = (match[2] or "").replace("-", "_")
        return cls(metric, part, *_ends(target, value))

    @property
    def text(self) -> str:
        """The metric, and its part."""
        return f"{self.metric}.{self.part.replace('_', '-')}" if self.part else str(self.metric)

    def check_breakable(self, info: PartInfo) -> None:
        """Raise ValueError unless some data keep the limit, and some break it."""
        least, most = self.range(info.kind or "", info.direction or "")
        lowest, highest = info.possible
        if least <= lowest and highest <= most:
            self._refuse(info, "nothing can break a limit")
        if most < lowest or highest < least:
            self._refuse(info, "nothing can keep a limit")

    def check_margin(self, layout: Layout) -> None:
        """Raise ValueError for an impossible margin relative to a baseline."""
        info = self.metric.make().describe(layout).get(self.part, PartInfo())
        lowest, highest = info.possible
        if self.bound is not None and self.bound >= highest - lowest:
            self._refuse(info, "no model can be worse by more than a limit")

    def _refuse(self, info: PartInfo, why: str) -> NoReturn:
        lowest, highest = info.possible
        span = f"at least {lowest:g}" if math.isinf(highest) else f"from {lowest:g} to {highest:g}"
        limit = f"{self.low:g}..{self.high:g}" if self.bound is None else f"{self.bound:g}"
        hint = ", such as 0.03 for 3 percentage points" if info.kind == "error" and highest == 1 else ""
        raise ValueError(f"{self.text} is {span} for any data, and {why} of {limit}; give another limit{hint}.")

    def range(self, kind: str, direction: str) -> tuple[float, float]:
        """Range of values that meet the limit, by kind and direction; see ``calibdask.estimators.about``.

        Raises
        ------
        ValueError
            If one number does not say which values those are, or the number has no interval by its nature.
        """
        if kind == "pvalue":
            raise ValueError(
                f"{self.text} has no interval: with few rows a test never rejects, so no limit can be shown to be met. "
                "Set a "
                "limit on the size of an error, such as ece=0.03."
            )
        if self.bound is None:
            return self.low, self.high
        if direction == "zero":
            if self.bound < 0:
                raise ValueError(f"The limit of {self.text} expects a number from 0 on, got {self.bound:g}.")
            return -self.bound, self.bound
        if direction in ("lower", "higher"):
            return (-math.inf, self.bound) if direction == "lower" else (self.bound, math.inf)
        raise ValueError(
            f"{self.text} may lie on either side of the ideal value: its limit expects a range, as in "
            f"{self.text}=0.9..1.1, got {self.bound:g}."
        )


def _ends(target: str, value: Any) -> tuple[float | None, float, float]:
    """A bound, or a lower and an upper end."""
    if isinstance(value, str):
        match = _RANGE.fullmatch(value)
        if match is not None and (match[1] or match[2]):
            value = [float(match[1] or "-inf"), float(match[2] or "inf")]
        elif re.fullmatch(rf"\s*{_NUMBER}\s*", value):
            value = float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value), -math.inf, math.inf
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        low, high = (float(end) if isinstance(end, int | float) else math.nan for end in value)
        if low < high and (math.isfinite(low) or math.isfinite(high)):
            return None, low, high
    raise ValueError(f"The limit of {visible(target)} expects a number, or a range such as 0.9..1.1, got {value!r}.")


@dataclass(frozen=True)
class Limits:
    """Limits, and how they are judged.

    Parameters
    ----------
    limits, slice_limits : tuple of Limit
        Those of all rows, and of each slice.
    profile : str
        Further numbers to show, see ``calibdask.analyses.gating.profiles``.
    by : tuple of str
        Columns of slices.
    confidence : float, optional
        None: 0.95.
    owner, declared : str
        Who declared them, and when; empty where the file does not say it.
    groups : str
        Column of clusters of dependent rows; empty where rows are independent.
    """

    limits: tuple[Limit, ...] = ()
    slice_limits: tuple[Limit, ...] = ()
    profile: str = ""
    by: tuple[str, ...] = ()
    confidence: float | None = None
    owner: str = ""
    declared: str = ""
    groups: str = ""

    @classmethod
    def read(cls, path: str) -> "Limits":
        """Of a TOML file.

        Raises
        ------
        ValueError
            If it is no such file; the message names the entry.
        OSError
            If it cannot be read.
        """
        try:
            given = read_toml(path)
        except ValueError as error:
            reason = str(error).rstrip(".")
            raise ValueError(f"{visible(path)} is not a TOML file of limits: {reason}.") from error
        if unknown := given.keys() - _KEYS:
            raise ValueError(
                f"{visible(path)} expects the entries {listed(sorted(_KEYS))}, got also {listed(unknown)}."
            )
        for name in _TABLES & given.keys():
            if not isinstance(given[name], dict):
                raise ValueError(f"{visible(path)}: {name} expects a table, as in [{name}] with lines ece = 0.03.")
        by = given.get("by", [])
        by = [by] if isinstance(by, str) else by
        if not (isinstance(by, list) and all(isinstance(name, str) for name in by)):
            raise ValueError(f"{visible(path)}: by expects names of columns, got {by!r}.")
        for name in ("profile", "groups"):
            if not isinstance(given.get(name, ""), str):
                raise ValueError(f"{visible(path)}: {name} expects a name, got {given[name]!r}.")
        profile, groups = given.get("profile", ""), given.get("groups", "")
        declaration = [given.get(name, "") for name in ("owner", "declared")]
        if not (isinstance(declaration[0], str) and isinstance(declaration[1], str | date)):
            raise ValueError(
                f"{visible(path)}: owner expects a name, and declared a day such as 2026-01-15; got "
                f"{declaration[0]!r} and {declaration[1]!r}."
            )
        if "confidence" in given:
            check_confidence(given["confidence"], f"{visible(path)}: confidence")
        whole, slices = (limits_of(given.get(name)) for name in ("limits", "slice-limits"))
        owner, declared = map(str, declaration)
        return cls(whole, slices, profile, tuple(by), given.get("confidence"), owner, declared, groups)


def limits_of(given: Any, name: str = "A limit") -> tuple[Limit, ...]:
    """Limits of a mapping from metrics to numbers, of a text, or of several; messages say ``name``.

    Raises
    ------
    ValueError
        If there is no such metric, or no number, or one metric has two limits.

    Examples
    --------
    >>> [limit.bound for limit in limits_of({"ece": 0.03, "brier-score": 0.2})]
    [0.03, 0.2]
    """
    limits = tuple(_each(given, name))
    texts = [limit.text for limit in limits]
    if twice := [text for text in dict.fromkeys(texts) if texts.count(text) > 1]:
        raise ValueError(f"{listed(twice)} has two limits; give one, or a range such as 0.9..1.1.")
    return limits


def _each(given: Any, name: str) -> Iterator[Limit]:
    if given is None:
        return
    if isinstance(given, Mapping):
        for target, value in given.items():
            yield Limit.of(str(target), value)
        return
    for text in [given] if isinstance(given, str | Limit) else given:
        yield text if isinstance(text, Limit) else Limit.parse(text, name)

"""One e-process of `calibdask.watch` after the other, read back from its dataset, and what they say in words."""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.engine.axes import column_name
from calibdask.results.format import counted, slice_text
from calibdask.safe_text import listed

Labels = npt.NDArray[Any]
Array = npt.NDArray[np.float64]

_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?([ T].*)?")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Names under which a summary may carry the version of the model of each period.
VERSIONS = ("version", "model_version")
# Evidence of more digits than these is written as a power of ten.
_MOST_DIGITS = 5


class GapEnds(NamedTuple):
    """A gap, outcome less score, and its ends."""

    value: float
    low: float
    high: float


class Mark(NamedTuple):
    """A period from which on something is new, such as the version of the model."""

    period: Any
    words: str


@dataclass(frozen=True, eq=False)
class OverTime:
    """One process: its label, empty for all rows, and numbers at the end of each period.

    Attributes
    ----------
    period : str
        Name of the dimension of the periods.
    at : mapping from name to label
        Where it is along all other dimensions.
    gap, gap_low, gap_high : array
        Running mean of outcome less score with its confidence sequence.
    period_gap, period_low, period_high : array
        The same of each period alone, for one look.
    log_e : array
        The logarithm of the e-process.
    alarm : array of bool
        Whether it has ever reached 1 / alpha by then.
    error : Ends
        The running calibration error at the last period.
    since : label
        The period from which on the evidence is largest.
    tests : int
        The number of processes among which this one is judged by e-BH.
    """

    label: str
    at: Mapping[str, Any]
    period: str
    periods: Labels
    rows: npt.NDArray[np.int64]
    gap: Array
    gap_low: Array
    gap_high: Array
    period_gap: Array
    period_low: Array
    period_high: Array
    log_e: Array
    alarm: npt.NDArray[np.bool_]
    error: GapEnds
    since: Any
    found: bool
    tests: int
    alpha: float
    tolerance: float

    @classmethod
    def all_of(cls, dataset: xr.Dataset) -> list["OverTime"]:
        """The processes in a dataset of `calibdask.watch`, in the order of its dimensions.

        Examples
        --------
        >>> import numpy as np, calibdask as cd
        >>> by = {"day": [0, 0, 1, 1], "country": ["be", "de", "be", "de"]}
        >>> summary = cd.summarize([0, 1, 1, 0], [0.2, 0.4, 0.6, 0.8], by=by, settings=["binary"])
        >>> [(one.label, one.rows.tolist()) for one in OverTime.all_of(cd.watch(summary, by="country"))]
        [('country=be', [1, 1]), ('country=de', [1, 1])]
        """
        period = dataset.attrs["period"]
        dims = [str(dim) for dim in dataset["log_e"].dims if dim != period]
        batch = [dim for dim in dataset.attrs.get("batch", ()) if dim in dims]
        tests = math.prod(dataset.sizes[dim] for dim in dims if dim not in batch)
        return [
            cls._of(dataset.isel(dict(zip(dims, places, strict=True))), dims, tests)
            for places in product(*(range(dataset.sizes[dim]) for dim in dims))
        ]

    @classmethod
    def _of(cls, dataset: xr.Dataset, dims: Sequence[str], tests: int) -> "OverTime":
        at = {dim: dataset[dim].values[()] for dim in dims}
        period = dataset.attrs["period"]
        names = {"period_low": "period_gap_low", "period_high": "period_gap_high"}
        numbers = ("gap", "gap_low", "gap_high", "period_gap", "period_low", "period_high", "log_e", "alarm", "rows")
        ends = GapEnds(*(float(dataset[f"error{end}"].values[-1]) for end in ("", "_low", "_high")))
        return cls(
            label=" · ".join(f"{column_name(dim)}={slice_text(label)}" for dim, label in at.items()),
            at=at,
            period=period,
            periods=dataset[period].values,
            error=ends,
            since=dataset["since"].values[-1],
            found=bool(dataset["found"].values[-1]),
            tests=tests,
            alpha=float(dataset.attrs["alpha"]),
            tolerance=float(dataset.attrs["tolerance"]),
            **{name: dataset[names.get(name, name)].values for name in numbers},
        )

    @property
    def threshold(self) -> float:
        """The log E of an alarm."""
        return -math.log(self.alpha)

    @property
    def evidence(self) -> float:
        """The log E at the last period."""
        return float(self.log_e[-1])

    @property
    def largest(self) -> float:
        """The largest log E so far."""
        return max(0.0, float(self.log_e.max()))

    @property
    def is_off(self) -> bool:
        """Whether it is a discovery now: as one of many by e-BH."""
        return self.found and bool(self.rows.any())

    @property
    def alarmed(self) -> Any:
        """The first period of an alarm; None if there was none."""
        return self.periods[int(self.alarm.argmax())] if self.alarm.any() else None

    @property
    def running(self) -> GapEnds:
        """The running gap at the last period."""
        return GapEnds(*(float(numbers[-1]) for numbers in (self.gap, self.gap_low, self.gap_high)))


def ranked(processes: Sequence[OverTime]) -> list[OverTime]:
    """Those with rows, by their evidence at the last period, the largest first."""
    return sorted((one for one in processes if one.rows.any()), key=lambda one: -one.evidence)


def period_text(label: Any) -> str:
    """The label of a period in words.

    Examples
    --------
    >>> period_text(np.datetime64("2026-11-03T00:00:00.000000000")), period_text(3)
    ('2026-11-03', '3')
    """
    return slice_text(label)


def places(labels: Labels) -> Array:
    """Where periods are along an axis: dates and numbers at their distances, other labels one after the other.

    Examples
    --------
    >>> places(np.array(["2026-01-01", "2026-01-02", "2026-01-05"])).tolist(), places(np.array(["a", "c"])).tolist()
    ([0.0, 1.0, 4.0], [0.0, 1.0])
    """
    values = np.asarray(labels)
    if values.dtype.kind in "OUT" and values.size and all(_DATE.fullmatch(str(label)) for label in values):
        # Texts may look like dates, and be none.
        with suppress(ValueError):
            values = values.astype(str).astype("datetime64[s]")
    if values.dtype.kind == "M":
        days = values.astype("datetime64[s]").astype(np.int64) / 86_400
        return np.asarray(days - days[:1], np.float64)
    if values.dtype.kind in "iuf" and values.size:
        return np.asarray(values - values[0], np.float64)
    return np.arange(values.size, dtype=np.float64)


def evidence_text(log_e: float, digits: int = _MOST_DIGITS) -> str:
    """E in words; a number of more digits than these is a power of ten.

    Examples
    --------
    >>> evidence_text(np.log(312.4)), evidence_text(np.log(1.25)), evidence_text(0.0), evidence_text(103.7)
    ('312', '1.2', '1', '10⁴⁵')
    >>> evidence_text(np.log(20)), evidence_text(-20.0)
    ('20', '10⁻⁹')
    >>> [evidence_text(power * np.log(10), 4) for power in (3, 4)]
    ['1,000', '10⁴']
    """
    power = log_e / math.log(10)
    # Powers of ten themselves come with a rounding of their logarithm.
    if power >= digits - 1e-9 or power < -2:
        return f"10{str(math.floor(power + 1e-9)).translate(_SUPERSCRIPTS)}"
    value = math.exp(log_e)
    if value >= 9.95:
        return f"{value:,.0f}"
    return f"{value:.1f}".removesuffix(".0") if value >= 0.0995 else f"{value:.2f}"


def points_text(ends: GapEnds) -> str:
    """A gap and its ends in percentage points, with the side on which scores are.

    Examples
    --------
    >>> points_text(GapEnds(0.0141, 0.0083, 0.0209)), points_text(GapEnds(-0.0141, -0.0209, 0.0003))
    ('1.4 points too low (0.8 to 2.1)', '1.4 points too high (0.0 to 2.1)')
    """
    if not math.isfinite(ends.value):
        return "without a mean"
    value, low, high = ends if ends.value >= 0 else (-ends.value, -ends.high, -ends.low)
    digits = _digits(high - low)
    return f"{_points(value, digits)} points too {'low' if ends.value >= 0 else 'high'} ({_span(low, high, digits)})"


def _span(low: float, high: float, digits: int) -> str:
    return f"{_points(low, digits)} to {_points(high, digits)}"


def _digits(width: float) -> int:
    """Digits after the point of ends that are so far apart."""
    half = 50 * width
    return min(4, max(1, -math.floor(math.log10(half)))) if half > 0 and math.isfinite(half) else 1


def _points(value: float, digits: int) -> str:
    # Adding 0 takes the sign off a zero.
    return f"{round(100 * value, digits) + 0.0:.{digits}f}".replace("-", "−")


def sentence(process: OverTime, since: GapEnds | None = None) -> str:
    """What a process says, in a sentence: whether scores are off, since when, by how much, on what evidence.

    ``since`` is the gap of the rows since then, of one that is off; without it, that of all rows is told.
    """
    whom = process.label or "the model"
    threshold = evidence_text(math.log(process.tests) + process.threshold)
    evidence = f"evidence {evidence_text(process.evidence)} against a threshold of {threshold}"
    if process.is_off:
        return f"Since {period_text(process.since)} {whom} is off: {_how(process, since)}; {_own(process)}."
    if not process.rows.any():
        return f"There are no rows for {whom} yet."
    if process.alarmed is not None and process.tests == 1:
        return (
            f"On {period_text(process.alarmed)} {whom} raised an alarm, with evidence of up to "
            f"{evidence_text(process.largest)}; by now there is no longer enough: {evidence}."
        )
    seen = counted(int((process.rows > 0).sum()), "period")
    text = f"scores are {points_text(process.running)} on average"
    return f"No evidence in {seen} that {whom} is off: {text}; {evidence}."


def _own(process: OverTime) -> str:
    """The evidence of a discovery, and the threshold required of all discoveries."""
    text = f"evidence {evidence_text(process.evidence)} against a threshold of {evidence_text(process.threshold)}"
    return text if process.tests == 1 else f"{text}, a discovery among {process.tests:,} (e-BH)"


def _how(process: OverTime, since: GapEnds | None) -> str:
    ends = process.running if since is None else since
    if ends.low > 0 or ends.high < 0:
        return f"scores {points_text(ends)}"
    value, low, high = process.error
    digits = _digits(high - low)
    return (
        f"some scores are too low and others too high, by {_points(value, digits)} points ({_span(low, high, digits)})"
    )


def headline(whole: Sequence[OverTime], slices: Sequence[OverTime]) -> OverTime | None:
    """The process that a page begins with: of those that are off the one with the most evidence, else all rows.

    Where a slice has more evidence than all rows have, it is where scores are off.
    """
    off = [one for one in (*whole, *slices) if one.is_off]
    return next(iter([*ranked(off), *ranked(whole)]), None)


def others_text(leading: OverTime | None, processes: Sequence[OverTime]) -> str:
    """What else is off, in a sentence; empty if nothing is."""
    off = [one.label or "all rows" for one in ranked(processes) if one.is_off and one is not leading]
    if not off:
        return ""
    more = f" and {len(off) - 3:,} more" if len(off) > 3 else ""
    return f"Also off: {', '.join(off[:3])}{more}."


def version_marks(summary: xr.Dataset, period: str, version: str | None) -> list[Mark]:
    """Where the version of the model changes: that of most rows of a period, or a coordinate of the periods.

    Without a name, a coordinate that is called ``version`` or ``model_version``.

    Examples
    --------
    >>> import calibdask as cd
    >>> by = {"day": [1, 2, 3, 3], "version": ["a", "a", "b", "b"]}
    >>> summary = cd.summarize([0, 1, 1, 0], [0.2, 0.4, 0.6, 0.8], by=by, settings=["binary"])
    >>> [(int(mark.period), mark.words) for mark in version_marks(summary, "day", "version")]
    [(3, 'b')]

    Raises
    ------
    ValueError
        If there are no slices and no coordinate of this name.
    """
    name = version or next((name for name in VERSIONS if name in summary.coords), None)
    if name is None or (version is None and name in summary["rows"].dims):
        return []
    labels = summary[period].values
    if name in summary["rows"].dims:
        rows = summary["rows"].sum([dim for dim in summary["rows"].dims if dim not in (period, name)])
        counts = rows.transpose(period, name).values
        values = np.where(counts.any(-1), summary[name].values[counts.argmax(-1)].astype(str), "")
    elif name in summary.coords and summary[name].dims == (period,):
        values = summary[name].values
    else:
        known = [*(dim for dim in summary["rows"].dims if dim != period)]
        raise ValueError(
            f"The version of the model expects slices of the summary, {listed(known) or 'none'}, or a coordinate of "
            f"{period}, got {name!r}."
        )
    order = np.argsort(labels, kind="stable")
    # Numbers alone say nothing.
    return [
        Mark(period, f"{name} {words}" if words[:1].isdigit() else words)
        for period, words in _changes_of(labels[order], values[order])
    ]


def _changes_of(periods: Labels, values: Labels) -> list[tuple[Any, str]]:
    """Periods whose value, such as the version of a model, is another than that of the period before that has one."""
    marks: list[tuple[Any, str]] = []
    last = ""
    for period, value in zip(periods, map(slice_text, values), strict=True):
        if value in ("", "missing"):
            continue
        if last and value != last:
            marks.append((period, value))
        last = value
    return marks

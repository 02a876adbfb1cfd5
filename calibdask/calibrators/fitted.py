"""Fitting by slice: the numbers of all maps in the fewest passes, and which slices have the map of all rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from calibdask.data.input import Input
from calibdask.data.slices import codes_among
from calibdask.engine.axes import Axis
from calibdask.engine.plan import run_requests
from calibdask.safe_text import listed
from calibdask.statistics import exact
from calibdask.statistics.counts import RowCount
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.layout import Layout
from calibdask.statistics.outcome_sums import OutcomeSums, OutcomeSumsState
from calibdask.statistics.prefetch import Prefetch
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting
from calibdask.statistics.views.pooled import Pooled
from calibdask.statistics.views.view import view_requests

if TYPE_CHECKING:
    from calibdask.calibrators.base import Calibrator

# Numbers of maps by name, float64, with a leading axis of slices where there are slices.
Numbers = Mapping[str, Array]
Marks = npt.NDArray[np.bool_]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Sliced:
    """Numbers of the maps of all slices, and of all rows, the last along the leading axis.

    ``axes`` are the dimensions of the slices, none for one map; ``rows`` (slices,) counts rows of positive weight;
    ``pooled`` names the slices that have the map of all rows. ``cautions`` are sentences on what the fit left undone.
    """

    numbers: Numbers
    rows: Counts
    axes: tuple[Axis, ...] = ()
    pooled: tuple[Any, ...] = ()
    cautions: tuple[str, ...] = ()
    # Weights of the events by (slice, column), if they are known: they are not stored.
    events: Array | None = None

    def numbers_of_slices(self) -> Iterator[Numbers]:
        """The numbers of each map."""
        return ({name: values[position] for name, values in self.numbers.items()} for position in range(len(self.rows)))

    def attributes(self) -> dict[str, Array]:
        """The numbers as users see them: slices along the first axes, no axis for a single map or a single column."""
        shape = tuple(axis.size for axis in self.axes)
        return {name: _visible(values, shape) for name, values in self.numbers.items()}

    def codes(self, by: Any, rows: float) -> Any:
        """The number of the map of each of ``rows`` rows; None where all have the last.

        Raises
        ------
        ValueError
            If the map was not fitted by slices, or by others, or lengths differ.
        """
        if by is None:
            return None
        if not self.axes:
            raise ValueError("by expects a map that was fitted by slices; fit(y_true, y_prob, by=...) fits one.")
        return codes_among(self.axes, by, rows)


def fitted(calibrator: "Calibrator", data: Input, all_rows: Input | None, min_rows: int) -> Sliced:
    """Fit the map of every slice and of all rows; ``all_rows`` are the pooled rows of a summary.

    Raises
    ------
    ValueError
        If outcomes of all rows are alike.
    """
    if data.batch or data.batch_names:
        names = listed(data.batch_names or [str(axis.name) for axis in data.batch])
        raise ValueError(f"fit expects the scores of one model, got several along {names}; fit one per model.")
    if not _is_whole(min_rows) or min_rows < 1:
        raise ValueError(f"min_rows expects a positive whole number of rows, got {min_rows!r}.")
    sliced = calibrator._fit_slices(data, all_rows, min_rows)
    return replace(sliced, cautions=(*sliced.cautions, *calibrator._cautions(sliced)))


def fit_slices(calibrator: "Calibrator", data: Input, all_rows: Input | None, min_rows: int) -> Sliced:
    """Fit the map of every slice by itself, and that of all rows."""
    if not data.by:
        return _of_all(calibrator, _answered({"all": with_counts(calibrator)}, data)["all"])
    slices, whole = slices_and_all(calibrator, with_counts(calibrator), data, all_rows)
    # A map of all classes together needs two of them, maps of each by itself need all.
    both = slices.both.all(-1) if calibrator.by_column else slices.both.any(-1)
    few = (slices.rows < min_rows) | ~both | unfitted(calibrator, slices)
    return _of_slices(slices, whole, data.by, few, min_rows, shrinks=calibrator.by_column)


def slices_and_all(
    calibrator: "Calibrator", of_slices: Requests[Answer], data: Input, all_rows: Input | None
) -> tuple[Answer, Sliced]:
    """The answer for the slices, and the map of all rows; in the same passes unless ``all_rows`` are separate data."""
    if all_rows is None:
        pooled = view_requests(Pooled(), with_counts(calibrator))
        answers = _answered({"slices": of_slices, "all": pooled}, data)
    else:
        answers = _answered({"slices": of_slices}, data) | _answered({"all": with_counts(calibrator)}, all_rows)
    return answers["slices"], _of_all(calibrator, answers["all"])


@dataclass(frozen=True)
class Fit:
    """Numbers with the rows they rest on, and whether both outcomes occur, by (slice, column)."""

    numbers: Numbers
    rows: Counts
    both: Marks
    setting: Setting
    events: Array


def _answered(requests: Mapping[str, Requests[Any]], data: Input) -> dict[str, Any]:
    return {**run_requests(requests, data.source).estimates}


def with_counts(calibrator: "Calibrator") -> Requests[Fit]:
    """The numbers of the maps of all slices, and what they rest on."""
    layout = yield from Layout()
    setting = calibrator._setting(layout)
    yield from Prefetch(OutcomeSums(setting))
    yield from Prefetch(RowCount())
    numbers = yield from calibrator._requests()
    sums: OutcomeSumsState = yield from OutcomeSums(setting)
    rows = (yield from RowCount()).rows
    weight, outcome = exact.value(sums.weight)[0], exact.value(sums.outcome)[0]
    return Fit(numbers, rows[0], (outcome > 0) & (outcome < weight), setting, outcome)


def _of_all(calibrator: "Calibrator", fit: Fit) -> Sliced:
    both = fit.both[0]
    if not both.any() or (len(both) == 1 and not both[0]):
        what = (
            ("right and wrong predictions", "one of both")
            if fit.setting.kind == "confidence"
            else ("labels of at least two classes", "one class")
        )
        raise ValueError(f"{type(calibrator).__name__} expects {what[0]}, got {what[1]} in all {fit.rows[0]:,} rows.")
    if both.all() or not calibrator.by_column:
        return Sliced(fit.numbers, fit.rows, events=fit.events)
    absent = np.flatnonzero(~both).tolist()
    caution = (
        f"Classes {listed(absent[:10])}{' and others' if len(absent) > 10 else ''} have rows of one outcome only; "
        "their scores are left as they are, up to normalisation."
    )
    return Sliced(known_only(both[None], fit.numbers), fit.rows, cautions=(caution,), events=fit.events)


def unfitted(calibrator: "Calibrator", slices: "Fit") -> Marks:
    """Slices with both outcomes whose rows do not determine the map, or that of one of their columns."""
    if not slices.numbers:
        return np.ones(len(slices.rows), bool)
    first = next(iter(slices.numbers.values()))
    if calibrator.by_column:
        return np.asarray((np.isnan(first.reshape(*slices.both.shape, -1)).all(-1) & slices.both).any(-1))
    return np.asarray(np.isnan(first.reshape(len(first), -1)).all(-1))


def _of_slices(
    slices: "Fit", whole: Sliced, axes: tuple[Axis, ...], few: Marks, min_rows: int, *, shrinks: bool
) -> Sliced:
    numbers = {}
    for name, of_all in whole.numbers.items():
        unknown = np.full((few.size, *of_all.shape[1:]), np.nan)
        numbers[name] = _joined(slices.numbers.get(name, unknown), of_all, few)
    pooled = tuple(_label(axes, position) for position in np.flatnonzero(few).tolist())
    cautions = whole.cautions
    if pooled:
        shown = listed(pooled[:5]) + (" and others" if len(pooled) > 5 else "")
        advice = " PlattScaling(shrink=True), or --shrink, gives small slices maps of their own."
        cautions += (
            f"{len(pooled)} of {few.size} slices have fewer than {min_rows} rows, or outcomes or scores that are all "
            f"alike, and have the map of all rows: {shown}.{advice if shrinks and few.size >= 3 else ''}",
        )
    events = np.concatenate([slices.events, whole.events])
    return Sliced(numbers, np.append(slices.rows, whole.rows), given_columns(axes), pooled, cautions, events)


def given_columns(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Axes by the names of the columns of users, by which maps are applied."""
    return tuple(Axis(axis.given_name, axis.size, axis.labels) for axis in axes)


def _joined(values: Array, of_all: Array, few: Marks) -> Array:
    """Numbers of the slices, or of all rows where slices are small; numbers of all rows come last."""
    longest = np.maximum(values.shape, of_all.shape)[1:]
    values, of_all = (padded(part, (len(part), *longest)) for part in (values, of_all))
    return np.concatenate([np.where(_along(few, values), of_all, values), of_all])


def padded(values: Array, shape: Sequence[int]) -> Array:
    """The values as an array of a shape: lists of knots have as many entries as the longest; the last is repeated."""
    missing = [(0, int(most - size)) for most, size in zip(shape, values.shape, strict=True)]
    return np.pad(values, missing, "edge") if any(after for _, after in missing) else values


def known_only(known: Marks, numbers: Numbers) -> Numbers:
    """Numbers of known (slice, column), NaN for others."""
    return {name: np.where(_along(known, values), values, np.nan) for name, values in numbers.items()}


def _along(marked: Marks, values: Array) -> Marks:
    """Marks of the first axes, with as many axes as the values."""
    return marked.reshape(*marked.shape, *[1] * (values.ndim - marked.ndim))


def _visible(values: Array, shape: tuple[int, ...]) -> Array:
    rest = values.shape[2:] if values.shape[1:2] == (1,) else values.shape[1:]
    return np.asarray((values[:-1] if shape else values).reshape((*shape, *rest)))[()]


def _label(axes: tuple[Axis, ...], position: int) -> Any:
    """The value of a slice; a tuple where there are several variables."""
    index = np.unravel_index(position, tuple(axis.size for axis in axes))
    labels = tuple(
        int(place) if axis.labels is None else np.asarray(axis.labels).tolist()[place]
        for axis, place in zip(axes, index, strict=True)
    )
    return labels[0] if len(labels) == 1 else labels


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)

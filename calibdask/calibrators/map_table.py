"""A fitted calibrator as a table: what each map rests on, and its parameters with their standard errors."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibdask.calibrators.base import Calibrator
from calibdask.results.format import counted, figure, percent, plain
from calibdask.safe_text import listed, visible

_ERROR = "_se"
# What is shown only where it is not 0.
_UNLESS_0 = ("smoothed", "clipped", "merged")


@dataclass(frozen=True)
class MapTable:
    """Heads of columns, lines of texts, and what has no place in lines: names of longer numbers with their shapes."""

    heads: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    further: tuple[str, ...]

    @classmethod
    def of(cls, calibrator: Calibrator) -> "MapTable":
        """A line for each map, of slices first and of all rows last; where classes have parameters, one for each class.

        Examples
        --------
        >>> import calibdask as cd
        >>> table = MapTable.of(cd.PlattScaling().fit([0, 1, 0, 1], [0.3, 0.4, 0.6, 0.7]))
        >>> table.heads, table.lines
        (('', 'rows', 'events', 'intercept', 'coef'), (('all rows', '4', '2', '0.0 (1.1)', '1.1 (1.6)'),))
        """
        sliced = calibrator._sliced
        shown = _parameters(calibrator)
        columns = max((values.shape[1] for values in shown.values() if values.ndim == 2), default=1)
        heads = (*(str(axis.name) for axis in sliced.axes),) or ("",)
        of_classes = ("class",) if columns > 1 else ()
        # A map of all classes together has no class whose events to count.
        events = sliced.events if sliced.events is not None and columns >= len(sliced.events[0]) else None
        lines = tuple(
            (
                *labels,
                *((visible(calibrator.classes_.tolist()[column]),) if of_classes else ()),
                f"{int(sliced.rows[position]):,}",
                *(() if events is None else (f"{events[position][column]:,.10g}",)),
                *(_with_error(sliced.numbers, name, position, column) for name in shown),
            )
            for position, labels in enumerate(_labels(calibrator))
            for column in range(columns)
        )
        further = tuple(
            f"{name} ({' x '.join(map(str, values.shape[2:] if values.shape[1] == 1 else values.shape[1:]))})"
            for name, values in sliced.numbers.items()
            if _is_documented(calibrator, name)
            and name.removesuffix(_ERROR) not in shown
            and values.ndim > 1
            and not _is_left_out(name, values)
        )
        counted = () if events is None else ("events",)
        return cls((*heads, *of_classes, "rows", *counted, *shown), lines, further)


def shrunken_notes(calibrator: Calibrator) -> list[str]:
    """Sentences on how far the intercepts of slices were shrunk; empty without shrinkage."""
    numbers = calibrator._sliced.numbers
    if "own_weight" not in numbers:
        return []
    own, deviation = numbers["own_weight"][:-1], numbers["deviation"][-1]
    filled = own[calibrator._sliced.rows[:-1] > 0]
    least, middle, most = (percent(float(share)) for share in np.quantile(filled, (0.0, 0.5, 1.0)))
    return [
        f"The intercepts of {counted(len(own), 'slice')} are shrunk towards their mean; the slope is that of all rows.",
        f"Their standard deviation is {listed(figure(float(one)) for one in deviation)}. The weight of a slice's own "
        f"rows in its intercept is {least} to {most} (median {middle}).",
    ]


def rows_behind(calibrator: Calibrator) -> int:
    """Rows of positive weight that it was fitted to."""
    return int(calibrator._sliced.rows[-1])


def _parameters(calibrator: Calibrator) -> dict[str, Any]:
    """Parameters with one number per map or per class."""
    sizes = (1, len(calibrator.classes_))
    return {
        name: values
        for name, values in calibrator._sliced.numbers.items()
        if not name.endswith(_ERROR)
        and _is_documented(calibrator, name)
        and not _is_left_out(name, values)
        and (values.ndim == 1 or (values.ndim == 2 and values.shape[1] in sizes))
    }


def _is_left_out(name: str, values: Any) -> bool:
    """Whether it says that nothing had to be done, or a sentence has it."""
    return name == "deviation" or (name in _UNLESS_0 and not values.any())


def _is_documented(calibrator: Calibrator, name: str) -> bool:
    """Whether it is an attribute for users."""
    return re.search(rf"\b{re.escape(name)}_\b", type(calibrator).__doc__ or "") is not None


def _labels(calibrator: Calibrator) -> Iterator[tuple[str, ...]]:
    """The values of the slices of each map."""
    axes = calibrator._sliced.axes
    values = [np.arange(axis.size) if axis.labels is None else np.asarray(axis.labels) for axis in axes]
    for index in np.ndindex(*(axis.size for axis in axes)) if axes else ():
        yield tuple(visible(plain(of_axis[at])) for of_axis, at in zip(values, index, strict=True))
    yield ("all rows", *[""] * (len(axes) - 1))


def _with_error(numbers: Mapping[str, Any], name: str, position: int, column: int) -> str:
    value, error = (
        None if given is None else float(given[position].ravel()[min(column, given[position].size - 1)])
        for given in (numbers[name], numbers.get(f"{name}{_ERROR}"))
    )
    if value is None or np.isnan(value):
        return "-"
    if error is None or not np.isfinite(error) or error <= 0:
        return f"{value:.4g}"
    # Two digits of the standard error, and as many decimals of the number.
    decimals = max(0, 1 - int(np.floor(np.log10(error))))
    return f"{value:.{decimals}f} ({error:.{decimals}f})"

"""State dictionaries of accumulators: checked by sums that add up as the states do, and by what rows can give.

A checksum of a state must stay valid when the states of several processes are added up entry by entry. It is therefore
linear: the sum of all integers, each times a coefficient of its own, modulo a prime. Floating-point sums are not exact;
a state that was not added up, or only to states without rows, has a hash of all bytes as well.
"""

import hashlib
import sys
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.analyses.summarizing import stored_settings
from calibdask.engine.dry_run import few_rows, supports
from calibdask.engine.sources.accumulated import AccumulatedSource
from calibdask.engine.sources.source import states_of
from calibdask.estimators.checks import check_whole
from calibdask.estimators.estimator import Estimator
from calibdask.statistics.cluster_cells import ClusterCells
from calibdask.statistics.counts import RowCount
from calibdask.statistics.exact import Counts
from calibdask.statistics.layout import Layout
from calibdask.statistics.score_sums import ScoreSums
from calibdask.statistics.statistic import Statistic, ViewedStatistic
from calibdask.statistics.views.clusters import Buckets
from calibdask.storage.summary_format import histograms

# Entries of state dictionaries that are no states.
LAYOUT, ROWS, CHECKSUM = "layout", "rows", "checksum"
# The layout without the identity, as in states of earlier versions.
LAYOUT_SIZE = 9
_PRIME = (1 << 31) - 1
# Thousands of numbers of so many bytes add up in 64 bits.
_HASH_BYTES = 5
# Fields of states that count rows, whatever the statistic.
_COUNTS = ("rows", "clipped", "mass")
_ROUNDING = 1e-9

Arrays = Mapping[str, npt.NDArray[Any]]


def identity(statistics: Iterable[Statistic[Any]]) -> int:
    """A number for the statistics of certain metrics and settings."""
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        described = "\n".join(map(repr, statistics))
    return int.from_bytes(hashlib.sha256(described.encode()).digest()[:_HASH_BYTES], "big")


def checksum(state: Arrays) -> Counts:
    """Two linear sums, and two parts of a hash of all bytes, which are 0 for a state without rows.

    Examples
    --------
    >>> one, other = {"layout": np.array([1, 2])}, {"layout": np.array([1, 3])}
    >>> both = {"layout": one["layout"] + other["layout"]}
    >>> ((checksum(one) + checksum(other) - checksum(both))[:2] % (2**31 - 1)).tolist()
    [0, 0]
    """
    sums = [sum(_linear(name, array, word) for name, array in _integers(state)) % _PRIME for word in (0, 1)]
    hashed = hashlib.sha256()
    for name in sorted(state):
        if name != CHECKSUM:
            array = np.ascontiguousarray(state[name])
            hashed.update(f"{name} {array.dtype.str} {array.shape};".encode() + array.tobytes())
    digest = hashed.digest()
    parts = [int.from_bytes(digest[at : at + _HASH_BYTES], "big") for at in (0, _HASH_BYTES)]
    return np.array([*sums, *(np.array(parts) * bool(state[LAYOUT][0]))], np.int64)


def check_shapes(state: Arrays) -> None:
    """Raise ValueError unless the layout is a list of whole numbers, and the number of rows one."""
    for name, shapes in ((LAYOUT, [(LAYOUT_SIZE,), (LAYOUT_SIZE + 1,)]), (ROWS, [()])):
        if state[name].shape not in shapes or state[name].dtype != np.int64:
            found = f"{state[name].dtype} of shape {state[name].shape}"
            raise ValueError(
                f"load_state_dict expects {name} of state_dict, int64 of shape {' or '.join(map(str, shapes))}, got "
                f"{found}: the state is damaged, or was made by hand."
            )


def check_intact(state: Arrays) -> None:
    """Raise ValueError for a state, or a sum of states, that was changed."""
    if CHECKSUM not in state or state[CHECKSUM].shape != (4,) or state[CHECKSUM].dtype != np.int64:
        raise ValueError(
            "load_state_dict expects what state_dict returned, or the sum of several; its checksum is missing."
        )
    found, expected = state[CHECKSUM], checksum(state)
    intact = ((found[:2] - expected[:2]) % _PRIME == 0).all()
    if state[LAYOUT][0] == 1:
        intact &= (found[2:] == expected[2:]).all()
    if not intact:
        raise ValueError(
            "load_state_dict expects what state_dict returned, or the sum of several, entry by entry; its checksum "
            "does not match: it was corrupted or edited."
        )


def check_possible(statistic: Statistic[Any], state: Any, rows: int) -> None:
    """Raise ValueError for the state of a statistic that no rows of this number can have."""
    for field in state._fields:
        values = getattr(state, field)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            _refuse(statistic, field, "finite numbers")
        if field in _COUNTS and values.dtype.kind == "i" and ((values < 0) | (values > rows)).any():
            _refuse(statistic, field, f"numbers from 0 to {rows:,}, the rows")
        if field in ("weight", "mass") and values.dtype.kind == "f" and (values < 0).any():
            _refuse(statistic, field, "weights from 0 on")
    events, weight = getattr(state, "outcome", None), getattr(state, "weight", None)
    if events is None or weight is None or events.shape != weight.shape:
        return
    # Of words the first ones are whole numbers.
    events, weight = (sums[..., 0] if sums.dtype.kind == "i" else sums for sums in (events, weight))
    if ((events < 0) | (events > weight * (1 + _ROUNDING))).any():
        _refuse(statistic, "outcome", "no more than the rows")


def _refuse(statistic: Statistic[Any], field: str, expected: str) -> None:
    raise ValueError(
        f"load_state_dict expects {expected} in {field} of {statistic.display_name}, got values that no rows can "
        "produce: the state is damaged, or was made by hand."
    )


def _integers(state: Arrays) -> Iterable[tuple[str, npt.NDArray[Any]]]:
    return ((name, array) for name, array in state.items() if name != CHECKSUM and array.dtype.kind in "iu")


def _linear(name: str, array: npt.NDArray[Any], word: int) -> int:
    """The sum of all numbers, each times a coefficient that its name and place determine, modulo the prime."""
    places = np.arange(array.size, dtype=np.uint64) + np.uint64(zlib.crc32(f"{word} {name}".encode()) << 24)
    # The finalizer of SplitMix64, which makes neighbouring places look independent.
    mixed = (places ^ (places >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    coefficients = ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(_PRIME - 1)).astype(np.int64) + 1
    terms = np.ravel(array).astype(np.int64) % _PRIME * coefficients % _PRIME
    return int(terms.sum() % _PRIME)


def as_numbers(layout: Layout) -> Counts:
    """A layout as numbers; sums of them, and of their squares, say whether all were equal."""
    precision = 2 if layout.half else int(layout.dtype == "float32")
    numbers = np.array([layout.classes, layout.vector, layout.weighted, precision], np.int64)
    return np.concatenate([[1], numbers, numbers**2])


def from_numbers(numbers: Counts) -> Layout | None:
    """The layout that was added up; None if none was."""
    count, values, squares = int(numbers[0]), numbers[1:5], numbers[5:]
    if count == 0:
        return None
    classes, vector, weighted, precision = (values // count).tolist()
    is_possible = count > 0 and classes >= 1 and {vector, weighted} <= {0, 1} and precision in (0, 1, 2)
    if (count * squares != values**2).any() or not is_possible:
        raise ValueError(
            "load_state_dict expects states of rows with the same classes and precision, and weights in all or none; "
            "the added states differ."
        )
    dtype = "float32" if precision else "float64"
    return Layout(classes=classes, vector=bool(vector), weighted=bool(weighted), dtype=dtype, half=precision == 2)


def entry_name(number: int, statistic: Statistic[Any], field: str) -> str:
    """The name of a field of a state in a state dictionary."""
    return f"{number}.{statistic.display_name}.{field}"


def state_arrays(states: Mapping[Statistic[Any], Any]) -> dict[str, npt.NDArray[Any]]:
    """The arrays of all states by name, copied; those that are empty without weights left out."""
    return {
        entry_name(number, statistic, field): np.array(getattr(state, field))
        for number, (statistic, state) in enumerate(states.items())
        for field in state._fields
        if getattr(state, field).size
    }


def expected_layout(classes: int, *, weighted: bool) -> Layout:
    """The layout of scores with this number of columns."""
    check_whole("classes", classes, 1)
    return Layout(weighted=weighted) if classes == 1 else Layout(classes=classes, vector=False, weighted=weighted)


def described(layout: Layout) -> str:
    """A layout in words."""
    columns = "a vector" if layout.vector else f"{layout.classes} columns"
    dtype = "float16" if layout.half else layout.dtype
    return f"{columns} of {dtype} scores, {'with' if layout.weighted else 'without'} weights"


def refusal(name: str, metric: Estimator, reason: Exception, *, may_be: bool) -> str:
    """Why a metric cannot be accumulated, and what to do."""
    mend = (
        "give settings such as ['confidence'], whose histograms determine it" if may_be else "evaluate all rows for it"
    )
    return (
        f"An Accumulator makes one pass over the rows, which does not suffice for the metric {name!r} "
        f"({metric.label}): {reason}. "
        f"Leave it out, or {mend}."
    )


def kept_statistics(settings: tuple[str | int, ...], layout: Layout, step: float) -> tuple[Statistic[Any], ...]:
    """Statistics of a summary with these settings."""
    if not settings:
        return ()
    stored: tuple[Statistic[Any], ...] = (
        ScoreSums(),
        *histograms(stored_settings(settings, layout), layout.classes, step),
    )
    if layout.buckets is None:
        return (RowCount(), *stored)
    view = Buckets(layout.buckets)
    viewed: list[Any] = [ViewedStatistic(view, statistic) for statistic in stored]
    return (RowCount(), *stored, ClusterCells(view.count), *viewed)


def histograms_support(metric: Estimator, settings: tuple[str | int, ...], layout: Layout, step: float) -> bool:
    """Whether the histograms of these settings determine a metric."""
    kept = kept_statistics(settings, layout, step)
    states = dict(zip(kept, states_of(few_rows(layout), kept), strict=True))
    return bool(kept) and supports(metric, AccumulatedSource(states, layout, 0))

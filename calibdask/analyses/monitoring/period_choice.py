"""Periods of a summary to monitor: new and due ones; periods seen before must be unchanged."""

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.analyses.monitoring.due_dates import coarser_periods, parse_due, parse_now, period_ends
from calibdask.analyses.monitoring.period_sums import PeriodSums
from calibdask.results.format import slice_text
from calibdask.safe_text import listed

Labels = npt.NDArray[Any]

_MOST_NAMED = 5
_BETWEEN = "\x1f"


@dataclass(frozen=True, eq=False)
class PeriodChoice:
    """Positions of periods in a summary, each in the order of their labels.

    ``new`` are watched; ``late`` are left out, as later ones have been watched before they came; ``pending`` are not
    due yet. ``due`` has the moment when each period of the summary is due, where that was asked for.
    """

    new: list[int]
    late: list[int]
    pending: list[int]
    due: npt.NDArray[np.datetime64] | None


def choose_periods(
    sums: PeriodSums, seen: Labels, digests: Sequence[str], due: Any = None, now: Any = None
) -> PeriodChoice:
    """The periods to watch after those that were seen, whose digests are given.

    Raises
    ------
    ValueError
        If a period that was seen has other rows than then, or labels cannot be compared.
    """
    labels, period = sums.periods, sums.period
    if seen.size and _kind(labels) != _kind(seen):
        raise ValueError(
            f"state has seen values of {period} such as {_named(seen[-1:])}, which {_named(labels[:1])} cannot be "
            "compared with; label periods as then, or begin without it."
        )
    both = (np.concatenate([seen, labels]) if seen.size else labels).tolist()
    known = dict(zip(both[: seen.size], digests, strict=True))
    names = both[seen.size :]
    again = [position for position, name in enumerate(names) if name in known]
    read = digests_of(sums, again)
    changed = [labels[at] for at, digest in zip(again, read, strict=True) if known[names[at]] != digest]
    if changed:
        raise ValueError(
            f"{period} {_named(changed)} had other rows when state has seen it, and evidence cannot be taken back; "
            "begin without the state, which watches all periods of the summary anew."
        )
    # Days that were seen, and merged into months since, have been watched.
    skipped = {*known} | (coarser_periods(seen) & {*names})
    order = [position for position in np.argsort(labels, kind="stable").tolist() if names[position] not in skipped]
    late = [position for position in order if seen.size and not labels[position] > seen[-1]]
    if late:
        warnings.warn(
            f"{period} {_named([labels[position] for position in late])} arrived after {_named(seen[-1:])} had been "
            "monitored, and is ignored; to include it, begin without the state, which watches all periods anew.",
            UserWarning,
            stacklevel=4,
        )
    left = order[len(late) :]
    if due is None:
        if now is not None:
            raise ValueError("now has no effect without due.")
        return PeriodChoice(left, late, [], None)
    moment = parse_now(now)
    whole = np.concatenate([labels, seen]) if seen.size else labels
    when = (period_ends(period, whole) + parse_due(due))[: labels.size]
    return PeriodChoice(
        [position for position in left if when[position] <= moment],
        late,
        [position for position in left if when[position] > moment],
        when,
    )


def digests_of(sums: PeriodSums, positions: Sequence[int]) -> list[str]:
    """A few signs for the rows of each period, which do not depend on slices without rows, nor on their order.

    They are of the rows and of the exact sums of both proper scores of each slice, where the summary has such sums.
    """
    if not positions:
        return []
    sums = sums.whole
    axes = [_texts(labels) for labels in sums.slices.values()]
    grids = [grid.ravel() for grid in np.meshgrid(*axes, indexing="ij")]
    names = np.array([_BETWEEN.join(labels) for labels in zip(*grids, strict=True)] or [""])
    order = np.argsort(names, kind="stable")
    names = names[order]
    digests = []
    for values in _sums(sums, positions, names.size):
        kept = values[:, 0] > 0
        kept_in_order = values[order][kept[order]]
        text = _BETWEEN.join(names[kept[order]].tolist()).encode()
        digests.append(hashlib.blake2b(text + kept_in_order.tobytes(), digest_size=8).hexdigest())
    return digests


def _sums(sums: PeriodSums, positions: Sequence[int], slices: int) -> Iterator[npt.NDArray[Any]]:
    """Numbers that tell the rows of each slice, the number of rows first: (slices, numbers) of each period."""
    scores = sums.summary.source.scores
    if scores is not None:
        state = scores()
        parts = np.concatenate([state.rows[0, :, None], state.brier[0], state.log[0]], -1)
        yield from (parts.reshape(slices, sums.periods.size, -1)[:, position] for position in positions)
        return
    for position in positions:
        values = np.zeros((slices * sums.columns, 3))
        for block, cells in sums.cells(position):
            terms = (cells.rows, cells.events, cells.rows * cells.mean)
            values[block] = np.stack([cells.by_process(term) for term in terms], -1)
        yield values.reshape(slices, -1)


def _kind(labels: Labels) -> str:
    return "number" if labels.dtype.kind in "biuf" else labels.dtype.kind


def _texts(labels: Labels) -> npt.NDArray[np.str_]:
    """Labels as texts that do not change where others of another type come to them."""
    if labels.dtype.kind in "biuf":
        return labels.astype(np.float64).astype(np.str_)
    return np.datetime_as_string(labels, unit="s") if labels.dtype.kind == "M" else labels.astype(np.str_)


def _named(labels: Sequence[Any] | Labels) -> str:
    more = len(labels) - _MOST_NAMED
    return listed(map(slice_text, labels[:_MOST_NAMED])) + (f" and {more:,} more" if more > 0 else "")

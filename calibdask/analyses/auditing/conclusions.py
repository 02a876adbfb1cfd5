"""Conclusion of an audit in words: the findings, or the error that cannot be ruled out."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from calibdask.analyses.auditing.audit_texts import points_up, signed_points
from calibdask.results.format import counted
from calibdask.safe_text import visible
from calibdask.statistics.exact import Array

# Where larger errors are not excluded even for the largest segments, nothing has been said.
_SAYS_NOTHING = 0.1
_NAMED = 3


def not_excluded(rows: Array, low: Array, high: Array, min_rows: int) -> dict[int, float]:
    """The largest offset that is not excluded, of segments of at least so many rows: ``min_rows``, 1000, 10**4, ...

    ``low`` and ``high`` are ends that hold for all segments together.
    """
    reach = np.maximum(np.abs(low), np.abs(high))
    powers = 10 ** np.arange(1, 19, dtype=np.int64)
    sizes = [min_rows, *(int(size) for size in powers[powers > min_rows] if size >= 100)]
    return {size: float(reach[rows >= size].max()) for size in sizes if (rows >= size).any()}


def conclusion(
    texts: npt.NDArray[np.object_],
    gap: Array,
    described: npt.NDArray[np.bool_],
    excluded: dict[int, float],
    min_rows: int,
    alpha: float,
    units: str = "rows",
) -> str:
    """One sentence, or two; segments are in the order of their evidence. ``units``: independent rows or clusters."""
    level = f"{100 * (1 - alpha):.6g} % confidence"
    if not excluded:
        return f"No subgroup has {min_rows:,} rows: undecided."
    if described.any():
        first = [
            f"{texts[i]} ({signed_points(float(gap[i]))} points)" for i in np.flatnonzero(described)[:_NAMED].tolist()
        ]
        more = int(described.sum()) - len(first)
        further = f", and {more} more" if more else ""
        count = int(described.sum())
        verb = "subgroup is" if count == 1 else "subgroups are"
        return f"{count} {verb} off, with {level}: {'; '.join(first)}{further}."
    least = min(excluded.values())
    if least > _SAYS_NOTHING:
        return (
            f"No finding, but little power: errors of {points_up(least)} points cannot be ruled out even for the "
            f"largest subgroups. More {units} are needed."
        )
    size = next((size for size, error in excluded.items() if error <= _SAYS_NOTHING), 0)
    return (
        f"No subgroup of at least {size:,} rows is off by more than {points_up(excluded[size])} points, with {level}."
    )


def remarks(described: int, choice: Mapping[str, int]) -> str:
    """Further sentences on groups that were not compared with each other, which make the list longer, or cut it."""
    text = ""
    if described > 1 and choice["overlaps_unknown"]:
        text += " Some subgroups overlap in ways that the summary does not store; an audit of the rows may list fewer."
    if choice["candidates_untried"]:
        text += f" {choice['candidates_untried']:,} with less evidence were not included in this comparison."
    return text


def cluster_remark(clusters: int, name: str, *, pooled: bool = False) -> str:
    """A further sentence on the clusters of rows; ``pooled``: some of them count together.

    Examples
    --------
    >>> cluster_remark(72, "race"), cluster_remark(72, "groups")
    (' Each of 72 clusters (race) counts once.', ' Each of 72 clusters counts once.')
    >>> cluster_remark(4_000_000, "groups", pooled=True)
    ' Each of more than 4,000,000 clusters counts at most once.'
    """
    named = "" if name == "groups" else f" ({visible(name)})"
    if pooled:
        return f" Each of more than {clusters:,} clusters{named} counts at most once."
    return f" Each of {counted(clusters, 'cluster')}{named} counts once."


def why_passes(cutting: int, filling: int, describing: int) -> dict[str, str]:
    """An attribute that says why an audit took more than three passes; none where it did not.

    Examples
    --------
    >>> why_passes(2, 1, 0), why_passes(2, 1, 1)["passes_why"]
    ({}, '2 passes cut features and scores, 1 fills the lattice, 1 separates overlapping subgroups')
    """
    if cutting + filling + describing <= 3:
        return {}
    text = [f"{cutting} {'pass cuts' if cutting == 1 else 'passes cut'} features and scores"]
    text += [f"{filling} {'fills' if filling == 1 else 'fill'} the lattice"]
    text += [f"{describing} separates overlapping subgroups"] if describing else []
    return {"passes_why": ", ".join(text)}

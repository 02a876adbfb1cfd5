"""Audits of summaries with features: the lattice that they hold, as the rows would fill it."""

from collections.abc import Mapping
from typing import Any

from calibdask.safe_text import listed
from calibdask.statistics.lattice.lattice_sums import LatticeState
from calibdask.storage.summary import Summary
from calibdask.storage.summary_lattice import Cuts, closed, lattice_state

# The attribute of a summary that says what was noticed of features, as JSON.
NOTES = "feature_notes"


def refuse_rows_options(given: Mapping[str, Any]) -> None:
    """Raise ValueError for arguments that only rows have a use for."""
    if named := [name for name, value in given.items() if value is not None]:
        raise ValueError(
            f"{listed(named)} has no effect on a summary, whose features are already cut; audit the rows, or summarize "
            "them again."
        )


def summary_lattice(summary: Summary, depth: int | None) -> tuple[Cuts, LatticeState]:
    """The cuts and sums of all rows of a summary, up to a depth.

    Raises
    ------
    ValueError
        If it has no features, or segments of fewer of them.
    """
    cuts = summary.cuts
    if cuts is None:
        raise ValueError(
            "This summary has no features to audit; summarize the rows with features, at the shell by calibdask "
            "summarize DATA --features all --out summary.zarr."
        )
    depth = cuts.depth if depth is None else depth
    if depth > cuts.depth:
        raise ValueError(
            f"This summary has segments of up to {cuts.depth} features, but depth={depth} was requested; summarize the "
            f"rows with depth={depth}."
        )
    return closed(cuts, lattice_state(summary.dataset, cuts), depth)

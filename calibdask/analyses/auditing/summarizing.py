"""Summaries with features: what `calibdask.summarize` is asked for, and the lattice that it adds."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import xarray as xr

from calibdask.analyses.auditing.cutting import check_cutting, filled, learnt_cuts, one_setting, reused_cuts
from calibdask.analyses.auditing.features import Values
from calibdask.analyses.auditing.summarized import NOTES
from calibdask.data.input import Input
from calibdask.storage.summary import Summary
from calibdask.storage.summary_format import with_lattice
from calibdask.storage.summary_lattice import Cuts


@dataclass(frozen=True, eq=False)
class FeatureRequest:
    """Features of a summary, and how they are cut: as given, or as in another summary."""

    columns: Any
    depth: int
    values: Values
    score_cells: int | None
    cuts: Cuts | None

    @classmethod
    def of(
        cls,
        features: Any,
        depth: int,
        values: int | None,
        min_rows: int,
        edges: Mapping[str, Sequence[float]] | None,
        score_cells: int | None,
        cuts: xr.Dataset | None,
    ) -> "FeatureRequest | None":
        """Request from the arguments; None without features.

        Raises
        ------
        ValueError
            If numbers are out of range, or ``cuts`` has no features.
        """
        if features is None and cuts is None:
            return None
        check_cutting(depth, min_rows, values, score_cells)
        known = None
        if cuts is not None:
            known = Summary.of(cuts).cuts
            if known is None:
                raise ValueError("cuts expects a summary with features, got one without.")
            if features is None:
                features = list(known.names)
        return cls(features, depth, Values.of(values, min_rows, edges), score_cells, known)

    def added(self, summary: xr.Dataset, data: Input) -> xr.Dataset:
        """The summary with the lattice of the rows, and what to know about the features; two passes or more."""
        setting = one_setting(data)
        if self.cuts is not None:
            cuts, notes = reused_cuts(self.cuts, data, setting), list[str]()
        else:
            learnt, notes, _ = learnt_cuts(data, setting, self.depth, self.values, self.score_cells)
            cuts = learnt.opened()
        whole = with_lattice(summary, cuts, filled(cuts, data))
        return whole.assign_attrs({NOTES: json.dumps(notes)})

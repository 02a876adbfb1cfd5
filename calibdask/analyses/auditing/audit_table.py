"""The numbers of all segments of an audit: the lattice is filled part by part, and segments are ordered by evidence."""

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.analyses.auditing.audit_document import OF_SEGMENTS
from calibdask.analyses.auditing.conclusions import conclusion, not_excluded, remarks
from calibdask.analyses.auditing.describing import Describing, SegmentGapSums
from calibdask.analyses.auditing.evidence import SegmentCells, simultaneous_ends
from calibdask.analyses.auditing.label_leakage import FeatureCounts, LabelCounts, LabelCountsState
from calibdask.analyses.auditing.measures import cells_of, measured
from calibdask.analyses.auditing.overlaps import LatticeOverlaps, Overlaps, RowOverlaps
from calibdask.analyses.auditing.partial_effects import PartialEffects
from calibdask.analyses.auditing.planning import LatticePlan
from calibdask.data.input import Input
from calibdask.engine.plan import run_requests
from calibdask.inference.multiplicity import e_benjamini_hochberg, holm
from calibdask.results.build import described as described_dataset
from calibdask.statistics.lattice.lattice_sums import LatticeState, LatticeSums
from calibdask.statistics.lattice.overlap_sums import shifts
from calibdask.statistics.lattice.segments import Segments

# Segments whose partial effects are estimated by the rows that each two share.
_MOST_TRIED = 256


def fill_lattice(
    plan: LatticePlan, data: Input, min_rows: int
) -> tuple[npt.NDArray[np.intp], SegmentCells, FeatureCounts, LabelCountsState | None]:
    """Sums of all segments of enough rows, their numbers, and one-way counts; the lattice is filled part by part."""
    kept, parts, counts = [], [], []
    first = 0
    further, labels = dict[str, Any](), None
    if plan.setting.kind == "class" and data.source.layout.classes > 2:
        # Of two classes one-way counts tell as much.
        further["labels"] = iter(LabelCounts(plan.setting, plan.features))
    for part in plan.parts():
        statistic: LatticeSums = part
        answers: Any = run_requests({"lattice": iter(statistic), **further}, data.source).estimates
        labels, further = answers.get("labels", labels), {}
        state: LatticeState = answers["lattice"]
        here = plan.kept(statistic.segments, state.rows.sum(-1), first, min_rows)
        parts.append(cells_of(state, here))
        counts.append(FeatureCounts.of(statistic.segments, state))
        kept.append(here + first)
        first += statistic.segments.count
    return np.concatenate(kept), SegmentCells.joined(parts), FeatureCounts.joined(counts), labels


@dataclass(frozen=True)
class AuditTable:
    """Numbers of segments, strongest evidence first."""

    plan: LatticePlan
    segments: Segments
    kept: npt.NDArray[np.intp]
    columns: dict[str, npt.NDArray[Any]]
    ends: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
    alpha: float
    limit: float
    choice: Mapping[str, int]

    @classmethod
    def of(
        cls, plan: LatticePlan, segments: Segments, kept: npt.NDArray[np.intp], cells: SegmentCells, alpha: float
    ) -> "AuditTable":
        """All numbers from the sums of segments."""
        columns: dict[str, npt.NDArray[Any]] = {**measured(cells, alpha)}
        columns["pvalue_adjusted"] = holm(columns["pvalue"])
        found = columns["pvalue_adjusted"] <= alpha
        columns["found"] = found
        columns["discovery"] = e_benjamini_hochberg(columns["log_e"], alpha) if kept.size else found
        total = cells.weight.sum(-1)
        gaps = cells.outcome.sum(-1) - cells.score.sum(-1)
        sums = SegmentGapSums(total, gaps, cells.spread, cells.residual_squares())
        describing = Describing(segments, kept, sums, alpha)
        columns["described"] = describing.describe(found)
        order = np.lexsort((kept, -columns["log_e"], columns["pvalue"]))
        if found.any() and not columns["described"].any():
            # No segment differs from the segments that contain it: describe the one with the strongest evidence.
            columns["described"][order[0]] = True
        choice = {"candidates": int(columns["described"].sum()), "candidates_untried": 0, "overlaps_unknown": 0}
        ends = simultaneous_ends(cells, alpha)
        columns = {name: column[order] for name, column in columns.items()}
        return cls(
            plan, segments, kept[order], columns, (ends[0][order], ends[1][order]), alpha, describing.limit, choice
        )

    def with_partial_effects(
        self, sharing: RowOverlaps | LatticeOverlaps, kept: npt.NDArray[np.intp], cells: SegmentCells
    ) -> "AuditTable":
        """Described are those alone that say more than the others together; ``cells`` are of the segments ``kept``."""
        described = np.flatnonzero(self.columns["described"])
        if described.size < 2:
            return self
        tried = described[:_MOST_TRIED]
        # All rows come first.
        scores, here = cells.mean[0], cells.at(np.searchsorted(kept, self.kept[tried]))
        gaps = here.outcome - here.score
        conditions = [self.segments.describe(int(number)) for number in self.kept[tried]]
        overlaps = Overlaps.of(*sharing.sums(conditions, scores), np.r_[gaps.sum(-1), gaps @ shifts(scores)])
        left = np.zeros(self.kept.size, np.bool_)
        left[tried[PartialEffects(overlaps, self.limit).chosen()]] = True
        choice = {"candidates_untried": described.size - tried.size, "overlaps_unknown": overlaps.unknown}
        return replace(self, columns={**self.columns, "described": left}, choice={**self.choice, **choice})

    def dataset(self, *, min_rows: int, **attributes: Any) -> xr.Dataset:
        """The result."""
        columns = self.columns
        texts = np.array([self.plan.text(self.segments, int(number)) for number in self.kept], object)
        subsets = [self.segments.describe(int(number))[0] for number in self.kept]
        names = np.array([", ".join(self.plan.name(i) for i in subset) for subset in subsets], object)
        excluded = not_excluded(columns["rows"], *self.ends, min_rows)
        sentence = conclusion(texts, columns["gap"], columns["described"], excluded, min_rows, self.alpha)
        sentence += remarks(int(columns["described"].sum()), self.choice)
        numbers = {
            name: column.astype(np.int64) if name in ("rows", "events") else column for name, column in columns.items()
        }
        ratio = np.divide(columns["ecce"], columns["sigma"], out=np.zeros(texts.size), where=columns["sigma"] > 0)
        coordinates: dict[Hashable, Any] = {
            "segment": texts.astype(str),
            "features": ("segment", names.astype(str)),
            "depth": ("segment", np.array([len(subset) for subset in subsets], np.int64)),
            "number": ("segment", np.asarray(self.kept, np.int64)),
        }
        return described_dataset(
            OF_SEGMENTS,
            numbers,
            ("segment",),
            coordinates,
            str(self.plan.setting),
            "class",
            **attributes,
            min_rows=min_rows,
            alpha=self.alpha,
            segments=int(self.kept.size),
            **self.choice,
            mce_sigma=float(ratio.max(initial=0.0)),
            not_excluded=json.dumps(excluded),
            conclusion=sentence,
        )

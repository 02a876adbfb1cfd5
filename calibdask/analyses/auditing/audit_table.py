"""The numbers of all segments of an audit: the lattice is filled part by part, and segments are ordered by evidence."""

import json
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy
import xarray as xr

from calibdask.analyses.auditing.audit_document import OF_SEGMENTS
from calibdask.analyses.auditing.conclusions import conclusion, not_excluded, remarks
from calibdask.analyses.auditing.evidence import SegmentCells, simultaneous_ends
from calibdask.analyses.auditing.label_leakage import FeatureCounts, LabelCounts, LabelCountsState
from calibdask.analyses.auditing.measures import cells_of, measured
from calibdask.analyses.auditing.overlaps import LatticeOverlaps, Overlaps, RowOverlaps
from calibdask.analyses.auditing.planning import LatticePlan
from calibdask.data.input import Input
from calibdask.engine.plan import run_requests
from calibdask.inference.multiplicity import e_benjamini_hochberg, holm
from calibdask.results.build import described as described_dataset
from calibdask.statistics.exact import Array
from calibdask.statistics.lattice.lattice_sums import LatticeState, LatticeSums
from calibdask.statistics.lattice.overlap_sums import shifts
from calibdask.statistics.lattice.segments import Segments

# A segment whose indicator the others' functions give but for this share of it says nothing of its own.
_SPANNED = 1e-6
# Functions that agree, such as 1 and v where all scores are equal, must not make equations singular.
_RIDGE = 1e-10


class SegmentGapSums(NamedTuple):
    """By segment: the sums of w and of w (o - s), and two estimates of the variance of the latter.

    ``null`` is the variance if scores are right, ``observed`` that of the residuals.
    """

    weight: Array
    residual: Array
    null: Array
    observed: Array

    def pooled(self, at: list[int]) -> "SegmentGapSums":
        """Sums of segments that have no rows in common."""
        return SegmentGapSums(*(np.asarray(part[at].sum()) for part in self))

    def less(self, other: "SegmentGapSums") -> "SegmentGapSums":
        """The sums without a part of the rows."""
        return SegmentGapSums(*(a - b for a, b in zip(self, other, strict=True)))

    @property
    def mean(self) -> tuple[float, float]:
        """The mean of w (o - s), and its variance."""
        variance = max(float(self.null), float(self.observed))
        return float(self.residual / self.weight), variance / float(self.weight) ** 2


@dataclass(frozen=True)
class Describing:
    """Chooses among segments that were found.

    A segment describes what is wrong if it differs for certain from what else there is in each of the segments that
    it is part of, and is still off without those of its parts that describe it better.

    Parameters
    ----------
    segments : Segments
    kept : array of int
        Numbers of the segments that were measured.
    sums : SegmentGapSums
        Of these.
    alpha : float
        Of all comparisons together.
    """

    segments: Segments
    kept: npt.NDArray[np.intp]
    sums: SegmentGapSums
    alpha: float

    def describe(self, found: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Mask of the segments that explain those ``found``; deeper segments are tried first."""
        described = np.zeros(found.size, np.bool_)
        at = {int(number): position for position, number in enumerate(self.kept.tolist())}
        parents = {
            position: [at[number] for number in self.segments.parents(int(self.kept[position]))]
            for position in np.flatnonzero(found).tolist()
        }
        limit = self.limit
        parts: dict[int, list[int]] = defaultdict(list)
        seen: set[tuple[float, ...]] = set()
        for position in sorted(parents, key=lambda position: (-len(parents[position]), position)):
            here = self._of(position)
            same = tuple(float(part) for part in here)
            if same in seen or not all(self._differs(here, self._of(above), limit) for above in parents[position]):
                continue
            if not self._still_off(here, parts[int(self.kept[position])], limit):
                continue
            described[position] = True
            seen.add(same)
            subset, values = self.segments.describe(int(self.kept[position]))
            for size in range(len(subset)):
                for chosen in combinations(range(len(subset)), size):
                    whole = tuple(subset[i] for i in chosen), tuple(values[i] for i in chosen)
                    parts[self.segments.number(*whole)].append(position)
        return described

    @property
    def limit(self) -> float:
        """How many standard errors make a comparison certain.

        Those that were found are chosen among all: every segment counts for as many comparisons as it has features.
        """
        subsets = np.searchsorted(self.segments.base, self.kept, "right") - 1
        depths = np.array([len(subset) for subset in self.segments.subsets])[subsets]
        return float(-scipy.special.ndtri(self.alpha / (2 * max(1, int(np.maximum(depths, 1).sum())))))

    def _of(self, position: int) -> SegmentGapSums:
        return self.sums.pooled([position])

    def _differs(self, part: SegmentGapSums, whole: SegmentGapSums, limit: float) -> bool:
        """Whether the mean residual of a part differs from that of the rest of the whole."""
        rest = whole.less(part)
        if rest.weight <= 0:
            return False
        (here, variance), (there, further) = part.mean, rest.mean
        return abs(here - there) > limit * np.sqrt(variance + further)

    def _still_off(self, whole: SegmentGapSums, parts: list[int], limit: float) -> bool:
        """Whether a segment remains miscalibrated without its parts; parts by equal features are removed together."""
        by_features: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for position in parts:
            by_features[self.segments.describe(int(self.kept[position]))[0]].append(position)
        for together in by_features.values():
            rest = whole.less(self.sums.pooled(together))
            if rest.weight <= 0:
                return False
            mean, variance = rest.mean
            if abs(mean) <= limit * np.sqrt(variance):
                return False
        return True


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
        clustered = data.source.layout.clustered
        parts.append(cells_of(state, here, clustered=clustered))
        counts.append(FeatureCounts.of(statistic.segments, state, clustered=clustered))
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

    def dataset(self, *, min_rows: int, clusters: str = "", **attributes: Any) -> xr.Dataset:
        """The result; ``clusters``: a further sentence of the conclusion, of rows in clusters."""
        columns = self.columns
        texts = np.array([self.plan.text(self.segments, int(number)) for number in self.kept], object)
        subsets = [self.segments.describe(int(number))[0] for number in self.kept]
        names = np.array([", ".join(self.plan.name(i) for i in subset) for subset in subsets], object)
        excluded = not_excluded(columns["rows"], *self.ends, min_rows)
        units = "clusters" if clusters else "rows"
        sentence = conclusion(texts, columns["gap"], columns["described"], excluded, min_rows, self.alpha, units)
        sentence += remarks(int(columns["described"].sum()), self.choice) + clusters
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
        result = described_dataset(
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
        if "cluster_weight" in numbers:
            result["ece_chance"].attrs["meaning"] = "upper bound of the mean absolute gap of a calibrated model"
        return result


@dataclass(frozen=True)
class PartialEffects:
    r"""Chooses segments, the strongest evidence first, by their partial effects.

    Residuals o - s are regressed, by least squares with the weights of rows, on the indicator of a segment and, for
    each of the others chosen, on its indicator and its indicator times s (1 - s): what is left of a segment when the
    others' scores are shifted, by a constant or on the scale of the log-odds, to the first order. Its variance is that
    of the sandwich, the larger one of that if scores are right and that of the residuals.

    Parameters
    ----------
    overlaps : Overlaps
        Of segments in the order of their evidence.
    limit : float
        Effects are certain above so many standard errors.
    """

    overlaps: Overlaps
    limit: float

    def chosen(self) -> list[int]:
        """Forward selection of segments by evidence, followed by backward elimination."""
        chosen = [0]
        others = list(range(1, len(self.overlaps.known)))
        while others:
            evidence = self.evidence(others, chosen)
            best = int(evidence.argmax())
            if evidence[best] <= self.limit:
                break
            chosen.append(others.pop(best))
        while len(chosen) > 1:
            evidence = self.evidence(chosen, chosen)
            weakest = int(evidence.argmin())
            if evidence[weakest] > self.limit:
                break
            del chosen[weakest]
        return sorted(chosen)

    def evidence(self, segments: Sequence[int], chosen: Sequence[int]) -> Array:
        """The absolute partial effect of each, beside the others that are chosen, in standard errors."""
        alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for place, segment in enumerate(segments):
            alike[self._beside(segment, chosen)].append(place)
        evidence = np.zeros(len(segments))
        for beside, places in alike.items():
            effect, error = self.effects([segments[place] for place in places], beside)
            evidence[places] = np.divide(np.abs(effect), error, out=np.zeros(len(places)), where=error > 0)
        return evidence

    def effects(self, segments: Sequence[int], beside: Sequence[int]) -> tuple[Array, Array]:
        """Partial effects of segments beside others, each by itself, and standard errors; 0 and 0 if there is none."""
        sums, own = self.overlaps, np.array(segments, np.intp)
        columns = np.array([*beside, *(len(sums.known) + other for other in beside)], np.intp)
        part = np.zeros((columns.size, own.size))
        if columns.size:
            scale = np.sqrt(np.diagonal(sums.weight)[columns])
            scale[scale == 0] = 1.0
            inner = sums.weight[np.ix_(columns, columns)] / np.outer(scale, scale) + _RIDGE * np.eye(columns.size)
            outer = sums.weight[np.ix_(columns, own)] / scale[:, None]
            part = scipy.linalg.cho_solve(scipy.linalg.cho_factor(inner), outer) / scale[:, None]
        whole = sums.weight[own, own]
        left = whole - (part * sums.weight[np.ix_(columns, own)]).sum(0)
        effect = sums.residual[own] - part.T @ sums.residual[columns]
        variance = np.maximum(
            *(
                square[own, own]
                - 2 * (part * square[np.ix_(columns, own)]).sum(0)
                + (part * (square[np.ix_(columns, columns)] @ part)).sum(0)
                for square in (sums.null, sums.observed)
            )
        )
        there = left > _SPANNED * whole
        error = np.sqrt(np.maximum(variance, 0.0))
        effect, error = (np.divide(x, left, out=np.zeros(own.size), where=there) for x in (effect, error))
        return effect, error

    def _beside(self, segment: int, chosen: Sequence[int]) -> tuple[int, ...]:
        """The chosen segments that one is compared with: all others, or those whose shared rows are known."""
        known = self.overlaps.known
        if self._all_known:
            return tuple(other for other in chosen if other != segment)
        beside: list[int] = []
        for other in chosen:
            shares = self.overlaps.weight[segment, other] > 0 and known[segment, other]
            if other != segment and shares and known[other, beside].all():
                beside.append(other)
        return tuple(beside)

    @cached_property
    def _all_known(self) -> bool:
        return bool(self.overlaps.known.all())

"""Mending in rounds: the lattice of what a map leaves wrong, a step on it, and whether rows left out agree."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from calibdask.analyses.auditing.evidence import SegmentCells
from calibdask.analyses.auditing.label_leakage import FeatureCounts
from calibdask.analyses.auditing.measures import cells_of
from calibdask.analyses.auditing.planning import LatticePlan
from calibdask.analyses.multicalibration.choosing import Choosing
from calibdask.analyses.multicalibration.segment_map import SegmentMap
from calibdask.calibrators.comparing.improvement import LossMeans, Mean
from calibdask.engine.plan import run_requests
from calibdask.engine.sources.source import Source
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.lattice.coding import Codes, Coding
from calibdask.statistics.layout import Layout
from calibdask.statistics.paired_losses import PairedLosses
from calibdask.statistics.score_sums import ScoreSums
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import ViewedStatistic
from calibdask.statistics.views.folds import RowFolds, rows_at
from calibdask.statistics.views.view import View

# A map of the folds but one, None for all rows.
Place = int | None
_LOSS = "loss"


@dataclass(frozen=True)
class CodedFeature:
    """A feature of blocks that holds its values already."""

    column: int
    size: int

    def codes(self, block: Block) -> Codes:
        """The value of each row."""
        return np.asarray(block.features[self.column], np.uint8)


@dataclass(frozen=True)
class CodedRows(View):
    """Rows with a vector of P(y = 1), and the values of features in the place of features."""

    setting: Setting
    codings: tuple[Coding, ...]

    def layout(self, layout: Layout) -> Layout:
        """A vector of float64."""
        return replace(layout, vector=True, classes=2, dtype="float64", half=False)

    def block(self, block: Block) -> Block:
        """The rows, with codes computed once for all maps."""
        if self not in block.viewed:
            scores = np.nan_to_num(block.columns(self.setting).of(0)[0].astype(np.float64)).clip(0.0, 1.0)
            codes = tuple(coding.codes(block) for coding in self.codings)
            layout = self.layout(block.layout)
            block.viewed[self] = replace(block, layout=layout, scores=scores[None], features=codes)
        return block.viewed[self]


def scores_of(block: Block) -> Array:
    """The scores of coded rows, (n,)."""
    return np.asarray(block.scores[0, :, 0], np.float64)


def codes_of(block: Block) -> Codes:
    """The values of all features of coded rows, (features, n)."""
    if "codes" not in block.prepared:
        block.prepared["codes"] = np.stack([np.zeros(block.rows, np.uint8), *block.features])[1:]
    codes: Codes = block.prepared["codes"]
    return codes


def folds_of(block: Block, folds: RowFolds) -> Counts:
    """The fold of each row; computed once for all maps."""
    if folds not in block.prepared:
        block.prepared[folds] = folds.of_rows(block)
    known: Counts = block.prepared[folds]
    return known


@dataclass(frozen=True)
class OthersMapped(View):
    """Rows of all folds but one, or of all, with the scores that their map makes of them."""

    coded: CodedRows
    folds: RowFolds
    left_out: int | None
    map: SegmentMap

    @property
    def ordered(self) -> bool:  # type: ignore[override]  # a class attribute of other views
        """Whether it leaves out rows by their number."""
        return self.left_out is not None

    def layout(self, layout: Layout) -> Layout:
        """Of some of the rows."""
        coded = self.coded.layout(layout)
        return coded if self.left_out is None else replace(coded, rows=None)

    def block(self, block: Block) -> Block:
        """The rows of the other folds."""
        coded = self.coded.block(block)
        scores, codes = scores_of(coded), codes_of(coded)
        if self.left_out is None:
            return replace(coded, scores=self.map(scores, codes)[None, :, None])
        index = np.flatnonzero(folds_of(coded, self.folds) != self.left_out)
        others = rows_at(coded, self.layout(block.layout), index, coded.group)
        return replace(others, scores=self.map(scores[index], codes[:, index])[None, :, None])


@dataclass(frozen=True)
class CrossMapped(View):
    """Rows with the scores that the map of their fold, fitted to the other folds, makes of them.

    ``shift``: that many folds further on instead; rows then have a map that knows them.
    """

    coded: CodedRows
    folds: RowFolds
    maps: tuple[SegmentMap, ...]
    shift: int = 0

    @property
    def ordered(self) -> bool:  # type: ignore[override]  # a class attribute of other views
        """Folds go by the number of rows."""
        return True

    def layout(self, layout: Layout) -> Layout:
        """Layout of the coded rows."""
        return self.coded.layout(layout)

    def block(self, block: Block) -> Block:
        """Rows with mapped scores."""
        coded = self.coded.block(block)
        scores, codes = scores_of(coded), codes_of(coded)
        fold: Any = (folds_of(coded, self.folds) + self.shift) % self.folds.count
        values = np.empty(scores.size)
        for number, fold_map in enumerate(self.maps):
            index = np.flatnonzero(fold == number)
            values[index] = fold_map(scores[index], codes[:, index])
        return replace(coded, scores=values[None, :, None])


class BoostedFit(NamedTuple):
    """The map of all rows, and the improvement of the log loss by cross-fitted maps: of as many rounds, and by round.

    ``resubstituted`` is what the map takes away from the log loss of the rows that it was fitted to. ``counts`` are
    those of the values of features.
    """

    map: SegmentMap
    improvement: Mean
    resubstituted: Mean
    losses: list[float]
    counts: FeatureCounts


@dataclass(frozen=True)
class Boosting:
    """Fits maps to all rows and to the complements of folds, in shared passes.

    Parameters
    ----------
    plan : LatticePlan
        Of the rows as they are.
    choosing : Choosing
    folds : RowFolds
    min_rows : int
    rounds : int
        At most.
    """

    plan: LatticePlan
    choosing: Choosing
    folds: RowFolds
    min_rows: int
    rounds: int

    def mend(self, source: Source) -> BoostedFit:
        """Rounds until nothing is found, or rows that were left out have no lower loss."""
        places: list[Place] = [None, *range(self.folds.count)]
        maps = dict.fromkeys(places, SegmentMap(tuple(coding.size for coding in self.plan.features)))
        before, losses, growing, counts = maps, list[float](), places, list[FeatureCounts]()
        while growing:
            growing = growing if len(losses) < self.rounds else []
            cells, loss = self._pass(maps, growing, source, counts)
            losses.append(loss)
            if len(losses) > 1 and not loss < losses[-2]:
                maps = before
                losses.pop()
                break
            steps = {place: self.choosing.step(maps[place], *cells[place]) for place in growing}
            growing = [place for place in growing if steps[place] is not None]
            before, maps = maps, {place: maps[place].followed_by(steps.get(place)) for place in places}
        return BoostedFit(maps[None], *self._improvements(maps, source), losses, FeatureCounts.joined(counts))

    def _pass(
        self, maps: Mapping[Place, SegmentMap], growing: list[Place], source: Source, counts: list[FeatureCounts]
    ) -> tuple[dict[Place, Any], float]:
        """Cells of the segments of enough rows under the map of each place, and the loss of rows left out.

        The first pass adds to ``counts`` those of each part of the lattice.
        """
        views = {place: OthersMapped(self._coded, self.folds, place, maps[place]) for place in growing}
        parts = [*self._lattice.parts()] if growing else []
        requests: list[dict[Any, Any]] = [
            {place: iter(ViewedStatistic(view, part)) for place, view in views.items()} for part in parts
        ]
        # Rows that were left out are looked at in the first pass, along with the first part of the lattice.
        requests = requests or [{}]
        requests[0][_LOSS] = iter(ViewedStatistic(self._cross(maps), ScoreSums()))
        kept, sums = ({place: list[Any]() for place in growing} for _ in range(2))
        counting = not counts
        first, loss = 0, np.nan
        for number, of_part in enumerate(requests):
            answers: Any = run_requests(of_part, source).estimates
            if _LOSS in answers:
                of_rows = answers[_LOSS]
                loss = (exact.value(of_rows.log) / exact.value(of_rows.weight)).item()
            if counting:
                counts.append(FeatureCounts.of(parts[number].segments, answers[None]))
            for place in growing:
                here = self.plan.kept(parts[number].segments, answers[place].rows.sum(-1), first, self.min_rows)
                sums[place].append(cells_of(answers[place], here))
                kept[place].append(here + first)
            first += parts[number].segments.count if growing else 0
        return {place: (np.concatenate(kept[place]), SegmentCells.joined(sums[place])) for place in growing}, loss

    def _improvements(self, maps: Mapping[Place, SegmentMap], source: Source) -> tuple[Mean, Mean]:
        """Of the maps of folds on the rows that they have not seen, and of the map of all rows on these."""
        if not any(steps_map.steps for steps_map in maps.values()):
            nothing = np.zeros((1, 1))
            none = Mean(nothing, nothing, np.full((1, 1), np.inf))
            return none, none
        view, final = self._cross(maps), OthersMapped(self._coded, self.folds, None, maps[None])
        losses = PairedLosses((view, final), (replace(view, shift=1), final))
        answers: Any = run_requests({_LOSS: iter(losses)}, source).estimates
        means = LossMeans(answers[_LOSS], self.folds.count)
        return means.improvement("log", 0), means.improvement("log", 1)

    def _cross(self, maps: Mapping[Place, SegmentMap]) -> CrossMapped:
        return CrossMapped(self._coded, self.folds, tuple(maps[fold] for fold in range(self.folds.count)))

    @cached_property
    def _coded(self) -> CodedRows:
        return CodedRows(self.plan.setting, self.plan.features)

    @cached_property
    def _lattice(self) -> LatticePlan:
        """Of rows that are coded already."""
        coded: Any = tuple(CodedFeature(column, coding.size) for column, coding in enumerate(self.plan.features))
        return replace(self.plan, setting=Setting("class", 1), features=coded)

"""Rows as mending sees them: binary scores, the values of their features, and what maps of folds make of them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibdask.analyses.multicalibration.segment_map import SegmentMap
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.lattice.coding import Codes, Coding
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.statistics.views.folds import RowFolds, rows_at
from calibdask.statistics.views.view import View


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

"""Sums of proper scores over rows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from calibdask.kernels import scores
from calibdask.statistics import exact
from calibdask.statistics.bins.grid_bins import cell_sums
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Counts, Sums
from calibdask.statistics.statistic import Statistic, SumStatistic

if TYPE_CHECKING:
    from calibdask.statistics.bins.histograms import Histograms


class ScoreSumsState(NamedTuple):
    """Sums by (batch, group): rows, rows clipped in the logarithm, weight, w * Brier, w * logarithmic score."""

    rows: Counts
    clipped: Counts
    weight: Sums
    brier: Sums
    log: Sums


@dataclass(frozen=True)
class ScoreSums(SumStatistic[ScoreSumsState]):
    """Sums over rows of the Brier score (summed over classes) and the logarithmic score.

    Parameters
    ----------
    brier : bool
        Without, those of the Brier score are 0: all others need one score of each row alone.
    clip : float
        Smaller scores of the label count as this one in the logarithm; at least the smallest positive one of the data.
    """

    brier: bool = True
    clip: float = 0.0
    counts: ClassVar[int] = 2
    weighting = ((0, 0), (0, 0), (0, 1), (0, 1), (0, 1))

    def from_block(self, block: Block) -> ScoreSumsState:
        """Sums of one block."""
        layout = block.layout
        counts = np.zeros((layout.batch, 2, layout.groups), np.int64)
        options = (layout.vector or None, not layout.vector or None, max(layout.smallest, self.clip))
        if block.weights is not None:
            sums = np.zeros((layout.batch, 3, layout.groups))
            scores.weighted_score_sums(
                block.scores, block.codes, block.weights, block.group, *options, self.brier, counts, sums
            )
            return ScoreSumsState(counts[:, 0], counts[:, 1], *np.moveaxis(sums, 1, 0))
        words = np.zeros((layout.batch, 2, layout.groups, 2), np.int64)
        for b in range(layout.batch):
            rows = block.scores_of(b), block.observed.packed_of(b), block.group
            scores.score_sums(*rows, *options, self.brier, counts[b], words[b])
        count, clipped = counts[:, 0], counts[:, 1]
        return ScoreSumsState(count, clipped, exact.from_counts(count), words[:, 0], words[:, 1])

    def follows_from(self, other: Statistic[Any]) -> bool:
        """Whether the other statistic adds only the Brier score to these sums."""
        return not self.brier and other == ScoreSums(clip=self.clip)

    def extracted_from(self, state: ScoreSumsState) -> ScoreSumsState:
        """Without the Brier score."""
        return state._replace(brier=np.zeros_like(state.brier))

    def from_histograms(self, histograms: "Histograms") -> ScoreSumsState:
        """The sums that are stored with the histograms; clipped ones of binary scores by cell and outcome."""
        if not self.clip:
            return histograms.score_sums()
        layout = histograms.layout
        if not layout.vector:
            raise ValueError(
                "A summary of several classes has no clipped log loss; evaluate the data themselves, or leave out clip."
            )
        finest = histograms.finest(layout.setting(None))
        cells = cell_sums(histograms.state(finest), finest.grid)
        score = np.divide(cells.score, cells.mass, out=np.zeros_like(cells.mass), where=cells.mass > 0)[:, :, 0]
        chosen = np.stack([1 - score[..., 0, :], score[..., 1, :]], -2)
        mass, rows = cells.mass[:, :, 0], cells.rows[:, :, 0]
        clipped = np.where(chosen < self.clip, rows, 0).sum((-1, -2))
        log = (mass * -np.log(np.clip(chosen, self.clip, 1.0))).sum((-1, -2))
        weight = mass.sum((-1, -2))
        return ScoreSumsState(rows.sum((-1, -2)), clipped, weight, np.zeros_like(weight), log)

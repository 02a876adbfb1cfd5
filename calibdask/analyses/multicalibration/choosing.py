"""One round of mending: which segments are off for certain, which of them to move, and by how much."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibdask.analyses.auditing.evidence import SegmentCells, pvalues
from calibdask.analyses.multicalibration.segment_map import SegmentMap, SegmentStep
from calibdask.inference.multiplicity import holm
from calibdask.statistics.exact import Array
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.lattice.segments import Segments

# Each segment is tested three times: with all its scores, with those in the lower half of the cells, and in the upper.
_TESTS = 3
# What moving a segment again has to gain: Akaike's penalty of its offset and slope.
_AGAIN = 2.0
_NEWTON_STEPS, _LONGEST_STEP, _CONVERGED = 40, 2.0, 1e-8


@dataclass(frozen=True)
class Choosing:
    """Chooses the step of a round.

    Parameters
    ----------
    segments : Segments
        The numbering.
    alpha : float
        Familywise level of the tests of a round.
    shrinkage : float
        Precision of the normal prior of offsets and slopes.
    """

    segments: Segments
    alpha: float
    shrinkage: float

    def step(self, present: SegmentMap, kept: npt.NDArray[np.intp], cells: SegmentCells) -> SegmentStep | None:
        """The change of the logits of segments by some features; None if none is significantly miscalibrated.

        ``kept`` are the numbers of the segments whose cells these are, under the present map. Those of the same
        features have no rows in common. Chooses the set of features whose segments gain the most likelihood minus a
        penalty for each segment: log(tests / alpha), or, for segments that were moved before and need not be
        significant, the cost of their two numbers.
        """
        if not kept.size:
            return None
        named = np.isin(kept, self._moved(present))
        at = np.flatnonzero(named | (holm(segment_pvalues(cells)) <= self.alpha))
        offset, slope, gain = recalibrated(cells.at(at), self.shrinkage)
        net = gain - np.where(named[at], _AGAIN, np.log(_TESTS * kept.size / self.alpha))
        subsets = np.searchsorted(self.segments.base, kept[at], "right") - 1
        totals = np.bincount(subsets, np.maximum(net, 0.0), len(self.segments.subsets))
        best = int(np.argmax(totals))
        if totals[best] <= 0:
            return None
        here = (subsets == best) & (net > 0)
        offsets, slopes = np.zeros((2, int(self.segments.counts[best])))
        places = kept[at][here] - int(self.segments.base[best])
        offsets[places], slopes[places] = offset[here], slope[here]
        return SegmentStep(self.segments.subsets[best], FrozenArray(offsets), FrozenArray(slopes))

    def _moved(self, present: SegmentMap) -> npt.NDArray[np.intp]:
        """The numbers of the segments that a map moves."""
        places = [
            self.segments.first(step.features) + np.flatnonzero((step.offset.values != 0) | (step.slope.values != 0))
            for step in present.steps
        ]
        return np.concatenate([np.zeros(0, np.intp), *places])


def segment_pvalues(cells: SegmentCells) -> Array:
    """For each segment that it is calibrated: over all its scores, the lower and the upper half of the cells."""
    middle = cells.rows.shape[-1] // 2
    parts = [slice(None), slice(0, middle), slice(middle, None)]
    tests = [pvalues(_within(cells, part)) for part in parts]
    return np.minimum(1.0, _TESTS * np.min(tests, axis=0))


def _within(cells: SegmentCells, part: slice) -> SegmentCells:
    """Some of the cells; the variance of the whole segment bounds that of a part."""
    return cells._replace(**{name: getattr(cells, name)[:, part] for name in cells._fields[:5]})


def recalibrated(cells: SegmentCells, shrinkage: float) -> tuple[Array, Array, Array]:
    """Offset a and slope b of logit P(o = 1) = z + a + b z, and the gain of log-likelihood in effective rows.

    Of a normal prior with the precision ``shrinkage`` the mode, from the mean scores of cells. The order of scores is
    kept: b is at least -1.
    """
    mean = np.clip(cells.mean, 1e-12, 1 - 1e-12)
    z = np.log(mean) - np.log1p(-mean)
    # Weights that add up to the effective number of rows.
    scale = (cells.weight.sum(-1) / cells.weight_square)[:, None]
    weight, outcome = cells.weight * scale, cells.outcome * scale
    a, b = np.zeros((2, len(z)))
    for _ in range(_NEWTON_STEPS):
        logit = z + a[:, None] + b[:, None] * z
        fitted = 1 / (1 + np.exp(-np.clip(logit, -700, 700)))
        residual, information = outcome - weight * fitted, weight * fitted * (1 - fitted)
        of_a, of_b = residual.sum(-1) - shrinkage * a, (residual * z).sum(-1) - shrinkage * b
        first, third = information.sum(-1) + shrinkage, (information * z * z).sum(-1) + shrinkage
        second = (information * z).sum(-1)
        determinant = first * third - second**2
        moved = np.stack([third * of_a - second * of_b, first * of_b - second * of_a]) / determinant
        a, b = np.stack([a, b]) + np.clip(moved, -_LONGEST_STEP, _LONGEST_STEP)
        if (np.abs(moved) <= _CONVERGED).all():
            break
    b = np.maximum(b, -1.0)
    logit = z + a[:, None] + b[:, None] * z
    gain = (outcome * (logit - z) - weight * (np.logaddexp(0, logit) - np.logaddexp(0, z))).sum(-1)
    return a, b, gain

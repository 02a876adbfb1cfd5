"""Stepwise regression on segments that share rows: those are listed that say more than the others together."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from calibdask.analyses.auditing.overlaps import Overlaps
from calibdask.statistics.exact import Array

# A segment whose indicator the others' functions give but for this share of it says nothing of its own.
_SPANNED = 1e-6
# Functions that agree, such as 1 and v where all scores are equal, must not make equations singular.
_RIDGE = 1e-10


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

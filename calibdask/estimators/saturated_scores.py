"""Scores of exactly 0 or 1, whose log loss is unbounded where one of them is wrong."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.parts import Estimate, FixedPart
from calibdask.statistics import exact
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.row_terms import RowTerms
from calibdask.statistics.settings import Setting

UNBOUNDED = "with scores of exactly 0 or 1: the log loss of a wrong one is unbounded"


@dataclass(frozen=True)
class SaturatedScores(Estimator):
    """Whether any row has a score of exactly 0 or 1; of several classes, a predicted class whose score is 1."""

    @override
    def interval(self, layout: Layout) -> NoInterval:
        return NoInterval()

    @override
    def estimate(self) -> Requests[Estimate]:
        return {"": FixedPart((yield from saturated_scores()))}


def saturated_scores() -> Requests[npt.NDArray[np.bool_]]:
    """Whether any row of a (batch, group) has such a score."""
    terms = yield from saturation((yield from Layout()))
    return np.asarray(exact.value(terms.sums)[0].max(-1) > 0)


def saturation(layout: Layout) -> RowTerms:
    """The weight of the rows with such scores."""
    return RowTerms(saturation_setting(layout), "saturated", layout.smallest_normal)


def saturation_setting(layout: Layout) -> Setting:
    """The setting in which such scores are looked for."""
    return Setting("class", 1) if layout.vector else Setting("confidence")

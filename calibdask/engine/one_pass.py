"""What estimators ask for, found out without data: whether one pass over rows in any order and grouping suffices."""

import warnings
from typing import Any

import numpy as np

from calibdask.engine.plan import run
from calibdask.engine.sources.source import Source, States, states_of
from calibdask.estimators.estimator import Estimator
from calibdask.statistics.block import Block
from calibdask.statistics.layout import Layout
from calibdask.statistics.schedule import Schedule
from calibdask.statistics.statistic import Statistic

__all__ = ["NotOnePass", "is_told", "no_rows", "requests_of_one_pass"]


class NotOnePass(ValueError):
    """Why an estimator cannot be computed from sums over the rows in one pass."""


def no_rows(layout: Layout) -> Block:
    """A block without rows; its states are those that add nothing."""
    shape = (layout.batch, 0)
    scores = np.zeros((*shape, 1 if layout.vector else layout.classes), layout.dtype)
    return Block(layout, scores, np.zeros(shape, np.int64), np.zeros(shape) if layout.weighted else None)


def requests_of_one_pass(estimator: Estimator, layout: Layout) -> tuple[Statistic[Any], ...]:
    """The statistics that an estimator asks for, all of which are sums over the rows in one pass.

    Raises
    ------
    NotOnePass
        If it asks for anything else.

    Examples
    --------
    >>> from calibdask.estimators.scores.proper import BrierScore
    >>> requests_of_one_pass(BrierScore(), Layout())
    (ScoreSums(),)
    """
    source = _FirstPass(layout)
    _computed(estimator, source)
    return source.asked


def is_told(estimator: Estimator, source: Source) -> bool:
    """Whether a source without rows answers all that an estimator asks for."""
    try:
        _computed(estimator, source)
    except ValueError:
        return False
    return True


def _computed(estimator: Estimator, source: Source) -> None:
    """Compute an estimate for no rows, which warns of nothing."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        run({"": estimator}, source)


class _FirstPass(Source):
    """Answers once, for no rows, and only what is a sum over rows."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.rows = 0
        self.asked: tuple[Statistic[Any], ...] = ()

    def answer(self, statistics: tuple[Statistic[Any], ...]) -> States:
        """The states of no rows."""
        schedule = Schedule.of(statistics)
        if schedule.pairs or schedule.targets:
            raise NotOnePass("it compares pairs of rows")
        if self.passes:
            raise NotOnePass("it reads the rows several times, since what it sums up depends on the first pass")
        for statistic in statistics:
            if statistic.ordered:
                raise NotOnePass(f"it needs {statistic.word}, which depends on the order of the rows")
            if not statistic.adds:
                raise NotOnePass(f"it needs {statistic.word}, which is no sum over the rows")
        self.passes, self.asked = 1, statistics
        return states_of(no_rows(self.layout), statistics)

"""A dry run of estimators without data shows whether one pass over rows in any order and grouping suffices."""

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

# The root of this many rows is a number of bins whose edges are no edges of cells.
_FEW = 50


class NotOnePass(ValueError):
    """Why an estimator cannot be computed from sums over the rows in one pass."""


def no_rows(layout: Layout) -> Block:
    """A block without rows; its states are those that add nothing."""
    return few_rows(layout).part(0, 0)


def few_rows(layout: Layout) -> Block:
    """A block of rows that stand for those to come."""
    scores = np.random.default_rng(0).dirichlet(np.ones(layout.classes), (layout.batch, _FEW))
    labels = np.broadcast_to(np.arange(_FEW) % layout.classes, (layout.batch, _FEW))
    weights = np.ones((layout.batch, _FEW)) if layout.weighted else None
    scores = (scores[..., 1:2] if layout.vector else scores).astype(layout.dtype)
    return Block(layout, scores, labels, weights, clusters=np.arange(_FEW) if layout.clustered else None)


def requests_of_one_pass(estimator: Estimator, layout: Layout) -> tuple[Statistic[Any], ...]:
    """Statistics that an estimator requests, if all are sums over rows in one pass.

    Raises
    ------
    NotOnePass
        If it asks for anything else.

    Examples
    --------
    >>> from calibdask.estimators.scores.proper import BrierScore
    >>> requests_of_one_pass(BrierScore(), Layout())
    (ScoreSums(brier=True, clip=0.0),)
    """
    source = _FirstPass(layout)
    _computed(estimator, source)
    return source.requested


def supports(estimator: Estimator, source: Source) -> bool:
    """Whether a source of few rows answers all that an estimator asks for."""
    try:
        _computed(estimator, source)
    except ValueError:
        return False
    return True


def _computed(estimator: Estimator, source: Source) -> None:
    """Compute an estimate of few rows, which warns of nothing."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        run({"": estimator}, source)


class _FirstPass(Source):
    """Source for a dry run: answers once, for few rows, and only sums over rows."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.rows = _FEW
        self.requested: tuple[Statistic[Any], ...] = ()

    def answer(self, statistics: tuple[Statistic[Any], ...]) -> States:
        """The states of few rows."""
        schedule = Schedule.of(statistics)
        if schedule.pairs or schedule.targets:
            raise NotOnePass("it compares pairs of rows")
        if self.passes:
            raise NotOnePass("it reads the rows several times")
        for statistic in statistics:
            if statistic.ordered:
                raise NotOnePass(f"it needs {statistic.display_name}, which depends on the order of the rows")
            if not statistic.adds:
                raise NotOnePass(f"it needs {statistic.display_name}, which is not a sum over the rows")
        self.passes, self.requested = 1, statistics
        return states_of(few_rows(self.layout), statistics)

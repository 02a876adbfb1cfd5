"""The plan: drive all estimators in step, one pass over the data for all that they ask at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calibdask.engine.source import Source
from calibdask.estimators.estimator import Estimate, Estimation, Estimator
from calibdask.statistics.layout import Layout
from calibdask.statistics.statistic import State, Statistic

__all__ = ["Outcome", "run"]


@dataclass(frozen=True)
class Outcome:
    """One estimate for each estimator, and the number of passes over the data that they took."""

    estimates: tuple[Estimate, ...]
    passes: int


class _Running:
    """An estimator on its way: what it asks for now, or its estimate."""

    def __init__(self, estimator: Estimator) -> None:
        self._asking: Estimation = estimator.estimate()
        self.request: Any = None
        self.estimate: Estimate | None = None
        self.send(None)

    def send(self, state: State) -> None:
        try:
            self.request = self._asking.send(state)
        except StopIteration as stop:
            self.request, self.estimate = None, stop.value


def run(estimators: Sequence[Estimator], source: Source) -> Outcome:
    """Collect what estimators ask for, drop equal requests, make one pass, send each its state; until all are done."""
    running = [_Running(estimator) for estimator in estimators]
    passes = 0
    while True:
        for each in running:
            while isinstance(each.request, Layout):
                each.send(source.layout)
        waiting = [each for each in running if each.estimate is None]
        if not waiting:
            break
        wanted: tuple[Statistic, ...] = tuple(dict.fromkeys(each.request for each in waiting))
        states = dict(zip(wanted, source.answer(wanted), strict=True))
        passes += 1
        for each in waiting:
            each.send(states[each.request])
    return Outcome(tuple(each.estimate for each in running if each.estimate is not None), passes)

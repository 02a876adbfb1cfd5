"""The plan: drive all estimators in step, one pass over the data for all that they ask at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibdask.engine.source import Source
from calibdask.estimators.estimator import Estimate, Estimator
from calibdask.statistics.layout import Layout
from calibdask.statistics.statistic import Asking, Derived, State, Statistic

__all__ = ["Outcome", "run"]


@dataclass(frozen=True)
class Outcome:
    """One estimate for each estimator, the number of passes over the data that they took, and what was learnt."""

    estimates: tuple[Estimate, ...]
    passes: int
    states: Mapping[Statistic, State]


class _Running:
    """Something on its way: what it asks for now, or its result."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self.request: Any = None
        self.result: Any = None
        self.done = False
        self.send(None)

    def send(self, answer: Any) -> None:
        try:
            self.request = self._asking.send(answer)
        except StopIteration as stop:
            self.request, self.result, self.done = None, stop.value, True


class _Board:
    """All that is running, and all that is known: equal requests are answered once."""

    def __init__(self, estimators: Sequence[Estimator], source: Source) -> None:
        self._source = source
        self.estimators = [_Running(estimator.estimate()) for estimator in estimators]
        self._derived: dict[Derived, _Running] = {}
        self.known: dict[Statistic, State] = {}

    def advance(self) -> tuple[Statistic, ...]:
        """Send all that is known, until only statistics are asked for that need a pass over the data."""
        while any([self._answered(each) for each in self._open()]):  # noqa: C419 - all of them, not up to the first
            pass
        return tuple(dict.fromkeys(each.request for each in self._open() if isinstance(each.request, Statistic)))

    def learn(self, statistics: tuple[Statistic, ...], states: tuple[State, ...]) -> None:
        """Take the states of a pass."""
        self.known.update(zip(statistics, states, strict=True))

    def _open(self) -> Iterator[_Running]:
        return (each for each in (*self.estimators, *self._derived.values()) if not each.done)

    def _answered(self, each: _Running) -> bool:
        """Send the answer to one request if it is known; whether it was."""
        request = each.request
        if isinstance(request, Layout):
            each.send(self._source.layout)
            return True
        if isinstance(request, Derived):
            running = self._derived.get(request)
            if running is None:
                self._derived[request] = _Running(self._source.deriving(request))
                return True
            if running.done:
                each.send(running.result)
            return running.done
        if request in self.known:
            each.send(self.known[request])
            return True
        return False


def run(estimators: Sequence[Estimator], source: Source) -> Outcome:
    """Collect what estimators ask for, drop equal requests, make one pass, send each its state; until all are done."""
    board = _Board(estimators, source)
    before = source.passes
    while wanted := board.advance():
        board.learn(wanted, source.answer(wanted))
    return Outcome(tuple(each.result for each in board.estimators), source.passes - before, board.known)

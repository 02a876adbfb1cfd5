"""The plan: drive all estimators in step, one pass over the data for all that they need next."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from calibdask.engine.sources.source import Source
from calibdask.estimators.interval import Estimating
from calibdask.estimators.parts import Estimate
from calibdask.statistics.derived import Derived
from calibdask.statistics.layout import Layout
from calibdask.statistics.prefetch import Prefetch
from calibdask.statistics.request import Request, Requests
from calibdask.statistics.statistic import Statistic

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Outcome(Generic[Name]):
    """Estimates by the name of their estimator, all passes over the data so far, and the states they rest on."""

    estimates: Mapping[Name, Estimate]
    passes: int
    states: Mapping[Statistic[Any], Any]


class _Plan:
    """Answers to requests, each found once, and the computations that wait for those not known yet."""

    def __init__(self, source: Source) -> None:
        self.states: dict[Statistic[Any], Any] = {}
        self._source = source
        self._answers: dict[Request[Any], Any] = {}
        self._waiting: dict[Request[Any], list[Requests[None]]] = {}
        self._next_pass: list[Statistic[Any]] = []

    def resume(self, computation: Requests[None], answer: Any = None) -> None:
        """Send an answer, then the answers to further requests as long as they are known."""
        try:
            request = computation.send(answer)
            # Not by recursion: a computation may start thousands of others.
            while request in self._answers or self._answered_at_once(request):
                request = computation.send(self._answers[request])
        except StopIteration:
            return
        self._waiting[request].append(computation)

    def _answered_at_once(self, request: Request[Any]) -> bool:
        """Whether a request is answered as soon as it is put; others wait."""
        if request not in self._waiting:
            self._waiting[request] = []
            request.submit(self)
        return request in self._answers

    def look_up(self, layout: Layout) -> None:
        """Answer with the layout of the source."""
        self._answer(layout, self._source.layout)

    def derive(self, derived: Derived[Any]) -> None:
        """Start the derivation."""
        self.resume(self._derivation(derived))

    def start(self, started: Prefetch) -> None:
        """Ask for something, and answer at once."""

        def viewed_request() -> Requests[None]:
            yield from started.viewed_request()

        self.resume(viewed_request())
        self._answer(started, None)

    def compute(self, statistic: Statistic[Any]) -> None:
        """Leave it to the next pass."""
        self._next_pass.append(statistic)

    def make_passes(self) -> None:
        """Compute what computations wait for, one pass at a time, until none waits."""
        while self._next_pass:
            statistics, self._next_pass = tuple(self._next_pass), []
            states = self._source.answer(statistics)
            self.states.update(zip(statistics, states, strict=True))
            for statistic, state in zip(statistics, states, strict=True):
                self._answer(statistic, state)

    def _derivation(self, derived: Derived[Any]) -> Requests[None]:
        self._answer(derived, (yield from self._source.derivation(derived)))

    def _answer(self, request: Request[Any], answer: Any) -> None:
        self._answers[request] = answer
        for computation in self._waiting.pop(request):
            self.resume(computation, answer)


def run(estimators: Mapping[Name, Estimating], source: Source) -> Outcome[Name]:
    """The estimates of all estimators, in step."""
    return run_requests({name: estimator.estimate() for name, estimator in estimators.items()}, source)


def run_requests(requests: Mapping[Name, Requests[Any]], source: Source) -> Outcome[Name]:
    """Collect all requests, drop equal ones, make one pass, send each its state; until all have returned."""
    estimates: dict[Name, Estimate] = {}

    def estimation(name: Name) -> Requests[None]:
        estimates[name] = yield from requests[name]

    plan = _Plan(source)
    for name in requests:
        plan.resume(estimation(name))
    plan.make_passes()
    return Outcome({name: estimates[name] for name in requests}, source.passes, plan.states)

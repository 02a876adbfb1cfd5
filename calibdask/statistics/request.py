"""Requests: what estimators ask for, each with the type of its answer."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from calibdask.statistics.derived import Derived
    from calibdask.statistics.layout import Layout
    from calibdask.statistics.prefetch import Prefetch
    from calibdask.statistics.statistic import Statistic
    from calibdask.statistics.views.view import View

Answer = TypeVar("Answer")


class Request(ABC, Generic[Answer]):
    """A frozen, hashable description of something that a source can answer.

    ``answer = yield from request`` asks for it; equal requests are answered once.
    """

    def __iter__(self) -> "Requests[Answer]":
        """Ask for this one thing."""
        answer: Answer = yield self
        return answer

    @abstractmethod
    def submit(self, plan: "Plan") -> None:
        """Call the method of the plan that answers requests of this kind."""

    @abstractmethod
    def viewed_by(self, view: "View") -> "Requests[Answer]":
        """Answer the request for the data as changed by a view."""


# A computation that asks for what it needs, is sent the answers, and returns its result.
Requests: TypeAlias = Generator[Request[Any], Any, Answer]


class Plan(Protocol):
    """A plan answers requests; it has one method for each kind of request."""

    def look_up(self, layout: "Layout") -> None:
        """Answer with the layout of the source, at once."""

    def derive(self, derived: "Derived[Any]") -> None:
        """Run the requests that the answer derives from."""

    def start(self, started: "Prefetch") -> None:
        """Ask for something without waiting for it."""

    def compute(self, statistic: "Statistic[Any]") -> None:
        """Compute a state in the next pass over the data."""

"""Requests a statistic ahead of time so that it shares an earlier pass."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from calibdask.statistics.request import Plan, Request, Requests
from calibdask.statistics.views.view import View, view_requests

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True)
class Prefetch(Request[None]):
    """Another request, put to the plan without waiting for its answer: the next pass computes it along with others."""

    request: Request[Any]
    views: tuple[View, ...] = ()

    def viewed_request(self) -> Requests[Any]:
        """The other request, about the data as seen through the views."""
        requests = iter(self.request)
        for view in self.views:
            requests = view_requests(view, requests)
        return requests

    def submit(self, plan: Plan) -> None:
        """Start it."""
        plan.start(self)

    def viewed_by(self, view: View) -> Requests[None]:
        """Prefetch the request for the rows as changed by a view as well."""
        return (yield from replace(self, views=(*self.views, view)))


def together(requests: Iterable[Request[AnswerT]]) -> Requests[list[AnswerT]]:
    """Answer several requests in shared passes."""
    wanted = list(requests)
    for request in wanted:
        yield from Prefetch(request)
    answers = []
    for request in wanted:
        answers.append((yield from request))  # noqa: PERF401  # comprehensions cannot ask
    return answers

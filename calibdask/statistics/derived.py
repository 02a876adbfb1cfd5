"""Quantities derived from statistics, such as bin edges: computed once for all estimators that request them."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TypeVar

from calibdask.statistics.bins.histograms import Histograms
from calibdask.statistics.request import Plan, Request, Requests
from calibdask.statistics.views.view import View, view_requests

AnswerT = TypeVar("AnswerT")


class Derived(Request[AnswerT]):
    """A frozen, hashable description of what follows from statistics, such as edges of bins.

    Asked for like a statistic. Equal descriptions are derived once.
    """

    @abstractmethod
    def derive(self) -> Requests[AnswerT]:
        """Ask for statistics and return the answer."""

    def from_histograms(self, histograms: Histograms) -> Requests[AnswerT]:
        """The answer from histograms on a grid in place of rows; by default derived as for rows."""
        return self.derive()

    @property
    def fixed_in_replicates(self) -> bool:
        """Whether replicates use the answer of the data: a choice made from the scores, such as a bandwidth."""
        return False

    def tiled(self, answer: AnswerT, times: int) -> AnswerT:
        """The answer of the data, repeated along the batch axis for replicates; only if it is `fixed_in_replicates`."""
        raise NotImplementedError

    def submit(self, plan: Plan) -> None:
        """Ask for the derivation."""
        plan.derive(self)

    def viewed_by(self, view: View) -> Requests[AnswerT]:
        """Derive the quantity from the rows as changed by a view."""
        return (yield from _ViewedDerived(view, self))


@dataclass(frozen=True)
class _ViewedDerived(Derived[AnswerT]):
    view: View
    derived: Derived[AnswerT]

    def derive(self) -> Requests[AnswerT]:
        if self.view.copies and self.derived.fixed_in_replicates:
            return self.derived.tiled((yield from self.derived), self.view.copies)
        return (yield from view_requests(self.view, self.derived.derive()))

    def from_histograms(self, histograms: Histograms) -> Requests[AnswerT]:
        seen = histograms.seen_through(self.view)
        if seen is None or (self.view.copies and self.derived.fixed_in_replicates):
            return (yield from self.derive())
        return (yield from view_requests(self.view, self.derived.from_histograms(seen)))

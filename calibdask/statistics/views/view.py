"""Views: the data as an estimator that does not know it sees them, with other weights, labels or classes."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, TypeVar

from calibdask.statistics.block import Block
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Request, Requests

Answer = TypeVar("Answer")


class View(ABC):
    """A frozen description of how one block of rows becomes another one."""

    # Whether it needs the position of rows.
    ordered: bool = False
    # Which power of the weights it shows as weights of the same rows; 0 where it changes anything else.
    power: int = 0

    @abstractmethod
    def layout(self, layout: Layout) -> Layout:
        """Shape of the data seen."""

    @abstractmethod
    def block(self, block: Block) -> Block:
        """The rows seen."""

    def memory_layout(self, layout: Layout) -> Layout:
        """As `layout`, with as many rows as there may be, for estimates of memory: no view shows more of them."""
        return replace(self.layout(layout), rows=layout.rows)

    @property
    def copies(self) -> int:
        """Number of replicates that use choices made from the scores of the data, such as bandwidths; 0 for none."""
        return 0

    def step(self, block: Block) -> int:
        """How many rows to view at a time, so that memory stays bounded."""
        return max(1, block.rows)

    def from_states(self, statistic: Any) -> Request[Any] | None:
        """A request that derives the statistic from states of parts of the rows, or None if that is impossible."""
        return None


def view_requests(view: View, requests: Requests[Answer]) -> Requests[Answer]:
    """Answer requests for the data as changed by a view."""
    answer: Any = None
    while True:
        try:
            request = requests.send(answer)
        except StopIteration as stop:
            result: Answer = stop.value
            return result
        answer = yield from request.viewed_by(view)

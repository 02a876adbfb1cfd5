"""A source whose rows are seen through a view: estimators cannot tell."""

from typing import Any

from typing_extensions import override

from calibdask.engine.sources.source import Source, States
from calibdask.engine.workers import Workers
from calibdask.statistics.request import Request
from calibdask.statistics.statistic import Statistic
from calibdask.statistics.views.view import View


class ViewedSource(Source):
    """Answers about the rows of another source, transformed by a view; the original rows are validated."""

    def __init__(self, source: Source, view: View) -> None:
        self.layout = view.layout(source.layout)
        self._source, self._view = source, view
        self._take_counts()

    @override
    def answer(self, statistics: tuple[Statistic[Any], ...]) -> States:
        states = self._source.answer(tuple(map(self._viewed, statistics)))
        self._take_counts()
        return states

    @property
    @override
    def workers(self) -> Workers | None:
        return self._source.workers

    def _viewed(self, statistic: Statistic[Any]) -> Any:
        request: Request[Any] = next(statistic.viewed_by(self._view))
        return request

    def _take_counts(self) -> None:
        self.rows, self.passes, self.excluded = self._source.rows, self._source.passes, self._source.excluded
        self.other_labels = self._source.other_labels

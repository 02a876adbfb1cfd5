"""A result that is lost with its worker, after it was there and before it was taken, is computed anew."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest
from distributed.cfexecutor import _cascade_future

from calibdask.study.cell_executor import CellExecutor, TaskResult


class Remote:
    """What a client of distributed holds of a task."""

    def __init__(self, status: str, result: Any) -> None:
        self.status, self._given = status, result

    async def _result(self, raiseit: bool = True) -> Any:
        return self._given


class Cluster(Executor):
    """Passes on what came of each task by the executor of distributed."""

    def __init__(self, *outcomes: Remote) -> None:
        self.outcomes = list(outcomes)

    def submit(self, function: Callable[..., Any], /, *given: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        asyncio.run(passed_on(self.outcomes.pop(0), future))
        return future


async def passed_on(outcome: Remote, future: Future[Any]) -> None:
    await _cascade_future(outcome, future)


def raised(error: Exception) -> Any:
    try:
        raise error
    except Exception as caught:
        return type(caught), caught, caught.__traceback__


def results(*outcomes: Remote) -> list[TaskResult]:
    return list(CellExecutor(Cluster(*outcomes), own_threads=1).results(list, iter([[3, 4]]), lambda: False))


@pytest.mark.parametrize("times", [1, 3])
def test_a_lost_result_is_computed_anew(times: int) -> None:
    assert results(*[Remote("lost", ())] * times, Remote("finished", [4])) == [TaskResult([3, 4], [4])]


@pytest.mark.parametrize("error", [ValueError("not enough values to unpack"), OSError("full"), ValueError("other")])
def test_errors_of_tasks_are_passed_on(error: Exception) -> None:
    (result,) = results(Remote("error", raised(error)))
    assert (result.numbers, result.failed, result.error) == ([3, 4], [], error)

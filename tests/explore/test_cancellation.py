"""Of several jobs the newest is shown."""

import asyncio
from collections.abc import Callable
from threading import Event, current_thread, main_thread
from typing import Any

import pytest

from calibdask.explore.cancellation import Cancelled, CancelToken
from tests.explore.jobs import Document, working


def test_only_the_newest_job_is_shown() -> None:
    document = Document()
    shown: list[str] = []
    begun = Event()

    def slow(token: CancelToken) -> str:
        begun.set()
        while not token.is_cancelled():
            pass
        raise Cancelled

    with working(document) as latest:
        latest.start(slow, show=shown.append, fail=shown.append)
        assert begun.wait(10)
        latest.start(lambda _: "second", show=shown.append, fail=shown.append)
        document.run()
        assert shown == ["second"]
        # Finished, but obsolete when its turn comes.
        latest.start(lambda _: "third", show=shown.append, fail=shown.append)
        assert document.added.wait(10)
        latest.start(lambda _: "fourth", show=shown.append, fail=shown.append, is_quick=True)
        document.run()
    assert shown == ["second", "fourth"]


def test_what_goes_wrong_is_shown() -> None:
    document = Document()
    shown: list[str] = []

    def broken(_: CancelToken) -> None:
        raise ValueError("too much")

    with working(document) as latest:
        latest.start(broken, show=shown.append, fail=lambda error: shown.append(str(error)))
        document.run()
    with working(None) as latest:
        latest.start(broken, show=shown.append, fail=lambda error: shown.append(str(error)))
    assert shown == ["too much", "too much"]


@pytest.mark.parametrize("document", [Document(), None])
def test_what_cannot_be_shown_fails(document: Document | None) -> None:
    messages: list[str] = []

    def show(answer: int) -> None:
        raise ValueError(f"{answer} cannot be drawn")

    with working(document) as latest:
        latest.start(lambda _: 42, show=show, fail=lambda error: messages.append(str(error)))
        if document is not None:
            document.run()
    assert messages == ["42 cannot be drawn"]


def test_callbacks_are_added_by_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Panel keeps them in a list that it reads and empties in two steps, in the thread of the loop."""
    document = Document()
    adding: list[bool] = []
    add = document.add_next_tick_callback

    def noted(act: Callable[[], None]) -> None:
        adding.append(current_thread() is main_thread())
        add(act)

    monkeypatch.setattr(document, "add_next_tick_callback", noted)

    async def page() -> list[str]:
        shown: list[str] = []
        done = asyncio.Event()
        with working(document) as latest:
            latest.start(lambda token: token.report(0.5) or "number", show=shown.append, fail=pytest.fail)
            asyncio.get_running_loop().call_later(30, done.set)
            while not (shown or done.is_set()):
                await asyncio.sleep(0.01)
                while document.waiting:
                    document.waiting.pop(0)()
        return shown

    assert asyncio.run(page()) == ["number"]
    assert adding
    assert all(adding)


def test_models_are_gone_through_once_however_much_a_result_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    from bokeh import document as bokeh_document
    from bokeh.models import Column, Div

    document: Any = bokeh_document.Document()
    column = Column(children=[Div(text="")])
    document.add_root(column)
    waiting = Document()
    monkeypatch.setattr(document, "add_next_tick_callback", waiting.add_next_tick_callback)
    counted: list[int] = []
    whole = document.models.recompute
    monkeypatch.setattr(document.models, "recompute", lambda: [counted.append(1), whole()])

    def show(words: list[str]) -> None:
        for word in words:
            column.children = [*column.children, Div(text=word)]

    with working(document) as latest:
        latest.start(lambda _: ["a", "b", "c"], show=show, fail=pytest.fail)
        waiting.run()
        # Of models that are there already texts may change.
        latest.start(lambda _: "d", show=lambda text: setattr(column.children[0], "text", text), fail=pytest.fail)
        waiting.run()
    assert [div.text for div in column.children] == ["d", "a", "b", "c"]
    assert len(counted) == 1
    assert column.children[-1].document is document

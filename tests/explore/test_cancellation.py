"""Of several jobs the newest is shown."""

from threading import Event

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

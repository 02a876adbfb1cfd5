"""A real browser, and the explorer as a user starts it."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window; what is missing is said."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra browser-tests)")
    if CHROMIUM is None:
        pytest.skip("Chromium is not on this machine")
    with playwright.sync_playwright() as driver:
        # Without a sandbox, which root has none of.
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


class Visit:
    """A page of the browser that notes what goes wrong: errors in its console, and addresses beyond this machine."""

    def __init__(self, browser: Any, width: int = 1280, height: int = 900, *, offline: bool = False) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True)
        self.context.set_offline(offline)
        # Twice what others wait: tests of clusters run beside these.
        self.context.set_default_timeout(60_000)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self._too_late = pytest.importorskip("playwright.sync_api").TimeoutError
        self.page.on("console", lambda message: self._noted(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self._noted(str(error)))
        self.page.on("request", self._asked)

    def _noted(self, text: str) -> None:
        self.errors.append(text)

    def _asked(self, request: Any) -> None:
        if not re.match(r"(https?|wss?)://(127\.0\.0\.1|localhost)[:/]|file:|data:|blob:", request.url):
            self.errors.append(f"asked for {request.url}")

    def press(self, line: Any, shown: Any) -> None:
        """Click on a line of a table until what it leads to is shown: a press on a line that is being drawn is lost."""

        def attempt() -> None:
            line.click()
            shown.wait_for(timeout=10_000)

        self._until_taken(attempt)

    def saved(self, button: Any) -> Path:
        """Click on a button until a file comes: a press on a button that is being drawn is lost."""

        def attempt() -> Path:
            with self.page.expect_download(timeout=10_000) as saved:
                button.click()
            return Path(saved.value.path())

        return self._until_taken(attempt)

    def _until_taken(self, attempt: Callable[[], T]) -> T:
        """What an attempt gives, which is made again if it comes too late."""
        for _ in range(12):
            with suppress(self._too_late):
                return attempt()
        raise AssertionError("No press is taken.")

    def download(self, button: Any) -> str:
        """What a button saves, as text."""
        return self.saved(button).read_text(encoding="utf-8")


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Makes pages; at the end none of them may have had an error."""
    visits: list[Visit] = []

    def make(**options: Any) -> Visit:
        visits.append(Visit(browser, **options))
        return visits[-1]

    yield make
    errors = [error for page_visit in visits for error in page_visit.errors]
    for page_visit in visits:
        page_visit.context.close()
    assert errors == []


COMMAND = [sys.executable, "-c", "import sys; from calibdask.cli import main; sys.exit(main())"]


@pytest.fixture
def address_of() -> Iterator[Callable[[list[str], str], str]]:
    """Starts a command that serves a page; gives what matches a pattern in the first line that it prints."""
    started: list[subprocess.Popen[str]] = []

    def start(command: list[str], pattern: str) -> str:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        match = re.search(pattern, line)
        assert match, line + process.stdout.read()
        return match.group()

    yield start
    for process in started:
        process.terminate()
        process.communicate(timeout=20)


@pytest.fixture
def explored(address_of: Callable[[list[str], str], str]) -> Callable[[Path], str]:
    """Starts ``calibdask explore`` on a store; gives the address of the page."""
    return lambda store: address_of([*COMMAND, "explore", str(store), "--no-browser"], r"http://[\d.]+:\d+/")

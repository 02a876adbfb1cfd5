"""The search of the documentation: a class before the function of its name, with an excerpt of each."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.browser.conftest import Visit

pytestmark = pytest.mark.browser

STATIC = Path(__file__).parents[2] / "deploy" / "docs" / "static"
SETTINGS = """
from pathlib import Path
project = "trial"
extensions = []
html_static_path = ["static"]
html_js_files = ["search_excerpts.js"]
html_search_scorer = str(Path(__file__).parent / "static" / "search_scorer.js")
"""
PAGE = """
Errors
======

.. py:function:: trial.ece(y_true)

   One number.

.. py:class:: trial.ECE(bins=15)

   Mean distance of *score* and frequency.

   More words.

.. py:class:: trial.SmoothECE()

   Smoothed.
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing is printed for each request."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a small documentation with the files of ours is served."""
    pytest.importorskip("sphinx", reason="Sphinx is not installed (extra docs)")
    folder = tmp_path_factory.mktemp("documentation")
    shutil.copytree(STATIC, folder / "static")
    (folder / "conf.py").write_text(SETTINGS)
    (folder / "index.rst").write_text(PAGE)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", folder, folder / "pages"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    # Browsers ask for one.
    (folder / "pages" / "favicon.ico").touch()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder / "pages")))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/search.html"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("ECE", ["trial.ECE", "trial.ece", "trial.SmoothECE"]),
        ("ece", ["trial.ece", "trial.ECE", "trial.SmoothECE"]),
        ("smoothece", ["trial.SmoothECE"]),
    ],
)
def test_results(visit: Callable[..., Visit], address: str, query: str, names: list[str]) -> None:
    page = visit().page
    page.goto(f"{address}?q={query}")
    page.wait_for_function(f"document.querySelectorAll('li.kind-object p.context').length === {len(names)}")
    found = page.locator("li.kind-object")
    assert found.locator("a").all_inner_texts() == names
    excerpts = {"trial.ece": "One number.", "trial.ECE": "Mean distance of score and frequency."}
    excerpts["trial.SmoothECE"] = "Smoothed."
    assert found.locator("p.context").all_inner_texts() == [excerpts[name] for name in names]

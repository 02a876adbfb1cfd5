"""Names out of data and addresses are words, whatever is written in them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import xarray as xr

import calibdask as cd
from calibdask.storage.writers import write_dataset

pytestmark = pytest.mark.browser

# An image that is not there would be asked for, and say so.
NAME = "<img src=x onerror=document.title='broken-in'>"


@pytest.mark.parametrize("kind", ["summary", "results"])
def test_names_are_words(tmp_path: Path, explored: Callable[[Path], str], visit: Callable[..., Any], kind: str) -> None:
    path = tmp_path / "names.zarr"
    if kind == "summary":
        write_dataset(cd.summarize([0, 1, 1], [0.2, 0.7, 0.6], by={"country": [NAME, NAME, "b"]}), path)
        name = "setting"
    else:
        write_dataset(xr.Dataset({"error": (("country", "size"), [[1.0, 2.0]] * 2)}, {"country": [NAME, "b"]}), path)
        name = "values"
    page = visit().page
    page.goto(f"{explored(path)}?{name}={quote(NAME)}")
    # The words are on the page a second time for a moment, for those who have them read out.
    page.locator(".notyf__message", has_text="This link asks for").wait_for(timeout=60_000)
    page.locator(".choices").first.click()
    page.get_by_role("option", name=NAME, exact=True).first.wait_for()
    page.get_by_role("option", name=NAME, exact=True).first.click()
    page.wait_for_timeout(2000)
    assert page.locator("img[src=x]").count() == 0
    assert page.title() != "broken-in"

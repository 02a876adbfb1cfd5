"""Credentials in addresses are neither shown nor stored."""

import json
import re
import warnings
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import fsspec
import numpy as np
import pytest

import calibdask as cd
from calibdask.cli import main
from calibdask.safe_text import data_without_credentials, without_credentials
from calibdask.storage.location import Location
from calibdask.study.cube import Cube
from tests.hostile.addresses import CALLS, COMMANDS, ECE, HARMLESS, SECRET, SHOWN, Readers, address


def stored(folder: str) -> dict[str, bytes]:
    """What was written below a folder in memory, but the rows."""
    files = fsspec.filesystem("memory")
    found = [path for path in files.find("/") if f"@{folder}/" in path and not path.endswith(".parquet")]
    return {path.rpartition("/")[2]: files.cat_file(path) for path in found}


@pytest.mark.parametrize("url", SHOWN)
def test_addresses_without_what_gives_access(url: str) -> None:
    assert without_credentials(url) == SHOWN[url]
    assert without_credentials(SHOWN[url]) == SHOWN[url]


@pytest.mark.parametrize("text", HARMLESS)
def test_the_rest_stays(text: str) -> None:
    assert without_credentials(text) == text


def test_addresses_of_other_data_stay_other_ones_where_they_are_stored() -> None:
    one, other = (data_without_credentials(f"https://host/rows?entry={SECRET}{n}&sig={n}") for n in (1, 2))
    assert one != other
    assert SECRET not in one + other
    assert data_without_credentials(one) == one
    assert one == data_without_credentials(f"https://host/rows?entry={SECRET}1&sig=3")


@pytest.mark.parametrize("case", COMMANDS)
def test_commands_say_and_store_none(case: str, capfd: pytest.CaptureFixture[str]) -> None:
    folder = case.replace(" ", "-")
    arguments = COMMANDS[case](folder)
    main([*arguments, "--debug"])
    if "run" in case or "lay" in case:
        cube = address(folder, "cube.zarr")
        main(["status", cube, "--all"])
        main(["report", cube, "--out", address(folder, "cube.html")])
        # Another token continues the same study.
        main([argument.replace(f"sig={SECRET}", "sig=other") for argument in arguments])
    out, err = capfd.readouterr()
    assert SECRET not in out + err
    assert "another study" not in err
    assert "***" in out + err or case in ("result", "bad values", "models"), out + err
    for name, content in stored(folder).items():
        assert SECRET.encode() not in content, name


class _AnyQuery(SimpleHTTPRequestHandler):
    """Files of a folder, whatever the query says, as object stores give what is signed."""

    def do_GET(self) -> None:
        self.path = self.path.partition("?")[0]
        super().do_GET()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("aiohttp")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_AnyQuery, directory=str(tmp_path))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://bob:{SECRET}@127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("query", [f"token={SECRET}", f"sig=a/{SECRET}=/day=1/{SECRET}", f"part=1&key={SECRET}#top"])
def test_signed_files_of_the_web(query: str, web: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.csv").write_text("label,score\n" + "1,0.75\n0,0.25\n" * 20)
    (tmp_path / "rows").write_text("no rows")
    assert main(["evaluate", f"{web}/rows.csv?{query}", *ECE, "--json"]) == 0
    said = capfd.readouterr()
    assert json.loads(said.out)["metrics"]["ece"]["value"] == 0.25
    assert SECRET not in said.out + said.err
    # A name that says nothing, of a server that has an answer to everything: also what looks like a Zarr store.
    for name in ("rows", "none.csv", "none.zarr"):
        assert main(["evaluate", f"{web}/{name}?{query}", *ECE]) == 2
        said = capfd.readouterr()
        assert SECRET not in said.out + said.err
        assert said.err.count("\n") == 1


def test_a_server_that_takes_no_files_refuses_at_once(
    web: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def waiting(seconds: float) -> None:
        raise AssertionError("no pause makes a server take files")

    rows = tmp_path / "rows.csv"
    rows.write_text("label,score\n" + "1,0.75\n0,0.25\n" * 20)
    monkeypatch.setattr("calibdask.storage.retry.time.sleep", waiting)
    for output in (
        ["summarize", "DATA", "--append", f"{web}/s.zarr", "--period", "day=2026-11-22"],
        ["summarize", "DATA", "--out", f"{web}/s.zarr"],
        ["evaluate", "DATA", "--out", f"{web}/e.json"],
    ):
        assert main([str(rows) if word == "DATA" else word for word in output]) == 2
        said = capfd.readouterr()
        assert re.fullmatch(
            r"calibdask: http://\*\*\*@127.0.0.1:\d+/[a-z.]+ cannot be written: The server rejected the "
            r"request \(status 501: .+\)\.\n",
            said.err,
        ), said.err


def test_warnings_of_libraries_say_none() -> None:
    place = Location(f"https://me:{SECRET}@host/a?sig={SECRET}", None, "a")
    with pytest.warns(UserWarning, match=r"^two of https://\*\*\*@host/a\?sig=\*\*\*$"), place.warning():
        warnings.warn(f"two of {place.address}", UserWarning, stacklevel=1)


@pytest.mark.parametrize("case", CALLS)
def test_errors_say_none(case: str) -> None:
    with pytest.raises((ValueError, OSError), match=r"\*\*\*@calls/token=\*\*\*/") as caught:
        CALLS[case]()
    assert SECRET not in str(caught.value)


def test_the_fingerprint_and_the_numbers_do_not_depend_on_credentials() -> None:
    stores = [address(name, "cube.zarr") for name in ("first", "second")]
    for store, password in zip(stores, (SECRET, "another"), strict=True):
        cd.run(Readers(data=f"https://me:{password}@host/rows"), store)
    first, second = (Cube(store).fingerprint for store in stores)
    assert first == second
    assert first["parameters"]["data"] == first["inputs"]["where"] == "https://***@host/rows"
    one, other = (cd.open_cube(store) for store in stores)
    assert one.file.values.tolist() == ["https://***@host/rows/a", "https://***@host/rows/b"]
    np.testing.assert_array_equal(one.number, other.number)
    assert SECRET not in json.dumps(first)

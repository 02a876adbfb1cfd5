"""The server of the explorer: who may open its pages."""

import http.client
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
import xarray as xr

from tests.browser.conftest import COMMAND

pytestmark = pytest.mark.browser


@pytest.fixture
def results(tmp_path: Path) -> Path:
    path = tmp_path / "results.nc"
    xr.Dataset({"error": ("size", [0.3, 0.2, 0.1])}, {"size": [10, 100, 1000]}).to_netcdf(path)
    return path


def upgraded(url: str, origin: str) -> int:
    """Status of the answer to a page of another site that wants a connection of its own."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Protocol": "bokeh, token",
        "Origin": origin,
    }
    connection.request("GET", "/ws", headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_other_sites_may_not_connect(explored: Callable[[Path], str], results: Path) -> None:
    url = explored(results)
    assert upgraded(url, "http://elsewhere.example") == 403


def test_code_for_formulas_is_not_sent(explored: Callable[[Path], str], results: Path) -> None:
    with urlopen(explored(results), timeout=60) as answer:
        page = answer.read().decode()
    assert "static/js/bokeh.min.js" in page
    assert [name for name in ("bokeh-mathjax", "bokeh-gl.") if name in page] == []


def test_only_this_machine_is_served(explored: Callable[[Path], str], results: Path) -> None:
    port = urlsplit(explored(results)).port
    assert port is not None
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1", "127.0.1.1"}:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((str(address), port), timeout=5).close()


def test_a_port_that_is_taken(results: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [*COMMAND, "explore", str(results), "--no-browser", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"Port {port}" in done.stderr
    assert len(done.stderr.splitlines()) == 1

"""Who may open the pages of the explorer: a server as ``calibdask explore`` starts it, and those who ask."""

import http.client
import itertools
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest
import xarray as xr
from bokeh.util.token import generate_jwt_token, generate_session_id, get_session_id, get_token_payload

import calibdask as cd
from calibdask.explore.access import check_address, hosts_of
from calibdask.explore.application import explore

SESSIONS = 2
# Few sessions, which end soon.
START = f"""
import sys
from calibdask.explore import access, server
access.MOST_SESSIONS, server.UNUSED_MILLISECONDS = {SESSIONS}, 3000
from calibdask.cli import main
sys.exit(main())
"""


@dataclass(frozen=True)
class Explorer:
    """A server on the loopback."""

    port: int
    said: list[str]

    def answer(
        self, host: str, path: str = "/", *, method: str = "GET", **headers: str
    ) -> tuple[int, Mapping[str, str], str]:
        """Status, headers and text of an answer to a request under a name."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with closing(connection):
            connection.request(method, path, headers={"Host": host, **headers})
            response = connection.getresponse()
            # An accepted connection of a page does not end by itself.
            text = "" if response.status == 101 else response.read().decode()
        return response.status, dict(response.headers), text

    def opened(self, pages: ExitStack) -> int:
        """Status of the answer to a request for a page, whose own connection is then held open."""
        status, _, page = self.answer("127.0.0.1")
        if token := re.search(r'"token":"([^"]+)"', page):
            assert self.connected(pages, token[1]) == 101
        return status

    def connected(self, pages: ExitStack, token: str) -> int:
        """Status of the answer to a connection with a token, which is then held open."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        pages.callback(connection.close)
        connection.request("GET", "/ws", headers=self._upgrading(f"http://127.0.0.1:{self.port}", token))
        assert connection.sock is not None
        # Not read to its end: that is the end of the connection.
        return int(connection.sock.recv(16).split()[1])

    def upgraded(self, origin: str, token: str, host: str = "") -> int:
        """Status of the answer to a page that wants a connection of its own."""
        return self.answer(host or origin.partition("://")[2], "/ws", **self._upgrading(origin, token))[0]

    def _upgrading(self, origin: str, token: str) -> dict[str, str]:
        return {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            "Sec-WebSocket-Protocol": f"bokeh, {token}",
            "Origin": origin,
        }


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explorer]:
    path: Path = tmp_path_factory.mktemp("results") / "results.nc"
    xr.Dataset({"error": ("size", [0.3, 0.2, 0.1])}, {"size": [10, 100, 1000]}).to_netcdf(path)
    command = [sys.executable, "-c", START, "explore", str(path), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    match = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
    assert match, line + process.stdout.read()
    said: list[str] = []
    reader = Thread(target=lambda lines: said.extend(lines), args=[process.stdout], daemon=True)
    reader.start()
    yield Explorer(int(match[1]), said)
    process.terminate()
    process.wait(timeout=30)
    reader.join(timeout=30)
    process.stdout.close()
    assert "Traceback" not in "".join(said)


def test_hosts() -> None:
    assert hosts_of("127.0.0.1", ()) == {"127.0.0.1", "localhost"}
    assert hosts_of("0.0.0.0", ("Node.example:80",)) == {"0.0.0.0", "localhost", "node.example"}
    assert hosts_of("::1", ("[::2]:80",)) == {"::1", "localhost", "::2"}


@pytest.mark.parametrize(
    "host",
    [
        "elsewhere.example",
        "127.0.0.1.elsewhere.example",
        "localhost.elsewhere.example",
        "xlocalhost",
        "127.0.0.2",
        "[::1]",
        "0.0.0.0",
    ],
)
def test_requests_under_other_names_are_refused(explorer: Explorer, host: str) -> None:
    paths = ("/", "/static/js/bokeh.min.js", "/autoload.js", "/ws", "/nothing")
    for name, path in itertools.product((host, f"{host}:{explorer.port}", host.upper()), paths):
        status, headers, text = explorer.answer(name, path)
        assert status == 403
        assert text == "This page is served under other names; calibdask explore --origin HOST:PORT adds one.\n"
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_pages_of_other_sites_get_no_connection(explorer: Explorer) -> None:
    page = with_room(explorer, f"localhost:{explorer.port}")[2]
    token = re.search(r'"token":"([^"]+)"', page)
    assert token, page
    assert explorer.upgraded(f"http://elsewhere.example:{explorer.port}", token[1]) == 403
    origin = {"host": f"localhost:{explorer.port}", "origin": "http://elsewhere.example"}
    assert explorer.upgraded(token=token[1], **origin) == 403
    assert explorer.upgraded(f"http://localhost:{explorer.port}", token[1]) == 101


def test_what_browsers_may_do_with_pages(explorer: Explorer) -> None:
    host = f"localhost:{explorer.port}"
    others = ("/static/js/bokeh.min.js", "/nothing")
    answers = [with_room(explorer, host), *(explorer.answer(host, path) for path in others)]
    for (status, headers, _), expected in zip(answers, (200, 200, 404), strict=True):
        assert status == expected
        policy = dict(part.partition(" ")[::2] for part in headers["Content-Security-Policy"].split("; "))
        assert policy["connect-src"].split()[0] == "'self'"
        assert {policy[name] for name in ("default-src", "base-uri", "form-action", "frame-ancestors")} == {"'none'"}
        assert not re.search(r"https?:|\*", headers["Content-Security-Policy"])
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"


def test_scripts_of_a_page_run_by_a_nonce_of_their_own(explorer: Explorer) -> None:
    nonces = set()
    for _ in range(2):
        _, headers, page = with_room(explorer)
        allowed = re.search(r"script-src 'nonce-([\w-]{32})' 'unsafe-eval';", headers["Content-Security-Policy"])
        assert allowed
        scripts = re.findall(r"<script[^>]*>", page)
        assert len(scripts) > 5
        assert all(f'nonce="{allowed[1]}"' in script for script in scripts)
        nonces.add(allowed[1])
    assert len(nonces) == 2


def test_sessions_are_bounded_and_released(explorer: Explorer) -> None:
    with_room(explorer)
    # Sessions are made by the server alone.
    for number in range(2 * SESSIONS):
        token = generate_jwt_token(generate_session_id(signed=False), signed=False) if number % 2 else "forged"
        assert explorer.upgraded(f"http://localhost:{explorer.port}", token) == 403
    with ExitStack() as pages:
        # Those that have a connection stay, however long it takes to ask for them; some that were there before may go.
        statuses = [explorer.opened(pages) for _ in range(2 * SESSIONS)]
        assert 503 in statuses
        assert statuses.count(200) <= SESSIONS
        assert set(statuses) <= {200, 503}
        assert "pages are open already" in explorer.answer("127.0.0.1")[2]
        # What belongs to pages that are open is served.
        assert explorer.answer("127.0.0.1", "/static/js/bokeh.min.js")[0] == 200
    with_room(explorer)


def test_what_is_no_token_is_refused(explorer: Explorer) -> None:
    for token in ("", ".", "a.b", "\xe9.\xe9", "bm90IGpzb24.x", "eyJzZXNzaW9uX2lkIjogMX0.x", "x" * 9000):
        assert explorer.upgraded(f"http://localhost:{explorer.port}", token) == 403


def test_connections_make_no_sessions_beyond_the_limit(explorer: Explorer) -> None:
    tokens = []
    while len(tokens) <= SESSIONS:
        page = with_room(explorer)[2]
        tokens += re.findall(r'"token":"([^"]+)"', page)
    with ExitStack() as pages:
        # The sessions of the first have ended by then; their tokens are valid for minutes.
        time.sleep(8)
        statuses = [explorer.connected(pages, token) for token in tokens]
        assert statuses.count(101) <= SESSIONS
        assert statuses[-1] == 503
    with_room(explorer)


@pytest.mark.parametrize("argument", ["bokeh-session-id", "bokeh-token", "bokeh%2Dsession%2Did"])
def test_pages_join_no_session_of_another_page(explorer: Explorer, argument: str) -> None:
    # Whoever has made that session could change what the page shows, and what it runs.
    (token,) = re.findall(r'"token":"([^"]+)"', with_room(explorer)[2])
    value = token if argument == "bokeh-token" else get_session_id(token)
    refusal = "A page has a session of its own; open the address without a session.\n"
    for host in ("127.0.0.1", f"localhost:{explorer.port}"):
        for path in (f"/?{argument}={value}", f"/?view=x&{argument}=", f"/metadata?{argument}={value}"):
            assert explorer.answer(host, path)[::2] == (403, refusal)
        assert explorer.answer(host, **{"Bokeh-Session-Id": get_session_id(token)})[::2] == (403, refusal)


def test_pages_hold_no_cookies_and_no_headers(explorer: Explorer) -> None:
    with_room(explorer)
    status, _, page = with_room(explorer, "localhost", Cookie="other-server=secret", Authorization="Basic c2VjcmV0")
    (token,) = re.findall(r'"token":"([^"]+)"', page)
    payload = get_token_payload(token)
    assert status == 200
    assert payload["cookies"] == payload["headers"] == {}


def test_other_sites_cannot_embed_the_page(explorer: Explorer) -> None:
    for method, path in itertools.product(
        ("GET", "OPTIONS"), ("/autoload.js", "/autoload.js?bokeh-autoload-element=1")
    ):
        status, headers, _ = explorer.answer("localhost", path, method=method, Origin="http://elsewhere.example")
        assert status == 403
        assert not [name for name in headers if name.startswith("Access-Control")]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_make_no_sessions(explorer: Explorer, site: str) -> None:
    for shown in ("image", "iframe", "script", "empty", "object"):
        for _ in range(SESSIONS):
            assert explorer.answer("localhost", **{"Sec-Fetch-Site": site, "Sec-Fetch-Dest": shown})[0] == 403
    # A link opens it.
    assert with_room(explorer, "localhost", **{"Sec-Fetch-Site": site, "Sec-Fetch-Dest": "document"})[0] == 200


def test_bodies_are_refused_before_they_are_read(explorer: Explorer) -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", explorer.port), timeout=30) as connection:
        connection.sendall(head)
        # Nothing of the body has been sent: the answer, or the end, does not wait for it.
        assert not connection.recv(1 << 16).startswith(b"HTTP/1.1 2")


def with_room(explorer: Explorer, host: str = "127.0.0.1", **headers: str) -> tuple[int, Mapping[str, str], str]:
    """The answer once there is room for a session: those without a page end after three seconds."""
    until = time.monotonic() + 60
    while (answer := explorer.answer(host, **headers))[0] != 200:
        assert time.monotonic() < until, "sessions are not released"
        time.sleep(0.5)
    return answer


def test_what_is_asked_for_does_not_reach_the_terminal_raw(explorer: Explorer) -> None:
    for request in (b"GET /\x1b[31m HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.1\r\nHost: \x1b[31m\x9b\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", explorer.port), timeout=30) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1 << 16)
    time.sleep(0.5)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", "".join(explorer.said))


def test_all_interfaces_have_one_name(tmp_path: Path) -> None:
    store = tmp_path / "s.nc"
    cd.summarize([0, 1] * 20, [0.4, 0.6] * 20).to_netcdf(store, engine="h5netcdf")
    message = r"address expects an address to listen on, .* all interfaces are 0\.0\.0\.0"
    for address in ("", " ", "0", "0x0", "0.0", "no such host", "http://127.0.0.1"):
        with pytest.raises(ValueError, match=message):
            explore(str(store), address=address, show=False)


def test_addresses_to_listen_on() -> None:
    for address in ("127.0.0.1", "0.0.0.0", "::1", "[::1]", "::", "localhost"):
        check_address(address)

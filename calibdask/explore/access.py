"""Who may open the pages of the explorer, how many at a time, and what browsers may do with them."""

import re
import secrets
import socket
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from tornado.routing import Matcher, Rule
from tornado.web import OutputTransform, RequestHandler

# Each has the widgets and figures of a page in memory.
MOST_SESSIONS = 32
# What makes a session; what a page loads besides belongs to one.
_PAGE, _CONNECTION = "/", "/ws"
# For pages of other sites that embed this one, which may not: any site could read the answers, and the tokens in them.
_EMBEDDING = "/autoload.js"
# By these a page would show the session of somebody else, who could change what it shows, and what it runs.
_JOINING_ARGUMENTS, _JOINING_HEADERS = ("bokeh-session-id", "bokeh-token"), ("Bokeh-Session-Id",)
# Requests are for pages and files; connections send messages, which are no bodies.
MOST_BODY_BYTES = 4096
# Stands where a page has the nonce of its answer. It is as long, and nobody who writes texts can know it.
NONCE = secrets.token_urlsafe(24)
# The scripts of the page itself run, by their nonce: none that a text brings, neither as an element nor as an attribute
# such as onerror. Bokeh runs the code of its callbacks, transforms and formatters by `new Function`, and so do the
# notifications of Panel, which takes 'unsafe-eval'; both put styles into elements, which takes 'unsafe-inline' for
# styles alone. Bokeh's pages are connected by WebSockets; downloads and icons are data and blobs.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        f"script-src 'nonce-{NONCE}' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def check_address(address: str) -> None:
    """Raise ValueError where this is no address, or all interfaces under another name than their own.

    Examples
    --------
    >>> check_address("127.0.0.1")
    >>> check_address("")
    Traceback (most recent call last):
    ValueError: address expects an address to listen on, such as 127.0.0.1, got ''; all interfaces are 0.0.0.0.
    """
    with suppress(ValueError):
        ip_address(address.strip("[]"))
        return
    try:
        found = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM) if address.strip() else []
    except (OSError, UnicodeError):
        found = []
    addresses = [ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    # "0", "0x0" and the like.
    if not addresses or any(one.is_unspecified for one in addresses):
        raise ValueError(
            f"address expects an address to listen on, such as 127.0.0.1, got {address!r}; all interfaces are 0.0.0.0."
        )


def hosts_of(address: str, origins: Sequence[str]) -> set[str]:
    """Names that the page may be asked for by: of its address, of this machine, and of origins such as ``host:80``.

    Examples
    --------
    >>> sorted(hosts_of("127.0.0.1", ["https://Example.org:443"]))
    ['127.0.0.1', 'example.org', 'localhost']
    """
    named = [origin if "://" in origin else f"//{origin}" for origin in origins]
    return {address.lower().strip("[]"), "localhost", *(urlsplit(name).hostname or "" for name in named)}


def check_hosts(application: Any, hosts: set[str]) -> None:
    """Refuse requests under another name than these.

    A site that gives its own name the address of this machine (DNS rebinding) would pass as the origin of the page,
    and could read it; the name in its requests stays its own.
    """
    known = "|".join(re.escape(host) for host in sorted(hosts))
    text = "This page is served under other names; calibdask explore --origin HOST:PORT adds one."
    application.add_handlers(rf"(?!\[?({known})\]?$).*", [(".*", _Refusal, {"status": 403, "text": text})])


def limit_sessions(application: Any, sessions: Callable[[], Collection[str]]) -> None:
    """Refuse further sessions while there are many; the session of a closed page is released after seconds.

    Parameters
    ----------
    application : bokeh.server.tornado.BokehTornado
    sessions : function
        Identifiers of the sessions that exist.
    """
    text = f"{MOST_SESSIONS} pages are open already; close one, and try again in half a minute."
    _refuse_first(application, _Full(sessions), 503, text)


def check_tokens(application: Any) -> None:
    """Refuse connections of pages that this server has not made: each would make a session."""
    text = "This connection belongs to no page of this server; reload the page."
    _refuse_first(application, _Forged(application.secret_key), 403, text)


def separate_sessions(application: Any) -> None:
    """Refuse pages that would join the session of another one, and pages within other sites."""
    text = "A page has a session of its own; open the address without a session."
    _refuse_first(application, _Matches(_joins), 403, text)
    _refuse_first(application, _Matches(_is_embedded), 403, "This page is not shown within others; open its address.")


def protect_pages(application: Any) -> None:
    """Add headers to all answers."""
    application.add_transform(_Protected)


def _refuse_first(application: Any, matcher: Matcher, status: int, text: str) -> None:
    """Look at requests before all others do."""
    router = application.wildcard_router
    router.rules.insert(0, router.process_rule(Rule(matcher, _Refusal, {"status": status, "text": text})))


class _Refusal(RequestHandler):
    """An answer to whatever is asked."""

    def initialize(self, status: int, text: str) -> None:
        self._status, self._text = status, text

    def prepare(self) -> None:
        self.set_status(self._status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{self._text}\n")


class _Matches(Matcher):
    """Requests that meet a condition."""

    def __init__(self, condition: Callable[[Any], bool]) -> None:
        self._condition = condition

    def match(self, request: Any) -> dict[str, Any] | None:
        return {} if self._condition(request) else None


def _joins(request: Any) -> bool:
    has_argument = any(name in request.arguments for name in _JOINING_ARGUMENTS)
    return has_argument or any(name in request.headers for name in _JOINING_HEADERS)


def _is_embedded(request: Any) -> bool:
    """Whether another site asks, for anything but a page in a window of its own; browsers say so."""
    if request.path.startswith(_EMBEDDING):
        return True
    site, shown = (request.headers.get(f"Sec-Fetch-{name}", "") for name in ("Site", "Dest"))
    return site in ("cross-site", "same-site") and shown != "document"


class _Full(Matcher):
    """Requests that would make a session too many."""

    def __init__(self, sessions: Callable[[], Collection[str]]) -> None:
        self._sessions = sessions

    def match(self, request: Any) -> dict[str, Any] | None:
        if request.path not in (_PAGE, _CONNECTION):
            return None
        existing = self._sessions()
        return {} if len(existing) >= MOST_SESSIONS and _session_of(request) not in existing else None


def _session_of(request: Any) -> str:
    """Identifier of the session that a connection belongs to, which a signed token names; empty for a page."""
    from bokeh.util.token import get_session_id

    return str(get_session_id(_token_of(request))) if request.path == _CONNECTION else ""


def _token_of(request: Any) -> str:
    return str(request.headers.get("Sec-WebSocket-Protocol", "").rpartition(",")[2].strip())


class _Forged(Matcher):
    """Connections whose token was not signed with this key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def match(self, request: Any) -> dict[str, Any] | None:
        from bokeh.util.token import check_token_signature

        if request.path != _CONNECTION:
            return None
        try:
            is_signed = check_token_signature(_token_of(request), secret_key=self._key, signed=True)
        # What is no token at all ends in errors of many kinds.
        except Exception:
            is_signed = False
        return None if is_signed else {}


class _Protected(OutputTransform):
    """Security headers for browsers, with a fresh script nonce for each response."""

    def transform_first_chunk(
        self, status_code: int, headers: Any, chunk: bytes, finishing: bool
    ) -> tuple[int, Any, bytes]:
        nonce = secrets.token_urlsafe(24)
        headers["Content-Security-Policy"] = _POLICY.replace(NONCE, nonce)
        for name, value in _HEADERS.items():
            headers[name] = value
        return status_code, headers, chunk.replace(NONCE.encode(), nonce.encode())

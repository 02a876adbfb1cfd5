"""The server, and the frame around every page."""

import logging
import secrets
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from calibdask.explore.access import (
    MOST_BODY_BYTES,
    NONCE,
    check_address,
    check_hosts,
    check_tokens,
    hosts_of,
    limit_sessions,
    protect_pages,
    separate_sessions,
)
from calibdask.markup import Html

# How long a session waits for its page, at first or after the connection was lost.
UNUSED_MILLISECONDS = 15_000
# The header, in the colour of the links of reports.
_HEADER = "#24425c"
_FOLDER = Path(__file__).parent
# Parts of Bokeh that pages do without.
_UNUSED = {"bokeh-mathjax", "bokeh-gl"}


@dataclass(frozen=True)
class PageContent:
    """The content of a page: the widgets of the sidebar, and the main column, from the top."""

    title: str
    side: Sequence[Any]
    main: Sequence[Any]


def serve(
    make_page: Callable[[], PageContent],
    *,
    address: str,
    port: int,
    origins: Sequence[str],
    show: bool,
    tell: Callable[[str], object],
) -> None:
    """Serve pages, one made for each session, until interrupted.

    Raises
    ------
    OSError
        If the port is in use.
    ValueError
        If the address is none to listen on.
    """
    import panel as pn

    check_address(address)
    pn.extension("tabulator", notifications=True)
    filter_messages()
    try:
        server = pn.serve(
            lambda: framed(make_page()),
            port=port,
            address=address,
            # Without any, the address itself and localhost: other sites cannot read pages through a browser here.
            websocket_origin=[*origins, f"{address}:{port}", f"localhost:{port}"] if origins else None,
            # A session is what this server has made, and is released soon after its page was closed.
            sign_sessions=True,
            secret_key=secrets.token_bytes(32),
            unused_session_lifetime_milliseconds=UNUSED_MILLISECONDS,
            check_unused_sessions_milliseconds=UNUSED_MILLISECONDS // 2,
            # Or the page would hold them, where scripts can read them: cookies belong to all servers of this machine.
            include_headers=[],
            include_cookies=[],
            http_server_kwargs={"max_body_size": MOST_BODY_BYTES},
            show=False,
            start=False,
            title="calibdask",
            verbose=False,
        )
    except OSError as error:
        raise OSError(
            f"Port {port} of {address} is not available ({error.strerror}); choose another --port."
        ) from error
    application = server._tornado
    _leave_out_math(application)
    check_hosts(application, hosts_of(address, origins))
    # The last of them looks at a request first: tokens are checked before their sessions are counted.
    limit_sessions(application, lambda: {session.id for session in server.get_sessions()})
    check_tokens(application)
    separate_sessions(application)
    protect_pages(application)
    url = f"http://{f'[{address}]' if ':' in address else address}:{server.port}/"
    tell(url)
    if show:
        import webbrowser

        server.io_loop.add_callback(webbrowser.open, url)
    # Without it the loop would serve pages, and release none.
    server.start()
    try:
        server.io_loop.start()
    finally:
        server.stop()


def _leave_out_math(application: Any) -> None:
    """Send browsers no code for formulas and WebGL: no page has any, and it is a third of all that they would load."""
    whole = application.resources

    def needed(*arguments: Any) -> Any:
        resources = whole(*arguments)
        resources.components = [name for name in resources.components if name not in _UNUSED]
        return resources

    application.resources = needed


def filter_messages() -> None:
    """Suppress messages that users can do nothing about."""
    from bokeh.util.warnings import BokehUserWarning

    # Bokeh sends tables that are already on the page again, to no effect.
    warnings.filterwarnings("ignore", "reference already known", BokehUserWarning)
    logging.getLogger("asyncio").addFilter(is_relevant)


def is_relevant(record: logging.LogRecord) -> bool:
    """Whether a record says more than that a browser was closed while data was sent to it."""
    from tornado.websocket import WebSocketClosedError

    return not (record.exc_info and isinstance(record.exc_info[1], WebSocketClosedError))


def framed(page: PageContent) -> Any:
    """The page in its frame."""
    import panel as pn
    from panel.io.resources import get_dist_path
    from panel.template import VanillaTemplate

    title = f"calibdask · {page.title}"

    class PageTemplate(VanillaTemplate):
        """With landmarks and a drawer, and without the fonts of a network: pages open offline."""

        _template: ClassVar[Path] = _FOLDER / "frame.html"
        _resources = {"css": {}}  # noqa: RUF012

        def _init_doc(self, doc: Any = None, *options: Any, **named: Any) -> Any:
            if doc is None:
                return super()._init_doc(doc, *options, **named)
            # Panel says so where it serves the page; a session that begins later, with the connection of a slow
            # browser, would name a server elsewhere.
            doc.template_variables["dist_url"] = get_dist_path(cdn=False)
            doc.template_variables["nonce"] = NONCE
            # Or all models are gone through again for each part of the page.
            with doc.models.freeze():
                document = super()._init_doc(doc, *options, **named)
            # A text, where the title of the frame is HTML.
            document.title = title
            return document

    frame: Any = PageTemplate
    return frame(
        # The templates of Panel escape nothing, in the heading nor in the head of the page.
        title=str(Html.escape(title)),
        header_background=_HEADER,
        header_color="#ffffff",
        sidebar=[*page.side],
        main=[pn.Column(*page.main, sizing_mode="stretch_width")],
        sidebar_width=345,
        raw_css=[(_FOLDER / "frame.css").read_text(encoding="utf-8")],
    )

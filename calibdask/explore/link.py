"""What is chosen on a page, kept in its address."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qsl, urlencode

__all__ = ["remember"]


def remember(widgets: Mapping[str, Any]) -> list[str]:
    """Keep the values of widgets in the query of the page's address, and take them from there at the beginning.

    What a widget does not take is left out, so that links to another store, or to an older one, still open; the page
    says so.
    Only what differs from the value that a widget has now is kept: give them their usual values before.

    Parameters
    ----------
    widgets : mapping from str to panel.widgets.Widget
        By the name in the address, the ones that others depend on first.

    Returns
    -------
    list of str
        What of the address is not to be had, in words.
    """
    import panel as pn

    address = pn.state.location
    if address is None:
        return []
    usual = {name: _text(widget, widget.value) for name, widget in widgets.items()}
    # Read before the first widget changes: what depends on it may change others, and the address with them.
    # As it stands there: Panel would read texts such as 007 as numbers.
    asked = dict(parse_qsl(address.search.removeprefix("?")))
    lost = [
        f"This link asks for {name} {asked[name]}, which is not to be had here: the usual is shown instead."
        for name, widget in widgets.items()
        if name in asked and not _take(widget, asked[name])
    ]

    def keep(*_: Any) -> None:
        texts = {name: _text(widget, widget.value) for name, widget in widgets.items()}
        kept = {name: text for name, text in texts.items() if text != usual[name]}
        address.search = f"?{urlencode(kept)}" if kept else ""

    for widget in widgets.values():
        widget.param.watch(keep, "value")
    if lost:
        keep()
        pn.state.onload(lambda: _tell(lost))
    return lost


def _tell(lost: list[str]) -> None:
    """Say what is not to be had, until it is clicked away."""
    import panel as pn

    notifications = pn.state.notifications
    if notifications is not None:
        for words in lost:
            # Notifications are markup, and an address may come from anybody.
            notifications.warning(escape(words), duration=0)


def _text(widget: Any, value: Any) -> str:
    """A value as it stands in the address: a label of the widget's, or JSON."""
    labels = _labels(widget)
    if labels is not None:
        if isinstance(value, list):
            return json.dumps([label for each in value for label, there in labels.items() if _same(there, each)])
        return next((label for label, there in labels.items() if _same(there, value)), "")
    return json.dumps(value, default=str)


def _take(widget: Any, given: str) -> bool:
    """Set a widget to what stands in the address; whether it fits."""
    try:
        widget.value = _value(widget, given)
    except (ValueError, TypeError, KeyError):
        return False
    return True


def _value(widget: Any, given: str) -> Any:
    """A value out of the address; raises KeyError for what the widget does not have."""
    labels = _labels(widget)
    if labels is None:
        if isinstance(widget.value, str):
            return str(json.loads(given))
        # Dates are texts in the address, pairs are lists.
        return widget.param["value"].deserialize(json.loads(given))
    if isinstance(widget.value, list):
        return [labels[str(label)] for label in json.loads(given)]
    return labels[given]


def _labels(widget: Any) -> dict[str, Any] | None:
    """The options of a widget by their label; None if it has no options."""
    options = getattr(widget, "options", None)
    if options is None:
        return None
    pairs = options.items() if isinstance(options, dict) else ((option, option) for option in options)
    return {str(label): value for label, value in pairs}


def _same(one: Any, other: Any) -> bool:
    return bool(type(one) is type(other) and one == other)

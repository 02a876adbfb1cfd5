"""The state of a page's widgets, kept in its URL."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from calibdask.explore.html_widgets import notify


def bind_to_url(widgets: Mapping[str, Any]) -> list[str]:
    """Restore the values of widgets from the query of the page's URL, and keep them there from then on.

    Values that a widget does not accept are ignored, so that links to another store, or to an older one, still open;
    the page says so. Only values that differ from those the widgets have now are kept: set the defaults before.

    Parameters
    ----------
    widgets : mapping from str to panel.widgets.Widget
        By the name in the query, the ones that others depend on first.

    Returns
    -------
    list of str
        Messages about values of the query that do not exist here.
    """
    import panel as pn

    location = pn.state.location
    if location is None:
        return []
    defaults = {name: in_link(widget, widget.value) for name, widget in widgets.items()}
    # Read before the first widget changes: what depends on it may change others, and the URL with them.
    # Parsed here: Panel would read texts such as 007 as numbers.
    query = dict(parse_qsl(location.search.removeprefix("?")))
    ignored = [
        f"This link asks for {name} {query[name]}, which does not exist here; showing the default."
        for name, widget in widgets.items()
        if name in query and not restore(widget, query[name])
    ]

    def update(*_: Any) -> None:
        texts = {name: in_link(widget, widget.value) for name, widget in widgets.items()}
        changed = {name: text for name, text in texts.items() if text != defaults[name]}
        location.search = f"?{urlencode(changed)}" if changed else ""

    for widget in widgets.values():
        widget.param.watch(update, "value")
    if ignored:
        update()
        pn.state.onload(lambda: notify(ignored))
    return ignored


def in_link(widget: Any, value: Any) -> str:
    """A value as it stands in the URL: the label of an option, or JSON."""
    labels = _labels(widget)
    if labels is not None:
        if isinstance(value, list):
            return json.dumps([label for part in value for label, option in labels.items() if _same(option, part)])
        return next((label for label, option in labels.items() if _same(option, value)), "")
    return json.dumps(value, default=str)


def restore(widget: Any, text: str) -> bool:
    """Set a widget to a value from the URL; False if the widget does not accept it."""
    try:
        value = _value(widget, text)
        if hasattr(widget, "offer"):
            widget.offer(value)
        widget.value = value
    # Texts of others may be nested deeper than they can be read.
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
    return True


def _value(widget: Any, text: str) -> Any:
    """A value out of the URL; raises KeyError for options that the widget does not have."""
    labels = _labels(widget)
    if labels is None:
        value = _json(text)
        if isinstance(widget.value, str):
            return _checked(value, str)
        # Dates are texts in the URL, pairs are lists; numbers may be missing, and are never infinite.
        return widget.param["value"].deserialize(value)
    if isinstance(widget.value, list):
        return [labels[str(label)] for label in _checked(_json(text), list)]
    return labels[text]


def _json(text: str) -> Any:
    """A value out of JSON, without the numbers that JSON has none of.

    Raises
    ------
    ValueError
        If there are NaN or infinite numbers.
    """
    value = json.loads(text)
    json.dumps(value, allow_nan=False)
    return value


def _checked(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"A widget expects a {kind.__name__}, got {value!r}.")
    return value


def _labels(widget: Any) -> dict[str, Any] | None:
    """The options of a widget by their label; None if it has no options."""
    # Long choices have some of their options at a time.
    options = getattr(widget, "all_options", getattr(widget, "options", None))
    if options is None:
        return None
    pairs = options.items() if isinstance(options, dict) else ((option, option) for option in options)
    return {str(label): value for label, value in pairs}


def _same(one: Any, other: Any) -> bool:
    return bool(type(one) is type(other) and one == other)

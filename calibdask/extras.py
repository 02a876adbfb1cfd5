"""Packages that only a part of calibdask needs, and the extra that brings them."""

from importlib.util import find_spec

from calibdask.errors import NotInstalled

_PLOT = ("bokeh", "holoviews", "panel")


def check_plot() -> None:
    """Raise NotInstalled unless there is what plots by HoloViews, and the explorer, are made with."""
    missing = [package for package in _PLOT if find_spec(package) is None]
    if missing:
        raise NotInstalled(
            f'Plots and the explorer expect {", ".join(missing)}, not installed here: pip install "calibdask[plot]".'
        )

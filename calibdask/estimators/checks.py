"""Choices of estimators, checked."""

from typing import Any

import numpy as np

from calibdask.statistics.settings import Setting

__all__ = ["check_choice", "check_setting", "check_whole"]


def check_choice(field: str, given: Any, allowed: tuple[str, ...]) -> None:
    """Refuse a word that is not one of the allowed ones."""
    if given not in allowed:
        raise ValueError(f"{field} expects one of {', '.join(map(repr, allowed))}, got {given!r}.")


def check_whole(field: str, given: Any, least: int) -> None:
    """Refuse what is no whole number from ``least`` on."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < least:
        raise ValueError(f"{field} expects a whole number from {least} on, got {given!r}.")


def check_setting(setting: Any, k: Any) -> None:
    """Refuse what no data can make a setting with columns; whether a class exists is known with the data."""
    if k is not None and setting != "top-k":
        raise ValueError(f"k belongs to setting='top-k', got k={k!r} and setting={setting!r}.")
    words = ("confidence", "classwise", "binary", "top-k")
    whole = isinstance(setting, int | np.integer) and not isinstance(setting, bool) and setting >= 0
    if not (setting is None or isinstance(setting, Setting) or whole or setting in words):
        raise ValueError(f"setting expects {', '.join(map(repr, words))}, a class number or None, got {setting!r}.")

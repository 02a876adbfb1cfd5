"""Checks of the parameters of estimators."""

from typing import Any

import numpy as np

from calibdask.statistics.settings import Setting

__all__ = ["check_choice", "check_setting", "check_whole"]


def check_choice(field: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raise ValueError unless the value is one of those allowed."""
    if value not in allowed:
        raise ValueError(f"{field} expects one of {', '.join(map(repr, allowed))}, got {value!r}.")


def check_whole(field: str, value: Any, least: int) -> None:
    """Raise ValueError unless the value is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{field} expects a whole number from {least} on, got {value!r}.")


def check_setting(setting: Any, k: Any) -> None:
    """Raise ValueError for an invalid setting; whether a class exists is only known with the data."""
    if k is not None and setting != "top-k":
        raise ValueError(f"k belongs to setting='top-k', got k={k!r} and setting={setting!r}.")
    words = ("confidence", "classwise", "binary", "top-k")
    whole = isinstance(setting, int | np.integer) and not isinstance(setting, bool) and setting >= 0
    if not (setting is None or isinstance(setting, Setting) or whole or setting in words):
        raise ValueError(f"setting expects {', '.join(map(repr, words))}, a class number or None, got {setting!r}.")

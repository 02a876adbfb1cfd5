"""Checks of the parameters of estimators."""

from typing import Any

import numpy as np

from calibdask.statistics.settings import Setting

# Random draws beyond this many change no digit that anybody reads, and take hours.
MOST_DRAWS = 1_000_000
# More are a mistake, and would not fit in memory for many classes.
MOST_BINS = 1 << 24


def check_choice(field: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raise ValueError unless the value is one of those allowed."""
    if value not in allowed:
        raise ValueError(f"{field} expects one of {', '.join(map(repr, allowed))}, got {value!r}.")


def check_whole(field: str, value: Any, least: int, most: int | None = None) -> None:
    """Raise ValueError unless the value is a whole number of at least ``least``, and at most ``most``."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        upto = "on" if most is None else f"to {most:,}"
        raise ValueError(f"{field} expects a whole number from {least} {upto}, got {value!r}.")


def check_flags(**given: Any) -> None:
    """Raise ValueError unless all values are either true or false."""
    for name, value in given.items():
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} expects True or False, got {value!r}.")


def check_setting(setting: Any, k: Any) -> None:
    """Raise ValueError for an invalid setting; whether a class exists is only known with the data."""
    if k is not None and setting != "top-k":
        raise ValueError(f"k belongs to setting='top-k', got k={k!r} and setting={setting!r}.")
    words = ("confidence", "classwise", "binary", "top-k")
    whole = isinstance(setting, int | np.integer) and not isinstance(setting, bool) and setting >= 0
    if not (setting is None or isinstance(setting, Setting) or whole or setting in words):
        raise ValueError(f"setting expects {', '.join(map(repr, words))}, a class number or None, got {setting!r}.")

"""Imports of a command."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def importing() -> Iterator[None]:
    """Import without looking for garbage among what is imported, here and as the process ends.

    Searches would take a quarter of a second, a fifth of the time of a small file.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        _freeze()
        gc.enable()


@cache
def _freeze() -> None:
    """Set what is there aside, once: a process of many commands would keep the garbage of each.

    Python counts what has been set aside one by one, so that asking it would take longer than a small command.
    """
    gc.freeze()

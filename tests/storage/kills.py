"""A process that dies at the n-th change of names in the file system."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from zarr.core.sync import sync

from calibdask.errors import Unavailable

CHANGES = ("rename", "replace", "unlink", "remove", "mkdir", "rmdir")


class Killed(BaseException):
    """What no handler of errors catches, as a kill is caught by none."""


@contextmanager
def killed_at(number: int) -> Iterator[list[str]]:
    """Die before the change of this number, counted from 0; no handler changes anything after it, as after a kill.

    Yields the changes that were begun.
    """
    begun: list[str] = []

    def dying(name: str, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any, **options: Any) -> Any:
            begun.append(name)
            if len(begun) > number:
                raise Killed(name)
            return change(*arguments, **options)

        return changed

    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGES:
            patch.setattr(os, name, dying(name, getattr(os, name)))
        yield begun


async def _others_end() -> None:
    """Wait for what Zarr still writes on its own thread, which dies too; a kill would have ended it at once."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


def each_death(work: Callable[[], object], stride: int = 1) -> Iterator[int]:
    """Die at every change that work makes, one after the other; yields after each, and ends where none is left.

    With a ``stride``, at the first four changes and then at some: where most are of the files of Zarr, one is like the
    other. A cell that dies on a thread of a driver is told as `Unavailable`.
    """
    number = 0
    while True:
        with killed_at(number) as begun:
            with suppress(Killed, Unavailable):
                work()
            sync(_others_end())
        if len(begun) <= number:
            return
        yield number
        number += 1 if number < 4 else stride

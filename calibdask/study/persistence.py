"""Stores that fail now and then: try again, a little later each time."""

import errno
import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["persistently"]

# Pauses in seconds, half a minute in all: what takes longer is more than a hiccup.
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)
# No pause mends these.
_FOR_GOOD = {
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "ENOENT", "ENOTDIR", "EISDIR", "ENAMETOOLONG")
    if hasattr(errno, name)
}
_FOR_GOOD_TYPES = (PermissionError, FileNotFoundError, NotADirectoryError, IsADirectoryError)
# Packages that speak to object stores raise errors of their own, which are no OSError.
_SPEAKERS = {"aiobotocore", "aiohttp", "botocore", "urllib3"}

Found = TypeVar("Found")


def persistently(call: Callable[[], Found]) -> Found:
    """What a call returns, called again after errors of a store that may pass.

    Raises
    ------
    Exception
        The first one that no pause mends.
    OSError
        If trying again has not helped for half a minute.

    Examples
    --------
    >>> persistently(lambda: 3)
    3
    """
    for pause in _PAUSES:
        try:
            return call()
        except Exception as error:
            if not _passing(error):
                raise
            time.sleep(pause)
    try:
        return call()
    except Exception as error:
        if isinstance(error, OSError) or not _passing(error):
            raise
        raise OSError(f"{type(error).__name__}: {error}") from error


def _passing(error: BaseException) -> bool:
    """Whether the same may succeed a little later."""
    if isinstance(error, OSError):
        return error.errno not in _FOR_GOOD and not isinstance(error, _FOR_GOOD_TYPES)
    return isinstance(error, TimeoutError) or type(error).__module__.partition(".")[0] in _SPEAKERS

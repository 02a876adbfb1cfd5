"""Stores that fail now and then: try again, a little later each time."""

import errno
import time
from collections.abc import Callable
from typing import Any, TypeVar

from calibdask.errors import Unavailable

# What takes longer is more than a hiccup. Counted in time and not in calls, since packages try again on their own.
_SECONDS, _FIRST_PAUSE, _FEWEST_TRIES = 30.0, 0.05, 3
# No pause mends these.
_FOR_GOOD = {
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EACCES", "EPERM", "ENOENT", "ENOTDIR", "EISDIR", "ENAMETOOLONG")
    if hasattr(errno, name)
}
_FOR_GOOD_TYPES = (PermissionError, FileNotFoundError, NotADirectoryError, IsADirectoryError)
# Packages that speak to object stores raise errors of their own, which are no OSError; of these kinds, by name, are
# such as may pass. Others say that credentials or arguments are missing.
_SPEAKERS = {"aiobotocore", "aiohttp", "botocore", "urllib3"}
_PASSING = {"ClientError", "ConnectionError", "HTTPClientError", "HTTPError", "IncompleteReadError"}
_SERVER_ERROR = 500
# Statuses of HTTP by which a server says that it will never do this. 400 may be an upload that was too slow.
_REFUSALS = {401, 402, 403, 405, 406, 411, 413, 414, 415, 417, 501, 505}

# By these numbers packages tell of answers such as 500 and 503.
_OUTAGES = {errno.EBUSY, errno.EIO}

Answer = TypeVar("Answer")


def with_retries(call: Callable[[], Answer]) -> Answer:
    """Call a function, and retry after transient errors of a store.

    Raises
    ------
    Unavailable
        Where trying again has not helped for half a minute.
    PermissionError
        If a server refuses the request by its status, such as 501 for a method that it does not have.
    Exception
        Any other one, at once.

    Examples
    --------
    >>> with_retries(lambda: 3)
    3
    """
    pause, until = _FIRST_PAUSE, time.monotonic() + _SECONDS
    tries = 0
    while True:
        tries += 1
        try:
            return call()
        except Exception as error:
            if not _passing(error):
                raise
            if (status := _status_of(error)) in _REFUSALS:
                said = getattr(error, "message", None) or _quoted(error)
                raise PermissionError(f"The server rejected the request (status {status}: {said}).") from error
            # Three times at least: a single call may hang for longer than all the others take.
            if tries >= _FEWEST_TRIES and time.monotonic() + pause > until:
                raise Unavailable(f"The store does not respond ({type(error).__name__}: {_quoted(error)}).") from error
        time.sleep(pause)
        pause *= 2


def _quoted(error: BaseException) -> str:
    return " ".join(str(error).split())


def _status_of(error: Any) -> int | None:
    """The status of HTTP that an error is about; None without one."""
    response = getattr(error, "response", None)
    details = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
    status = getattr(error, "status", details.get("HTTPStatusCode"))
    return status if isinstance(status, int) else None


def is_outage(error: BaseException) -> bool:
    """Whether an error of a remote store says that it does not answer now, and nothing of its files.

    Examples
    --------
    >>> is_outage(OSError(errno.EBUSY, "Service Unavailable")), is_outage(OSError(errno.EINVAL, "Invalid range"))
    (True, False)
    """
    status = _status_of(error)
    if status is not None:
        return status >= _SERVER_ERROR and status not in _REFUSALS
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    return error.errno in _OUTAGES if isinstance(error, OSError) else _passing(error)


def _passing(error: BaseException) -> bool:
    """Whether a retry may succeed after this error."""
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    if isinstance(error, OSError):
        # Without a number it is a damaged file: Arrow tells of them so.
        return error.errno is not None and error.errno not in _FOR_GOOD and not isinstance(error, _FOR_GOOD_TYPES)
    return any(
        kind.__module__.partition(".")[0] in _SPEAKERS and kind.__name__ in _PASSING for kind in type(error).__mro__
    )

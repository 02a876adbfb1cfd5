"""Logs of Dask without the tracebacks of losses that calibdask handles and reports itself."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("distributed.client", "distributed.comm.tcp", "distributed.core", "tornado.application")
# Errors of connections and of results that went with them.
_HANDLED = {"CancelledError", "CommClosedError", "FutureCancelledError", "StreamClosedError"}
# Results that were computed again, since their workers had gone; a lost scheduler, which ends in `ClusterLost`.
_HANDLED_MESSAGES = ("Couldn't gather", "Failed to reconnect to scheduler")


@contextmanager
def quiet_losses() -> Iterator[None]:
    """Omit what Dask logs of lost connections and workers during the block."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(_is_news)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if isinstance(record.exc_info, tuple) else None
    is_handled = kind is not None and kind.__name__ in _HANDLED
    return not (is_handled or record.getMessage().startswith(_HANDLED_MESSAGES))

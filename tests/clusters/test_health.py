"""What the probes of containers ask."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from calibdask.cluster.health import healthy, listens, main
from tests.clusters.dask_processes import eventually


class Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def server() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Health) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield http.server_address[1]
        finally:
            http.shutdown()
            thread.join()


def test_who_answers_is_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with server() as port:
        assert healthy(port)
        assert main([str(port)]) == 0
        assert listens("127.0.0.1", port, 0)
        assert main([f"127.0.0.1:{port}", "0"]) == 0
    assert main([str(port)]) == 1
    assert main([str(port), "--if-any"]) == 0
    assert main([f"127.0.0.1:{port}", "0.1"]) == 1


def test_who_listens_and_does_not_answer_is_ill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibdask.cluster.health._TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as hung:
        port = hung.getsockname()[1]
        assert not healthy(port)
        assert not healthy(port, if_any=True)


@pytest.mark.parametrize("arguments", [[], ["x"], ["8787", "soon"], ["127.0.0.1:8787"], ["1", "2", "3"]])
def test_bad_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "health expects PORT" in capsys.readouterr().err


def test_waiting_ends_at_once() -> None:
    """Also as the first process of a container, which ignores what it does not handle."""
    command = [sys.executable, "-m", "calibdask.cluster.health", "127.0.0.1:1", "600"]
    # In a namespace of processes of its own, as root, it is the first one.
    alone = ["unshare", "--pid", "--fork", "--kill-child"]
    is_first = not subprocess.run([*alone, "true"], capture_output=True, check=False).returncode
    waiting = subprocess.Popen([*alone, *command] if is_first else command)
    inner = waiting.pid
    if is_first:
        eventually(lambda: bool(children(waiting.pid)))
        (inner,) = children(waiting.pid)
    eventually(lambda: b"calibdask.cluster.health" in Path(f"/proc/{inner}/cmdline").read_bytes())
    # Its handler is set after the imports.
    eventually(lambda: int(caught_signals(inner), 16) >> (signal.SIGTERM - 1) & 1 == 1)
    os.kill(inner, signal.SIGTERM)
    assert waiting.wait(10) == 143


def test_term_ends_what_does_not_handle_it_yet() -> None:
    """Since no process of a pod is the first one of its namespace, which would go on until it is killed."""
    starting = subprocess.Popen([sys.executable, "-m", "calibdask.cluster.health", "127.0.0.1:1", "600"])
    starting.terminate()
    # By default, or by the handler where this process was slower.
    assert starting.wait(10) in (-signal.SIGTERM, 143)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def caught_signals(pid: int) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("SigCgt:"))


def test_probes_are_cheap() -> None:
    code = (
        "import sys, calibdask.cluster.health;"
        "heavy = {'dask', 'distributed', 'numpy', 'yaml', 'numba'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

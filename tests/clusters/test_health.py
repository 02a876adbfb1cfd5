"""What the probes of containers ask."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from calibdask.cluster.health import healthy, listens, main


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


def test_probes_are_cheap() -> None:
    code = (
        "import sys, calibdask.cluster.health;"
        "heavy = {'dask', 'distributed', 'numpy', 'yaml', 'numba'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

"""Calls of the command kubectl, with the permissions that it is configured with."""

import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep
from typing import IO, Any

from calibdask.errors import Unavailable

_PAUSE = 0.5
_FORWARD_TIMEOUT = 60
_FORWARDED = re.compile(r"^Forwarding from 127\.0\.0\.1:(\d+) ", re.MULTILINE)
# Runs a command until it ends or standard input is closed, so that it never outlives this process.
_GUARD = 'exec 3<&0; "$@" 3<&- & child=$!; (read -r _ <&3; kill "$child" 2>/dev/null) & wait "$child"'


@dataclass(frozen=True)
class Kubectl:
    """The command kubectl in one namespace.

    Raises
    ------
    ValueError
        If kubectl is not installed, or fails.
    """

    namespace: str

    def __post_init__(self) -> None:
        if shutil.which("kubectl") is None:
            raise ValueError(
                "Kubernetes expects the command kubectl, which is not on the path: install it (kubernetes.io, Install "
                "Tools) and check that 'kubectl get pods' works."
            )

    def _command(self, *arguments: str) -> list[str]:
        return ["kubectl", "--namespace", self.namespace, *arguments]

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Run a command, with text on its standard input, and return what it prints."""
        done = subprocess.run(
            self._command(*arguments), input=stdin, capture_output=True, encoding="utf-8", check=False
        )
        if done.returncode:
            message = " ".join((done.stderr or done.stdout).split())
            raise ValueError(f"kubectl {arguments[0]} failed: {message}")
        return done.stdout

    @contextmanager
    def applied(self, manifests: str) -> Iterator[None]:
        """Apply manifests for the block and delete their objects at the end, also after a partial apply.

        Warns
        -----
        UserWarning
            If they could not be deleted; an error would hide that of the block.
        """
        try:
            self("apply", "-f", "-", stdin=manifests)
            yield
        finally:
            try:
                self("delete", "-f", "-", "--ignore-not-found", "--wait=false", stdin=manifests)
            except ValueError as error:
                warnings.warn(f"{error} Objects that were created in {self.namespace} may still exist.", stacklevel=2)

    def wait_until_ready(self, deployment: str, seconds: float) -> None:
        """Return when a pod of the Deployment is ready.

        Raises
        ------
        Unavailable
            If none is ready within this many seconds.
        """
        query = ("get", "deployment", deployment, "--ignore-not-found", "-o", "jsonpath={.status.readyReplicas}")
        end = monotonic() + seconds
        while self(*query).strip() in ("", "0"):
            if monotonic() >= end:
                raise Unavailable(
                    f"{deployment} is not ready after {seconds:g} s; see 'kubectl get events' for missing resources or "
                    "images."
                )
            sleep(_PAUSE)

    @contextmanager
    def forwarded(self, target: str, port: int) -> Iterator[int]:
        """Forward a port of the loopback to one of a pod or service for the block.

        Raises
        ------
        ValueError
            If kubectl fails to forward.
        """
        command = self._command("port-forward", "--address", "127.0.0.1", target, f":{port}")
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
            # In a new session, because an interrupt at the terminal is meant for this process, which still needs it.
            child = subprocess.Popen(
                ["sh", "-c", _GUARD, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                yield _forwarded_port(child, output, target)
            finally:
                assert child.stdin is not None
                child.stdin.close()
                child.wait()


def _forwarded_port(child: "subprocess.Popen[Any]", output: IO[str], target: str) -> int:
    end = monotonic() + _FORWARD_TIMEOUT
    while True:
        ended = child.poll() is not None or monotonic() >= end
        output.seek(0)
        text = output.read()
        if match := _FORWARDED.search(text):
            return int(match[1])
        if ended:
            raise ValueError(f"kubectl port-forward to {target} failed: {' '.join(text.split()) or 'no output'}")
        sleep(_PAUSE / 5)

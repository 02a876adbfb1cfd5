"""Kubernetes by way of the command kubectl, with whatever rights it is configured to have."""

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

from calibdask.halted import Halted

__all__ = ["Kubectl"]

_PAUSE = 0.5
_SECONDS_TO_FORWARD = 60
_FORWARDED = re.compile(r"^Forwarding from 127\.0\.0\.1:(\d+) ", re.MULTILINE)
# Runs a command until it ends or standard input does, so that it never survives this process, however that ends.
_GUARDED = 'exec 3<&0; "$@" 3<&- & child=$!; (read -r _ <&3; kill "$child" 2>/dev/null) & wait "$child"'


@dataclass(frozen=True)
class Kubectl:
    """The command in a namespace.

    Raises
    ------
    ValueError
        If kubectl is not there, or says no.
    """

    namespace: str

    def __post_init__(self) -> None:
        if shutil.which("kubectl") is None:
            raise ValueError(
                "Kubernetes expects the command kubectl, which is not on the path: install it (kubernetes.io, Install "
                "Tools) and see that 'kubectl get pods' works."
            )

    def _command(self, *arguments: str) -> list[str]:
        return ["kubectl", "--namespace", self.namespace, *arguments]

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        """What the command prints, when it is told so on standard input."""
        done = subprocess.run(
            self._command(*arguments), input=given, capture_output=True, encoding="utf-8", check=False
        )
        if done.returncode:
            said = " ".join((done.stderr or done.stdout).split())
            raise ValueError(f"kubectl {arguments[0]} failed: {said}")
        return done.stdout

    @contextmanager
    def applied(self, manifests: str) -> Iterator[None]:
        """Inside the block the objects are there; at the end they are deleted, also those of a half-done apply.

        Warns
        -----
        UserWarning
            If they could not be deleted. It is no error, which would hide what came out of the block.
        """
        try:
            self("apply", "-f", "-", given=manifests)
            yield
        finally:
            try:
                self("delete", "-f", "-", "--ignore-not-found", "--wait=false", given=manifests)
            except ValueError as error:
                warnings.warn(f"{error} What was started in {self.namespace} may still be there.", stacklevel=2)

    def wait_until_ready(self, deployment: str, seconds: float) -> None:
        """Return when a pod of the Deployment is ready; its maker may yet have to make it.

        Raises
        ------
        Halted
            If none is within so many seconds.
        """
        asked = ("get", "deployment", deployment, "--ignore-not-found", "-o", "jsonpath={.status.readyReplicas}")
        end = monotonic() + seconds
        while self(*asked).strip() in ("", "0"):
            if monotonic() >= end:
                raise Halted(
                    f"{deployment} is not ready after {seconds:g} s; see 'kubectl get events' for pods that find no "
                    "room or no image."
                )
            sleep(_PAUSE)

    @contextmanager
    def forwarded(self, target: str, port: int) -> Iterator[int]:
        """A port of the loopback that leads to one of a pod or service; it ends with the block.

        Raises
        ------
        ValueError
            If kubectl does not forward.
        """
        command = self._command("port-forward", "--address", "127.0.0.1", target, f":{port}")
        with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
            # A session of its own: an interrupt at the terminal is for this process, which then still needs the way.
            child = subprocess.Popen(
                ["sh", "-c", _GUARDED, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                yield _forwarded_port(child, said, target)
            finally:
                assert child.stdin is not None
                child.stdin.close()
                child.wait()


def _forwarded_port(child: "subprocess.Popen[Any]", said: IO[str], target: str) -> int:
    end = monotonic() + _SECONDS_TO_FORWARD
    while True:
        ended = child.poll() is not None or monotonic() >= end
        said.seek(0)
        text = said.read()
        if found := _FORWARDED.search(text):
            return int(found[1])
        if ended:
            raise ValueError(f"kubectl port-forward to {target} failed: {' '.join(text.split()) or 'it said nothing'}")
        sleep(_PAUSE / 5)

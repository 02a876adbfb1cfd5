"""Calls of the command kubectl, with the permissions that it is configured with."""

import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep
from typing import IO, Any

from calibdask.errors import Unavailable

_PAUSE = 0.1
_FORWARD_TIMEOUT = 60
_FORWARDED = re.compile(r"^Forwarding from 127\.0\.0\.1:(\d+) ", re.MULTILINE)
_CREATED = re.compile(r"^(\S+) (?:created|configured|unchanged|serverside-applied)$", re.MULTILINE)
# Runs a command until it ends or standard input is closed, so that it never outlives this process.
_GUARD = 'exec 3<&0; "$@" 3<&- & child=$!; (read -r _ <&3; kill "$child") >/dev/null 2>&1 & wait "$child"'
# What passes, or is mended outside: servers that do not answer, logins that have expired, quotas that others use up.
_NO_ANSWER = re.compile(
    "unable to connect|was refused|connection refused|connection reset|no such host|no route to host|i/o timeout|"
    r"timed? ?out|deadline exceeded|\bEOF\b|connection lost|lost connection|error dialing backend|etcdserver|"
    "too many requests|unavailable|currently unable to handle|internal ?error|goaway|broken pipe|context deadline|"
    "network is unreachable|shutting down|leader changed|object has been modified",
    re.IGNORECASE,
)
# Of these a request may have arrived whose answer has not.
_NO_REPLY = re.compile(
    r"(?<!i/o )\b(timed? ?out|timeout)|\bread tcp .*i/o timeout|deadline exceeded|context deadline|connection reset|"
    r"connection lost|lost connection|broken pipe|goaway|internal ?error|leader changed|\bEOF\b|etcdserver",
    re.IGNORECASE,
)
_NO_LOGIN = re.compile(
    "must be logged in|unauthorized|please enter username|provide credentials|getting credentials|"
    "certificate has expired|token.*expired",
    re.IGNORECASE,
)
# The server says "status unknown for quota" until it has counted existing objects.
_QUOTA = re.compile("(exceeded|unknown for) quota", re.IGNORECASE)
_NO_PERMISSION = re.compile("forbidden: User|cannot .* resource", re.IGNORECASE)
_TERMINATING = re.compile("because it is being terminated", re.IGNORECASE)
# Policies of the cluster, and validation of objects; of what they quote nothing is a circumstance.
_DENIED = re.compile("denied (the )?request|violates PodSecurity", re.IGNORECASE)
_INVALID = re.compile(
    r'^(the )?\S+ "[^"]*" is invalid|is invalid: |strict decoding error|error validating|cannot be handled as a',
    re.IGNORECASE | re.MULTILINE,
)
_NO_KIND = re.compile("no matches for kind|doesn't have a resource type", re.IGNORECASE)
_NO_NAMESPACE = re.compile('namespaces? "[^"]*" not found', re.IGNORECASE)
_LOGGED = re.compile(r"[EIW]\d{4} \d\d:")
_NO_CLUSTER = re.compile("localhost:8080")
# An API server that restarts is back after seconds.
_DELETE_PAUSES = (1.0, 4.0, 15.0)


def is_circumstance(message: str) -> bool:
    """Whether a Kubernetes error is transient, so that the call may succeed later.

    Examples
    --------
    >>> is_circumstance("Unable to connect to the server: dial tcp 10.0.0.1:6443: i/o timeout")
    True
    >>> is_circumstance('namespaces "calibration" not found')
    False
    >>> is_circumstance('admission webhook "policy.example" denied the request: pods expect a timeout')
    False
    """
    if _DENIED.search(message) or _INVALID.search(message):
        return False
    return any(pattern.search(message) for pattern in (_NO_ANSWER, _NO_LOGIN, _QUOTA, _TERMINATING))


@dataclass(frozen=True)
class Kubectl:
    """The command kubectl in one namespace.

    Raises
    ------
    ValueError
        If kubectl is not installed, or the server refuses a request.
    Unavailable
        If the server does not answer, or a login or a quota does not suffice at present.
    """

    namespace: str

    def __post_init__(self) -> None:
        if shutil.which("kubectl") is None:
            raise ValueError(
                "Kubernetes expects the command kubectl, which is not on the path: install it (kubernetes.io, Install "
                "Tools) and check that 'kubectl get pods' works."
            )

    def command(self, *arguments: str) -> list[str]:
        """The words of a command in the namespace."""
        return ["kubectl", "--namespace", self.namespace, *arguments]

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Run a command with text on its standard input, and return its output."""
        done = self._run(*arguments, stdin=stdin)
        if done.returncode:
            raise self.error(arguments[0], done.stderr or done.stdout)
        return done.stdout

    def _run(self, *arguments: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
        command = self.command(*arguments)
        # Not the terminal, where kubectl would ask for a name and a password.
        return subprocess.run(command, input=stdin or "", capture_output=True, encoding="utf-8", check=False)

    def error(self, verb: str, output: str) -> Exception:
        """The error for what a failed command has printed: `Unavailable` for circumstances, ValueError otherwise."""
        # Once each: several objects fail for the same reason.
        lines = [" ".join(line.split()) for line in output.splitlines() if line.strip()]
        # What kubectl logs of its attempts; what came of them is the last line.
        lines = list(dict.fromkeys(line for line in lines if not _LOGGED.match(line)))
        text = f"kubectl {verb} failed in the namespace {self.namespace}: {' '.join(lines) or 'no output'}"
        kind = Unavailable if is_circumstance(text) else ValueError
        return kind(f"{text}{'' if text.endswith('.') else '.'} {self._advice(text)}")

    def _advice(self, message: str) -> str:
        """How to continue."""
        create = f"kubectl create namespace {self.namespace}"
        if _NO_CLUSTER.search(message):
            return "No cluster is configured: name one by KUBECONFIG, or in ~/.kube/config."
        if _NO_NAMESPACE.search(message):
            return f"Create it with '{create}', or name another one (namespace, at calibdask.kubernetes)."
        if _TERMINATING.search(message):
            return (
                f"Wait until 'kubectl get namespace {self.namespace}' does not find it any more, and create it and its "
                f"secrets again ('{create}'), or name another one (namespace, at calibdask.kubernetes)."
            )
        if _DENIED.search(message):
            return (
                "A policy of the cluster expects other objects: 'python -m calibdask.cluster.manifests' shows those "
                "that were sent. Set what it expects (image, environment, user, worker, at calibdask.kubernetes), name "
                "a namespace without this policy (namespace), or ask an administrator of the cluster."
            )
        if _INVALID.search(message):
            return (
                "The server expects other values: correct those that it names (at calibdask.kubernetes); 'python -m "
                "calibdask.cluster.manifests' shows the objects. Kubernetes older than 1.31 lacks fields that are used."
            )
        if _NO_KIND.search(message):
            return "Kubernetes 1.31 or newer is expected: 'kubectl version' says which one this is."
        if _QUOTA.search(message):
            return "Ask for less (workers, worker, at calibdask.kubernetes), or wait until others use less."
        if _NO_LOGIN.search(message):
            return "Log in again, and check that 'kubectl get pods' works."
        if _NO_PERMISSION.search(message):
            return (
                "The role in deploy/kubernetes/role.yaml has the permissions that are needed: ask an administrator of "
                "the namespace to bind it to you."
            )
        if _NO_ANSWER.search(message):
            return "Check that 'kubectl get pods' works."
        works = f"Check that 'kubectl --namespace {self.namespace} get pods' works"
        if not message.startswith("kubectl apply"):
            return f"{works}."
        trial = "python -m calibdask.cluster.manifests | kubectl apply --dry-run=server --filename -"
        return f"{works}, and what the server says to '{trial}'."

    @contextmanager
    def applied(self, manifests: Sequence[Mapping[str, Any]]) -> Iterator[None]:
        """Create objects for the block and delete them at the end, also after a partial creation.

        Warns
        -----
        UserWarning
            If objects could not be deleted; an error would hide that of the block.
        """
        from calibdask.cluster.manifests import as_yaml

        text = as_yaml(manifests)
        # Unless kubectl says otherwise: this process may be interrupted while it runs.
        created = names = _names(manifests)
        try:
            done = self._run("apply", "-f", "-", stdin=text)
            if done.returncode:
                error = self.error("apply", done.stderr or done.stdout)
                is_answer = isinstance(error, ValueError) or _NO_LOGIN.search(str(error)) is not None
                if is_answer or not _NO_REPLY.search(str(error)):
                    created = _CREATED.findall(done.stdout)
                raise error
            yield
        finally:
            if created:
                self._delete(text, names)

    def _delete(self, manifests: str, names: Sequence[str]) -> None:
        trouble = "The deletion was interrupted."
        try:
            trouble = self._trouble_of_delete(manifests)
        finally:
            # Warn after an interrupt too, which is raised again.
            if trouble:
                command = " ".join(self.command("delete", "--ignore-not-found", *names))
                text = f"{trouble} Objects in {self.namespace} may still exist; delete them with: {command}"
                warnings.warn(text, stacklevel=2)

    def _trouble_of_delete(self, manifests: str) -> str:
        """Delete objects, again where the server restarts; why that has failed, or an empty text."""
        for pause in (*_DELETE_PAUSES, None):
            try:
                self("delete", "-f", "-", "--ignore-not-found", "--wait=false", stdin=manifests)
                break
            except (ValueError, Unavailable) as error:
                if pause is None or not isinstance(error, Unavailable):
                    return str(error)
            sleep(pause)
        return ""

    @contextmanager
    def running(self, *arguments: str, stdout: int | IO[Any]) -> "Iterator[subprocess.Popen[bytes]]":
        """A command that runs until the end of the block, or of this process."""
        # In a new session, because an interrupt at the terminal is meant for this process, which still needs it.
        child = subprocess.Popen(
            ["sh", "-c", _GUARD, "sh", *self.command(*arguments)],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield child
        finally:
            assert child.stdin is not None
            child.stdin.close()
            if child.stdout is not None:
                child.stdout.close()
            child.wait()

    @contextmanager
    def forwarded(self, target: str, port: int) -> Iterator[int]:
        """Forward a port of the loopback to one of a pod or service for the block.

        Raises
        ------
        ValueError, Unavailable
            If kubectl fails to forward.
        """
        words = ("port-forward", "--address", "127.0.0.1", target, f":{port}")
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output, self.running(*words, stdout=output) as child:
            yield self._forwarded_port(child, output)

    def _forwarded_port(self, child: "subprocess.Popen[bytes]", output: IO[str]) -> int:
        end = monotonic() + _FORWARD_TIMEOUT
        while True:
            ended = child.poll() is not None or monotonic() >= end
            output.seek(0)
            text = output.read()
            if match := _FORWARDED.search(text):
                return int(match[1])
            if ended:
                error = self.error("port-forward", text)
                # Whatever keeps a connection from a pod that is ready, the same command may succeed later.
                raise error if _NO_PERMISSION.search(text) else Unavailable(str(error))
            sleep(_PAUSE)


def _names(manifests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Objects as kubectl names them, such as ``service/trial-scheduler``."""
    return [f"{manifest['kind'].lower()}/{manifest['metadata']['name']}" for manifest in manifests]

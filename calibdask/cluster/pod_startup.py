"""Obstacles to the start of pods, as Kubernetes reports them."""

import json
import os
import re
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from time import monotonic
from typing import IO, Any

from calibdask.cluster.kubectl import Kubectl, is_circumstance
from calibdask.errors import Unavailable

Object = Mapping[str, Any]

# Pods, Deployments and events are watched. Those that the account may read but not watch are read this often.
_READ_SECONDS = 15.0
# What passes within this time is not worth a line.
_QUIET_SECONDS = 8.0
# How long something must last that is an error: Kubernetes tries again, and a secret may be created a moment later.
_FATAL_SECONDS = 60.0
_PAUSE_SECONDS = 0.5
# A watch that the server has ended is begun anew.
_AGAIN_SECONDS = 2.0
# Nothing changes by itself what these report.
_HOPELESS = {"InvalidImageName", "ErrImageNeverPull"}
_NO_IMAGE = {"ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable"}
_RESTARTED = "CrashLoopBackOff"
_NO_CONTAINER = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", _RESTARTED}
# The second is that of kubectl 1.31.
_NO_WATCH = re.compile(r"cannot watch resource|\(Forbidden\): unknown")
_NO_ANSWER = "no answer"
_NO_NODE = {"Unschedulable", "SchedulingGated", "SchedulerError"}
_PENDING = "Pending"
_BEGINNING = {_PENDING, "ContainerCreating", "PodInitializing"}
_NO_VOLUME = {"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"}


@dataclass(frozen=True)
class Obstacle:
    """A reason why a pod of the scheduler or of the workers does not run.

    Parameters
    ----------
    component : str
        ``scheduler``, ``worker``, or ``server`` for the server of Kubernetes.
    reason, message : str
        As Kubernetes has them.
    is_fatal : bool
        Whether it is an error once it has lasted.
    """

    component: str
    reason: str
    message: str = ""
    is_fatal: bool = False

    def __str__(self) -> str:
        detail = " ".join(self.message.split()).rstrip(".")
        return f"{self.component}: {self.reason}{f' ({detail})' if detail else ''}"

    @property
    def advice(self) -> str:
        """How to continue."""
        if self.reason in _NO_IMAGE | _HOPELESS:
            return "Check image and pull-secret, at calibdask.kubernetes."
        if self.reason in {"FailedMount", "CreateContainerConfigError"}:
            return "Check that the secrets exist in the namespace (tls-secret, store-secret, at calibdask.kubernetes)."
        if self.reason == "FailedCreate" and "quota" in self.message:
            return "Ask for less (workers, worker, at calibdask.kubernetes), or wait until others use less."
        if self.reason == "FailedCreate" and is_circumstance(self.message):
            return "Try again later: the server, or its namespace, takes no pods at present."
        if self.reason == "FailedCreate":
            return (
                "Name a namespace that admits such pods (namespace, at calibdask.kubernetes), or have its limits, its "
                "security standard or its policies changed."
            )
        if self.reason == _NO_ANSWER:
            return "Try again when the server answers; a login may have expired (kubectl get pods)."
        if self.reason in _NO_NODE:
            return (
                f"Ask for less ({self.component}, workers, at calibdask.kubernetes), or wait longer for nodes that are "
                "started on demand (patience)."
            )
        if self.reason in _BEGINNING:
            return (
                "Give nodes that pull a large image, or mount volumes, more time (patience, at calibdask.kubernetes)."
            )
        if self.reason in _NO_VOLUME:
            return "That is a matter of the nodes: ask those who run them, or try again later."
        return "The logs say why; what pods run is set at calibdask.kubernetes (image, worker, environment)."

    @property
    def key(self) -> tuple[str, str]:
        """Identity of the obstacle; Kubernetes alternates between two texts for a missing image."""
        return self.component, "image" if self.reason in _NO_IMAGE else self.reason


def pod_obstacles(pod: Object) -> Iterator[Obstacle]:
    """Obstacles by the conditions of a pod, and by the states of its containers.

    Examples
    --------
    >>> waiting = {"reason": "ErrImagePull", "message": "not found"}
    >>> pod = {
    ...     "metadata": {"labels": {"app.kubernetes.io/component": "worker"}},
    ...     "status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": waiting}}]},
    ... }
    >>> [str(obstacle) for obstacle in pod_obstacles(pod)]
    ['worker: ErrImagePull (not found)']
    """
    component, status = _component(pod), pod.get("status", {})
    found = [*_conditions(component, status), *_containers(component, status)]
    if status.get("phase") == "Pending" and not found:
        found.append(Obstacle(component, _PENDING, "no node has taken it, or begun to start it"))
    yield from found


def _conditions(component: str, status: Object) -> Iterator[Obstacle]:
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield Obstacle(component, condition.get("reason", _PENDING), condition.get("message", ""))


def _containers(component: str, status: Object) -> Iterator[Obstacle]:
    for container in chain(status.get("initContainerStatuses", ()), status.get("containerStatuses", ())):
        waiting = container.get("state", {}).get("waiting")
        if waiting is not None:
            reason, message = waiting.get("reason", "Waiting"), waiting.get("message", "")
            ended = container.get("lastState", {}).get("terminated")
            if ended is not None:
                message = f"{ended.get('reason', 'ended')}, exit status {ended.get('exitCode')}"
            yield Obstacle(component, reason, message, reason in _HOPELESS | _NO_IMAGE | _NO_CONTAINER)


def deployment_obstacles(deployment: Object) -> Iterator[Obstacle]:
    """Obstacles to the creation of pods: quotas, limits and standards of the namespace."""
    for condition in deployment.get("status", {}).get("conditions", ()):
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            reason, message = condition.get("reason", "FailedCreate"), condition.get("message", "")
            yield Obstacle(_component(deployment), reason, message, is_fatal=True)


def event_obstacles(event: Object, pods: Mapping[str, Object]) -> Iterator[Obstacle]:
    """Obstacles that only events report, such as a secret that is missing; of pods that wait for their volumes.

    Events are kept for an hour, also of what has passed.
    """
    pod = pods.get(event.get("involvedObject", {}).get("name", ""))
    if pod is None or event.get("reason") not in _NO_VOLUME:
        return
    has_volumes = _holds(pod, "PodReadyToStartContainers")
    if pod.get("status", {}).get("phase") == "Pending" and not has_volumes:
        yield Obstacle(_component(pod), event["reason"], event.get("message", ""), is_fatal=True)


def _component(manifest: Object) -> str:
    return str(manifest["metadata"].get("labels", {}).get("app.kubernetes.io/component", "pod"))


def is_ready(pod: Object) -> bool:
    """Whether the readiness probe of a pod has succeeded."""
    return _holds(pod, "Ready")


def _holds(pod: Object, name: str) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(condition["type"] == name and condition["status"] == "True" for condition in conditions)


class PodStartup:
    """Watches the pods and Deployments of a cluster, and the events of its namespace, while it starts.

    Needed are only permissions to list pods and to get Deployments, which are then read every 15 seconds; without
    those of events a missing volume has no reason.

    Parameters
    ----------
    kubectl : Kubectl
    name : str
        Name of the cluster.
    seconds : float
        Time for the start of the scheduler, and for that of the first worker.
    """

    def __init__(self, kubectl: Kubectl, name: str, seconds: float) -> None:
        self.kubectl, self.name, self.seconds = kubectl, name, seconds
        self._pods: dict[str, Object] = {}
        self._deployments: dict[str, Object] = {}
        self._events: dict[str, Object] = {}
        self._changed, self._stopped = threading.Event(), threading.Event()
        self._error: Exception | None = None
        # Why resources cannot be read at present.
        self._outages: dict[str, str] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._reported: set[tuple[str, str]] = set()

    def scheduler_is_ready(self) -> bool:
        """Whether a pod of the scheduler answers."""
        return any(_component(pod) == "scheduler" and is_ready(pod) for pod in dict(self._pods).values())

    def wait(self, component: str, ready: Callable[[], bool]) -> None:
        """Return when ``ready()`` holds.

        Raises
        ------
        ValueError
            If pods cannot start because of the settings, such as the name of the image.
        Unavailable
            If they cannot start at present, or have not started in time.

        Warns
        -----
        UserWarning
            What keeps them from starting.
        """
        begun = monotonic()
        while not ready():
            if self._error is not None:
                raise self._error
            self._report(self._obstacles(), component)
            if monotonic() - begun >= self.seconds:
                raise Unavailable(self._too_late(component))
            self._changed.wait(_PAUSE_SECONDS)
            self._changed.clear()

    def _too_late(self, component: str) -> str:
        """The message if a component has not started in time."""
        obstacles, pods = self._obstacles(), [*dict(self._pods).values()]
        own = [pod for pod in pods if _component(pod) == component]
        reasons = "; ".join(map(str, obstacles)) or "Kubernetes reports no reason"
        if obstacles:
            advice = " ".join(dict.fromkeys(obstacle.advice for obstacle in obstacles))
        elif not own:
            advice = "No pod was created: ask those who run the cluster whether its controllers work."
        elif component == "worker":
            advice = (
                "Pods of workers run, but none has reached the scheduler: check the certificates in tls-secret, and "
                "policies of the network of the namespace."
            )
        else:
            advice = "Its pod runs, but does not answer: ask for more (scheduler, at calibdask.kubernetes)."
        return (
            f"No {component} has started in the namespace {self.kubectl.namespace} within {self.seconds:g} seconds: "
            f"{reasons}. {advice} (patience, at calibdask.kubernetes, is the time to wait.)"
        )

    def _obstacles(self) -> list[Obstacle]:
        """One of each kind."""
        pods, lacking = dict(self._pods), self._components_without_pods()
        deployments = [one for one in [*self._deployments.values()] if _component(one) in lacking]
        of_pods = [obstacle for pod in pods.values() for obstacle in pod_obstacles(pod)]
        of_deployments = [obstacle for one in deployments for obstacle in deployment_obstacles(one)]
        of_events = [obstacle for event in [*self._events.values()] for obstacle in event_obstacles(event, pods)]
        of_server = [Obstacle("server", _NO_ANSWER, message) for message in [*self._outages.values()]]
        found = (*of_server, *of_pods, *of_deployments, *of_events)
        return [*{obstacle.key: obstacle for obstacle in found}.values()]

    def _components_without_pods(self) -> set[str]:
        return {"scheduler", "worker"} - {_component(pod) for pod in dict(self._pods).values()}

    def _report(self, obstacles: list[Obstacle], awaited: str) -> None:
        """Warn of obstacles that have lasted while a component is awaited, and raise those that are errors."""
        now = monotonic()
        self._since = {obstacle.key: self._since.get(obstacle.key, now) for obstacle in obstacles}
        for obstacle in obstacles:
            lasted = now - self._since[obstacle.key]
            # Workers end, and are started again, until the scheduler answers.
            is_restarted = awaited == "scheduler" and obstacle.component == "worker" and obstacle.reason == _RESTARTED
            is_fatal = obstacle.is_fatal and not is_restarted
            if is_fatal and lasted >= (0.0 if obstacle.reason in _HOPELESS else _FATAL_SECONDS):
                kind = Unavailable if is_circumstance(obstacle.message) else ValueError
                text = f"The cluster cannot start in the namespace {self.kubectl.namespace}: {obstacle}."
                raise kind(f"{text} {obstacle.advice}")
            if lasted >= _QUIET_SECONDS and obstacle.key not in self._reported:
                self._reported.add(obstacle.key)
                warnings.warn(f"Waiting in the namespace {self.kubectl.namespace} for {obstacle}.", stacklevel=4)

    @contextmanager
    def watching(self) -> "Iterator[PodStartup]":
        """Follow changes during the block; the server answers one request for each kind with all changes."""
        own = f"--selector=app.kubernetes.io/instance={self.name}"
        requests: list[tuple[str, str, dict[str, Object]]] = [
            ("pods", own, self._pods),
            ("deployments", own, self._deployments),
            ("events", "--field-selector=type=Warning", self._events),
        ]
        threads = [threading.Thread(target=self._follow, args=request, daemon=True) for request in requests]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join()

    def _follow(self, resource: str, option: str, objects: dict[str, Object]) -> None:
        words = ("get", resource, option, "--watch", "--output-watch-events", "--output=json")
        while not self._stopped.is_set():
            current: set[str] = set()
            with self.kubectl.running(*words, stdout=subprocess.PIPE) as child:
                assert child.stdin is not None
                assert child.stdout is not None
                threading.Thread(target=self._end, args=(child.stdin,), daemon=True).start()
                messages = self._note_changes(child.stdout, objects, current)
            error = self.kubectl.error(f"get {resource} --watch", messages)
            has_failed = bool(messages and child.returncode)
            # kubectl lists existing events before it watches for new ones.
            is_listed = has_failed and _NO_WATCH.search(messages) is not None
            if has_failed and not is_listed and isinstance(error, Unavailable):
                self._outages[resource] = messages
            if has_failed and not is_listed and not isinstance(error, Unavailable):
                if resource == "pods":
                    self._fail(error)
                elif resource == "deployments":
                    self._read_deployments()
                return
            if is_listed or not has_failed:
                for name in objects.keys() - current:
                    del objects[name]
            self._stopped.wait(_READ_SECONDS if is_listed else _AGAIN_SECONDS)

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._changed.set()

    def _read_deployments(self) -> None:
        """Read Deployments by their names while they have no pods, for accounts that may not list them."""
        while not self._stopped.wait(_READ_SECONDS):
            names = [f"{self.name}-{component}" for component in sorted(self._components_without_pods())]
            if not names:
                continue
            try:
                text = self.kubectl("get", "deployments", *names, "--ignore-not-found", "--output=json")
            except Unavailable:
                continue
            except ValueError as error:
                self._fail(error)
                return
            self._deployments.update({one["metadata"]["name"]: one for one in _items(text)})
            self._changed.set()

    def _end(self, stdin: IO[bytes]) -> None:
        """End kubectl with the watch, which it would otherwise read for ever."""
        self._stopped.wait()
        stdin.close()

    def _note_changes(self, stream: IO[bytes], objects: dict[str, Object], current: set[str]) -> str:
        """Follow the changes of objects that a watch prints, and return its messages; the names are in ``current``."""
        decoder, text, messages = json.JSONDecoder(), "", ""
        while content := os.read(stream.fileno(), 1 << 16):
            text += content.decode(errors="replace")
            while text := text.lstrip():
                if text.startswith("{"):
                    try:
                        change, end = decoder.raw_decode(text)
                    except ValueError:
                        break
                    self._note(change, objects, current)
                else:
                    end = text.find("\n") + 1 or len(text)
                    messages += text[:end]
                text = text[end:]
        return messages

    def _note(self, change: Object, objects: dict[str, Object], current: set[str]) -> None:
        self._outages.clear()
        name = change["object"].get("metadata", {}).get("name")
        if change["type"] == "DELETED":
            objects.pop(name, None)
            current.discard(name)
        elif name is not None:
            objects[name] = change["object"]
            current.add(name)
        self._changed.set()


def _items(text: str) -> list[Any]:
    """The objects that kubectl prints: a list, a single one or nothing."""
    if not text.strip():
        return []
    content = json.loads(text)
    return list(content["items"]) if "items" in content else [content]

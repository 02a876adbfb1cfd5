"""A stand-in for kubectl and the cluster behind it: manifests start processes of this machine in place of pods.

It implements the calls that calibdask makes, and of manifests what commands, variables, secrets, mounts, probes and
services need. Each pod has a loopback address of its own; where a command names its port for HTTP, it gets a free one.
All state is in the folder that ``FAKE_KUBECTL`` names:

- ``secrets.json``: the variables, or the folder, of each secret. Only pods that declare a secret have it.
- ``role.yaml``: if it exists, calls that the role does not permit are refused.
- ``faults.json``: what keeps pods from starting (`Faults`).

Calls whose first word is ``FAKE_FAILS`` fail with ``FAKE_MESSAGE``, forbidden watches with ``FAKE_NO_WATCH``. Pods are
killed that have not ended ``FAKE_GRACE`` seconds after they were asked to; with ``FAKE_TERM`` they are as soon as
they begin. Where pods do not share a process namespace, each container is the first process of its own.
"""

import asyncio
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import yaml

from tests.clusters.dask_processes import ROOT, alive, eventually, free_port

STATE = Path(os.environ.get("FAKE_KUBECTL", "."))
# As the manifests of schedulers and workers have it.
GRACE = float(os.environ.get("FAKE_GRACE", "30"))
_INDEX = "batch.kubernetes.io/job-completion-index"
_OWN = ("AWS_", "CALIBDASK_", "DASK_", "JOB_COMPLETION")
_PAUSE = 0.2
ALONE = ("unshare", "--pid", "--fork", "--kill-child")
_GROUPS = {
    "Deployment": "apps",
    "Job": "batch",
    "NetworkPolicy": "networking.k8s.io",
    "HorizontalPodAutoscaler": "autoscaling",
}


@dataclass(frozen=True)
class Faults:
    """What keeps pods from starting.

    Parameters
    ----------
    image : str
        Reason why images cannot be had, such as ``ErrImagePull``.
    unschedulable : str
        Message of the scheduler of Kubernetes about pods that fit on no node.
    most_pods : int or None
        Quota of the namespace.
    refusal : str
        Message of the API server about pods that it does not admit, for another reason.
    is_pending : bool
        Whether nothing is said of pods, which nobody starts.
    component : str
        The only component of which `unschedulable` holds; "": all.
    """

    image: str = ""
    unschedulable: str = ""
    most_pods: int | None = None
    refusal: str = ""
    is_pending: bool = False
    component: str = ""

    def keeps_from_nodes(self, labels: Mapping[str, str]) -> bool:
        """Whether pods with these labels fit on no node."""
        return bool(self.unschedulable) and self.component in ("", labels["app.kubernetes.io/component"])


def installed(folder: Path, secrets: Mapping[str, Any]) -> dict[str, str]:
    """Install a command ``kubectl`` in a folder; the variables with which it is found and works."""
    (folder / "bin").mkdir(parents=True)
    command = folder / "bin" / "kubectl"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.clusters.fake_kubectl "$@"\n')
    command.chmod(0o755)
    (folder / "secrets.json").write_text(json.dumps(secrets))
    path = os.pathsep.join([str(command.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {"PATH": path, "PYTHONPATH": str(ROOT), "FAKE_KUBECTL": str(folder)}


def set_faults(folder: Path, faults: Faults) -> None:
    (folder / "faults.json").write_text(json.dumps(asdict(faults)))


def network(folder: Path) -> str:
    """First three numbers of the addresses of pods: another network of the loopback for each state."""
    number = crc32(str(folder.resolve()).encode())
    return f"127.{number % 253 + 1}.{number // 253 % 256}"


def pods(folder: Path = STATE) -> list[dict[str, Any]]:
    return _read(folder / "pods.json", [])


def calls(folder: Path) -> list[list[str]]:
    """The words of each call."""
    return [json.loads(line)["words"] for line in (folder / "calls.jsonl").read_text().splitlines()]


def permissions_used(folder: Path) -> set[tuple[str, str]]:
    """Resources and verbs of all calls."""
    lines = (folder / "permissions.jsonl").read_text().splitlines()
    return {(resource, verb) for line in lines for _, resource, verb in json.loads(line)}


def ended(folder: Path) -> None:
    """Kill the processes that are left when a test fails."""
    for pid in [*(pod["pid"] for pod in pods(folder)), *_read(folder / "controllers.json", [])]:
        if pid and alive(pid):
            os.killpg(pid, signal.SIGKILL)
    shutil.rmtree(folder / "bin", ignore_errors=True)


@dataclass(frozen=True)
class Fake:
    """A stand-in for kubectl, and what is configured for it."""

    folder: Path
    tls: Path
    variables: dict[str, str]

    def add_secret(self, name: str, variables: Mapping[str, str]) -> None:
        """Create a secret of variables."""
        path = self.folder / "secrets.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {name: variables}))

    @property
    def words(self) -> list[str]:
        """The first word of each call."""
        return [words[0] for words in calls(self.folder)]

    @property
    def commands(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.command")))

    def status(self, pod: str) -> int | None:
        path = self.folder / f"{pod}.status"
        return int(path.read_text()) if path.exists() else None


def _read(path: Path, default: Any) -> Any:
    return json.loads(path.read_text()) if path.exists() else default


def _write(path: Path, content: Any) -> None:
    """Write a text, or a value as JSON; who reads meanwhile finds the earlier content or the later one."""
    new = path.with_suffix(f".{os.getpid()}")
    new.write_text(content if isinstance(content, str) else json.dumps(content))
    new.replace(path)


@contextmanager
def _changed_pods() -> Iterator[list[dict[str, Any]]]:
    """The pods, to be changed by one process at a time."""
    with (STATE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = pods()
        yield known
        _write(STATE / "pods.json", known)


def _secrets() -> dict[str, Any]:
    return _read(STATE / "secrets.json", {})


def _faults() -> Faults:
    return Faults(**_read(STATE / "faults.json", {}))


def translated(words: list[str], pod: dict[str, Any], variables: dict[str, str]) -> list[str]:
    """A command as Kubernetes and its network would run it, on this machine."""
    swaps = {f"$({name})": value for name, value in variables.items()}
    swaps |= pod["mounts"]
    swaps |= {f"{service['service']}:": f"{service['address']}:" for service in pods() if service["service"]}
    swaps["127.0.0.1:8787"] = f"127.0.0.1:{pod['http']}"
    translation = []
    for word in words:
        for old, new in swaps.items():
            word = word.replace(old, new)
        translation.append(str(pod["http"]) if word == "8787" else word)
    if "--host" in translation:
        # All addresses of a pod are all addresses of this machine; one has to do.
        translation[translation.index("--host") + 1] += pod["address"]
    elif translation[:2] == ["dask", "worker"]:
        translation += ["--host", pod["address"]]
    return translation


def environment(container: dict[str, Any], pod: dict[str, Any]) -> dict[str, str]:
    """The variables of a container: those of its manifest and of the secrets that it declares."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    for source in container.get("envFrom", ()):
        variables |= _secrets()[source["secretRef"]["name"]]
    for variable in container["env"]:
        field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        fields = {"metadata.name": pod["name"], f"metadata.annotations['{_INDEX}']": str(pod["index"])}
        variables[variable["name"]] = translated([variable["value"]], pod, {})[0] if field is None else fields[field]
    return variables


def _declared_secrets(spec: dict[str, Any]) -> set[str]:
    volumes = {volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume}
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    return volumes | {source["secretRef"]["name"] for one in containers for source in one.get("envFrom", ())}


def add_pod(manifest: dict[str, Any], name: str, index: int | None = None) -> None:
    """Add the pod of a Deployment or Job, and start it unless something keeps it from starting."""
    spec = manifest["spec"]["template"]["spec"]
    labels = manifest["spec"]["template"]["metadata"]["labels"]
    mounts = {"/scratch": str(STATE / name)}
    for volume in spec["volumes"]:
        if folder := _secrets().get(volume.get("secret", {}).get("secretName")):
            mounts["/etc/calibdask/tls"] = folder
    (STATE / name).mkdir(exist_ok=True)
    faults = _faults()
    with _changed_pods() as known:
        if faults.refusal or (faults.most_pods is not None and len(known) >= faults.most_pods):
            return
        service = manifest["metadata"]["name"] if labels["app.kubernetes.io/component"] == "scheduler" else ""
        last = max((int(pod["address"].rpartition(".")[2]) for pod in known), default=0)
        address = f"{network(STATE)}.{last + 1}"
        pod = {"name": name, "address": address, "http": free_port(), "mounts": mounts, "index": index}
        pod |= {"service": service, "labels": labels, "spec": spec, "pid": 0}
        pod |= {"of": [manifest["kind"], manifest["metadata"]["name"]]}
        known.append(pod)
    is_kept = faults.image or faults.is_pending or faults.keeps_from_nodes(labels)
    if not (is_kept or _declared_secrets(spec) - {*_secrets()}):
        with (STATE / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "tests.clusters.fake_kubectl", "--pod", name]
            child = subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        with _changed_pods() as known:
            next(one for one in known if one["name"] == name)["pid"] = child.pid


def run_pod(name: str) -> int:
    """Do what the kubelet does: run the init containers, then the container, whose exit status is kept."""
    pod = next(candidate for candidate in pods() if candidate["name"] == name)
    *before, container = [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
    # A TERM is for the container, also one that comes before it has started.
    asked: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    for one in (*before, container):
        variables = environment(one, pod)
        words = translated(one["command"], pod, variables)
        if one is container:
            _write(STATE / f"{name}.command", words)
            _write(STATE / f"{name}.variables", "\n".join(sorted(variables)))
        is_shared = pod["spec"].get("shareProcessNamespace", False)
        child = subprocess.Popen(words if is_shared else [*ALONE, *words], env=variables, cwd=ROOT)
        first = child.pid if is_shared else _only_child(child)
        _write(STATE / f"{name}.container", str(child.pid))
        signal.signal(signal.SIGTERM, lambda *_, first=first: (asked.append(True), os.kill(first, signal.SIGTERM)))
        if asked or os.environ.get("FAKE_TERM"):
            os.kill(first, signal.SIGTERM)
        status = child.wait()
        if status:
            break
    _write(STATE / f"{name}.status", str(status))
    return status


def _only_child(process: subprocess.Popen[bytes]) -> int:
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    eventually(lambda: bool(path.read_text()))
    return int(path.read_text())


def run_job(name: str) -> int:
    """Do what the controller of an Indexed Job does: a pod for each index, so many at a time, with retries."""
    manifest = yaml.safe_load((STATE / f"Job-{name}.yaml").read_text())
    spec = manifest["spec"]
    rules = {rule["action"]: rule["onExitCodes"]["values"] for rule in spec["podFailurePolicy"]["rules"][1:]}
    failed: list[int] = []

    def run_index(index: int) -> bool:
        for attempt in range(spec["backoffLimitPerIndex"] + 1):
            if failed:
                return False
            pod = f"{name}-{index}-{attempt}"
            add_pod(manifest, pod, index)
            eventually((STATE / f"{pod}.status").exists)
            status = int((STATE / f"{pod}.status").read_text())
            if status in rules["FailJob"]:
                failed.append(index)
            if status == 0 or status in rules["FailIndex"]:
                return status == 0
        return False

    with ThreadPoolExecutor(spec["parallelism"]) as workers:
        complete = all(list(workers.map(run_index, range(spec["completions"]))))
    _write(STATE / f"{name}.condition", "complete" if complete else "failed")
    return 0


def apply(text: str) -> None:
    for manifest in yaml.safe_load_all(text):
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        _write(STATE / f"{kind}-{name}.yaml", yaml.safe_dump(manifest))
        if kind == "Job" and manifest["spec"].get("completionMode") == "Indexed":
            command = [sys.executable, "-m", "tests.clusters.fake_kubectl", "--job", name]
            with (STATE / f"{name}.controller.log").open("ab") as log:
                streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
                child = subprocess.Popen(command, start_new_session=True, **streams)
            _write(STATE / "controllers.json", [*_read(STATE / "controllers.json", []), child.pid])
        elif kind in ("Deployment", "Job"):
            for number in range(manifest["spec"].get("replicas", 1)):
                add_pod(manifest, f"{name}-{number}")
        sys.stdout.write(f"{kind.lower()}.{_GROUPS.get(kind, '')}/{name} created\n")


def scale(name: str, replicas: int) -> None:
    manifest = yaml.safe_load((STATE / f"Deployment-{name}.yaml").read_text())
    own = [pod for pod in pods() if pod["of"] == ["Deployment", name]]
    for number in range(len(own), replicas):
        add_pod(manifest, f"{name}-{number}")
    _end(own[replicas:])


def delete(names: list[tuple[str, str]]) -> None:
    _end([pod for pod in pods() if (pod["of"][0].lower(), pod["of"][1]) in names])
    for kind, name in names:
        for path in STATE.glob("*.yaml"):
            if path.stem.lower() == f"{kind}-{name}":
                path.unlink()


def _end(gone: list[dict[str, Any]]) -> None:
    """End pods in order, and kill those that do not end."""
    ending = [pod["pid"] for pod in gone if pod["pid"] and alive(pod["pid"])]
    for pid in ending:
        os.kill(pid, signal.SIGTERM)
    with suppress(AssertionError):
        eventually(lambda: not any(map(alive, ending)), GRACE)
    for pid in filter(alive, ending):
        os.killpg(pid, signal.SIGKILL)
    names = {pod["name"] for pod in gone}
    with _changed_pods() as known:
        known[:] = [pod for pod in known if pod["name"] not in names]


def pod_object(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod as the API server has it."""
    faults, conditions, state, phase = _faults(), [], {}, "Pending"
    if faults.is_pending:
        pass
    elif faults.keeps_from_nodes(pod["labels"]):
        conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
        conditions[0]["message"] = faults.unschedulable
    elif faults.image:
        waiting = {"reason": faults.image, "message": f"failed to pull {pod['spec']['containers'][0]['image']}"}
        state = {"waiting": waiting}
    elif not pod["pid"]:
        missing = sorted(_declared_secrets(pod["spec"]) - {*_secrets()})
        state = {"waiting": {"reason": "ContainerCreating"}}
        # Volumes are mounted before containers are created.
        if missing and not any(
            volume.get("secret", {}).get("secretName") in missing for volume in pod["spec"]["volumes"]
        ):
            state["waiting"] = {"reason": "CreateContainerConfigError", "message": f'secret "{missing[0]}" not found'}
    elif alive(pod["pid"]):
        phase = "Running"
        if "readinessProbe" not in pod["spec"]["containers"][0] or _is_healthy(pod):
            conditions = [{"type": "Ready", "status": "True"}]
    else:
        path = STATE / f"{pod['name']}.status"
        status = path.read_text() if path.exists() else ""
        state = {"waiting": {"reason": "CrashLoopBackOff"}}
        last = {"terminated": {"reason": "Error", "exitCode": int(status or -1)}}
        return _pod(pod, phase, [], [{"state": state, "lastState": last}])
    return _pod(pod, phase, conditions, [{"state": state}] if state else [])


def _pod(pod: dict[str, Any], phase: str, conditions: list[Any], containers: list[Any]) -> dict[str, Any]:
    status = {"phase": phase, "conditions": conditions, "containerStatuses": containers}
    return {"kind": "Pod", "metadata": {"name": pod["name"], "labels": pod["labels"]}, "status": status}


def _is_healthy(pod: dict[str, Any]) -> bool:
    from calibdask.cluster.health import healthy

    return healthy(pod["http"])


def probed(pod: dict[str, Any], probe: str) -> bool:
    """Whether a probe succeeds, by its own command."""
    container = pod["spec"]["containers"][0]
    variables = environment(container, pod)
    words = translated(container[probe]["exec"]["command"], pod, variables)
    return subprocess.run(words, env=variables, check=False).returncode == 0


def pod_objects(selector: str) -> list[dict[str, Any]]:
    label, _, value = selector.partition("=")
    return [pod_object(pod) for pod in pods() if pod["labels"].get(label) == value]


def watch(current: Callable[[], list[dict[str, Any]]], message: str) -> int:
    """Print objects, and every change of them, until killed; only the objects if it may not watch them."""
    shown: dict[str, Any] = {}
    while True:
        objects = {one["metadata"]["name"]: one for one in current()}
        for name in {*shown} - {*objects}:
            _show({"type": "DELETED", "object": shown[name]})
        for name, one in objects.items():
            if one != shown.get(name):
                _show({"type": "MODIFIED" if name in shown else "ADDED", "object": one})
        if message:
            sys.stderr.write(f"{message}\n")
            return 1
        shown = objects
        time.sleep(_PAUSE)


def deployments_of(selector: str) -> list[dict[str, Any]]:
    label, _, value = selector.partition("=")
    manifests = [yaml.safe_load(path.read_text()) for path in sorted(STATE.glob("Deployment-*.yaml"))]
    own = [one["metadata"]["name"] for one in manifests if one["metadata"]["labels"].get(label) == value]
    return deployment_objects(own)


def deployment_objects(names: list[str]) -> list[dict[str, Any]]:
    """Deployments, with the condition of those whose pods are refused."""
    objects = []
    for name in names:
        manifest = yaml.safe_load((STATE / f"Deployment-{name}.yaml").read_text())
        there = sum(pod["of"] == ["Deployment", name] for pod in pods())
        quota = "exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1"
        message = f'pods "{name}-x" is forbidden: {_faults().refusal or quota}'
        condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
        conditions = [condition] if there < manifest["spec"].get("replicas", 1) else []
        objects.append({**manifest, "status": {"conditions": conditions}})
    return objects


def event_objects() -> list[dict[str, Any]]:
    """Events of volumes whose secret does not exist."""
    events = []
    for pod in pods():
        for volume in pod["spec"]["volumes"]:
            if (name := volume.get("secret", {}).get("secretName")) and name not in _secrets():
                message = f'MountVolume.SetUp failed for volume "tls" : secret "{name}" not found'
                involved = {"kind": "Pod", "name": pod["name"]}
                metadata = {"name": f"{pod['name']}.{name}"}
                event = {"reason": "FailedMount", "message": message, "involvedObject": involved}
                events.append({"kind": "Event", "metadata": metadata, **event})
    return events


def print_logs(selector: str, tail: int) -> None:
    label, _, value = selector.partition("=")
    for pod in pods():
        path = STATE / f"{pod['name']}.log"
        if pod["labels"].get(label) == value and path.exists():
            for line in path.read_text(errors="replace").splitlines()[-tail:]:
                sys.stdout.write(f"[pod/{pod['name']}/{pod['labels']['app.kubernetes.io/component']}] {line}\n")


def _show(content: Any) -> None:
    sys.stdout.write(json.dumps(content, indent=4) + "\n")
    sys.stdout.flush()


async def forward(host: str, port: int) -> None:
    """Relay connections from a free port, until killed."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection(host, port)
        await asyncio.gather(relay(reader, to_there), relay(there, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    sys.stdout.write(f"Forwarding from 127.0.0.1:{server.sockets[0].getsockname()[1]} -> {port}\n")
    sys.stdout.flush()
    await server.serve_forever()


def _resource(kind: str) -> str:
    plural = kind.lower()
    return f"{plural[:-1]}ies" if plural.endswith("y") else f"{plural}s"


def needed(word: str, rest: list[str], given: str) -> list[tuple[str, str, str]]:
    """The permissions that a call needs: API group, resource and verb."""
    kinds = [manifest["kind"] for manifest in yaml.safe_load_all(given)] if given else []
    objects = [(_GROUPS.get(kind, ""), _resource(kind)) for kind in kinds]
    if word == "apply":
        return [(*one, verb) for one in objects for verb in ("get", "create")]
    if word == "delete":
        groups = {kind.lower(): group for kind, group in _GROUPS.items()}
        named = [name.partition("/")[0] for name in rest if "/" in name]
        objects += [(groups.get(kind, ""), _resource(kind)) for kind in named]
        return [(*one, "delete") for one in objects]
    if word == "get":
        group = "apps" if rest[0] == "deployments" else ""
        if not any(not option.startswith("-") for option in rest[1:]):
            return [(group, rest[0], verb) for verb in ("list", *(["watch"] if "--watch" in rest else []))]
        return [(group, rest[0], "get")]
    if word == "logs":
        return [("", "pods", "list"), ("", "pods/log", "get")]
    if word == "port-forward":
        forwarding = [("", "pods/portforward", verb) for verb in ("create", "get")]
        return [("", "services", "get"), ("", "pods", "list"), ("", "pods", "get"), *forwarding]
    return []


def refused(permissions: list[tuple[str, str, str]]) -> str:
    """The message about the first permission that the role lacks; "" if it has all."""
    path = STATE / "role.yaml"
    if not path.exists():
        return ""
    rules = yaml.safe_load(path.read_text())["rules"]
    for group, resource, verb in permissions:
        allowing = (
            group in rule["apiGroups"] and resource in rule["resources"] for rule in rules if verb in rule["verbs"]
        )
        if not any(allowing):
            where = f'in API group "{group}" in the namespace "calibration"'
            return (
                f'Error from server (Forbidden): {resource} is forbidden: User "trial" cannot {verb} resource '
                f'"{resource}" {where}'
            )
    return ""


def main(words: list[str]) -> int:
    if words[0] in ("--pod", "--job"):
        return {"--pod": run_pod, "--job": run_job}[words[0]](words[1])
    assert words[0] == "--namespace"
    given = sys.stdin.read() if "-f" in words else ""
    word, *rest = words[2:]
    permissions = needed(word, rest, given)
    with (STATE / "calls.jsonl").open("a") as log, (STATE / "permissions.jsonl").open("a") as used:
        log.write(json.dumps({"words": words[2:], "pid": os.getpid(), "at": time.time()}) + "\n")
        used.write(json.dumps(permissions) + "\n")
    if word in os.environ.get("FAKE_FAILS", "").split(","):
        sys.stderr.write(os.environ.get("FAKE_MESSAGE", f"error: the server does not want to {word}") + "\n")
        return 1
    watched = word == "get" and "--watch" in rest
    # kubectl lists existing events before it watches for new ones.
    if message := refused([one for one in permissions if not (watched and one[2] == "watch")]):
        sys.stderr.write(f"{message}\n")
        return 1
    option = dict(part.removeprefix("--").partition("=")[::2] for part in rest if part.startswith("--"))
    if word == "apply":
        apply(given)
    elif word == "delete":
        manifests = [(manifest["kind"].lower(), manifest["metadata"]["name"]) for manifest in yaml.safe_load_all(given)]
        delete([*manifests, *(tuple(name.split("/")) for name in rest if "/" in name)])
    elif watched:
        current = {
            "pods": lambda: pod_objects(option["selector"]),
            "deployments": lambda: deployments_of(option["selector"]),
            "events": event_objects,
        }
        message = refused(permissions)
        return watch(current[rest[0]], message and os.environ.get("FAKE_NO_WATCH", message))
    elif word == "get" and rest[0] == "pods":
        sys.stdout.write("".join(f"pod/{pod['name']}\n" for pod in pods()))
    elif word == "get" and rest[0] == "deployments":
        _show({"items": deployment_objects([name for name in rest[1:] if not name.startswith("-")])})
    elif word == "logs":
        if "previous" not in option:
            print_logs(option["selector"], int(option["tail"]))
    elif word == "scale":
        scale(rest[0].partition("/")[2], int(option["replicas"]))
    elif word == "port-forward":
        by_service = {pod["service"]: pod for pod in pods()}
        asyncio.run(forward(by_service[rest[2].removeprefix("service/")]["address"], int(rest[3].removeprefix(":"))))
    else:
        sys.stderr.write(f"error: this stand-in does not implement {word}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

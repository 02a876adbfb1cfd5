"""A stand-in for kubectl and all behind it: what manifests start in pods runs as processes of this machine.

It knows the calls that calibdask makes, and of manifests what commands, variables, mounts, probes and services need.
Each pod has a loopback address of its own; where a command names its port for HTTP, it gets a free one. Everything is
kept in the folder that ``FAKE_KUBECTL`` names; ``FAKE_TLS`` is what a secret of certificates holds, calls whose first
word is ``FAKE_FAILS`` fail, and pods are killed that have not ended ``FAKE_GRACE`` seconds after they were asked to.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from tests.clusters.dask_processes import ROOT, alive, eventually, free_port

STATE = Path(os.environ.get("FAKE_KUBECTL", "."))
PODS, CALLS = STATE / "pods.json", STATE / "calls.jsonl"
# Of schedulers and workers, as their manifests have it.
GRACE = float(os.environ.get("FAKE_GRACE", "30"))


def installed(folder: Path, tls: Path) -> dict[str, str]:
    """Put a command ``kubectl`` there; the variables with which it is found and works."""
    (folder / "bin").mkdir(parents=True)
    command = folder / "bin" / "kubectl"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.clusters.fake_kubectl "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(command.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {"PATH": path, "PYTHONPATH": str(ROOT), "FAKE_KUBECTL": str(folder), "FAKE_TLS": str(tls)}


def pods(folder: Path = STATE) -> list[dict[str, Any]]:
    path = folder / "pods.json"
    return json.loads(path.read_text()) if path.exists() else []


def keep(known: list[dict[str, Any]]) -> None:
    """Write the pods; who reads meanwhile finds the one list or the other."""
    PODS.with_suffix(".new").write_text(json.dumps(known))
    PODS.with_suffix(".new").replace(PODS)


def calls(folder: Path) -> list[str]:
    """The first word of each call."""
    return [json.loads(line)["words"][0] for line in (folder / "calls.jsonl").read_text().splitlines()]


def translated(words: list[str], pod: dict[str, Any], variables: dict[str, str]) -> list[str]:
    """What Kubernetes and its network would make of a command, on this machine."""
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
        # All addresses of a pod are all addresses of this machine; it makes do with one.
        translation[translation.index("--host") + 1] += pod["address"]
    elif translation[:2] == ["dask", "worker"]:
        translation += ["--host", pod["address"]]
    return translation


def environment(container: dict[str, Any], pod: dict[str, Any]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DASK_", "CALIBDASK_"))}
    for variable in container["env"]:
        value = variable.get("value")
        kept[variable["name"]] = pod["name"] if value is None else translated([value], pod, {})[0]
    return kept


def started(manifest: dict[str, Any], number: int) -> None:
    """Start the pod of a Deployment or Job."""
    spec = manifest["spec"]["template"]["spec"]
    name = f"{manifest['metadata']['name']}-{number}"
    mounts = {"/scratch": str(STATE / name), "/etc/calibdask/tls": os.environ["FAKE_TLS"]}
    (STATE / name).mkdir()
    known = pods()
    service = manifest["metadata"]["name"] if name.endswith("-scheduler-0") else ""
    pod = {"name": name, "address": f"127.0.7.{len(known) + 1}", "http": free_port(), "mounts": mounts}
    pod |= {
        "service": service,
        "of": [manifest["kind"], manifest["metadata"]["name"]],
        "spec": spec,
        "pid": 0,
    }
    keep([*known, pod])
    with (STATE / f"{name}.log").open("wb") as log:
        command = [sys.executable, "-m", "tests.clusters.fake_kubectl", "--pod", name]
        child = subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    keep([*known, {**pod, "pid": child.pid}])


def run_pod(name: str) -> int:
    """Do as the kubelet does: first what initialises, then the container, whose exit status is kept."""
    pod = next(candidate for candidate in pods() if candidate["name"] == name)
    *before, container = [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
    for init_container in before:
        variables = environment(init_container, pod)
        subprocess.run(translated(init_container["command"], pod, variables), env=variables, check=True)
    variables = environment(container, pod)
    words = translated(container["command"], pod, variables)
    (STATE / f"{name}.command").write_text(json.dumps(words))
    # A TERM is for the container, also one that comes before it has started.
    asked: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    child = subprocess.Popen(words, env=variables, cwd=ROOT)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    if asked:
        child.terminate()
    status = child.wait()
    (STATE / f"{name}.status").write_text(str(status))
    return status


def probed(pod: dict[str, Any], probe: str) -> bool:
    container = pod["spec"]["containers"][0]
    variables = environment(container, pod)
    words = translated(container[probe]["exec"]["command"], pod, variables)
    return subprocess.run(words, env=variables, check=False).returncode == 0


def apply(text: str) -> None:
    for manifest in yaml.safe_load_all(text):
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        (STATE / f"{kind}-{name}.yaml").write_text(yaml.safe_dump(manifest))
        if kind in ("Deployment", "Job"):
            for number in range(manifest["spec"].get("replicas", 1)):
                started(manifest, number)


def delete(text: str) -> None:
    gone = [[manifest["kind"], manifest["metadata"]["name"]] for manifest in yaml.safe_load_all(text)]
    ending = [pod["pid"] for pod in pods() if pod["of"] in gone and alive(pod["pid"])]
    for pid in ending:
        os.kill(pid, signal.SIGTERM)
    with suppress(AssertionError):
        eventually(lambda: not any(map(alive, ending)), GRACE)
    for pid in filter(alive, ending):
        os.killpg(pid, signal.SIGKILL)
    keep([pod for pod in pods() if pod["of"] not in gone])


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


def main(words: list[str]) -> int:
    if words[0] == "--pod":
        return run_pod(words[1])
    assert words[0] == "--namespace"
    given = sys.stdin.read() if "-f" in words else ""
    with CALLS.open("a") as log:
        log.write(json.dumps({"words": words[2:], "pid": os.getpid(), "at": time.time()}) + "\n")
    word, *rest = words[2:]
    if word == os.environ.get("FAKE_FAILS"):
        sys.stderr.write(f"error: the server does not want to {word}\n")
        return 1
    by_service = {pod["service"]: pod for pod in pods()}
    if word == "apply":
        apply(given)
    elif word == "delete":
        delete(given)
    elif word == "get":
        ready = by_service.get(rest[1])
        sys.stdout.write("1" if ready and probed(ready, "readinessProbe") else "")
    elif word == "port-forward":
        asyncio.run(forward(by_service[rest[2].removeprefix("service/")]["address"], int(rest[3].removeprefix(":"))))
    else:
        return 1
    return 0


def ended(folder: Path) -> None:
    """Kill what is left, for tests that fail."""
    for pod in pods(folder):
        if alive(pod["pid"]):
            os.killpg(pod["pid"], signal.SIGKILL)
    shutil.rmtree(folder / "bin", ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

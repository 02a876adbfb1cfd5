"""The stand-in for the API server: what the live tests rely on, and kubectl itself, where it is installed."""

import base64
import http.client
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest
import yaml

from calibdask.cluster.certificates import make_certificates
from calibdask.cluster.kubernetes_settings import KubernetesSettings
from calibdask.cluster.manifests import cluster
from tests.clusters import fake_kubectl
from tests.clusters.dask_processes import PATIENCE, ROOT, RUN, eventually, processes
from tests.clusters.fake_spdy import spdy_dictionary

pytestmark = pytest.mark.deploy
NAMESPACE = "trial"
_DATA, _SYN_STREAM, _SYN_REPLY = 0, 1, 2


@dataclass(frozen=True)
class Server:
    """The stand-in in a process of its own, spoken to by HTTPS."""

    folder: Path
    address: str
    context: ssl.SSLContext

    def ask(self, verb: str, path: str, content: Any = None, token: str = "admin") -> tuple[int, Any]:
        """The status and the content of an answer."""
        host = urlsplit(self.address)
        connection = http.client.HTTPSConnection(host.hostname or "", host.port, context=self.context, timeout=60)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request(verb, path, None if content is None else json.dumps(content), headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        is_json = answer.headers["Content-Type"] == "application/json"
        return answer.status, json.loads(text) if is_json else text.decode()

    def create(self, *manifests: dict[str, Any]) -> list[int]:
        """Create objects in the namespace; the statuses."""
        return [self.ask("POST", place(one), one)[0] for one in manifests]


def place(manifest: dict[str, Any]) -> str:
    version, kind = manifest["apiVersion"], manifest["kind"].lower()
    resource = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/{resource}" if kind == "namespace" else f"{root}/namespaces/{NAMESPACE}/{resource}"


def named(kind: str, name: str, version: str = "v1", **content: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **content}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    folder = tmp_path / "server"
    monkeypatch.setattr(fake_kubectl, "STATE", folder)
    with processes(tmp_path / "processes") as started:
        command = [sys.executable, "-m", "tests.clusters.fake_api_server"]
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        started.start(command, "server", FAKE_KUBECTL=str(folder), FAKE_GRACE="1", PATH=path)
        eventually((folder / "kubeconfig").exists, 120)
        configuration = yaml.safe_load((folder / "kubeconfig").read_text())
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        yield Server(folder, configuration["clusters"][0]["cluster"]["server"], context)
        fake_kubectl.ended(folder)


def test_objects_are_kept_and_roles_hold(server: Server) -> None:
    assert server.ask("GET", "/version")[1]["minor"] == "36"
    groups = {group["name"] for group in server.ask("GET", "/apis")[1]["groups"]}
    assert {"apps", "batch", "networking.k8s.io"} <= groups
    secret = named("Secret", "trial-store", data={"AWS_ACCESS_KEY_ID": base64.b64encode(b"key").decode()})
    status, answer = server.ask("POST", place(secret), secret)
    assert (status, answer["message"]) == (404, 'namespaces "trial" not found')
    role = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "role.yaml").read_text())
    account = named("ServiceAccount", "driver")
    binding = named("RoleBinding", "driver", "rbac.authorization.k8s.io/v1", roleRef={"name": "calibdask"})
    binding["subjects"] = [{"kind": "ServiceAccount", "name": "driver"}]
    assert server.create(named("Namespace", NAMESPACE), secret, account, role, binding) == [201] * 5
    assert server.create(secret) == [409]
    assert json.loads((server.folder / "secrets.json").read_text()) == {"trial-store": {"AWS_ACCESS_KEY_ID": "key"}}
    own = f"/api/v1/namespaces/{NAMESPACE}"
    token = server.ask("POST", f"{own}/serviceaccounts/driver/token", {})[1]["status"]["token"]
    assert server.ask("GET", f"{own}/pods", token=token)[0] == 200
    status, answer = server.ask("GET", f"{own}/secrets", token=token)
    assert (status, answer["reason"]) == (403, "Forbidden")
    assert 'cannot list resource "secrets"' in answer["message"]
    assert server.ask("DELETE", f"{own}/secrets/trial-store")[0] == 200
    assert server.ask("GET", f"{own}/secrets/trial-store")[0] == 404


def test_pods_run_and_ports_are_forwarded(server: Server) -> None:
    settings = KubernetesSettings(image="calibdask:1.0.0rc1", name="trial", namespace=NAMESPACE, insecure=True)
    (scheduler,) = [one for one in cluster(settings) if one["metadata"]["name"] == "trial-scheduler"][1:2]
    assert scheduler["kind"] == "Deployment"
    assert server.create(named("Namespace", NAMESPACE), scheduler) == [201, 201]
    own = f"/api/v1/namespaces/{NAMESPACE}/pods"
    ready = {"type": "Ready", "status": "True"}
    eventually(lambda: ready in server.ask("GET", own)[1]["items"][0]["status"]["conditions"], 120)
    (pod,) = server.ask("GET", own)[1]["items"]
    name = pod["metadata"]["name"]
    watching = f"{own}?watch=1&timeoutSeconds=1&labelSelector=app.kubernetes.io/component%3Dscheduler"
    # A line of JSON for each change; here there is one.
    event = server.ask("GET", watching)[1]
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)
    assert "Scheduler at" in server.ask("GET", f"{own}/{name}/log?tailLines=50")[1]
    # The scheduler speaks first.
    assert b"compression" in forwarded(server, f"{own}/{name}/portforward")
    scale = f"{place(scheduler)}/trial-scheduler/scale"
    server.ask("PATCH", scale, {"spec": {"replicas": 0}})
    eventually(lambda: server.ask("GET", own)[1]["items"] == [], 60)


def forwarded(server: Server, path: str) -> bytes:
    """What comes first from a forwarded port, by SPDY/3.1 as kubectl speaks it."""
    host = urlsplit(server.address)
    raw = socket.create_connection((host.hostname, host.port), timeout=60)
    with server.context.wrap_socket(raw) as connection, connection.makefile("rb") as stream:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n"
        )
        connection.sendall(head.encode())
        assert stream.readline().split()[1] == b"101"
        while stream.readline().strip():
            """Headers."""
        for number in (1, 3):
            content = struct.pack(">IIH", number, 0, 0)
            connection.sendall(struct.pack(">II", 1 << 31 | 3 << 16 | _SYN_STREAM, len(content)) + content)
        replies = 0
        while True:
            word, length = struct.unpack(">II", stream.read(8))
            content = stream.read(length & 0xFFFFFF)
            if word >> 31:
                assert word & 0xFFFF == _SYN_REPLY
                replies += 1
            else:
                assert (word, replies) == (3, 2)
                return bytes(content)


def test_the_dictionary_of_spdy_is_that_of_kubectl() -> None:
    assert len(spdy_dictionary()) == 1423
    if command := shutil.which("kubectl"):
        assert spdy_dictionary() in Path(command).resolve().read_bytes()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="the command kubectl is not installed")
def test_a_run_by_kubectl_itself(server: Server, tmp_path: Path) -> None:
    """As the live tests run against the stand-in: it starts, forwards, computes and deletes."""
    tls = tmp_path / "certificates"
    make_certificates(tls)
    files = {path.name: base64.b64encode(path.read_bytes()).decode() for path in tls.iterdir()}
    assert server.create(named("Namespace", NAMESPACE), named("Secret", "trial-tls", data=files)) == [201, 201]
    rng = np.random.default_rng(0)
    scores = rng.random(2000)
    frame = pd.DataFrame({"label": (rng.random(2000) < scores).astype(int), "score": scores})
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=500)
    configured = {"image": "calibdask:1.0.0rc1", "namespace": NAMESPACE, "tls-secret": "trial-tls", "workers": 1}
    (tmp_path / "dask.yaml").write_text(yaml.safe_dump({"calibdask": {"kubernetes": configured}}))
    variables = {"KUBECONFIG": str(server.folder / "kubeconfig"), "DASK_CONFIG": str(tmp_path / "dask.yaml")}
    command = [*RUN, "evaluate", str(tmp_path / "rows.parquet"), "--json"]
    options: dict[str, Any] = {"cwd": ROOT, "capture_output": True, "text": True, "timeout": PATIENCE}
    environment = os.environ | variables | {"CALIBDASK_TLS": str(tls)}
    environment.pop("KUBERNETES_SERVICE_HOST", None)
    done = subprocess.run([*command, "--cluster", "kubernetes"], check=False, env=environment, **options)
    assert done.returncode == 0, done.stderr
    here = subprocess.run(command, check=True, env=environment, **options)
    assert json.loads(done.stdout) == json.loads(here.stdout)
    eventually(lambda: fake_kubectl.pods(server.folder) == [], 60)
    for kind in ("apis/apps/v1", "api/v1"):
        resource = "deployments" if "apps" in kind else "services"
        assert server.ask("GET", f"/{kind}/namespaces/{NAMESPACE}/{resource}")[1]["items"] == []

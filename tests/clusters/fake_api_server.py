"""A stand-in for the API server of Kubernetes, for kubectl itself: `fake_kubectl` starts processes in place of pods.

For the live tests, and to follow ``deploy/README.md``, where there is no Kubernetes::

    export FAKE_KUBECTL=FOLDER KUBECONFIG=FOLDER/kubeconfig
    export CALIBDASK_LIVE_IMAGE=calibdask:1.0.0rc1 CALIBDASK_LIVE_STORE=s3://BUCKET
    python -m tests.clusters.fake_api_server &
    python -m pytest -m k8s_live tests/clusters

with the variables of the object store that has the bucket (``AWS_...``), such as moto's server. It answers what kubectl
up to 1.31 asks for (later ones speak Protocol Buffers where they create secrets): discovery, objects of one namespace,
watches, permissions of the tokens that it gives out, scaling, logs, forwarded ports (SPDY/3.1). Its controllers are
those of `fake_kubectl`, quotas that allow no pods, and nodes of 100 processors that do not reach ``registry.invalid``.
`test_api_server` tests it, with kubectl itself where that is installed.
"""

import base64
import json
import os
import signal
import ssl
import sys
import threading
import time
from contextlib import redirect_stdout, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import yaml

from calibdask.cluster.certificates import make_certificates
from calibdask.cluster.kubernetes_settings import KubernetesSettings
from tests.clusters import fake_kubectl
from tests.clusters.fake_kubectl import Faults
from tests.clusters.fake_spdy import Spdy

Object = dict[str, Any]
Key = tuple[str, str]

_KINDS = {
    "v1": {
        "namespaces": "Namespace",
        "pods": "Pod",
        "services": "Service",
        "secrets": "Secret",
        "events": "Event",
        "serviceaccounts": "ServiceAccount",
        "resourcequotas": "ResourceQuota",
    },
    "apps/v1": {"deployments": "Deployment"},
    "batch/v1": {"jobs": "Job"},
    "networking.k8s.io/v1": {"networkpolicies": "NetworkPolicy"},
    "autoscaling/v2": {"horizontalpodautoscalers": "HorizontalPodAutoscaler"},
    "rbac.authorization.k8s.io/v1": {"roles": "Role", "rolebindings": "RoleBinding"},
}
_SHORT = {"deployments": ["deploy"], "horizontalpodautoscalers": ["hpa"], "resourcequotas": ["quota"]}
_VERSIONS = {resource: version for version, kinds in _KINDS.items() for resource in kinds}
_RESOURCES = {kind: resource for kinds in _KINDS.values() for resource, kind in kinds.items()}
_VERBS = ["get", "list", "watch", "create", "patch", "update", "delete"]
_PAUSE = 0.1
_LARGEST_NODE = 100
_NO_REGISTRY = "registry.invalid"


class Refusal(Exception):
    """An answer that is an error: its status, reason and message."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.answer = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": code,
            "reason": reason,
            "message": message,
        }


class State:
    """All objects; each has the version of the state at which it last changed."""

    def __init__(self) -> None:
        self.stored: dict[Key, Object] = {}
        self.seen: dict[Key, Object] = {}
        self.deleted: list[tuple[int, Key, Object]] = []
        self.tokens: dict[str, str] = {}
        self.version = 1
        self.lock = threading.RLock()

    def current(self) -> dict[Key, Object]:
        """What exists now."""
        with self.lock:
            found = self._observed()
            for key in self.seen.keys() - found.keys():
                self.version += 1
                self.deleted.append((self.version, key, self.seen.pop(key)))
            for key, one in found.items():
                before = self.seen.get(key)
                metadata = dict(one["metadata"])
                for name in ("resourceVersion", "uid", "creationTimestamp"):
                    metadata[name] = before["metadata"][name] if before else ""
                if before is None or before != {**one, "metadata": metadata}:
                    self.version += 1
                    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                    metadata["uid"] = metadata["uid"] or str(uuid4())
                    metadata["creationTimestamp"] = metadata["creationTimestamp"] or now
                    metadata["resourceVersion"] = str(self.version)
                self.seen[key] = {**one, "metadata": metadata}
            return dict(self.seen)

    def _observed(self) -> dict[Key, Object]:
        objects: dict[Key, Object] = dict(self.stored)
        for event in fake_kubectl.event_objects():
            objects["events", event["metadata"]["name"]] = {"apiVersion": "v1", "type": "Warning", **event}
        for pod in fake_kubectl.pods():
            shown = fake_kubectl.pod_object(pod)
            metadata = {**shown["metadata"], "namespace": self.namespace}
            if pod["index"] is None or shown["status"]["phase"] != "Pending":
                one = {"apiVersion": "v1", **shown, "metadata": metadata, "spec": pod["spec"]}
                objects["pods", pod["name"]] = one
        for (resource, name), one in self.stored.items():
            if resource == "deployments":
                status = fake_kubectl.deployment_objects([name])[0]["status"]
                objects[resource, name] = {**one, "status": status}
            elif resource == "jobs":
                objects[resource, name] = {**one, "status": self._of_job(one)}
            elif resource == "resourcequotas":
                objects[resource, name] = {**one, "status": one["spec"]}
        return objects

    def _of_job(self, job: Object) -> Object:
        name, is_indexed = job["metadata"]["name"], job["spec"].get("completionMode") == "Indexed"
        path = fake_kubectl.STATE / (f"{name}.condition" if is_indexed else f"{name}-0.status")
        ended = path.read_text() if path.exists() else ""
        if not ended:
            return {}
        kind = "Complete" if ended in ("complete", "0") else "Failed"
        indexes = {"completedIndexes": f"0-{job['spec']['completions'] - 1}"} if is_indexed else {}
        return {"conditions": [{"type": kind, "status": "True"}], **indexes}

    @property
    def namespace(self) -> str:
        return next((name for resource, name in self.stored if resource == "namespaces"), "default")

    def create(self, resource: str, one: Object) -> Object:
        with self.lock:
            key = resource, one["metadata"]["name"]
            if key in self.current():
                raise Refusal(409, "AlreadyExists", f'{resource} "{key[1]}" already exists')
            self.stored[key] = one
            if resource == "jobs":
                one["spec"]["selector"] = {"matchLabels": one["spec"]["template"]["metadata"]["labels"]}
            if resource == "secrets":
                self._keep_secret(one)
            elif resource in ("deployments", "jobs"):
                fake_kubectl.set_faults(fake_kubectl.STATE, self._faults())
                with redirect_stdout(StringIO()):
                    fake_kubectl.apply(yaml.safe_dump(one))
            return self.current()[key]

    def _faults(self) -> Faults:
        """What keeps pods from starting: of all alike, as far as one of them is concerned."""
        pods = [one["spec"]["template"]["spec"] for one in self.stored.values() if "template" in one.get("spec", {})]
        containers = [container for pod in pods for container in pod["containers"]]
        requests = [container["resources"]["requests"]["cpu"] for container in containers]
        has_huge = any(not text.endswith("m") and float(text) > _LARGEST_NODE for text in requests)
        return Faults(
            image="ErrImagePull" if any(_NO_REGISTRY in container["image"] for container in containers) else "",
            unschedulable="0/3 nodes are available: 3 Insufficient cpu." if has_huge else "",
            most_pods=0 if any(resource == "resourcequotas" for resource, _ in self.stored) else None,
        )

    def _keep_secret(self, secret: Object) -> None:
        contents = {name: base64.b64decode(value) for name, value in secret.get("data", {}).items()}
        path = fake_kubectl.STATE / "secrets.json"
        known, name = json.loads(path.read_text()), secret["metadata"]["name"]
        if any("." in file for file in contents):
            folder = fake_kubectl.STATE / f"secret-{name}"
            folder.mkdir(exist_ok=True)
            for file, content in contents.items():
                (folder / file).write_bytes(content)
            known[name] = str(folder)
        else:
            known[name] = {variable: content.decode() for variable, content in contents.items()}
        path.write_text(json.dumps(known))

    def delete(self, resource: str, name: str) -> None:
        with self.lock:
            if (resource, name) not in self.current():
                raise Refusal(404, "NotFound", f'{resource} "{name}" not found')
            self.stored.pop((resource, name), None)
            if resource in ("deployments", "jobs"):
                fake_kubectl.delete([(resource.removesuffix("s"), name)])
            elif resource == "pods":
                self._replace_pod(next(pod for pod in fake_kubectl.pods() if pod["name"] == name))
            elif resource == "namespaces":
                self.stored.clear()
            self.current()

    def _replace_pod(self, pod: Object) -> None:
        """End a pod at once; who has made it makes another one."""
        kind, owner = pod["of"]
        container = fake_kubectl.STATE / f"{pod['name']}.container"
        if kind == "Job":
            # The controller waits for the status of the container.
            os.kill(int(container.read_text()), signal.SIGKILL)
            return
        os.killpg(pod["pid"], signal.SIGKILL)
        fake_kubectl._end([pod])
        manifest = yaml.safe_load((fake_kubectl.STATE / f"{kind}-{owner}.yaml").read_text())
        fake_kubectl.add_pod(manifest, f"{owner}-{uuid4().hex[:5]}")

    def change(self, resource: str, name: str, patch: Object) -> Object:
        with self.lock:
            one = self.current().get((resource, name))
            if one is None:
                raise Refusal(404, "NotFound", f'{resource} "{name}" not found')
            changed = merged(one, patch)
            self.stored[resource, name] = changed
            if resource == "deployments" and one["spec"].get("replicas") != changed["spec"].get("replicas"):
                fake_kubectl.scale(name, changed["spec"]["replicas"])
            return self.current()[resource, name]

    def refused(self, token: str, resource: str, verb: str) -> None:
        """Raise unless the roles that are bound to the owner of a token permit it; others are administrators."""
        account = self.tokens.get(token)
        if account is None:
            return
        bindings = [one for (kind, _), one in self.stored.items() if kind == "rolebindings"]
        bound = {one["roleRef"]["name"] for one in bindings if account in [who["name"] for who in one["subjects"]]}
        rules = [rule for name in bound for rule in self.stored["roles", name]["rules"]]
        group = _VERSIONS[resource.partition("/")[0]].rpartition("/")[0]
        if not any(
            group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"] for rule in rules
        ):
            message = (
                f'{resource} is forbidden: User "system:serviceaccount:{self.namespace}:{account}" cannot {verb} '
                f'resource "{resource}" in API group "{group}" in the namespace "{self.namespace}"'
            )
            raise Refusal(403, "Forbidden", message)


STATES = State()


def merged(old: Object, patch: Object) -> Object:
    """A JSON merge patch."""
    changed = {**old}
    for name, value in patch.items():
        nested = isinstance(value, dict) and isinstance(old.get(name), dict)
        changed[name] = merged(old[name], value) if nested else value
    return {name: value for name, value in changed.items() if value is not None}


def selected(one: Object, labels: str, fields: str) -> bool:
    """Whether an object has these labels and fields, each ``name=value,...``."""
    own = one["metadata"].get("labels", {})
    pairs = [part.partition("=")[::2] for part in labels.split(",") if part]
    if any(own.get(name) != value.removeprefix("=") for name, value in pairs):
        return False
    for name, value in [part.partition("=")[::2] for part in fields.split(",") if part]:
        found: Any = one
        for step in name.split("."):
            found = found.get(step, "")
        if found != value.removeprefix("="):
            return False
    return True


class Handler(BaseHTTPRequestHandler):
    """One connection of kubectl."""

    protocol_version = "HTTP/1.1"

    def log_message(self, text: str, *arguments: Any) -> None:
        with (fake_kubectl.STATE / "requests.log").open("a") as log:
            log.write(f"{self.command} {self.path} {text % arguments}\n")

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()

    def answer(self, content: Any, code: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def respond(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        try:
            if discovered := discovery(url.path):
                self.answer(discovered)
                return
            self.respond_about_objects(url.path, query, body)
        except Refusal as refusal:
            self.answer(refusal.answer, refusal.code)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = respond

    def respond_about_objects(self, path: str, query: dict[str, str], body: bytes) -> None:
        words = path.strip("/").split("/")
        words = words[2:] if words[0] == "api" else words[3:]
        if words[:1] == ["namespaces"] and len(words) > 2:
            words = words[2:]
        resource, name, sub = (*words, "", "")[:3]
        if resource not in _VERSIONS:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        self.permitted(resource, name, sub, query)
        if sub:
            self.respond_about_part(resource, name, sub, query, body)
        elif self.command == "GET" and query.get("watch") in ("1", "true"):
            self.watch(resource, query)
        elif self.command == "GET" and name:
            self.answer(self.found(resource, name))
        elif self.command == "GET":
            self.answer(self.listed(resource, query))
        elif self.command == "POST":
            self.create(path, resource, json.loads(body), query)
        elif self.command == "PATCH":
            one = self.found(resource, name) if "dryRun" in query else STATES.change(resource, name, json.loads(body))
            self.answer(one)
        else:
            STATES.delete(resource, name)
            self.answer({"kind": "Status", "apiVersion": "v1", "status": "Success", "details": {"name": name}})

    def permitted(self, resource: str, name: str, sub: str, query: dict[str, str]) -> None:
        reading = "watch" if query.get("watch") in ("1", "true") else "get" if name else "list"
        verb = {"GET": reading, "POST": "create", "PATCH": "patch", "PUT": "update"}.get(self.command, "delete")
        if "protobuf" in self.headers.get("Content-Type", ""):
            raise Refusal(415, "UnsupportedMediaType", "this stand-in expects JSON, as kubectl sends it up to 1.31")
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        STATES.refused(token, f"{resource}/{sub}" if sub else resource, verb)

    def found(self, resource: str, name: str) -> Object:
        one = STATES.current().get((resource, name))
        if one is None:
            raise Refusal(404, "NotFound", f'{resource} "{name}" not found')
        return one

    def listed(self, resource: str, query: dict[str, str]) -> Object:
        with STATES.lock:
            objects = STATES.current()
            version = str(STATES.version)
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        items = [one for (kind, _), one in objects.items() if kind == resource and selected(one, labels, fields)]
        kind = _KINDS[_VERSIONS[resource]][resource]
        head = {"kind": f"{kind}List", "apiVersion": _VERSIONS[resource], "metadata": {"resourceVersion": version}}
        return head | {"items": items}

    def create(self, path: str, resource: str, one: Object, query: dict[str, str]) -> None:
        namespace = path.partition("/namespaces/")[2].partition("/")[0]
        if namespace and resource != "namespaces" and ("namespaces", namespace) not in STATES.stored:
            raise Refusal(404, "NotFound", f'namespaces "{namespace}" not found')
        if "dryRun" in query:
            self.answer(one | {"metadata": one["metadata"] | {"uid": str(uuid4())}}, 201)
        else:
            self.answer(STATES.create(resource, one), 201)

    def respond_about_part(self, resource: str, name: str, sub: str, query: dict[str, str], body: bytes) -> None:
        if sub == "scale":
            if self.command != "GET":
                STATES.change(resource, name, {"spec": {"replicas": json.loads(body)["spec"]["replicas"]}})
            one = self.found(resource, name)
            head = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": one["metadata"]}
            self.answer(head | {"spec": {"replicas": one["spec"]["replicas"]}, "status": {"replicas": 1}})
        elif sub == "token":
            token = f"token-of-{name}-{uuid4().hex}"
            STATES.tokens[token] = name
            status = {"token": token, "expirationTimestamp": "2100-01-01T00:00:00Z"}
            head = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {"name": name}}
            self.answer(head | {"spec": {"audiences": []}, "status": status}, 201)
        elif sub == "log":
            self.log(name, query)
        elif sub == "portforward" and "SPDY" in self.headers.get("Upgrade", ""):
            self.forward(name)
        else:
            raise Refusal(400, "BadRequest", f"{sub} of {resource} expects SPDY/3.1")

    def log(self, name: str, query: dict[str, str]) -> None:
        if query.get("previous") == "true":
            raise Refusal(400, "BadRequest", f'previous terminated container in pod "{name}" not found')
        path = fake_kubectl.STATE / f"{name}.log"
        lines = path.read_text(errors="replace").splitlines(keepends=True) if path.exists() else []
        body = "".join(lines[-int(query.get("tailLines", len(lines) or 1)) :]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def watch(self, resource: str, query: dict[str, str]) -> None:
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        version, known = int(query.get("resourceVersion") or 0), set[Key]()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        end = time.monotonic() + float(query.get("timeoutSeconds", "3600"))
        while time.monotonic() < end:
            with STATES.lock:
                objects, newest = STATES.current(), STATES.version
                gone = [one for at, (kind, _), one in STATES.deleted if kind == resource and at > version]
            changes = [("DELETED", one) for one in gone if selected(one, labels, fields)]
            for (kind, name), one in objects.items():
                if kind == resource and selected(one, labels, fields):
                    if int(one["metadata"]["resourceVersion"]) > version:
                        changes.append(("MODIFIED" if (kind, name) in known else "ADDED", one))
                    known.add((kind, name))
            version = newest
            for kind, one in changes:
                line = json.dumps({"type": kind, "object": one}).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()
            time.sleep(_PAUSE)
        self.wfile.write(b"0\r\n\r\n")

    def forward(self, name: str) -> None:
        """Relay the connections of ``kubectl port-forward``: streams in pairs, one of errors and one of bytes."""
        pod = next(pod for pod in fake_kubectl.pods() if pod["name"] == name)
        self.send_response(101)
        self.send_header("Connection", "Upgrade")
        self.send_header("Upgrade", "SPDY/3.1")
        self.send_header("X-Stream-Protocol-Version", "portforward.k8s.io")
        self.end_headers()
        self.wfile.flush()
        Spdy(self.rfile, self.connection, (pod["address"], KubernetesSettings.PORT)).serve()
        self.close_connection = True


def discovery(path: str) -> Object | None:
    """What the server says about itself."""
    if path == "/version":
        return {"major": "1", "minor": "36", "gitVersion": "v1.36.2"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = []
        for version in [version for version in _KINDS if "/" in version]:
            group, _, number = version.partition("/")
            one = {"groupVersion": version, "version": number}
            groups.append({"name": group, "versions": [one], "preferredVersion": one})
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    for version, kinds in _KINDS.items():
        if path == (f"/apis/{version}" if "/" in version else f"/api/{version}"):
            resources: list[Object] = []
            for name, kind in kinds.items():
                one: Object = {
                    "name": name,
                    "singularName": kind.lower(),
                    "namespaced": name != "namespaces",
                    "kind": kind,
                }
                resources.append(one | {"verbs": _VERBS, "shortNames": _SHORT.get(name, [])})
            if "deployments" in kinds:
                scale = {"name": "deployments/scale", "group": "autoscaling", "version": "v1", "kind": "Scale"}
                resources.append(scale | {"namespaced": True, "singularName": "", "verbs": ["get", "patch", "update"]})
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}
    return openapi(path)


def openapi(path: str) -> Object | None:
    """Schemas of requests only: that the server validates fields, and has runs for trial."""
    paths = {(f"apis/{version}" if "/" in version else f"api/{version}"): version for version in _KINDS}
    if path == "/openapi/v3":
        return {"paths": {name: {"serverRelativeURL": f"/openapi/v3/{name}?hash=1"} for name in paths}}
    version = paths.get(path.removeprefix("/openapi/v3/"))
    if version is None:
        return None
    group, _, number = version.rpartition("/")
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in ("dryRun", "fieldValidation")]
    operations = {}
    for resource, kind in _KINDS[version].items():
        place = "" if resource == "namespaces" else "namespaces/{namespace}/"
        action = {"group": group, "version": number, "kind": kind}
        patch = {"x-kubernetes-group-version-kind": action, "parameters": parameters, "responses": {}}
        operations[f"{path.removeprefix('/openapi/v3')}/{place}{resource}/{{name}}"] = {"patch": patch}
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.2"}, "paths": operations}


class Server(ThreadingHTTPServer):
    """By TLS, since kubectl sends tokens by no other way."""

    daemon_threads = True

    def __init__(self, certificates: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "node.pem", certificates / "node-key.pem")
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def kubeconfig(port: int) -> Object:
    cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "trial", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": "admin"}}],
        "contexts": [{"name": "trial", "context": {"cluster": "trial", "user": "admin"}}],
        "current-context": "trial",
    }


def main() -> None:
    """Serve with the state of `fake_kubectl`, until killed."""
    folder = fake_kubectl.STATE
    folder.mkdir(parents=True, exist_ok=True)
    make_certificates(folder / "certificates")
    (folder / "secrets.json").write_text("{}")
    server = Server(folder / "certificates")
    new = folder / "kubeconfig.new"
    new.write_text(yaml.safe_dump(kubeconfig(server.server_address[1])))
    new.replace(folder / "kubeconfig")
    server.serve_forever()


if __name__ == "__main__":
    main()

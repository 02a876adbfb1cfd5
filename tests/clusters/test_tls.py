"""Mutual TLS: who has no certificate of the cluster's authority stays out."""

import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from distributed import Client

from calibdask.cli import main
from calibdask.cluster import cluster_spec
from calibdask.cluster.certificates import make_certificates
from calibdask.cluster.connecting import connected
from calibdask.cluster.security import Transport
from tests.clusters.dask_processes import PATIENCE, Processes, eventually, free_port, processes

NAME = "tests.study.sample_study:Walks"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls") / "certificates"
    assert main(["certs", str(folder), "--host", "node.example", "--host", "10.0.0.7"]) == 0
    return folder


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of another authority."""
    folder = tmp_path_factory.mktemp("strangers")
    make_certificates(folder)
    return folder


def test_certificates(certificates: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from cryptography import x509

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in certificates.iterdir()}
    assert modes == {"ca.pem": 0o644, "node.pem": 0o644, "node-key.pem": 0o600}
    assert stat.S_IMODE(certificates.stat().st_mode) == 0o700
    node, authority = (
        x509.load_pem_x509_certificate((certificates / f"{name}.pem").read_bytes()) for name in ("node", "ca")
    )
    node.verify_directly_issued_by(authority)
    names = node.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "node.example"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7"]
    before = (certificates / "node-key.pem").read_bytes()
    assert main(["certs", str(certificates)]) == 2
    assert "already" in capsys.readouterr().err
    assert (certificates / "node-key.pem").read_bytes() == before


@pytest.mark.parametrize(
    ("where", "tls", "insecure", "message"),
    [
        ("tcp://10.1.2.3:8786", None, False, "on another machine and without TLS"),
        ("tcp://scheduler:8786", None, False, "--insecure"),
        ("tls://127.0.0.1:1", None, False, "calibdask certs"),
        ("tls://127.0.0.1:1", "nowhere", False, "nowhere has no ca.pem, node.pem, node-key.pem"),
    ],
)
def test_what_is_refused(
    where: str, tls: str | None, insecure: bool, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CALIBDASK_TLS", raising=False)
    with pytest.raises(ValueError, match=message), cluster_spec(where, tls=tls, insecure=insecure).opened():
        pass


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tcp://[::1]:1", "tcp://localhost:1"])
def test_the_loopback_needs_no_certificates(address: str) -> None:
    assert Transport().security(address) is None
    assert Transport(insecure=True).security("tcp://10.1.2.3:1") is None


def test_a_variable_names_the_folder(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALIBDASK_TLS", str(certificates))
    security = Transport().security("tls://10.1.2.3:1")
    assert security.require_encryption
    assert security.tls_client_key == str(certificates.resolve() / "node-key.pem")


@pytest.mark.faults
def test_processes_of_this_machine_trust_only_one_another() -> None:
    """The loopback is shared by all users of a machine, and who talks to a scheduler or worker runs code in it."""
    with connected("local:2") as client:
        addresses = [client.scheduler.address, *client.scheduler_info()["workers"]]
        for address in addresses:
            assert address.startswith("tls://127.0.0.1:")
            with pytest.raises(OSError, match=r"Timed out|closed|refused"):
                Client(address.replace("tls://", "tcp://"), timeout=3)
        family = [psutil.Process(), *psutil.Process().children(recursive=True)]
        sockets = {(c.laddr.ip, c.laddr.port) for p in family for c in p.net_connections() if c.status == "LISTEN"}
        secured = {int(address.rpartition(":")[2]) for address in addresses}
        assert {ip for ip, _ in sockets} == {"127.0.0.1"}
        assert secured <= {port for _, port in sockets}
        assert {page(port, path) for _, port in sockets for path in ("/health", "/info/main/workers.html")} == {"none"}


def page(port: int, path: str) -> str:
    """What a browser of another user sees there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return str(answer.read())
    except OSError:  # 404 of the HTTP servers, a closed connection of those with TLS
        return "none"


@pytest.fixture(scope="module")
def cluster(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Processes, int]]:
    with processes(tmp_path_factory.mktemp("cluster"), tls=certificates) as started:
        port = free_port()
        started.scheduler(port)
        started.worker(port)
        yield started, port


@pytest.mark.faults
def test_who_belongs_is_served(cluster: tuple[Processes, int], certificates: Path, tmp_path: Path) -> None:
    started, port = cluster
    store = str(tmp_path / "cube.zarr")
    run = started.run(NAME, "--store", store, "--cluster", f"tls://127.0.0.1:{port}", "--tls", str(certificates))
    assert run.wait(PATIENCE) == 0, started.said("run")


@pytest.mark.faults
@pytest.mark.parametrize("who", ["plain client", "client of another authority"])
def test_other_clients_are_refused(
    who: str,
    cluster: tuple[Processes, int],
    strangers: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("calibdask.cluster.scheduler.SECONDS_TO_ANSWER", 3)
    _, port = cluster
    options = {
        "plain client": ["--cluster", f"tcp://127.0.0.1:{port}"],
        "client of another authority": ["--cluster", f"tls://127.0.0.1:{port}", "--tls", str(strangers)],
    }[who]
    store = tmp_path / "cube.zarr"
    assert main(["run", NAME, "--store", str(store), *options]) == 1
    assert "No scheduler answers" in capsys.readouterr().err
    assert not store.exists()


@pytest.mark.faults
@pytest.mark.parametrize("who", ["plain worker", "worker of another authority"])
def test_other_workers_are_refused(
    who: str, cluster: tuple[Processes, int], certificates: Path, strangers: Path, tmp_path: Path
) -> None:
    _, port = cluster
    with cluster_spec(f"tls://127.0.0.1:{port}", tls=str(certificates)).opened() as client:
        before = set(client.scheduler_info(n_workers=-1)["workers"])
        assert len(before) == 1
        with processes(tmp_path / "others", tls=strangers if who.endswith("authority") else None) as others:
            worker = others.worker(port, "--no-nanny", "--death-timeout", "5")
            eventually(lambda: worker.poll() is not None)
            assert worker.returncode != 0
        assert set(client.scheduler_info(n_workers=-1)["workers"]) == before


def test_help_names_the_options() -> None:
    command = [sys.executable, "-c", "import sys; from calibdask.cli import main; sys.exit(main())", "run", "--help"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert all(word in output for word in ("--tls FOLDER", "--insecure", "slurm, kubernetes", "--shard INDEX/COUNT"))

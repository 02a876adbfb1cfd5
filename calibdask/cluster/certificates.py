"""TLS certificates of a cluster: its own authority, and one certificate shared by all nodes."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from calibdask.cluster.security import AUTHORITY, CERTIFICATE, KEY, Transport
from calibdask.extras import check_extra

_SECRET, _PUBLIC = 0o600, 0o644
_MOST_DAYS = 36_500


def make_certificates(folder: str | Path, hosts: Sequence[str] = (), days: int = 365) -> list[Path]:
    """Write ``ca.pem``, ``node.pem`` and ``node-key.pem``.

    The scheduler, the workers and the client of a cluster authenticate with the same certificate. The key of the
    authority is discarded, so nobody can issue further certificates that this cluster trusts.

    Parameters
    ----------
    folder : path
        Created if missing, without access for other users; the permissions of an existing one are kept.
    hosts : sequence of str
        Names and addresses in the certificate besides ``localhost``. Dask does not verify them.
    days : int, default 365
        Validity of the certificates.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    ValueError
        If one of the files exists; if the number of days is out of range.
    calibdask.errors.NotInstalled
        If the package cryptography is not installed.
    """
    check_extra("cluster")
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import ExtendedKeyUsageOID

    if not 1 <= days <= _MOST_DAYS:
        raise ValueError(f"days expects a number from 1 to {_MOST_DAYS}, got {days}.")
    folder = Path(folder)
    files = [folder / name for name in (AUTHORITY, CERTIFICATE, KEY)]
    if existing := [path.name for path in files if path.exists()]:
        raise ValueError(f"{folder} has {', '.join(existing)} already; remove them first, or choose another folder.")
    authority_key, key = _new_key(), _new_key()
    authority_name, name = _named("calibdask authority"), _named("calibdask node")
    authority = (
        _builder(authority_name, authority_name, authority_key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(sign=True), critical=True)
        .sign(authority_key, _hash())
    )
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    alternatives = x509.SubjectAlternativeName([_alternative(host) for host in ("localhost", *hosts)])
    node = (
        _builder(name, authority_name, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(alternatives, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, _hash())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    contents = (authority.public_bytes(Encoding.PEM), node.public_bytes(Encoding.PEM), secret)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; expected a folder.")
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    for path, content, mode in zip(files, contents, (_PUBLIC, _PUBLIC, _SECRET), strict=True):
        _write(path, content, mode)
    return files


@contextmanager
def temporary_certificates(parent: str | Path | None = None) -> Iterator[Any]:
    """Certificates for one cluster, which are removed at the end of the block, as a ``distributed.Security``.

    Parameters
    ----------
    parent : path, optional
        Folder in which they are created, in a folder that other users cannot read; by default that of temporary files.
    """
    with TemporaryDirectory(prefix=".calibdask-tls-", dir=parent) as folder:
        make_certificates(folder)
        yield Transport(folder).certificates()


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _hash() -> Any:
    from cryptography.hazmat.primitives.hashes import SHA256

    return SHA256()


def _named(name: str) -> Any:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _builder(subject: Any, issuer: Any, key: Any, days: int) -> Any:
    """A certificate without extensions so far, valid from ten minutes ago because clocks differ."""
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=10))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, sign: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not sign,
        key_cert_sign=sign,
        crl_sign=sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Create a file with its permissions from the start, so that it is never readable by others."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)

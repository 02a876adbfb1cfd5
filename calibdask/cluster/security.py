"""Security of connections: mutual TLS beyond this machine, none on the loopback."""

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Files of a folder of certificates.
AUTHORITY, CERTIFICATE, KEY = "ca.pem", "node.pem", "node-key.pem"
_VARIABLE = "CALIBDASK_TLS"


@dataclass(frozen=True)
class Transport:
    """Certificates for connections, or permission to do without.

    Parameters
    ----------
    folder : str, optional
        Folder with the certificates; by default the folder named by the variable ``CALIBDASK_TLS``, or the files of
        Dask's configuration.
    insecure : bool, default False
        Whether connections beyond this machine may do without TLS.
    """

    folder: str | None = None
    insecure: bool = False

    def security(self, address: str) -> Any:
        """Security of a client of this address; None on the loopback and where insecure connections are allowed.

        Raises
        ------
        ValueError
            If the address is beyond this machine and has no TLS; if certificates are missing.
        """
        if address.startswith("tls://"):
            certificates = self.certificates()
            if certificates is None:
                raise ValueError(
                    f"{address} expects certificates: create them with 'calibdask certs FOLDER', start the scheduler "
                    f"and its workers with them, and give --tls FOLDER (or {_VARIABLE}=FOLDER)."
                )
            return certificates
        if not self.insecure and not _on_loopback(address):
            raise ValueError(
                f"{address} is on another machine and without TLS: anybody who can reach that port can run any code. "
                "Start the scheduler with certificates (calibdask certs) and give tls://, or give --insecure."
            )
        return None

    def certificates(self) -> Any:
        """The certificates as a ``distributed.Security`` with mutual authentication; None where none are given.

        Raises
        ------
        ValueError
            If the folder lacks one of them.
        """
        from distributed import Security

        folder = self.folder or os.environ.get(_VARIABLE)
        if not folder:
            configured: Any = Security(require_encryption=True)
            return configured if configured.tls_ca_file else None
        authority, certificate, key = (Path(folder).resolve() / name for name in (AUTHORITY, CERTIFICATE, KEY))
        missing = [path.name for path in (authority, certificate, key) if not path.is_file()]
        if missing:
            raise ValueError(f"{folder} has no {', '.join(missing)}; make certificates by 'calibdask certs {folder}'.")
        roles = ("client", "scheduler", "worker")
        files = {f"tls_{role}_cert": str(certificate) for role in roles}
        files |= {f"tls_{role}_key": str(key) for role in roles}
        return Security(require_encryption=True, tls_ca_file=str(authority), **files)


def _on_loopback(address: str) -> bool:
    host = address.partition("://")[2].rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

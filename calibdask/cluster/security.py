"""How connections are secured: mutual TLS beyond this machine, nothing on the loopback."""

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["AUTHORITY", "CERTIFICATE", "KEY", "Transport"]

# What a folder of certificates holds.
AUTHORITY, CERTIFICATE, KEY = "ca.pem", "node.pem", "node-key.pem"
_VARIABLE = "CALIBDASK_TLS"


@dataclass(frozen=True)
class Transport:
    """Certificates, or the word that there need be none.

    Parameters
    ----------
    folder : str, optional
        With the certificates; None: that of the variable ``CALIBDASK_TLS``, or the files of Dask's configuration.
    insecure : bool, default False
        Whether connections beyond this machine may do without.
    """

    folder: str | None = None
    insecure: bool = False

    def security(self, address: str) -> Any:
        """What a client of this address needs; None on the loopback and where it may be insecure.

        Raises
        ------
        ValueError
            If the address is beyond this machine and without TLS, which is refused; if certificates are missing.
        """
        if address.startswith("tls://"):
            found = self.found()
            if found is None:
                raise ValueError(
                    f"{address} expects certificates: make them by 'calibdask certs FOLDER', start the scheduler and "
                    f"its workers with them, and give --tls FOLDER (or {_VARIABLE}=FOLDER)."
                )
            return found
        if not self.insecure and not _on_loopback(address):
            raise ValueError(
                f"{address} is beyond this machine and without TLS: whoever reaches that port runs any code. Start the "
                "scheduler with certificates (calibdask certs) and give tls://, or say --insecure."
            )
        return None

    def found(self) -> Any:
        """The certificates as distributed has them, both ends to be proven; None where none are named.

        Raises
        ------
        ValueError
            If the folder does not hold all of them.
        """
        from distributed import Security

        folder = self.folder or os.environ.get(_VARIABLE)
        if not folder:
            configured: Any = Security(require_encryption=True)
            return configured if configured.tls_ca_file else None
        authority, certificate, key = (Path(folder).resolve() / name for name in (AUTHORITY, CERTIFICATE, KEY))
        missing = [each.name for each in (authority, certificate, key) if not each.is_file()]
        if missing:
            raise ValueError(f"{folder} has no {', '.join(missing)}; make certificates by 'calibdask certs {folder}'.")
        roles = ("client", "scheduler", "worker")
        certificates = {f"tls_{role}_cert": str(certificate) for role in roles}
        keys = {f"tls_{role}_key": str(key) for role in roles}
        return Security(require_encryption=True, tls_ca_file=str(authority), **certificates, **keys)


def _on_loopback(address: str) -> bool:
    host = address.partition("://")[2].rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

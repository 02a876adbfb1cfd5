"""Sockets of real processes, and what deploy/README.md says of them."""

import urllib.error
import urllib.request
from contextlib import suppress

import psutil

from tests.clusters.dask_processes import ROOT

# Of a server its address and what is spoken there.
Sockets = set[tuple[str, str]]


def documented() -> dict[str, Sockets]:
    """The rows of the table, by their mode."""
    text = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    section = text.partition("### What listens")[2].partition("\n## ")[0]
    table: dict[str, Sockets] = {}
    for line in section.splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0] not in ("mode", "---"):
            served = table.setdefault(cells[0], set())
            if cells[2] != "nothing":
                served.add((cells[2], cells[3]))
    return table


def spoken(port: int) -> str:
    """What answers at a port of the loopback to somebody who has no certificate."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10):
            return "HTTP, probes"
    except urllib.error.HTTPError as error:
        # That server has headers for all answers, also to what it does not have.
        return "HTTP, pages" if "Content-Security-Policy" in error.headers else "HTTP, no pages"
    except OSError:
        return "mutual TLS"


def ports(*pids: int) -> set[tuple[str, int]]:
    """Where processes and their children listen."""
    found = set()
    for pid in pids:
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            # A helper of a nanny that ended since it was listed does not listen.
            with suppress(psutil.NoSuchProcess):
                found |= {(c.laddr.ip, c.laddr.port) for c in process.net_connections("inet") if c.status == "LISTEN"}
    return found


def sockets(*pids: int) -> Sockets:
    """Addresses where processes and their children listen, and what is spoken there."""
    return {(address, spoken(port)) for address, port in ports(*pids)}

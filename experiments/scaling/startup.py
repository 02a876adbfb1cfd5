"""What a process costs that has done nothing yet: importing, and its first evaluation."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from experiments.scaling.tables import Table

__all__ = ["measured"]

# Packages that `import calibdask` leaves alone until they are needed.
_HEAVY = ("dask", "distributed", "xarray", "hvplot", "numba", "pandas", "scipy", "sklearn", "zarr")

_IMPORT = """
import sys, time
start = time.perf_counter()
import calibdask
seconds = time.perf_counter() - start
compiled = 0
"""
# Events tell what is compiled, not what is read from disk.
_PANEL = """
import sys, time
start = time.perf_counter()
from numba.core import event
from experiments.scaling.panel import evaluated
from experiments.scaling.store import drawn
with event.install_recorder("numba:compile") as recorder:
    evaluated(*drawn(0, 1000, 10))
seconds = time.perf_counter() - start
compiled = sum(each.is_start for _, each in recorder.buffer)
"""
_TELL = """
import json
print(json.dumps({"seconds": seconds, "compiled": compiled, "loaded": [each for each in HEAVY if each in sys.modules]}))
"""


def measured(rounds: int) -> Table:
    """Fresh processes, one after the other; that without compiled kernels on disk only once."""
    with tempfile.TemporaryDirectory() as folder:
        empty = os.environ | {"NUMBA_CACHE_DIR": folder}
        _told(_IMPORT, empty)
        found = [
            _row("import calibdask", [_told(_IMPORT, empty) for _ in range(rounds)]),
            _row("the panel, nothing compiled", [_told(_PANEL, empty)]),
            _row("the panel, in a second process", [_told(_PANEL, empty) for _ in range(rounds)]),
        ]
    about = (
        "Seconds of a process from its first import (medians), functions that it compiled, and which of "
        f"{', '.join(_HEAVY)} it loaded."
    )
    return Table(about, found, {"seconds": {"import calibdask": 0.5}, "compiled": {found[2]["process"]: 0.0}})


def _told(code: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """What a process says of itself."""
    code += f"HEAVY = {_HEAVY!r}" + _TELL
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _row(name: str, told: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "process": name,
        "runs": len(told),
        "seconds": statistics.median(each["seconds"] for each in told),
        "compiled": max(each["compiled"] for each in told),
        "loads": ", ".join(told[0]["loaded"]) or "none",
    }

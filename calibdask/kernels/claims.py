"""Locks by which one process compiles a kernel while others wait for its file."""

import contextlib
import sys
import time
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

# In steps of 20 ms: longer than any kernel takes, should a file system never give a lock back.
_STEPS, _STEP = 3000, 0.02


class Claim:
    """The right to compile a kernel, which workers of a machine would otherwise all do at once.

    Nobody waits longer than a minute, nor where files cannot be locked: the kernel is compiled twice then, which costs
    time and nothing else. A process that dies gives its claim back.

    Parameters
    ----------
    folder : pathlib.Path
        Where the kernel will be written.
    name : str
        The name of its file.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f".{name}.claim"
        self._file = self._locked()

    def release(self) -> None:
        """Let others look for what has been written."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            self._file.close()
            self._file = None

    def _locked(self) -> IO[bytes] | None:
        if sys.platform == "win32":
            return None
        try:
            file = self._path.open("ab")
        except OSError:
            return None
        for _ in range(_STEPS):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            except BlockingIOError:
                time.sleep(_STEP)
            except OSError:
                break
        file.close()
        return None

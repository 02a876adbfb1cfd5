"""How numba compiles kernels and keeps them on disk: imported when the first kernel is called."""

import contextlib
import hashlib
import marshal
import os
import pickle
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from typing import IO, Any, NamedTuple

import numba
from numba.core import serialize, types
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys
from numba.extending import typeof_impl

from calibdask.kernels.compilation import notify_compilation
from calibdask.kernels.compiled import CompiledKernel

if sys.platform != "win32":
    import fcntl

# In steps of 20 ms: longer than any kernel takes, should a file system never give a lock back.
_STEPS, _STEP = 3000, 0.02


class Claim:
    """The right to compile a kernel, which workers of a machine would otherwise all do at once.

    A process waits at most a minute, and not at all where files cannot be locked: then the kernel is compiled twice,
    which only costs time. The claim of a process that dies is released.

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


_PACKAGE = Path(__file__).parent
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_CHECKSUM_BYTES = 32


class Folders(NamedTuple):
    """Where kernels are looked for, and where they are written: None where nothing may be written.

    One folder for each state of all kernel sources: a kernel that inlines a function of another file would become
    stale with it.
    """

    read: tuple[Path, ...]
    write: Path | None

    @classmethod
    def chosen(cls, given: str) -> "Folders":
        """That ``given`` by NUMBA_CACHE_DIR alone; else beside the sources, else in the folder for caches.

        What whoever installed the package has compiled beside the sources is read where nothing is given.
        """
        bases = [Path(given).absolute()] if given else [_beside_sources(), *_for_caches()]
        folders = [base / _name() for base in bases]
        write = next(filter(_is_writable, folders), None)
        shared = [] if given else [_beside_sources() / _name()]
        return cls(tuple(dict.fromkeys([*([] if write is None else [write]), *shared])), write)


def loaded(folder: Path, name: str) -> bytes | None:
    """Content of a cached file; None unless only this user could write it and its checksum fits its name.

    Machine code with a single flipped bit may compute other numbers, or crash.
    """
    try:
        with (folder / name).open("rb") as file:
            if not (_is_private(os.fstat(file.fileno())) and _is_private(folder.stat())):
                return None
            checksum, content = file.read(_CHECKSUM_BYTES), file.read()
    except OSError:
        return None
    return content if checksum == _checksum(folder, name, content) else None


def saved(folder: Path, name: str, content: bytes) -> None:
    """Write a file behind its checksum, whole or not at all.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    handle, part = tempfile.mkstemp(dir=folder, prefix=f".{name}")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_checksum(folder, name, content))
            file.write(content)
            # Otherwise a power cut may leave the new name with an empty file.
            file.flush()
            os.fsync(file.fileno())
        # As readable as the folder that it is in.
        os.chmod(part, stat.S_IMODE(folder.stat().st_mode) & 0o644)
        os.replace(part, folder / name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def _checksum(folder: Path, name: str, content: bytes) -> bytes:
    """Of the names too, since a kernel of other sources or types is as wrong as a damaged one."""
    checksum = hashlib.blake2b(f"{folder.name}/{name}\n".encode(), digest_size=_CHECKSUM_BYTES)
    checksum.update(content)
    return checksum.digest()


def _beside_sources() -> Path:
    return _PACKAGE / "__pycache__"


def _for_caches() -> list[Path]:
    """The user's folder for caches, if there is a home."""
    given = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    if given:
        return [Path(given) / "calibdask"]
    try:
        return [Path.home() / ".cache" / "calibdask"]
    except RuntimeError:
        return []


@cache
def _name() -> str:
    sources = b"".join(path.read_bytes() for path in sorted(_PACKAGE.glob("*.py")))
    return f"calibdask-{hashlib.sha256(sources).hexdigest()[:16]}"


def _is_writable(folder: Path) -> bool:
    """Whether the folder is there, made if it was not, and only this user can write to it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Beside the sources others may read what is compiled, as they read these; elsewhere it is the user's own.
        folder.mkdir(mode=0o755 if folder.parent == _beside_sources() else 0o700, exist_ok=True)
        return _is_private(folder.stat()) and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False


def _is_private(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user, root or the package owner, and others cannot write to it."""
    if not hasattr(os, "getuid"):
        return True
    trusted = {os.getuid(), 0, _PACKAGE.stat().st_uid}
    return status.st_uid in trusted and not status.st_mode & _OTHERS_WRITE


# Never fastmath: it may assume that no NaN exists and reorder sums. Divisions by 0 are those of NumPy: Python's error
# would be a branch in every loop that divides.
_OPTIONS: Any = {"nogil": True, "error_model": "numpy"}
# Nobody but other kernels calls them, so they need no entry from Python or C.
_INLINED: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# Numba sets the names of its configuration as it reads the environment.
_numba_config: Any = numba.config

_lock = Lock()


def dispatcher(kernel: CompiledKernel) -> Callable[..., Any]:
    """The function that compiles a kernel for the types that it is called with, or takes it from the disk."""
    with _lock:
        # Threads may have waited for the same one.
        if "dispatcher" not in kernel.__dict__:
            options = {**_OPTIONS, **(_INLINED if kernel.inlined else {}), **kernel.options}
            jitted: Any = numba.njit(**options)(kernel.function)
            if not kernel.inlined:
                jitted._cache = _KernelCache(kernel.function)
            kernel.__dict__["dispatcher"] = jitted
        made: Callable[..., Any] = kernel.__dict__["dispatcher"]
        return made


@typeof_impl.register(CompiledKernel)
def _type_of_kernel(kernel: CompiledKernel, _context: Any) -> types.Type:
    """Within a kernel, another one is what numba makes of it."""
    jitted: Any = kernel.dispatcher
    return types.Dispatcher(jitted)


@cache
def folders() -> Folders:
    """Where kernels are looked for, and written."""
    return Folders.chosen(_numba_config.CACHE_DIR)


@cache
def _warn_not_kept() -> None:
    warnings.warn(
        "Compiled kernels cannot be kept: neither the folder of the package nor that for caches can be written by this "
        "user alone, so every process compiles them again. Set NUMBA_CACHE_DIR to a private folder.",
        stacklevel=2,
    )


def _cached(name: str, target: Any) -> CompileResult | None:
    """Load a compiled kernel from the folders; None if none has it."""
    for folder in folders().read:
        content = loaded(folder, name)
        if content is not None:
            compiled: CompileResult = CompileResult._rebuild(target, *pickle.loads(content))
            return compiled
    return None


class _KernelCache:
    """The compiled variants of a kernel on disk, in the place of numba's cache of a function.

    Numba's raises where nothing can be written, loads what anybody may have written, and two processes may mix up
    their entries; here each variant is a file by itself.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        # The folder is named for the kernels of the package; others have sources of their own.
        source = Path(function.__code__.co_filename)
        self._source = source.read_bytes() if source.is_file() else marshal.dumps(function.__code__)
        self.cache_path = str(folders().write)
        # Of what is being compiled; what could not be compiled keeps its own.
        self._claims: dict[str, Claim] = {}

    def load_overload(self, signature: Any, target: Any) -> CompileResult | None:
        """Load the kernel compiled for these types and this processor; None if it must be compiled."""
        # Nothing is compiled here, so that numba's implementations of functions, half a second of imports, can wait.
        rtsys.initialize(target)
        name = self._file_name(signature, target.codegen())
        found = _cached(name, target)
        folder = folders().write
        if found is None and folder is not None and name not in self._claims:
            self._claims[name] = Claim(folder, name)
            # Whoever had the claim before has written it.
            found = _cached(name, target)
            if found is not None:
                self._claims.pop(name).release()
        if found is None:
            notify_compilation(self._function.__name__)
        return found

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what has been compiled, if a folder can be written."""
        folder, name = folders().write, self._file_name(signature, compiled.codegen)
        try:
            if compiled.library.has_dynamic_globals:
                kernel = self._function.__qualname__
                raise TypeError(f"The kernel {kernel} refers to large arrays, or code at addresses.")
            if folder is None:
                raise PermissionError
            saved(folder, name, serialize.dumps(compiled._reduce()))
        except OSError:
            _warn_not_kept()
        finally:
            if name in self._claims:
                self._claims.pop(name).release()

    def enable(self) -> None:
        """Numba's interface; it is always enabled."""

    def disable(self) -> None:
        """Numba's interface; it is always enabled."""

    def flush(self) -> None:
        """Numba's interface; files are named for the sources that they are compiled from."""

    def _file_name(self, signature: Any, codegen: Any) -> str:
        function = f"{self._function.__module__.rpartition('.')[-1]}.{self._function.__qualname__}"
        made_for = (str(signature), codegen.magic_tuple(), numba.__version__, sys.version_info[:3], self._source)
        return f"{function}-{hashlib.sha256(repr(made_for).encode()).hexdigest()[:16]}"

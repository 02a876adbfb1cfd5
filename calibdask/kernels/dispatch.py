"""How numba compiles kernels and keeps them on disk: imported when the first kernel is called."""

import hashlib
import marshal
import pickle
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import numba
from numba.core import serialize, types
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys
from numba.extending import typeof_impl

from calibdask.kernels.claims import Claim
from calibdask.kernels.compilation import notify_compilation
from calibdask.kernels.compiled import CompiledKernel
from calibdask.kernels.folders import Folders, loaded, saved

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
        "user alone, so every process compiles them again. Set NUMBA_CACHE_DIR to a folder of your own.",
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

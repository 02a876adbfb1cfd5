"""Studies by name: a folder with a ``study.py``, or ``module:object``."""

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from calibdask.study.study import Study

__all__ = ["load_study"]


def load_study(name: str) -> Study:
    """The study that a folder or ``module:object`` holds, with its own values of parameters.

    Naming a study runs its code: do not name one from a place that you do not trust.

    Parameters
    ----------
    name : str
        A folder with a file ``study.py`` that holds one study; or the name of a module and of a study in it.

    Raises
    ------
    ValueError
        If there is no such module or object, or it is no study.
    """
    folder = Path(name)
    if folder.is_dir():
        if not (folder / "study.py").is_file():
            raise ValueError(f"{name} expects a file study.py, and has none.")
        return _made(_only(_of_folder(folder.resolve()), name), name)
    module, colon, word = name.partition(":")
    if not colon or not module or not word:
        raise ValueError(f"Expected a folder with a study.py, or module:object, as the study, got {name!r}.")
    # As Python itself does for a script: modules of the folder where one works are there.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), word)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"There is no study {name!r}: {error}.") from error
    return _made(found, name)


def _of_folder(folder: Path) -> ModuleType:
    """The module, imported under a name that other processes find too: that from the folder above the package."""
    if not folder.name.isidentifier():
        raise ValueError(f"The folder of a study expects a name that Python can import, got {folder.name!r}.")
    parts = [folder.name]
    root = folder.parent
    if (root / "__init__.py").exists() or root.name == "experiments":
        parts, root = [root.name, *parts], root.parent
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    name = ".".join([*parts, "study"])
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise _other(folder, parts[0]) from error
    if module.__file__ is None or Path(module.__file__).resolve().parent != folder:
        raise _other(folder, parts[0])
    return module


def _other(folder: Path, name: str) -> ValueError:
    return ValueError(f"Python knows another module {name!r} than that of {folder}; give the folder another name.")


def _only(module: ModuleType, name: str) -> Any:
    """The one study that the module defines."""
    own = [
        each
        for each in vars(module).values()
        if inspect.isclass(each) and issubclass(each, Study) and each.__module__ == module.__name__
    ]
    if len(own) != 1:
        words = ", ".join(each.__name__ for each in own) or "none"
        raise ValueError(f"{name}/study.py expects one study, has {words}; name it as module:object.")
    return own[0]


def _made(found: Any, name: str) -> Study:
    try:
        made = found() if inspect.isclass(found) and issubclass(found, Study) else found
    except TypeError as error:
        raise ValueError(f"{name} expects a default for every parameter of its study: {error}.") from error
    if not isinstance(made, Study):
        raise ValueError(f"{name} expects a cd.Study, got {found!r}.")
    return made

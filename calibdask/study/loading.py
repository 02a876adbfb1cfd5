"""Loading a study by name: a folder with a ``study.py``, or ``module:object``."""

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from calibdask.study.study import Study


def load_study(name: str) -> Study:
    """Load the study of a folder or of ``module:object``, with its default parameters.

    Loading a study executes its code: do not load studies from untrusted sources.

    Parameters
    ----------
    name : str
        A folder with a file ``study.py`` that defines one study; or the names of a module and of a study in it.

    Raises
    ------
    ValueError
        If there is no such module or object, or it is not a study.
    """
    folder = Path(name)
    if folder.is_dir():
        if not (folder / "study.py").is_file():
            raise ValueError(f"{name} has no file study.py.")
        return _instance(_only_study(_folder_module(folder.resolve()), name), name)
    module, colon, word = name.partition(":")
    if not colon or not module or not word:
        raise ValueError(f"Expected a folder with a study.py, or module:object, as the study, got {name!r}.")
    # As Python does for scripts: modules of the current folder can be imported.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        target = getattr(importlib.import_module(module), word)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"There is no study {name!r}: {error}.") from error
    return _instance(target, name)


def _folder_module(folder: Path) -> ModuleType:
    """The module, imported by a name that other processes can import too, relative to the folder above the package."""
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
        raise _name_conflict(folder, parts[0]) from error
    if module.__file__ is None or Path(module.__file__).resolve().parent != folder:
        raise _name_conflict(folder, parts[0])
    return module


def _name_conflict(folder: Path, name: str) -> ValueError:
    return ValueError(f"Python finds another module {name!r} than that of {folder}; give the folder another name.")


def _only_study(module: ModuleType, name: str) -> Any:
    """The single study that the module defines."""
    own = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Study) and value.__module__ == module.__name__
    ]
    if len(own) != 1:
        names = ", ".join(study.__name__ for study in own) or "none"
        raise ValueError(f"{name}/study.py expects one study, has {names}; name it as module:object.")
    return own[0]


def _instance(target: Any, name: str) -> Study:
    try:
        study = target() if inspect.isclass(target) and issubclass(target, Study) else target
    except TypeError as error:
        raise ValueError(f"{name} expects a default for every parameter of its study: {error}.") from error
    if not isinstance(study, Study):
        raise ValueError(f"{name} expects a cd.Study, got {target!r}.")
    return study

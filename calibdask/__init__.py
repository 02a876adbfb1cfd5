"""Calibration of classifiers, measured exactly on data of any size."""

import sys
from importlib import import_module

import lazy_loader

__version__ = "1.0.0rc1"

# __init__.pyi declares the public names; a module is imported when one of its names is first used.
_public_name, __dir__, _public_names = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    value = _public_name(name)
    # What computes results imports xarray: from then on, results have the accessor `calib`.
    if "xarray" in sys.modules and f"{__name__}.accessor" not in sys.modules:
        import_module(f"{__name__}.accessor")
    return value


__all__ = ["__version__", *(name for name in _public_names if name != "testing")]  # noqa: PLE0604

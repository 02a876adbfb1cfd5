"""Calibration of classifiers, measured exactly on data of any size."""

import lazy_loader

__version__ = "0.1.0"

# __init__.pyi declares the public names; a module is imported when one of its names is first used.
__getattr__, __dir__, _public_names = lazy_loader.attach_stub(__name__, __file__)

__all__ = ["__version__", *(name for name in _public_names if name != "testing")]  # noqa: PLE0604

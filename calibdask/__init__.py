"""Calibration of classifiers, measured exactly on data of any size."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> module. Importing calibdask imports none of them; the first use does.
_MODULES = {
    "BrierDecomposition": "estimators.decompositions",
    "BrierScore": "estimators.scores",
    "ECE": "estimators.ece",
    "LogLoss": "estimators.scores",
    "MCE": "estimators.ece",
    "MulticlassECE": "estimators.multiclass",
    "ReliabilityDiagram": "estimators.diagram",
    "brier_score": "shorthands",
    "default_metrics": "estimators.panel",
    "ece": "shorthands",
    "ece_a": "estimators.ece",
    "ece_ac": "estimators.ece",
    "ece_c": "estimators.ece",
    "ece_l": "estimators.ece",
    "evaluate": "evaluation",
    "log_loss": "shorthands",
    "mce": "shorthands",
    "reliability_diagram": "shorthands",
}

__all__ = ["__version__", *_MODULES]  # noqa: PLE0604

if TYPE_CHECKING:
    from calibdask.estimators.decompositions import BrierDecomposition as BrierDecomposition
    from calibdask.estimators.diagram import ReliabilityDiagram as ReliabilityDiagram
    from calibdask.estimators.ece import ECE as ECE
    from calibdask.estimators.ece import MCE as MCE
    from calibdask.estimators.ece import ece_a as ece_a
    from calibdask.estimators.ece import ece_ac as ece_ac
    from calibdask.estimators.ece import ece_c as ece_c
    from calibdask.estimators.ece import ece_l as ece_l
    from calibdask.estimators.multiclass import MulticlassECE as MulticlassECE
    from calibdask.estimators.panel import default_metrics as default_metrics
    from calibdask.estimators.scores import BrierScore as BrierScore
    from calibdask.estimators.scores import LogLoss as LogLoss
    from calibdask.evaluation import evaluate as evaluate
    from calibdask.shorthands import brier_score as brier_score
    from calibdask.shorthands import ece as ece
    from calibdask.shorthands import log_loss as log_loss
    from calibdask.shorthands import mce as mce
    from calibdask.shorthands import reliability_diagram as reliability_diagram


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'calibdask' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"calibdask.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

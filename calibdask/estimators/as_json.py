"""Estimators as JSON: class names and parameters, for programs that read results."""

import json
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from calibdask.statistics.frozen import FrozenArray


def as_json(estimator: Any) -> str:
    """JSON with the name of the class and its parameters, nested objects included.

    Examples
    --------
    >>> import calibdask as cd
    >>> as_json(cd.BrierScore())
    '{"name": "BrierScore", "parameters": {"reduction": "auto"}}'
    """
    return json.dumps(_plain(estimator), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, FrozenArray):
        return value.values.tolist()
    if is_dataclass(value) and not isinstance(value, type):
        parameters = {field.name: _plain(getattr(value, field.name)) for field in fields(value) if field.init}
        return {"name": type(value).__name__.lstrip("_"), "parameters": parameters}
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return repr(value)
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)

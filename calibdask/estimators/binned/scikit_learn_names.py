"""scikit-learn's names of the options of bins: ``n_bins`` and ``strategy``."""

import functools
from collections.abc import Mapping
from typing import Any, TypeVar

ALIASES = {"n_bins": "bins", "strategy": "binning"}
_STRATEGIES = {"uniform": "uniform", "quantile": "equal-mass"}

Class = TypeVar("Class", bound=type)


def translated(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options by the names that estimators have.

    Raises
    ------
    TypeError
        If an option is given by both of its names.
    ValueError
        If the strategy is neither that of bins of equal widths nor that of bins of equal masses.

    Examples
    --------
    >>> translated({"n_bins": 10, "strategy": "quantile", "norm": "l2"})
    {'norm': 'l2', 'bins': 10, 'binning': 'equal-mass'}
    """
    result = {name: value for name, value in options.items() if name not in ALIASES}
    for alias, name in ALIASES.items():
        if alias not in options:
            continue
        if name in options:
            raise TypeError(f"{alias} is scikit-learn's name of {name}; give one of them, not both.")
        result[name] = _binning(options[alias]) if name == "binning" else options[alias]
    return result


def understands_scikit_learn(cls: Class) -> Class:
    """Let a class of estimators with bins be constructed by scikit-learn's names as well.

    Examples
    --------
    >>> import calibdask as cd
    >>> cd.ECE(n_bins=10, strategy="quantile") == cd.ECE(bins=10, binning="equal-mass")
    True
    """
    construct: Any = vars(cls)["__init__"]

    # The signature stays that of the class: the aliases are understood, not documented options.
    @functools.wraps(construct)
    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        construct(self, *arguments, **translated(options))

    cls.__init__ = __init__  # type: ignore[misc]
    return cls


def _binning(strategy: Any) -> str:
    if not isinstance(strategy, str) or strategy not in _STRATEGIES:
        raise ValueError(
            f"strategy expects 'uniform' (binning='uniform') or 'quantile' (binning='equal-mass'), got {strategy!r}."
        )
    return _STRATEGIES[strategy]

r"""Presets that reproduce the numbers of other tools.

Parameters that ``compat`` sets unless they are given:

==================  ====================  ====================  ====================  ===========================
\                   scikit-learn          netcal                torchmetrics          euranova
==================  ====================  ====================  ====================  ===========================
``bins``            5                     10                    15                    10
``closed``          right                 left                  left                  left
``range``           (0, 1)                (0, 1)                (0, 1)                (1/K, 1) for confidence [a]_
uniform edges       linspace              linspace              torch.linspace, and   bin floor(s * bins) on [0, 1]
                                                                a bin of its own for  (hard mapping)
                                                                s = 1
equal-mass edges    linear percentiles,   linear percentiles,   as by default         floor(n / bins) rows a bin,
                    duplicates stay       duplicates stay                             the remainder in the last,
                                                                                      duplicates stay
``ece_c, ece_ac``   convex                convex                convex                inverted [b]_
==================  ====================  ====================  ====================  ===========================

.. [a] The code of Posocco & Bonnefoy (euranova/estimating_eces): centres of confidence bins, and the outer edges of
   equal-mass ones, span [1/K, 1]; uniform bins under the hard mapping span [0, 1].
.. [b] Not reproduced: there a score exactly on the first centre goes to the last bin.

netcal clips scores to [eps, 1 - eps] before averaging, which changes its numbers by less than eps; where equal-mass
edges coincide it raises an error. torchmetrics casts confidences of several classes to float32; pass float32 scores to
reproduce its edges.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

Compat = Literal["scikit-learn", "netcal", "torchmetrics", "euranova"]

DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "bins": 15,
        "closed": "right",
        "uniform_rule": "division",
        "equal_mass_rule": "spread",
        "spread_over_support": False,
    }
)

# Where each tool differs from the defaults. `spread_over_support`: confidence bins span [1/K, 1], not [0, 1].
COMPAT: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "scikit-learn": {"bins": 5, "uniform_rule": "linspace", "equal_mass_rule": "percentile"},
        "netcal": {"bins": 10, "closed": "left", "uniform_rule": "linspace", "equal_mass_rule": "percentile"},
        "torchmetrics": {"bins": 15, "closed": "left", "uniform_rule": "phantom"},
        "euranova": {
            "bins": 10,
            "closed": "left",
            "uniform_rule": "floor",
            "equal_mass_rule": "last",
            "spread_over_support": True,
        },
    }
)


def choices(compat: str | None) -> Mapping[str, Any]:
    """All choices under a preset; the defaults without one.

    Raises
    ------
    ValueError
        If there is no preset of that name.
    """
    if compat is None:
        return DEFAULTS
    if compat not in COMPAT:
        raise ValueError(f"compat expects one of {', '.join(map(repr, COMPAT))} or None, got {compat!r}.")
    return {**DEFAULTS, **COMPAT[compat]}

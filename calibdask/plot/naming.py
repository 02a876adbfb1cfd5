"""Axis names of reliability pictures; for predicted classes, confidence and accuracy."""

import xarray as xr

from calibdask.plot.style import ACCURACY, CONFIDENCE, FREQUENCY, MEAN_SCORE, SCORE
from calibdask.results.reliability import Kind, reliability_variables


def axes_of(kind: str) -> tuple[str, str]:
    """The horizontal and the vertical axis by the kind of a setting.

    Examples
    --------
    >>> axes_of("confidence"), axes_of("class")
    (('confidence', 'accuracy'), ('score', 'frequency of the outcome'))
    """
    return (CONFIDENCE, ACCURACY) if kind == "confidence" else (SCORE, FREQUENCY)


def axes_in(dataset: xr.Dataset, kind: Kind, metric: str) -> tuple[str, str]:
    """The axes of a diagram, whose points are means, or of a curve of a result.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.reliability_diagram([0, 2, 1], [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.2, 0.5, 0.3]], bins=2)
    >>> axes_in(result, "diagram", next(iter(reliability_variables(result, "diagram"))))
    ('mean confidence', 'accuracy')
    """
    (first, *_) = reliability_variables(dataset, kind)[metric].values()
    across, upward = axes_of(str(dataset.variables[first].attrs.get("setting", "")))
    if kind == "curve":
        return across, upward
    return (MEAN_SCORE if across == SCORE else f"mean {across}"), upward

"""Descriptions of estimators and of the parts of their estimates: names, kinds and definitions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

# An error is 0 for a calibrated model and positive by chance; a score is better the smaller it is, a term is a summand
# of one; a choice, such as a bandwidth, was derived from the data.
Kind = Literal[
    "error", "score", "term", "difference", "statistic", "pvalue", "curve", "diagram", "count", "choice", "number"
]
# How they vary shows in no rows whose outcomes are all alike.
LOSSES: tuple[Kind, ...] = ("score", "term")
# The best value.
Direction = Literal["zero", "lower", "higher", "none"]

_DIRECTIONS: dict[str, Direction] = {"error": "zero", "score": "lower", "difference": "zero"}
Bounds = tuple[float, float]
_UNBOUNDED: Bounds = (-math.inf, math.inf)
# Of most numbers of a kind; all others declare their own.
_BOUNDS: dict[str, Bounds] = {
    "error": (0.0, 1.0),
    "score": (0.0, math.inf),
    "difference": (-1.0, 1.0),
    "pvalue": (0.0, 1.0),
    "count": (0.0, math.inf),
}

# What a number is where that decides how it is stated and ranked, see `PartInfo`.
Quantity = Literal["", "mean-gap", "ratio", "slope", "offset"]

# The meaning of the p-value of a test of calibration.
PVALUE = "p-value for the null hypothesis of calibration"


@dataclass(frozen=True)
class About:
    """Name, definition and reference of an estimator.

    Parameters
    ----------
    title : str
        The name in the literature, with the abbreviation in parentheses.
    definition : str
        A self-contained definition with the formula.
    source : str
        The reference.
    short : str
        The abbreviation, such as ``"ECE"``.
    """

    title: str = ""
    definition: str = ""
    source: str = ""
    short: str = ""


@dataclass(frozen=True)
class PartInfo:
    """Meaning, kind and direction of a part of an estimate.

    Parameters
    ----------
    meaning : str
        A short explanation of the number.
    kind : Kind, optional
        None: the kind of the part's type, see ``calibdask.estimators.parts``.
    direction : Direction, optional
        None: determined by the kind.
    quantity : {"", "mean-gap", "ratio", "slope", "offset"}
        ``"mean-gap"``: the mean absolute difference of score and frequency, which can be stated in percentage points.
        ``"ratio"`` and ``"slope"`` are 1 for a calibrated model, ``"offset"`` is 0; all three may err on either side.
    bounds : pair of float, optional
        The range of possible values for any data, for ``possible``. None: determined by the kind.
    """

    meaning: str = ""
    kind: Kind | None = None
    direction: Direction | None = None
    quantity: Quantity = ""
    bounds: Bounds | None = None

    @property
    def possible(self) -> Bounds:
        """The smallest and the largest number that any data can have."""
        return self.bounds or _BOUNDS.get(self.kind or "", _UNBOUNDED)

    def settled(self, kind: Kind) -> "PartInfo":
        """Fill in this kind, and the direction of the kind, where none is declared."""
        chosen = self.kind or kind
        return replace(self, kind=chosen, direction=self.direction or _DIRECTIONS.get(chosen, "none"))


# Part name -> what the part is.
Description = Mapping[str, PartInfo]

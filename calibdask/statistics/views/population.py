"""The rows as of another population: scores whose odds are multiplied, and weights by class."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.views.view import View


@dataclass(frozen=True)
class PopulationView(View):
    """The rows with other scores, other weights, or both.

    Parameters
    ----------
    factors : tuple of float or None
        By class: scores become proportional to s_k times the factor. None: scores stay.
    weights : tuple of float or None
        By class of the label: what weights are multiplied by. None: weights stay.
    """

    factors: tuple[float, ...] | None = None
    weights: tuple[float, ...] | None = None

    def layout(self, layout: Layout) -> Layout:
        """Layout of the data, unchanged."""
        if self.factors is not None:
            layout = replace(layout, dtype="float64", half=False)
        return layout if self.weights is None else replace(layout, weighted=True)

    def block(self, block: Block) -> Block:
        """The rows seen; computed once for a block."""
        if self not in block.viewed:
            block.viewed[self] = self._changed(block)
        return block.viewed[self]

    def _changed(self, block: Block) -> Block:
        changed: dict[str, Any] = {"layout": self.layout(block.layout)}
        if self.factors is not None:
            changed["scores"] = with_odds(block.scores, np.array(self.factors), is_vector=block.layout.vector)
        if self.weights is not None:
            # Labels that are no classes are refused later.
            codes = np.clip(block.codes, 0, len(self.weights) - 1)
            weights = np.array(self.weights)[codes]
            changed["weights"] = weights if block.weights is None else weights * block.weights
        return replace(block, **changed)


def with_odds(scores: Any, factors: Array, *, is_vector: bool) -> Array:
    """Scores (..., 1) of P(y = 1), or (..., classes), proportional to the scores times the factors.

    Examples
    --------
    >>> with_odds(np.array([[0.5], [0.1]]), np.array([1.0, 3.0]), is_vector=True).round(6).ravel().tolist()
    [0.75, 0.25]
    """
    scores = np.asarray(scores, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        if is_vector:
            one, none = scores * factors[1], (1 - scores) * factors[0]
            return np.asarray(one / (one + none))
        products = scores * factors
        return np.asarray(products / products.sum(-1, keepdims=True))

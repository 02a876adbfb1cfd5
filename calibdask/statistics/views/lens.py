"""Calibration lenses: the model over fewer outcomes that a model of many classes induces."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np

from calibdask.html_repr import HtmlRepr
from calibdask.kernels import lenses
from calibdask.statistics.block import Block
from calibdask.statistics.layout import Layout
from calibdask.statistics.views.view import View


@dataclass(frozen=True)
class Lens(HtmlRepr, View):
    """A model over fewer outcomes, derived from a model over many classes; its calibration is assessed instead [1]_.

    Make one with `largest` or `groups`, and give it to the ``setting`` of a multi-class estimator or test.

    Parameters
    ----------
    k : int or None
        Number of the largest scores, for `largest`.
    parts : tuple of tuples of int, or None
        Classes of each group, for `groups`.

    References
    ----------
    .. [1] Vaicenavicius et al., Evaluating model calibration in classification, 2019, section 3.

    Examples
    --------
    >>> import calibdask as cd
    >>> scores = [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.5, 0.25, 0.25], [0.2, 0.2, 0.6]]
    >>> pairs = cd.SKCE(estimator="biased", bandwidth=1.0, setting=cd.Lens.groups([[0, 1], [2]]))
    >>> float(cd.evaluate([0, 2, 2, 1], scores, pairs).skce.round(6))
    0.037031
    """

    k: int | None = None
    parts: tuple[tuple[int, ...], ...] | None = None

    def __post_init__(self) -> None:
        if (self.k is None) == (self.parts is None):
            raise ValueError("Make a lens with Lens.largest(k) or Lens.groups([[...], ...]).")
        if self.parts is None:
            if not _whole(self.k) or self.k < 1:
                raise ValueError(f"Lens.largest expects a number of classes from 1 on, got {self.k!r}.")
            return
        parts = [list(part) for part in self.parts]
        classes = [c for part in parts for c in part]
        if len(parts) < 2 or not all(parts) or not all(map(_whole, classes)) or {*classes} != {*range(len(classes))}:
            raise ValueError(
                f"Lens.groups expects two or more groups that together hold each class 0, 1, 2, ... once, got {parts}."
            )
        object.__setattr__(self, "parts", tuple(tuple(map(int, part)) for part in parts))

    @classmethod
    def largest(cls, k: int) -> "Lens":
        """The k largest scores in decreasing order (ties: the lower class first), and the rest as another class.

        Raises
        ------
        ValueError
            If k is not a positive whole number.
        """
        return cls(k=k)

    @classmethod
    def groups(cls, parts: Iterable[Iterable[int]]) -> "Lens":
        """Merge classes into groups, one outcome per group; every class belongs to exactly one.

        Raises
        ------
        ValueError
            If there are fewer than two groups, or classes are not distinct whole numbers.
        """
        try:
            groups = tuple(tuple(part) for part in parts)
        except TypeError:
            raise ValueError(
                f"Lens.groups expects lists of class numbers, such as [[0, 1], [2]], got {parts!r}."
            ) from None
        return cls(parts=groups)

    def layout(self, layout: Layout) -> Layout:
        """Layout seen through the lens: float64, since scores of classes are summed."""
        return replace(layout, classes=self._outcomes(layout.classes), vector=False, dtype="float64")

    def block(self, block: Block) -> Block:
        """The rows seen; computed once for a block."""
        if self not in block.viewed:
            block.viewed[self] = self._induced(block)
        return block.viewed[self]

    def _outcomes(self, classes: int) -> int:
        if self.parts is not None:
            grouped = sum(map(len, self.parts))
            if grouped != classes:
                raise ValueError(f"The groups of the lens hold {grouped} classes, the scores have {classes}.")
            return len(self.parts)
        k = self.k if self.k is not None else 1
        if k > classes:
            raise ValueError(f"Lens.largest({k}) expects at least {k} classes, the scores have {classes}.")
        return k + (k < classes)

    def _induced(self, block: Block) -> Block:
        layout = self.layout(block.layout)
        batch, labelled = len(block.matrix), len(block.codes)
        scores = np.empty((batch, block.rows, layout.classes))
        labels = np.empty((max(batch, labelled) if self.parts is None else labelled, block.rows), np.int64)
        group = self._group_of_class(block.layout.classes)
        for b in range(max(batch, len(labels))):
            into: Any = scores[b % batch], labels[b % len(labels)]
            if self.parts is None:
                lenses.largest(block.matrix_of(b), block.labels_of(b), self.k, *into)
            else:
                lenses.grouped(block.matrix_of(b), block.labels_of(b), group, *into)
        return replace(block, layout=layout, scores=scores, labels=labels)

    def _group_of_class(self, classes: int) -> np.ndarray:
        group = np.zeros(classes, np.int64)
        for number, part in enumerate(self.parts or ()):
            group[list(part)] = number
        return group


def _whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)

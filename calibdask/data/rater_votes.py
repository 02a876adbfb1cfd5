"""Votes of several raters for each row: shares of classes, and how often two raters of a row disagree."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from calibdask.data.class_names import encode_labels
from calibdask.data.options import InputOptions
from calibdask.data.shapes import Shape
from calibdask.engine.arrays import in_memory
from calibdask.engine.row_notes import label_text
from calibdask.safe_text import listed
from calibdask.statistics.exact import Array


@dataclass(frozen=True)
class Votes:
    """Votes of raters.

    Attributes
    ----------
    shares : ndarray of shape (n,) or (n, K)
        Mean over the raters of y = 1, or of each class.
    disagreement : ndarray of shape (n,)
        Chance that labels of two raters of the row differ; NaN for a row of one rater.
    """

    shares: Array
    disagreement: Array

    @classmethod
    def of(cls, votes: Any, classes: Iterable[Any] | None, options: InputOptions) -> "Votes":
        """Votes (n, raters), missing ones NaN or None.

        They are 0, 1 or shares between for scores P(y = 1) (``classes`` is None), or names or numbers of classes.

        Raises
        ------
        ValueError
            If a vote is none of these, or a row has none; the message names the row.

        Examples
        --------
        >>> votes = Votes.of([[1, 1, 0], [0, np.nan, 0]], None, InputOptions())
        >>> votes.shares.round(2).tolist(), votes.disagreement.round(2).tolist()
        ([0.67, 0.0], [0.67, 0.0])
        """
        given = np.asarray(in_memory(votes))
        if given.ndim != 2:
            raise ValueError(
                f"soft_labels='raters' expects a column of y_true for each rater, (n, raters), got shape {given.shape}."
            )
        absent = pd.isna(given)
        if (none := absent.all(-1)).any():
            raise ValueError(
                f"soft_labels='raters' expects at least one label per row; {int(none.sum())} of {none.size} rows have "
                f"none, the first is row {int(none.argmax())}. Drop these rows."
            )
        if classes is None:
            positive = _outcomes(given, absent, options)
            by_class = [1 - positive, positive]
        else:
            names = [*(classes if options.labels is None else options.labels)]
            codes = _codes(given, absent, names)
            by_class = [np.where(absent, np.nan, codes == k) for k in range(len(names))]
        raters = (~absent).sum(-1)
        totals = np.stack([np.nansum(of, -1) for of in by_class], -1)
        alone = sum(np.nansum(of**2, -1) for of in by_class)
        with np.errstate(divide="ignore", invalid="ignore"):
            disagreement = 1 - ((totals**2).sum(-1) - alone) / (raters * (raters - 1))
        shares = totals / raters[:, None]
        return cls(shares[:, 1] if classes is None else shares, np.where(raters > 1, disagreement, np.nan))

    def mean_disagreement(self, group: Any, slices: int, weights: Array | None) -> Array:
        """The mean over the rows of each slice that have two raters or more."""
        rated = ~np.isnan(self.disagreement)
        weight = rated if weights is None else rated * weights
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(
                np.bincount(group, np.nan_to_num(self.disagreement) * weight, slices)
                / np.bincount(group, weight, slices)
            )


def _outcomes(given: Any, absent: Any, options: InputOptions) -> Array:
    if options.names_classes:
        return _named_outcomes(given, absent, options)
    try:
        numbers = given.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "soft_labels expects labels of raters that are 0, 1 or shares between, for scores P(y = 1); name the "
            "positive class by pos_label (--pos-label)."
        ) from None
    wrong = ~absent & ~((numbers >= 0) & (numbers <= 1))
    _refuse(wrong, given, "0, 1 or shares between, for scores P(y = 1)")
    return numbers


def _named_outcomes(given: Any, absent: Any, options: InputOptions) -> Array:
    """Whether each vote is the positive class, which is matched as in hard labels."""
    votes = encode_labels(given[~absent], None, Shape(options))
    numbers = np.full(given.shape, np.nan)
    numbers[~absent] = votes.labels
    expected = votes.others.classes or f"numbers, as pos_label={options.pos_label!r} is"
    _refuse(numbers < 0, given, expected)
    votes.others.check()
    return numbers


def _codes(given: Any, absent: Any, names: list[Any]) -> Any:
    """Numbers of the classes; -1 where there is none."""
    found, cells = np.full(given.shape, -1), given.astype(object)
    for k, name in enumerate(names):
        found[cells == name] = k
    _refuse((found < 0) & ~absent, given, f"the classes {listed(names)} (labels=, --labels)")
    return found


def _refuse(wrong: Any, given: Any, expected: str) -> None:
    if wrong.any():
        row, rater = map(int, np.argwhere(wrong)[0])
        raise ValueError(
            f"soft_labels='raters' expects labels of raters that are {expected}; found {int(wrong.sum())} of "
            f"{wrong.size} that are not, the first {label_text(given[row, rater])} (row {row}, rater {rater})."
        )

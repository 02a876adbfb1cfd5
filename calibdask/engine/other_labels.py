"""Labels besides the positive class: several that count as negative, and texts among numbers."""

import os
import sys
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

# Number of labels that a notice lists.
_SHOWN = 5
# Distinct texts that are kept for an error message.
_MOST_STRAYS = 1000


class OtherLabels(NamedTuple):
    """Labels of some rows besides the positive class; the number kept is bounded.

    Attributes
    ----------
    negative : tuple of str
        The first ones, in sorted order, of those that count as negative; one more than are shown.
    strays : tuple of (int, str)
        Texts among labels that are numbers, with the numbers in their place.
    positive : str
        The positive class as text; empty where labels are not compared with one.
    occurs : bool
        Whether some row has it.
    """

    negative: tuple[str, ...] = ()
    strays: tuple[tuple[int, str], ...] = ()
    positive: str = ""
    occurs: bool = False

    @classmethod
    def of(
        cls,
        negative: Iterable[Any],
        strays: Iterable[tuple[int, str]] = (),
        positive: Any = None,
        *,
        occurs: bool = False,
    ) -> "OtherLabels":
        """These labels, as text.

        Examples
        --------
        >>> OtherLabels.of([10.0, 2, "auk"]).negative
        ('2', '10', "'auk'")
        """
        texts = sorted(set(map(_text, negative)), key=_order)
        return cls(tuple(texts[: _SHOWN + 1]), tuple(sorted(set(strays))[:_MOST_STRAYS]), repr(positive), occurs)

    def merged(self, other: "OtherLabels") -> "OtherLabels":
        """The labels of the rows of both."""
        if self == other:
            return self
        texts = sorted({*self.negative, *other.negative}, key=_order)
        strays = sorted({*self.strays, *other.strays})
        return OtherLabels(
            tuple(texts[: _SHOWN + 1]),
            tuple(strays[:_MOST_STRAYS]),
            self.positive or other.positive,
            self.occurs or other.occurs,
        )

    @property
    def listed(self) -> str:
        """The labels that count as negative, if there are several: one class is measured against the rest.

        Examples
        --------
        >>> OtherLabels.of(["tit", "auk"]).listed, OtherLabels.of(["tit"]).listed
        ("'auk', 'tit'", '')
        """
        if len(self.negative) < 2:
            return ""
        return ", ".join(self.negative[:_SHOWN]) + ", ..." * (len(self.negative) > _SHOWN)

    def check(self) -> None:
        """Warn if several labels count as negative.

        Raises
        ------
        ValueError
            If the positive class does not occur among several labels: a misspelt one would make all rows negative.
        """
        if self.listed and not self.occurs:
            raise ValueError(f"pos_label expects a class of y_true, such as {self.negative[0]}, got {self.positive}.")
        self.warn()

    def warn(self) -> None:
        """Warn if several labels count as negative."""
        if self.listed:
            warnings.warn(
                f"Several labels besides the positive one count as negative: {self.listed}. If one of them is no "
                "class, leave its rows out by ignore_label=... (--ignore-label); if only two are expected, name both "
                "by labels=... (--labels), the positive one last, and others are refused.",
                UserWarning,
                stacklevel=_level_of_caller(),
            )


def _level_of_caller() -> int:
    """Number of frames between a warning and the code that called the package."""
    folder = os.path.dirname(os.path.dirname(__file__)) + os.sep
    frame, level = sys._getframe(2), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(folder):
        frame, level = frame.f_back, level + 1
    return level


def _text(label: Any) -> str:
    """A label as text; a whole number reads alike in all types."""
    label = label.item() if isinstance(label, np.generic) else label
    return repr(int(label) if isinstance(label, float) and label.is_integer() else label)


def _order(text: str) -> tuple[bool, float, str]:
    """Numbers come first, by their size."""
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text

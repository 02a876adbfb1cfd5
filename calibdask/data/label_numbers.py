"""Labels of one block as class numbers, by the names of the classes; stray labels are refused."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibdask.data.shapes import Shape
from calibdask.engine.arrays import is_dask, is_named, plain
from calibdask.engine.row_filter import IGNORED_LABEL, MISSING_LABEL

_NO_CLASS = (
    "y_true expects a class in every row, some are missing; drop these rows, or leave them out by skip_missing=True "
    "(--skip-missing)."
)
# Number of classes that an error message lists.
_SHOWN = 5


def is_positive(values: np.ndarray, pos_label: Any, shape: Shape) -> np.ndarray:
    """Whether each label is the positive one."""
    import pandas as pd

    ignored = _equal(values, shape.options.ignore_label)
    missing = ~ignored & np.asarray(pd.isna(values))
    if missing.any() and not shape.options.skip_missing:
        raise ValueError(_NO_CLASS)
    numbers = np.where(ignored, IGNORED_LABEL, np.where(missing, False, _equal(values, pos_label)))
    numbers = np.where(missing, MISSING_LABEL, numbers)
    _refuse_other_kind(values.ravel(), numbers.ravel(), pos_label)
    return numbers


def class_positions(values: np.ndarray, names: Sequence[Any], shape: Shape, mend: str = "") -> np.ndarray:
    """Number of the class of each row."""
    import pandas as pd

    flat = pd.Index(values.ravel())
    positions = pd.Index(names).get_indexer(flat)
    ignored = shape.options.ignore_label
    if ignored is not None:
        positions = np.where(_equal(values.ravel(), ignored), IGNORED_LABEL, positions)
    if shape.options.skip_missing:
        positions = np.where((positions == -1) & np.asarray(flat.isna()), MISSING_LABEL, positions)
    unknown = positions == -1
    if unknown.any():
        value = flat[unknown.argmax()]
        if value != value or value is None:
            raise ValueError(_NO_CLASS)
        value = value.item() if isinstance(value, np.generic) else value
        raise ValueError(f"y_true expects classes among {shown_names(names)}, got {value!r}{mend}.")
    return positions.reshape(values.shape)


def _refuse_other_kind(values: np.ndarray, numbers: np.ndarray, pos_label: Any) -> None:
    """Raise ValueError for texts among labels that are numbers, which would count as negative."""
    if not _is_number(str(pos_label)):
        return
    others = [label for label in _distinct(values[numbers == 0]) if isinstance(label, str) and not _is_number(label)]
    if others:
        row = int(np.argmax(np.asarray(values == others[0], bool)))
        raise ValueError(
            f"pos_label={pos_label!r} (--pos-label) expects labels that are numbers too, got {others[0]!r} in row "
            f"{row}, which would count as negative. Name both classes by labels=... (--labels), the positive one last, "
            f"and leave such rows out by ignore_label={others[0]!r} (--ignore-label)."
        )


def _distinct(values: np.ndarray) -> list[Any]:
    import pandas as pd

    return pd.unique(values).tolist()


def negative_labels(values: np.ndarray, numbers: np.ndarray) -> str:
    """The labels that count as negative, where there are several: one class is measured against the rest.

    Examples
    --------
    >>> negative_labels(np.array(["owl", "auk", "tit"]), np.array([1, 0, 0]))
    "'auk', 'tit'"
    """
    others = _distinct(np.asarray(values).ravel()[np.asarray(numbers).ravel() == 0])
    return ", ".join(map(repr, others[:_SHOWN])) + ", ..." * (len(others) > _SHOWN) if len(others) > 1 else ""


def refuse_stray(y_true: Any, expected: str) -> None:
    """Raise ValueError that names the row and value of a text among labels that are otherwise numbers."""
    values = y_true.data if is_named(y_true) else y_true
    if is_dask(values):
        return
    texts = plain(values).ravel().tolist()
    stray = [(row, text) for row, text in enumerate(texts) if isinstance(text, str) and not _is_number(text)]
    if stray and len({text for text in texts if not isinstance(text, str) or _is_number(text)}) in (1, 2):
        row, text = stray[0]
        raise ValueError(
            f"y_true expects {expected}, but {len(stray)} of {len(texts)} labels are other texts; the first is row "
            f"{row}, {text!r}. Repair these rows, or leave them out by ignore_label={text!r} (--ignore-label), "
            "together with both classes in labels=... (--labels), the positive one last."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _equal(values: np.ndarray, label: Any) -> np.ndarray:
    """Where values are this label."""
    if label is None:
        return np.zeros(values.shape, bool)
    return np.broadcast_to(np.asarray(values == label, bool), values.shape)


def check_present(values: np.ndarray) -> None:
    """Raise ValueError for labels that are missing."""
    import pandas as pd

    if pd.isna(values).any():
        raise ValueError(_NO_CLASS)


def shown_names(names: Sequence[Any]) -> str:
    """The first few names, in brackets."""
    few = ", ".join(map(repr, names[:_SHOWN]))
    return f"[{few}, ...]" if len(names) > _SHOWN else f"[{few}]"

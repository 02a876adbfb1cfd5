"""Labels of one block as class numbers, by the names of the classes; stray labels are refused."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from calibdask.data.frames import is_frame
from calibdask.data.shapes import Shape
from calibdask.engine.arrays import is_dask, is_number, plain, unmasked
from calibdask.engine.row_filter import IGNORED_LABEL, MISSING_LABEL, STRAY_LABEL
from calibdask.engine.row_notes import OtherLabels, first_strays, label_text, no_class
from calibdask.statistics.validity import ABSENT_LABEL

# Rows that are searched for a number among texts.
_MOST_SEARCHED = 1 << 20
# Number of classes that an error message lists.
_SHOWN = 5


def is_positive(values: np.ndarray, pos_label: Any, shape: Shape) -> np.ndarray:
    """Whether each label is the positive one."""
    import pandas as pd

    ignored = _equal(values, shape.options.ignore_label)
    missing = ~ignored & np.asarray(pd.isna(values))
    numbers = np.where(ignored, IGNORED_LABEL, np.where(missing, False, _equal(values, pos_label)))
    numbers = np.where(missing, _missing_label(shape), numbers)
    if is_number(str(pos_label)) and values.dtype.kind not in "fiub":
        codes, distinct = pd.factorize(values[numbers == 0])
        numbers[numbers == 0] = np.array([_stray_code(label) for label in distinct], np.int64)[codes]
    return numbers


def other_labels(values: np.ndarray, pos_label: Any, shape: Shape) -> OtherLabels:
    """The labels of one block besides the positive one."""
    distinct = _distinct(values.ravel())
    numbers = is_positive(distinct, pos_label, shape)
    strays = _strays(distinct, numbers)
    return OtherLabels.of(distinct[numbers == 0].tolist(), strays, pos_label, occurs=bool((numbers == 1).any()))


def unknown_labels(values: np.ndarray, names: Sequence[Any], shape: Shape, mend: str = "") -> OtherLabels:
    """The labels of one block that are none of the classes."""
    distinct = _distinct(values.ravel())
    strays = _strays(distinct, class_positions(distinct, names, shape))
    return OtherLabels((), first_strays(strays), classes=f"{shown_names(names)}", mend=mend)


def _strays(labels: np.ndarray, numbers: np.ndarray) -> list[tuple[int, str]]:
    """Labels that are no class, as text, with the numbers in their place."""
    few = (numbers > MISSING_LABEL) & (numbers < 0)
    return [(int(number), label_text(label)) for number, label in zip(numbers[few], labels[few], strict=True)]


def _missing_label(shape: Shape) -> int:
    """The number of rows without a label."""
    return MISSING_LABEL if shape.options.skip_missing else ABSENT_LABEL


def _distinct(values: np.ndarray) -> np.ndarray:
    import pandas as pd

    found: list[Any] = []
    rest = values
    # Texts of fixed width are compared faster than they are hashed.
    while values.dtype.kind in "US" and rest.size and len(found) < _SHOWN:
        found.append(rest[0])
        rest = rest[rest != rest[0]]
    return np.concatenate([np.array(found, values.dtype), np.asarray(pd.unique(rest), values.dtype)])


def _stray_code(label: Any) -> int:
    """The number in place of a text among labels that are numbers, which would count as negative; 0 for numbers."""
    if not isinstance(label, str) or is_number(label):
        return 0
    return _code(label)


def _code(label: Any) -> int:
    """The number in place of a label that is no class."""
    return STRAY_LABEL + zlib.crc32(label_text(label).encode(errors="replace")) % (1 << 30)


def class_positions(values: np.ndarray, names: Sequence[Any], shape: Shape) -> np.ndarray:
    """Number of the class of each row; negative ones stand for labels that are no class."""
    import pandas as pd

    flat = pd.Index(values.ravel())
    positions = pd.Index(names).get_indexer(flat)
    ignored = shape.options.ignore_label
    if ignored is not None:
        positions = np.where(_equal(values.ravel(), ignored), IGNORED_LABEL, positions)
    positions = np.where((positions == -1) & np.asarray(flat.isna()), _missing_label(shape), positions)
    unknown = positions == -1
    if unknown.any():
        codes, distinct = pd.factorize(flat[unknown])
        positions[unknown] = np.array([_code(label) for label in distinct], np.int64)[codes]
    return positions.reshape(values.shape)


def refuse_stray(blocks: Iterable[np.ndarray], rows: int = 0) -> None:
    """Raise ValueError that names the row and value of a text among labels that are otherwise numbers.

    ``rows`` are numbers that come before.
    """
    import pandas as pd

    count, first, numbers = 0, None, {0} if rows else set()
    for block in blocks:
        codes, distinct = pd.factorize(block.ravel())
        is_stray = np.array([_stray_code(label) != 0 for label in distinct.tolist()] or [False])
        numbers |= set(distinct[~is_stray[: len(distinct)]].tolist())
        strays = np.flatnonzero(is_stray[codes] & (codes >= 0))
        if strays.size and first is None:
            first = rows + int(strays[0]), str(distinct[codes[strays[0]]])
        rows, count = rows + codes.size, count + strays.size
        # These are names of classes: no more has to be read.
        if len(numbers) > 2 or (not numbers and rows >= _MOST_SEARCHED):
            return
    if first is not None and numbers:
        row, text = first
        raise ValueError(
            f"y_true expects the class numbers 0 and 1, but {count} of {rows} labels are other texts; the first is row "
            f"{row}, {text!r}. Correct these rows, or skip them by ignore_label={text!r} (--ignore-label), "
            "together with both classes in labels=... (--labels), the positive one last."
        )


def _equal(values: np.ndarray, label: Any) -> np.ndarray:
    """Where values are this label."""
    if label is None:
        return np.zeros(values.shape, bool)
    if values.dtype.kind == "O":
        import pandas as pd

        # Missing values of pandas cannot be compared.
        missing = np.asarray(pd.isna(values))
        if missing.any():
            values = values.copy()
            values[missing] = None
    return np.broadcast_to(np.asarray(values == label, bool), values.shape)


def check_present(values: np.ndarray) -> None:
    """Raise ValueError for labels that are missing."""
    import pandas as pd

    missing = np.asarray(pd.isna(values)).ravel()
    if missing.any():
        raise ValueError(no_class(int(missing.sum()), missing.size, int(missing.argmax())))


def shown_names(names: Sequence[Any]) -> str:
    """The first few names, in brackets."""
    few = ", ".join(map(repr, names[:_SHOWN]))
    return f"[{few}, ...]" if len(names) > _SHOWN else f"[{few}]"


def collected(labels: Any, collect: Callable[[np.ndarray], OtherLabels]) -> Any:
    """The other labels among all labels; with Dask a collection."""
    if not is_dask(labels):
        return collect(values_of(labels))
    from calibdask.engine.sources.reduction import tree

    if is_frame(labels):
        import pandas as pd

        # Read beside the rows: these are joined as numbers.
        boxes = labels.map_partitions(_boxed_series, collect, meta=pd.Series([], dtype=object)).to_dask_array()
    else:
        ones = tuple((1,) * count for count in labels.numblocks)
        boxes = labels.map_blocks(_boxed, collect, chunks=ones, dtype=object, meta=np.empty((0,) * labels.ndim, object))
    for _ in range(boxes.ndim):
        boxes = tree(boxes, OtherLabels.merged, axis=0)
    return boxes


def _boxed(values: np.ndarray, collect: Callable[[np.ndarray], OtherLabels]) -> np.ndarray:
    from calibdask.engine.sources.reduction import packed

    return packed(collect(unmasked(values)), values.ndim)


def _boxed_series(part: Any, collect: Callable[[np.ndarray], OtherLabels]) -> Any:
    import pandas as pd

    return pd.Series(_boxed(part.to_numpy(), collect))


def blocks_of(labels: Any) -> Iterator[np.ndarray]:
    """All labels; a Dask collection gives them block by block."""
    if not is_dask(labels):
        yield values_of(labels)
        return
    from calibdask.engine.workers import scheduler

    for block in np.ravel(labels.to_delayed()):
        yield unmasked(np.asarray(block.compute(scheduler=scheduler())))


def values_of(y_true: Any) -> np.ndarray:
    """Labels in memory as they are compared with classes."""
    if _is_nullable(type_of(y_true)):
        # Missing values would make floating-point numbers of large ones, which merge neighbours.
        return unmasked(y_true.to_numpy(object, na_value=None))
    return unmasked(plain(y_true))


def type_of(y_true: Any) -> Any:
    """Type of the labels."""
    return y_true.dtype if hasattr(y_true, "dtype") else plain(y_true).dtype


def _is_nullable(dtype: Any) -> bool:
    """Whether these are whole numbers of pandas that may be missing."""
    return getattr(dtype, "kind", "O") in "iu" and not isinstance(dtype, np.dtype) and hasattr(dtype, "na_value")

"""Alignment of pandas objects: rows are matched by index, not by position."""

import warnings
from collections.abc import Mapping
from typing import Any

from calibdask.engine.arrays import is_pandas

# What messages call a frame whose columns are named.
FRAME = "the frame"
# Number of rows that an error message lists.
_SHOWN = 3


def aligned(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """All arrays, with series and data frames of pandas in the order of the index of the first one.

    Raises
    ------
    ValueError
        If two indexes hold different rows, or repeated ones in another order.

    Examples
    --------
    >>> aligned({"y_true": [0, 1], "y_prob": [0.1, 0.9]})
    {'y_true': [0, 1], 'y_prob': [0.1, 0.9]}
    """
    indexed = [name for name, array in arrays.items() if is_pandas(array)]
    result = dict(arrays)
    for name in indexed[1:]:
        first, other = arrays[indexed[0]], arrays[name]
        # Different lengths have an error of their own.
        if other.index.equals(first.index) or len(other) != len(first):
            continue
        same = first.index.is_unique and other.index.is_unique and first.index.isin(other.index).all()
        if not same:
            first_too = "" if indexed[0] == FRAME else f"{indexed[0]}.to_numpy() and "
            raise ValueError(
                f"{indexed[0]} and {name} are of pandas and have different indexes, {_index_text(first.index)} and "
                f"{_index_text(other.index)}: their rows cannot be matched. Select the rows of both by one "
                f"index; or, if their order is the same, give {first_too}{name}.to_numpy()."
            )
        warnings.warn(
            f"The rows of {name} were put in the order of the index of {indexed[0]}, as pandas does; if their order is "
            f"the same, give to_numpy() of {'both' if indexed[0] != FRAME else name}.",
            UserWarning,
            stacklevel=5,
        )
        result[name] = other.loc[first.index]
    return result


def check_divisions(series: Mapping[str, Any]) -> None:
    """Raise ValueError for series and data frames of Dask whose partitions are known to hold other rows.

    Dask would put them in the order of their index; partitions are read side by side, without a shuffle.
    """
    known = {name: part.divisions for name, part in series.items() if getattr(part, "known_divisions", False)}
    first = next(iter(known), "")
    for name, divisions in known.items():
        if divisions != known[first]:
            raise ValueError(
                f"{first} and {name} are of Dask and have different divisions, {_index_text(known[first])} and "
                f"{_index_text(divisions)}: their rows cannot be matched. Take them from one frame, or "
                "repartition both by the same divisions; or, if their order is the same, give to_dask_array() of both."
            )


def _index_text(index: Any) -> str:
    few = ", ".join(map(repr, list(index[:_SHOWN])))
    return f"[{few}, ...]" if len(index) > _SHOWN else f"[{few}]"

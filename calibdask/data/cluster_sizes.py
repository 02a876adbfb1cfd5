"""Rows of clusters with the weight 1 / m of a cluster of m rows, for tests that multiply over rows."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from calibdask.data.input import Input
from calibdask.engine.axes import Axis
from calibdask.engine.sources.viewed import ViewedSource
from calibdask.safe_text import listed
from calibdask.statistics.cluster_sizes import ClusterExponents
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout


def with_exponents(data: Input, exponents: ClusterExponents) -> Input:
    """Weight rows by 1 / m, with sizes of clusters that an earlier pass has counted."""
    return replace(data, source=ViewedSource(data.source, exponents))


def check_exponents(caller: str, layout: Layout) -> None:
    """Raise ValueError for sample weights beside clusters: exponents of a cluster would not add up to at most 1."""
    if layout.clustered and layout.weighted:
        raise ValueError(
            f"{caller} expects either groups (--groups) or sample_weight (--weight), got both: each row of a cluster "
            "of m rows has the weight 1 / m there, with which the tests are valid, whatever its sample weight. Leave "
            "one of the two out."
        )


def slice_numbers(axes: Sequence[Axis], within: Iterable[str]) -> FrozenArray | None:
    """Number slices by their labels along some axes; None without axes.

    Examples
    --------
    >>> axes = [Axis("day", 2, None), Axis("country", 3, None)]
    >>> slice_numbers(axes, ["day"]).values.tolist()
    [0, 0, 0, 1, 1, 1]
    """
    names = [*within]
    if not names:
        return None
    known = [str(axis.name) for axis in axes]
    if absent := [name for name in names if name not in known]:
        raise ValueError(f"within expects names of slices, {listed(known) or 'none'}, got {listed(absent)}.")
    sizes = [axis.size for axis in axes]
    places = np.unravel_index(np.arange(int(np.prod(sizes, dtype=np.int64))), sizes)
    chosen = [known.index(name) for name in names]
    return FrozenArray(np.ravel_multi_index([places[at] for at in chosen], [sizes[at] for at in chosen]))

"""Hypothesis strategies: scored rows of all kinds, and ways to cut them."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from calibdask.engine.rows import Rows, make_block
from calibdask.statistics.block import Block
from calibdask.statistics.layout import Layout

# Where data are degenerate the estimators say so; that they do is tested by itself.
DEGENERATE = [
    pytest.mark.filterwarnings("ignore:.*columns of scores have:UserWarning"),
    pytest.mark.filterwarnings("ignore:The beta kernel gives no weight:UserWarning"),
]


@dataclass(frozen=True)
class Data:
    """Scores (batch, n, K or 1), labels (batch or 1, n), weights likewise or None, slice of each row or None.

    Features are numbers, texts, numbers of three categories, and dates, each with missing ones.
    """

    scores: NDArray[Any]
    labels: NDArray[Any]
    weights: NDArray[np.float64] | None
    group: NDArray[np.int32] | None
    layout: Layout
    features: tuple[NDArray[Any], ...] = ()

    @property
    def rows(self) -> int:
        return self.scores.shape[1]

    @property
    def slices(self) -> NDArray[np.int32]:
        """Slice of each row."""
        return np.zeros(self.rows, np.int32) if self.group is None else self.group

    def rows_of_slices(self, stop: int | None = None) -> NDArray[np.int64]:
        """The number of rows of each slice, before a row."""
        return np.bincount(self.slices[:stop], minlength=self.layout.groups)

    def block(self, start: int = 0, stop: int | None = None) -> Block:
        """A block that knows how many rows of each slice are before it."""
        # Some clusters come in two slices, and in every block.
        clusters = np.arange(self.rows) * 7919 % 11
        rows = Rows(self.scores, self.labels, self.weights, self.group, self.features, clusters=clusters)
        rows = rows.part(start, self.rows if stop is None else stop)
        return make_block(rows, self.layout, start, self.rows_of_slices(start))


def simplex(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> NDArray[np.float64]:
    """Rows of scores: smooth, on a coarse grid (heavy ties), saturated, or all equal."""
    classes = shape[-1]
    if kind == "equal":
        return np.full(shape, 1.0 / classes)
    if kind == "grid":
        counts = rng.multinomial(10, np.full(classes, 1.0 / classes), size=shape[:-1])
        return counts / 10.0
    return rng.dirichlet(np.full(classes, 0.05 if kind == "saturated" else 1.0), size=shape[:-1])


@st.composite
def data(draw: st.DrawFn, weighted: bool | None = None, max_rows: int = 60, max_batch: int = 3) -> Data:
    """Scored rows; ``weighted`` None draws whether there are weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, max_rows))
    batch = draw(st.integers(1, max_batch))
    vector = draw(st.booleans())
    classes = 2 if vector else draw(st.integers(2, 5))
    kind = draw(st.sampled_from(["smooth", "grid", "saturated", "equal"]))
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    scores = simplex(rng, (batch, n, classes), kind).astype(dtype)
    scores = np.ascontiguousarray(scores[..., 1:]) if vector else scores
    labels = rng.integers(0, classes, (draw(st.sampled_from([1, batch])), n))
    labels = labels.astype(draw(st.sampled_from([np.int64, np.int32, np.uint8, np.int16, np.float64])))
    has_weights = draw(st.booleans()) if weighted is None else weighted
    weights = rng.integers(0, 4, (1, n)) * 0.3 + 0.1 * rng.random((1, n)) if has_weights else None
    if weights is not None:
        weights[:, rng.random(n) < 0.2] = 0.0
    groups = draw(st.integers(1, 3))
    group = rng.integers(0, groups, n).astype(np.int32) if groups > 1 else None
    layout = Layout(batch, groups, classes, vector, None, np.dtype(dtype).name, weights is not None)
    return Data(scores, labels, weights, group, layout, features(rng, n))


def features(rng: np.random.Generator, n: int) -> tuple[NDArray[Any], ...]:
    """A feature of each kind."""
    numbers = np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n).round(1))
    texts = rng.choice(np.array(["be", "fr", None, "se"], object), n)
    dates = np.datetime64("2023-11-30T22") + rng.integers(-9000, 9000, n).astype("m8[h]")
    dates[rng.random(n) < 0.2] = np.datetime64("NaT", "h")
    return numbers, texts, rng.integers(-1, 3, n).astype(np.int8), dates


def cuts(rows: int, pieces: int = 4) -> st.SearchStrategy[list[int]]:
    """Sorted cut points that divide rows into pieces, some of which may be empty."""
    return st.lists(st.integers(0, rows), min_size=0, max_size=pieces - 1).map(
        lambda points: [0, *sorted(points), rows]
    )


def chunks(rows: int, pieces: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    """Chunk sizes that add up to rows; some may be 0."""
    return cuts(rows, pieces).map(lambda points: tuple(b - a for a, b in itertools.pairwise(points)))


def user_arrays(data: Data) -> tuple[NDArray[Any], NDArray[Any], dict[str, Any]]:
    """Arrays as a user would pass them: no axes of size 1."""
    scores = data.scores[..., 0] if data.layout.vector else data.scores
    scores = scores[0] if data.layout.batch == 1 else scores
    labels = data.labels[0] if data.labels.shape[0] == 1 else data.labels
    if scores.ndim > 1 and data.layout.vector and labels.ndim == 1:
        labels = np.broadcast_to(labels, scores.shape)
    options = {
        "sample_weight": None if data.weights is None else data.weights[0],
        "by": None if data.group is None else {"slice": data.group},
        # Labels and scores of one shape can be read in three ways.
        "task": "binary" if data.layout.vector else None,
    }
    return labels, scores, options

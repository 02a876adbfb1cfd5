"""Reading blocks of rows that come one after the other, from an iterable or a stream of batches."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from calibdask.data.arrays import NamedArrays, check_lengths, filter_of, hosted, layout_of, numbered
from calibdask.data.class_names import Encoded, encode_labels
from calibdask.data.input import Input
from calibdask.data.logits_check import check_logits
from calibdask.data.options import InputOptions
from calibdask.data.shapes import Shape
from calibdask.data.streams import Piece, RowStream
from calibdask.engine.arrays import check_types
from calibdask.engine.axes import Axis
from calibdask.engine.row_filter import RowFilter
from calibdask.engine.rows import Rows
from calibdask.engine.sources.memory import MemorySource, pieces


def read_blocks(
    blocks: Iterable[tuple[Any, ...]] | Callable[[], Iterable[tuple[Any, ...]]], options: InputOptions
) -> Input:
    """A source for blocks (y_true, y_prob) or (y_true, y_prob, sample_weight) of arrays in memory.

    ``blocks`` is an iterable that can be iterated repeatedly, or a function that returns an iterator: estimators with
    equal-mass bins make several passes.

    Raises
    ------
    ValueError
        If a block is none, or differs from the first one in its kind.
    """
    once = isinstance(blocks, Iterator)
    passes = 0

    def iterate() -> Iterator[_Block]:
        nonlocal passes
        passes += 1
        if once and passes > 1:
            raise ValueError(
                "These metrics need several passes, but the iterator of blocks is exhausted; "
                "give a list, or a function that returns a new iterator."
            )
        return (_Block.of(block, options) for block in (blocks() if callable(blocks) else blocks))

    first, peeked = _peeked(iterate)
    check_logits(first.rows.scores, first.shape)

    def iterate_all() -> Iterator[Rows]:
        for block in peeked():
            rows = _like(first.rows, block.rows)
            yield from pieces(rows if block.filter is None else block.filter.kept(rows))

    shape = first.shape
    batch = _problems(shape, first.classes)
    weighted = first.rows.weights is not None or (first.filter is not None and first.filter.by_cell)
    layout = layout_of(shape, first.rows.scores.dtype, first.rows.scores.shape[0], weighted=weighted)
    source = MemorySource(iterate_all, layout, options.validity)
    return Input(source, batch, classes=None if shape.vector else first.classes, options=options)


def read_stream(stream: RowStream, options: InputOptions) -> Input:
    """A source for rows that come in batches; a pass finds the distinct values of slices.

    Raises
    ------
    ValueError
        If labels are names that nobody has ordered, or the task does not fit the columns.
    """
    shape = _stream_shape(stream, options)
    columns: Any = stream.empty.scores
    if stream.names.classes is not None:
        coordinates = {options.class_dim: list(stream.names.classes)}
        columns = xr.DataArray(columns, coordinates, (options.sample_dims[0], options.class_dim))

    def encoded(labels: np.ndarray) -> Encoded:
        return encode_labels(labels, columns, shape, whole=False)

    def read(piece: Piece) -> Rows:
        check_logits(piece.scores, shape)
        weights = None if piece.weights is None else shape.weights(piece.weights)
        arrays = shape.labels(encoded(piece.labels).labels), shape.scores(piece.scores)
        return replace(_rows(numbered(NamedArrays(*arrays, weights, {}, {}), shape), shape), group=piece.group)

    known = encoded(stream.empty.labels)
    stream.check_types()
    row_filter = filter_of(shape, known)
    coding, axes = stream.slices(None if row_filter is None else lambda piece: row_filter.mask(read(piece)))

    def iterate() -> Iterator[Rows]:
        for rows in map(read, stream.pieces(coding)):
            yield from pieces(rows if row_filter is None else row_filter.kept(rows))

    batch = _problems(shape, known.classes)
    weighted = stream.weight is not None or (row_filter is not None and row_filter.by_cell)
    sizes = [int(np.prod([axis.size for axis in group], dtype=np.int64)) for group in (batch, axes)]
    layout = layout_of(shape, stream.score_type, *sizes, weighted=weighted)
    source = MemorySource(iterate, layout, options.validity)
    classes = None if shape.vector or known.classes is None else np.asarray(known.classes, object)
    return Input(source, batch, axes, classes, options=options)


def _stream_shape(stream: RowStream, options: InputOptions) -> Shape:
    """How columns of labels and of scores are read."""
    labels, scores, task = stream.label_columns, stream.score_columns, options.task
    if labels is not None and task not in ("multiclass", "multilabel"):
        raise ValueError(
            f"{labels} columns of labels can be read in two ways. Say which: task='multiclass' if their rows are "
            "one-hot; task='multilabel' if every column is a yes or no of its own. At the shell: --task."
        )
    if (scores is None) != (task in (None, "binary")) and task is not None:
        expected = "one column of scores, P(y = 1)" if task == "binary" else "a column of scores for each class"
        raise ValueError(f"task={task!r} expects {expected}, got {1 if scores is None else scores}.")
    if (task == "multilabel" and labels is None) or (labels is not None and labels != scores):
        raise ValueError(
            f"task={task!r} expects a column of labels for each of the {scores} columns of scores, in their order, "
            f"got {1 if labels is None else labels}."
        )
    return Shape(options, scores, one_hot=task == "multiclass" and labels is not None, multilabel=task == "multilabel")


def _problems(shape: Shape, classes: Any) -> tuple[Axis, ...]:
    """The axis of classes that are problems of their own."""
    if not shape.multilabel or shape.columns is None:
        return ()
    return (Axis(shape.options.class_dim, shape.columns, np.arange(shape.columns) if classes is None else classes),)


@dataclass(frozen=True)
class _Block:
    """The rows of a block, how they were read, the names of the classes, and what of it is left out."""

    rows: Rows
    shape: Shape
    classes: Any
    filter: RowFilter | None

    @classmethod
    def of(cls, block: Any, options: InputOptions) -> "_Block":
        """Read one block."""
        if not isinstance(block, tuple | list) or len(block) not in (2, 3) or any(part is None for part in block):
            given = "one with None" if isinstance(block, tuple | list) else type(block).__name__
            raise ValueError(
                f"A block expects (y_true, y_prob) or (y_true, y_prob, sample_weight), got {given}; where these are "
                "all rows, give both: evaluate(y_true, y_prob)."
            )
        names = ("y_true", "y_prob", "sample_weight")
        arrays = [hosted(name, array) for name, array in zip(names, block, strict=False)]
        shape = Shape.of(arrays[0], arrays[1], options)
        encoded = encode_labels(arrays[0], arrays[1], shape, whole=False)
        weights = shape.weights(arrays[2]) if len(arrays) == 3 else None
        named = numbered(NamedArrays(shape.labels(encoded.labels), shape.scores(arrays[1]), weights, {}, {}), shape)
        others = {"labels": named.labels} | ({} if weights is None else {"weights": weights})
        check_types(named.scores, others)
        check_lengths(named.scores.sizes[options.sample_dims[0]], others, options.sample_dims[0])
        return cls(_rows(named, shape), shape, encoded.classes, filter_of(shape, encoded))


def _rows(named: NamedArrays, shape: Shape) -> Rows:
    """Rows of a block; for a multilabel task every class is a batch element."""
    scores, labels = np.asarray(named.scores.data), np.asarray(named.labels.data)
    if shape.multilabel:
        scores, labels = scores.T[..., None], labels.T
    else:
        scores, labels = (scores[..., None] if shape.vector else scores)[None], labels[None]
    return Rows(scores, labels, None if named.weights is None else np.asarray(named.weights.data)[None])


def _like(first: Rows, rows: Rows) -> Rows:
    """Check that rows have the classes, precision and weights of the first block, and return them."""
    types = [np.result_type(block.scores.dtype, np.float32) for block in (first, rows)]
    widths = [block.width * block.labels.shape[0] for block in (first, rows)]
    if (
        (rows.width, rows.labels.shape[0]) != (first.width, first.labels.shape[0])
        or types[0] != types[1]
        or (rows.weights is None) != (first.weights is None)
    ):
        raise ValueError(
            "Blocks expect the same classes and precision, and weights in all or none; got a block of scores of "
            f"{widths[0]} columns, {types[0]}, {_weights_text(first)} weights, and one of {widths[1]}, {types[1]}, "
            f"{_weights_text(rows)}."
        )
    return rows


def _weights_text(rows: Rows) -> str:
    return "without" if rows.weights is None else "with"


def _peeked(iterate: Callable[[], Iterator[_Block]]) -> tuple[_Block, Callable[[], Iterator[_Block]]]:
    """The first block, and an iteration whose first pass includes it."""
    running = iterate()
    first = next(running, None)
    if first is None:
        raise ValueError("Expected at least one block of (y_true, y_prob), got none.")
    waiting = [(first, running)]

    def iterate_all() -> Iterator[_Block]:
        head, rest = waiting.pop() if waiting else (None, iterate())
        if head is not None:
            yield head
        yield from rest

    return first, iterate_all

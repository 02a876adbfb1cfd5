"""Reading blocks of rows that come one after the other, from an iterable or a stream of batches."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import xarray as xr

from calibdask.data.arrays import NamedArrays, check_lengths, filter_of, hosted, layout_of, numbered
from calibdask.data.class_names import Encoded, encode_labels
from calibdask.data.clusters import cluster_numbers
from calibdask.data.input import Input
from calibdask.data.label_numbers import refuse_stray
from calibdask.data.models import MODEL, check_compatible
from calibdask.data.options import InputOptions
from calibdask.data.shapes import Shape
from calibdask.data.slices import missing_slices
from calibdask.data.streams import Piece, RowStream
from calibdask.engine.arrays import StrayValue, check_types
from calibdask.engine.axes import Axis
from calibdask.engine.row_filter import RowFilter
from calibdask.engine.row_notes import OtherLabels
from calibdask.engine.rows import Rows
from calibdask.engine.sources.memory import MemorySource, pieces
from calibdask.safe_text import listed


def read_blocks(
    blocks: Iterable[tuple[Any, ...]] | Callable[[], Iterable[tuple[Any, ...]]], options: InputOptions
) -> Input:
    """A source for blocks (y_true, y_prob[, sample_weight[, groups]]) of arrays in memory.

    The weights of blocks with clusters may be None.
    ``blocks`` is an iterable that can be iterated repeatedly, or a function that returns an iterator: estimators with
    equal-mass bins make several passes.

    Raises
    ------
    ValueError
        If a block is none, or differs from the first one in its kind.
    """
    if options.groups is not None:
        raise ValueError(
            "Blocks contain the clusters of their rows, as (y_true, y_prob, sample_weight, groups), where "
            "sample_weight may be None; omit groups."
        )
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
        return _located(iter(blocks() if callable(blocks) else blocks), options)

    first, peeked = _peeked(iterate)

    def iterate_all() -> Iterator[Rows]:
        for block in peeked():
            source.other_labels = source.other_labels.merged(block.others)
            if block.models != first.models:
                raise ValueError(
                    f"Blocks expect the same models, got {listed(first.models) or 'none'} and "
                    f"{listed(block.models) or 'none'}."
                )
            rows = _like(first.rows, block.rows)
            yield from pieces(rows if block.filter is None else block.filter.kept(rows))

    shape = first.shape
    batch = (*_model_axes(first.models), *_problems(shape, first.classes))
    weighted = first.rows.weights is not None or (first.filter is not None and first.filter.by_cell)
    clustered = first.rows.clusters is not None
    batch_size = first.rows.scores.shape[0]
    layout = layout_of(shape, first.rows.scores.dtype, batch_size, weighted=weighted, clustered=clustered)
    source = MemorySource(iterate_all, layout, options.validity)
    source.batch = batch
    return Input(source, batch, classes=None if shape.vector else first.classes, options=options)


def read_stream(stream: RowStream, options: InputOptions) -> Input:
    """A source for rows that come in batches; a pass finds the distinct values of slices.

    Raises
    ------
    ValueError
        If labels are names that nobody has ordered, or the task does not fit the columns.
    """
    shape = _stream_shape(stream, options)
    columns: Any = stream.empty.scores[0]
    if stream.names.classes is not None:
        coordinates = {options.class_dim: list(stream.names.classes)}
        columns = xr.DataArray(columns, coordinates, (options.sample_dims[0], options.class_dim))

    def encoded(labels: np.ndarray) -> Encoded:
        return encode_labels(labels, columns, shape, whole=False)

    others = OtherLabels()

    def read(piece: Piece) -> Rows:
        nonlocal others
        labelled = encoded(piece.labels)
        others = others.merged(labelled.others)
        labels = shape.labels(labelled.labels)
        weights = None if piece.weights is None else shape.weights(piece.weights)
        rows = _rows_of_models(labels, piece.scores, weights, shape)
        return replace(rows, group=piece.group, clusters=piece.clusters)

    if shape.columns is None and not options.names_classes and stream.label_type.kind not in "fiub":
        refuse_stray(stream.labels)
    known = encoded(stream.empty.labels)
    stream.check_types()
    check_compatible({name: shape.scores(one) for name, one in zip(stream.models, stream.empty.scores, strict=False)})
    row_filter = filter_of(shape, known)
    coding, axes = stream.slices(None if row_filter is None else lambda piece: row_filter.mask(read(piece)))
    if row_filter is not None and not math.prod(axis.size for axis in axes):
        # No row is left, which the source refuses; by no slices it could not say so.
        coding, axes = stream.slices(None)
    counting = None if row_filter is None else replace(row_filter, missing_slices=missing_slices(axes))

    def iterate() -> Iterator[Rows]:
        for rows in map(read, stream.pieces(coding)):
            yield from pieces(rows if counting is None else counting.kept(rows))
        source.other_labels = others

    def original_row(row: int) -> int:
        start = 0
        for rows in map(read, stream.pieces(None)):
            kept = np.arange(rows.count) if row_filter is None else row_filter.positions(rows)
            if row < len(kept):
                return start + int(kept[row])
            start, row = start + rows.count, row - len(kept)
        return start + row

    batch = (*_model_axes([*stream.models]), *_problems(shape, known.classes))
    weighted = stream.weight is not None or (row_filter is not None and row_filter.by_cell)
    sizes = [int(np.prod([axis.size for axis in group], dtype=np.int64)) for group in (batch, axes)]
    layout = layout_of(shape, stream.score_type, *sizes, weighted=weighted, clustered=stream.groups is not None)
    source = MemorySource(iterate, layout, options.validity)
    if row_filter is not None and not stream.batches.once:
        source.original_row = original_row
    classes = None if shape.vector or known.classes is None else np.asarray(known.classes, object)
    source.batch = batch
    return Input(source, batch, axes, classes, options=options)


def _stream_shape(stream: RowStream, options: InputOptions) -> Shape:
    """How columns of labels and of scores are read."""
    labels, scores, task = stream.label_columns, stream.score_columns, options.task
    if labels is not None and task not in ("multiclass", "multilabel"):
        raise ValueError(
            f"{labels} columns of labels are ambiguous; set task='multiclass' if their rows are "
            "one-hot; task='multilabel' if every column is an independent label. At the shell: --task."
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


def _model_axes(models: Sequence[Any]) -> tuple[Axis, ...]:
    """The axis of several models."""
    return (Axis(MODEL, len(models), np.array(models)),) if models else ()


def _problems(shape: Shape, classes: Any) -> tuple[Axis, ...]:
    """The axis of classes that are problems of their own."""
    if not shape.multilabel or shape.columns is None:
        return ()
    return (Axis(shape.options.class_dim, shape.columns, np.arange(shape.columns) if classes is None else classes),)


@dataclass(frozen=True)
class _Block:
    """The rows of a block, its shape, names of classes and models, the row filter, and other labels."""

    rows: Rows
    shape: Shape
    classes: Any
    filter: RowFilter | None
    models: list[Any]
    others: OtherLabels

    @classmethod
    def of(cls, block: Any, options: InputOptions) -> "_Block":
        """Read one block."""
        is_block = isinstance(block, tuple | list) and len(block) in (2, 3, 4)
        clusters = block[3] if is_block and len(block) == 4 else None
        if clusters is not None:
            block = [part for part in block[:3] if part is not None]
            is_block = len(block) >= 2
        if not is_block or any(part is None for part in block):
            given = "one with None" if isinstance(block, tuple | list) else type(block).__name__
            raise ValueError(
                f"A block expects (y_true, y_prob[, sample_weight[, groups]]), got {given}; if these are all rows, "
                "pass both arguments: evaluate(y_true, y_prob)."
            )
        y_true, y_prob, *weighting = block
        models = list(y_prob) if isinstance(y_prob, Mapping) else []
        scores = [hosted("y_prob", one) for one in (y_prob.values() if models else [y_prob])]
        y_true = hosted("y_true", y_true)
        shape = Shape.of(y_true, scores[0], options)
        encoded = encode_labels(y_true, scores[0], shape, whole=False)
        labels = shape.labels(encoded.labels)
        weights = shape.weights(hosted("sample_weight", weighting[0])) if weighting else None
        others = {"labels": labels} | ({} if weights is None else {"weights": weights})
        variables = [shape.scores(one) for one in scores]
        for one in variables:
            check_types(one, others)
            check_lengths(one.sizes[options.sample_dims[0]], others, options.sample_dims[0])
        check_compatible(dict(zip(models, variables, strict=False)))
        rows = _rows_of_models(labels, scores, weights, shape)
        if clusters is not None:
            rows = replace(rows, clusters=cluster_numbers(clusters))
        return cls(rows, shape, encoded.classes, filter_of(shape, encoded), models, encoded.others)


def _located(blocks: Iterator[Any], options: InputOptions) -> Iterator[_Block]:
    """Read blocks; errors about a value name the row of all rows."""
    rows = 0
    for block in blocks:
        try:
            made = _Block.of(block, options)
        except StrayValue as error:
            first = error.after(rows)
            for other in chain([block], blocks) if error.is_text else ():
                try:
                    rows += _Block.of(other, options).rows.count
                except StrayValue as later:
                    if not later.is_text:
                        raise later.after(rows) from None
                    rows += len(other[0])
            raise first from None
        except ValueError:
            if not options.names_classes and isinstance(block, tuple | list) and np.ndim(block[0]) == 1:
                refuse_stray((np.asarray(one[0], object) for one in chain([block], blocks)), rows)
            raise
        rows += made.rows.count
        yield made


def _rows_of_models(labels: xr.Variable, scores: Sequence[Any], weights: xr.Variable | None, shape: Shape) -> Rows:
    """Rows with the scores of all models, which are first in the batch."""
    named = (NamedArrays(labels, shape.scores(one), weights, {}, {}) for one in scores)
    first, *others = of_each = [_rows(numbered(one, shape), shape) for one in named]
    if not others:
        return first
    # One label for each row; with multilabel data one for each class.
    own_labels = np.concatenate([rows.labels for rows in of_each]) if shape.multilabel else first.labels
    return replace(first, scores=np.concatenate([rows.scores for rows in of_each]), labels=own_labels)


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
        or (rows.clusters is None) != (first.clusters is None)
    ):
        raise ValueError(
            "Blocks expect the same classes and precision, and weights and groups in all or none; got a block of "
            f"scores of {widths[0]} columns, {types[0]}, {_columns_text(first)}, and one of {widths[1]}, {types[1]}, "
            f"{_columns_text(rows)}."
        )
    return rows


def _columns_text(rows: Rows) -> str:
    weights, groups = ("without" if column is None else "with" for column in (rows.weights, rows.clusters))
    return f"{weights} weights, {groups} groups"


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

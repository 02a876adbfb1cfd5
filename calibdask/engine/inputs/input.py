"""Reading inputs - NumPy, Dask, xarray, pandas, dask.dataframe, blocks - as one source."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.inputs import slices
from calibdask.engine.inputs.arrays import as_variable, check_types, is_dask, with_axis
from calibdask.engine.inputs.frames import is_frame, joined_arrays, series_codes
from calibdask.engine.inputs.rows import Rows
from calibdask.engine.inputs.slices import Axis, Coded
from calibdask.engine.inputs.streams import RowStream
from calibdask.engine.sources.memory import MemorySource, piece_count, pieces
from calibdask.engine.sources.source import Source
from calibdask.statistics.layout import Layout
from calibdask.statistics.validity import Validity

__all__ = ["Input", "check_coordinates", "frames_to_arrays", "read_arrays", "read_blocks", "read_data", "read_stream"]


Blocks = Iterable[tuple[Any, ...]]


@dataclass(frozen=True)
class Input:
    """A source, and the user's names and labels of its axes.

    The groups of a summary include dimensions such as models: ``batch_names`` are the axes of ``by`` other than slices.
    """

    source: Source
    batch: tuple[Axis, ...] = ()
    by: tuple[Axis, ...] = ()
    classes: Any = None
    batch_names: tuple[str, ...] = ()

    @property
    def slice_names(self) -> list[str]:
        """Names of the slices."""
        return [str(axis.name) for axis in self.by if str(axis.name) not in self.batch_names]


def read_data(
    y_true: Any, y_prob: Any, by: Any, sample_weight: Any, sample_dim: str, class_dim: str, sum_tolerance: float
) -> Input:
    """A source for arrays, or for blocks where there is no ``y_prob``.

    Raises
    ------
    ValueError
        If shapes or types do not match.
    """
    validity = Validity(sum_tolerance=sum_tolerance)
    if isinstance(y_true, RowStream):
        return read_stream(y_true, validity)
    if y_prob is not None:
        return read_arrays(y_true, y_prob, by, sample_weight, sample_dim, class_dim, validity)
    if by is not None or sample_weight is not None:
        raise ValueError("Blocks expect their weights inside, as (y_true, y_prob, sample_weight), and take no by.")
    return read_blocks(y_true, validity)


def read_arrays(
    y_true: Any, y_prob: Any, by: Any, sample_weight: Any, sample_dim: str, class_dim: str, validity: Validity
) -> Input:
    """A source for arrays of any supported kind; reads no data except the distinct values of ``by``.

    Raises
    ------
    ValueError
        If shapes or types do not match.
    """
    frame_columns = getattr(y_prob, "columns", None)
    inputs, by = frames_to_arrays({"y_true": y_true, "y_prob": y_prob, "sample_weight": sample_weight}, by)
    y_true, y_prob, sample_weight = inputs["y_true"], inputs["y_prob"], inputs["sample_weight"]
    scores, others = _variables(y_true, y_prob, sample_weight, sample_dim, class_dim)
    vector = class_dim not in scores.dims
    n = scores.sizes[sample_dim]
    labelled = [array for array in (y_prob, y_true, sample_weight) if isinstance(array, xr.DataArray)]
    check_coordinates(labelled, class_dim)
    batch = _batch_axes((scores, *others.values()), {sample_dim, class_dim}, labelled)
    group, axes = slices.coded(by, n, sample_dim)
    layout = Layout(
        batch=_product(batch),
        groups=_product(axes),
        classes=2 if vector else scores.sizes[class_dim],
        vector=vector,
        rows=int(n) if sample_weight is None and group is None and n == n else None,
        dtype="float32" if scores.dtype in (np.float16, np.float32) else "float64",
        weighted=sample_weight is not None,
    )
    tail = (sample_dim,) if vector else (sample_dim, class_dim)
    flat = _flattened(scores, batch if _extra(scores, *tail) else (), tail)
    flattened = {
        name: _flattened(v, batch if _extra(v, sample_dim) else (), (sample_dim,)) for name, v in others.items()
    }
    source = _source(with_axis(flat, 2) if vector else flat, flattened, group, layout, validity)
    return Input(source, batch, axes, None if vector else _class_labels(y_prob, class_dim, frame_columns))


def read_blocks(
    blocks: Iterable[tuple[Any, ...]] | Callable[[], Iterable[tuple[Any, ...]]], validity: Validity
) -> Input:
    """A source for blocks (y_true, y_prob) or (y_true, y_prob, sample_weight) of NumPy arrays.

    ``blocks`` is an iterable that can be iterated repeatedly, or a function that returns an iterator: estimators with
    equal-mass bins make several passes.
    """
    once = isinstance(blocks, Iterator)
    passes = 0

    def iterate() -> Iterator[Rows]:
        nonlocal passes
        passes += 1
        if once and passes > 1:
            raise ValueError(
                "These metrics need several passes, but the iterator of blocks is exhausted; "
                "give a list, or a function that returns a new iterator."
            )
        return (rows for block in (blocks() if callable(blocks) else blocks) for rows in pieces(_block_rows(block)))

    first, peeked = _peeked(iterate)

    def iterate_all() -> Iterator[Rows]:
        return (_like(first, rows) for rows in peeked())

    layout = Layout(
        classes=2 if first.scores.shape[2] == 1 else first.width,
        vector=first.scores.shape[2] == 1,
        dtype="float32" if first.scores.dtype in (np.float16, np.float32) else "float64",
        weighted=first.weights is not None,
    )
    return Input(MemorySource(iterate_all, layout, validity))


def read_stream(stream: RowStream, validity: Validity) -> Input:
    """A source for rows that come in batches; a pass finds the distinct values of slices."""
    stream.check_types()
    coding, axes = stream.slices()
    layout = Layout(
        groups=_product(axes),
        classes=max(2, len(stream.names.scores)),
        vector=stream.vector,
        dtype="float32" if stream.score_type in (np.float16, np.float32) else "float64",
        weighted=stream.weight is not None,
    )

    def iterate() -> Iterator[Rows]:
        return (piece for rows in stream.rows(coding) for piece in pieces(rows))

    classes = None if stream.names.classes is None else np.asarray(stream.names.classes, object)
    return Input(MemorySource(iterate, layout, validity), (), axes, classes)


def _like(first: Rows, rows: Rows) -> Rows:
    """The rows, checked to have the same classes, precision and weights as the first block."""
    types = [np.result_type(block.scores.dtype, np.float32) for block in (first, rows)]
    if rows.width != first.width or types[0] != types[1] or (rows.weights is None) != (first.weights is None):
        raise ValueError(
            "Blocks expect the same classes and precision, and weights in all or none; got a block of scores of "
            f"{first.width} columns, {types[0]}, {_weights_word(first)} weights, and one of {rows.width}, {types[1]}, "
            f"{_weights_word(rows)}."
        )
    return rows


def _weights_word(rows: Rows) -> str:
    return "without" if rows.weights is None else "with"


def _peeked(iterate: Callable[[], Iterator[Rows]]) -> tuple[Rows, Callable[[], Iterator[Rows]]]:
    """The first piece, and an iteration whose first pass includes it."""
    running = iterate()
    first = next(running, None)
    if first is None:
        raise ValueError("Expected at least one block of (y_true, y_prob), got none.")
    waiting = [(first, running)]

    def iterate_all() -> Iterator[Rows]:
        head, rest = waiting.pop() if waiting else (None, iterate())
        if head is not None:
            yield head
        yield from rest

    return first, iterate_all


def _block_rows(block: Any) -> Rows:
    if not isinstance(block, tuple | list) or len(block) not in (2, 3) or any(part is None for part in block):
        raise ValueError("A block expects (y_true, y_prob) or (y_true, y_prob, sample_weight).")
    scores, others = _variables(block[0], block[1], block[2] if len(block) == 3 else None, "sample", "class")
    vector = "class" not in scores.dims
    values = np.asarray(scores.data)[None]
    arrays = {name: np.asarray(v.data)[None] for name, v in others.items()}
    return Rows(values[..., None] if vector else values, arrays["labels"], arrays.get("weights"))


def _variables(
    y_true: Any, y_prob: Any, sample_weight: Any, sample_dim: str, class_dim: str
) -> tuple[xr.Variable, dict[str, xr.Variable]]:
    """Scores, and labels and weights by name, with named dimensions, and checked types and lengths."""
    labels = as_variable("y_true", y_true, sample_dim, None, None)
    scores = as_variable("y_prob", y_prob, sample_dim, class_dim, labels)
    others = {"labels": labels}
    if sample_weight is not None:
        others["weights"] = as_variable("sample_weight", sample_weight, sample_dim, None, None)
    check_types(scores, others)
    _check_lengths(scores.sizes[sample_dim], others, sample_dim)
    return scores, others


def check_coordinates(labelled: list[xr.DataArray], class_dim: str) -> None:
    """Raise ValueError for labelled arrays with different coordinates along a common dimension."""
    try:
        xr.align(*(array.drop_vars(class_dim, errors="ignore") for array in labelled), join="exact", copy=False)
    except ValueError as error:
        raise ValueError(
            "y_true, y_prob and sample_weight expect equal coordinates along their common dimensions; "
            f"align them first, for example by xarray.align. {str(error).splitlines()[0]}"
        ) from error


def _check_lengths(n: float, variables: dict[str, xr.Variable], sample_dim: str) -> None:
    for name, variable in variables.items():
        length = variable.sizes[sample_dim]
        if length == length and n == n and length != n:
            raise ValueError(f"y_prob and {name} expect equally many rows, got {n} rows of scores and {length} {name}.")


def _extra(variable: xr.Variable, *known: str) -> list[Hashable]:
    return [dim for dim in variable.dims if dim not in known]


def _batch_axes(variables: Iterable[xr.Variable], known: set[str], labelled: list[xr.DataArray]) -> tuple[Axis, ...]:
    """Extra dimensions of all inputs, in order of appearance, with their coordinates."""
    sizes: dict[Hashable, int] = {}
    for variable in variables:
        for dim in _extra(variable, *known):
            if sizes.setdefault(dim, variable.sizes[dim]) != variable.sizes[dim]:
                raise ValueError(
                    f"The inputs expect equal sizes along {dim!r}, got {sizes[dim]} and {variable.sizes[dim]}."
                )
    coords = {dim: array[dim].values for array in reversed(labelled) for dim in array.dims if dim in array.coords}
    return tuple(Axis(dim, size, coords.get(dim)) for dim, size in sizes.items())


def _product(axes: Iterable[Axis]) -> int:
    return int(np.prod([axis.size for axis in axes], dtype=np.int64))


def _flattened(variable: xr.Variable, batch: tuple[Axis, ...], tail: tuple[str, ...]) -> Any:
    """Data with all batch dimensions merged into one leading axis, of size 1 without any."""
    names = [axis.name for axis in batch]
    missing = {axis.name: axis.size for axis in batch if axis.name not in variable.dims}
    sizes = {**missing, **variable.sizes}
    data = (variable.set_dims(sizes) if missing else variable).transpose(*names, *tail).data
    if len(names) == 1:
        return data
    if not names:
        return with_axis(data, 0)
    if any(size != size for size in data.shape):
        raise ValueError(
            "Several extra dimensions expect known chunk sizes along the sample dimension; "
            "call compute_chunk_sizes() first."
        )
    return data.reshape(_product(batch), *data.shape[len(names) :])


def frames_to_arrays(inputs: Mapping[str, Any], by: Any) -> tuple[dict[str, Any], Any]:
    """The inputs with columns of Dask data frames converted to arrays with common chunks."""
    frames = {name: frame for name, frame in inputs.items() if is_frame(frame)}
    slicing = slices.named(by)
    coded = {name: series_codes(str(name), values) for name, values in slicing.items() if is_frame(values)}
    if not frames and not coded:
        return dict(inputs), by
    arrays = joined_arrays(frames | {f"by {name!r}": codes for name, (codes, _) in coded.items()})
    by = {
        name: Coded(arrays[f"by {name!r}"], coded[name][1]) if name in coded else values
        for name, values in slicing.items()
    }
    return {name: arrays.get(name, values) for name, values in inputs.items()}, by


def _class_labels(y_prob: Any, class_dim: str, frame_columns: Any) -> Any:
    """Coordinate labels of the classes: of an xarray object, or the columns of a data frame."""
    if isinstance(y_prob, xr.DataArray):
        return y_prob[class_dim].values if class_dim in y_prob.coords else None
    return None if frame_columns is None else np.asarray(frame_columns, object)


def _source(scores: Any, others: dict[str, Any], group: Any, layout: Layout, validity: Validity) -> Source:
    if not any(is_dask(array) for array in (scores, *others.values(), group)):
        rows = Rows(scores, others["labels"], others.get("weights"), group)
        return MemorySource(lambda: pieces(rows), layout, validity, piece_count(rows))
    from calibdask.engine.sources.dask import DaskSource

    return DaskSource(scores, {**others, "groups": group}, layout, validity)

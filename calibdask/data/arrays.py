"""Arrays of all kinds - NumPy, Dask, xarray, pandas, dask.dataframe, tensors - as one source."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from calibdask.data import slices
from calibdask.data.class_names import Encoded, encode_labels
from calibdask.data.clusters import CLUSTERS, checked_clusters, clusters_of, stacked_clusters
from calibdask.data.features import FeatureColumn, feature_column, series_feature
from calibdask.data.frames import aligned, check_divisions, complete_rows, is_frame, joined_arrays, series_codes
from calibdask.data.input import Input
from calibdask.data.models import MODEL, check_columns, scores_of_models
from calibdask.data.options import InputOptions
from calibdask.data.shapes import Shape, stacked, stacked_slices
from calibdask.data.slices import SliceCodes
from calibdask.engine.arrays import (
    check_types,
    is_dask,
    is_named,
    is_pandas,
    numbers_of_objects,
    plain,
    rows_of_lists,
    speaks_protocols,
    with_axis,
)
from calibdask.engine.axes import Axis
from calibdask.engine.one_hot import decoded
from calibdask.engine.row_filter import RowFilter
from calibdask.engine.rows import Rows
from calibdask.engine.sources.memory import MemorySource, piece_count, pieces
from calibdask.engine.sources.source import RowSource
from calibdask.statistics.layout import Layout


@dataclass(frozen=True)
class NamedArrays:
    """Labels, scores and weights with named dimensions, what slices them, and the coordinates of their dimensions."""

    labels: xr.Variable
    scores: xr.Variable
    weights: xr.Variable | None
    by: Mapping[Hashable, Any]
    coordinates: Mapping[Hashable, Any]
    features: tuple[FeatureColumn, ...] = ()
    clusters: Any = None


def read_arrays(
    y_true: Any,
    y_prob: Any,
    by: Any,
    sample_weight: Any,
    options: InputOptions,
    features: Mapping[str, Any] | None = None,
) -> Input:
    """A source for arrays of any supported kind; reads no data except the distinct values of ``by``.

    With a mapping from the names of models to their scores as ``y_prob``, the dimension ``model`` is the first one.

    Raises
    ------
    ValueError
        If shapes or types do not match.
    """
    models = y_prob if isinstance(y_prob, Mapping) else {}
    check_columns(models)
    of_models = {f"y_prob of {name!r}": scores for name, scores in models.items()} or {"y_prob": y_prob}
    slicing = slices.named(by)
    names = {name: f"by {name!r}" for name in slicing}
    of_features = {name: f"feature {name!r}" for name in features or {}}
    arrays = {"y_true": y_true, **of_models, "sample_weight": sample_weight}
    arrays = {name: hosted(name, array) for name, array in arrays.items()}
    arrays |= clusters_of(options)
    arrays = aligned(arrays | _renamed(slicing, names) | _renamed(features or {}, of_features))
    slicing = {name: arrays.pop(argument) for name, argument in names.items()}
    columns = {name: arrays.pop(argument) for name, argument in of_features.items()}
    shapes = {name: Shape.of(arrays["y_true"], arrays[name], options) for name in of_models}
    first = next(iter(shapes))
    shape = shapes[first]
    encoded = encode_labels(arrays["y_true"], arrays[first], shape)
    arrays["y_true"] = encoded.labels
    if any(map(is_frame, (*arrays.values(), *slicing.values(), *columns.values()))):
        arrays, slicing, columns = frames_to_arrays(arrays, slicing, columns, shape)
    inputs = {name: arrays[name] for name in (*of_models, "y_true", "sample_weight")}
    labelled = [array for array in inputs.values() if isinstance(array, xr.DataArray)]
    check_coordinates(labelled, None if shape.multilabel or shape.one_hot else options.class_dim)
    labels = shape.labels(inputs["y_true"])
    scores = {name: own.scores(inputs[name], name) for name, own in shapes.items()}
    weights = inputs["sample_weight"]
    named = NamedArrays(
        labels,
        scores_of_models(dict(zip(models, scores.values(), strict=True))) if models else scores[first],
        None if weights is None else shape.weights(weights),
        slicing,
        coordinates_of(labelled) | ({MODEL: np.array(list(models))} if models else {}),
        tuple(feature_column(name, values) for name, values in columns.items()),
        arrays.get(CLUSTERS),
    )
    return read_named(named, shape, encoded)


def _renamed(arrays: Mapping[Any, Any], names: Mapping[Any, str]) -> dict[str, Any]:
    return {names[name]: array for name, array in arrays.items()}


def hosted(name: str, array: Any) -> Any:
    """Tensors and series of other libraries as NumPy arrays; what has names or is read later stays as it is."""
    if is_dask(array):
        array = plain(array)
        is_objects = not is_frame(array) and array.dtype.kind in "OSU" and name != "y_true"
        return array.map_blocks(numbers_of_objects, name, dtype=np.float64) if is_objects else array
    if type(array).__module__.startswith("scipy.sparse"):
        raise ValueError(f"{name} is a sparse matrix, {type(array).__name__}; pass {name}.toarray().")
    known = type(array).__module__.partition(".")[0] in ("numpy", "pandas", "dask", "dask_expr", "xarray")
    foreign = not (known or hasattr(type(array), "columns")) and (hasattr(array, "to_numpy") or speaks_protocols(array))
    array = plain(array, name) if foreign or isinstance(array, list | tuple) else array
    if isinstance(array, np.ndarray):
        return numbers_of_objects(rows_of_lists(array, name) if array.dtype.kind == "O" else array, name)
    if is_named(array) and array.dtype.kind in "OSU" and name != "y_true":
        return array.copy(data=hosted(name, array.data))
    if not (is_pandas(array) and array.ndim == 1 and getattr(array.dtype, "kind", "") == "O"):
        return array
    rows = rows_of_lists(array.to_numpy(), name)
    if rows.ndim == 1:
        numbers = numbers_of_objects(rows, name)
        return array if numbers is rows else type(array)(numbers, array.index)
    import pandas as pd

    # Rows of pandas belong together by their index.
    return pd.DataFrame(rows, array.index)


def read_named(arrays: NamedArrays, shape: Shape, encoded: Encoded) -> Input:
    """A source for arrays with named dimensions."""
    options, class_dim = shape.options, shape.options.class_dim
    arrays, sample_dim = _one_sample_dim(numbered(arrays, shape), options)
    scores, others = arrays.scores, {"labels": arrays.labels}
    if arrays.weights is not None:
        others["weights"] = arrays.weights
    check_types(scores, others)
    n = scores.sizes[sample_dim]
    check_lengths(n, others, sample_dim)
    tail = (sample_dim,) if shape.vector else (sample_dim, class_dim)
    batch = _batch_axes((scores, *others.values()), {*tail}, _coordinates(arrays, shape, encoded))
    row_filter = filter_of(shape, encoded)
    flat = _flattened(scores, batch if _extra(scores, *tail) else (), tail)
    flattened = {
        name: _flattened(v, batch if _extra(v, sample_dim) else (), (sample_dim,)) for name, v in others.items()
    }
    for feature in arrays.features:
        feature.check_rows(n)
    columns = {f"feature {feature.name!r}": feature.values for feature in arrays.features}
    clusters = checked_clusters(arrays.clusters, n, sample_dim)
    rows = Rows(with_axis(flat, 2) if shape.vector else flat, flattened["labels"], flattened.get("weights"))
    keep = None if row_filter is None or not arrays.by else row_filter.mask(rows)
    group, axes = slices.coded(arrays.by, n, sample_dim, keep)
    if keep is not None and not _product(axes):
        # No row is left, which the source refuses; by no slices it could not say so.
        group, axes = slices.coded(arrays.by, n, sample_dim)
    if row_filter is not None:
        row_filter = replace(row_filter, missing_slices=slices.missing_slices(axes))
    weighted = arrays.weights is not None or (row_filter is not None and row_filter.by_cell)
    layout = layout_of(shape, scores.dtype, _product(batch), _product(axes), weighted=weighted)
    most = int(n) if n == n else None
    every_counts = not weighted and group is None and row_filter is None
    layout = replace(layout, rows=most if every_counts else None, most_rows=most, clustered=clusters is not None)
    source = _source(replace(rows, group=group, clusters=clusters), columns, layout, options, row_filter)
    if row_filter is not None:
        source.original_row = lambda row: int(row_filter.positions(rows)[row])
    source.take_other_labels(encoded.others, encoded.unknown)
    classes = None if shape.vector else encoded.classes
    source.batch = batch
    return Input(source, batch, axes, classes, features=arrays.features, options=options)


def filter_of(shape: Shape, encoded: Encoded) -> RowFilter | None:
    """The filter of rows that the options ask for; None where all rows count."""
    options = shape.options
    ignored = None if options.ignore_label is None else encoded.ignored(options.ignore_label)
    if ignored is None and not options.skip_missing:
        return None
    return RowFilter(ignored, options.skip_missing, by_cell=shape.multilabel)


def numbered(arrays: NamedArrays, shape: Shape) -> NamedArrays:
    """The arrays with one-hot rows decoded."""
    class_dim = shape.options.class_dim
    if not (shape.one_hot or shape.multilabel):
        return arrays
    if shape.options.ignore_label is not None:
        raise ValueError(
            "ignore_label expects one label for each row, not a column of labels for each class; omit such rows, or "
            "give them sample_weight 0."
        )
    columns, expected = arrays.labels.sizes[class_dim], arrays.scores.sizes[class_dim]
    if columns != expected:
        raise ValueError(
            f"y_true expects a column for each of the {expected} columns of y_prob, in their order, got {columns}."
        )
    if shape.multilabel:
        return arrays
    labels = decoded(arrays.labels, class_dim)
    return replace(arrays, labels=labels)


def _one_sample_dim(arrays: NamedArrays, options: InputOptions) -> tuple[NamedArrays, str]:
    """The arrays with all dimensions of samples as one, and its name."""
    dims = options.sample_dims
    if len(dims) == 1:
        return arrays, dims[0]
    sizes: dict[Hashable, int] = {dim: arrays.scores.sizes[dim] for dim in dims}
    for name, variable in (("labels", arrays.labels), ("weights", arrays.weights)):
        for dim in dims if variable is not None else ():
            if variable is not None and variable.sizes.get(dim, sizes[dim]) != sizes[dim]:
                raise ValueError(
                    f"The inputs expect equal sizes along {dim!r}, got {sizes[dim]} of scores and "
                    f"{variable.sizes[dim]} of {name}."
                )
    name = "sample"
    while name in {*arrays.scores.dims, *arrays.labels.dims}:
        name += "_"
    one = NamedArrays(
        stacked(arrays.labels, sizes, name),
        stacked(arrays.scores, sizes, name),
        None if arrays.weights is None else stacked(arrays.weights, sizes, name),
        {by: stacked_slices(values, sizes, name) for by, values in arrays.by.items()},
        arrays.coordinates,
        arrays.features,
        None if arrays.clusters is None else stacked_clusters(arrays.clusters, sizes, name),
    )
    return one, name


def _coordinates(arrays: NamedArrays, shape: Shape, encoded: Encoded) -> Mapping[Hashable, Any]:
    """Labels along the dimensions, with class labels for a multilabel task."""
    if not shape.multilabel or shape.columns is None:
        return arrays.coordinates
    classes = np.arange(shape.columns) if encoded.classes is None else encoded.classes
    return {**arrays.coordinates, shape.options.class_dim: classes}


def layout_of(
    shape: Shape,
    dtype: np.dtype[Any],
    batch: int = 1,
    groups: int = 1,
    *,
    weighted: bool,
    clustered: bool = False,
) -> Layout:
    """Layout of the data, known before a pass; scores are computed from logits in float64."""
    single = dtype in (np.float16, np.float32) and not shape.options.logits
    return Layout(
        batch=batch,
        groups=groups,
        classes=shape.classes,
        vector=shape.vector,
        dtype="float32" if single else "float64",
        half=bool(single and dtype == np.float16),
        weighted=weighted,
        logits=shape.options.logits,
        one_hot=shape.one_hot,
        clustered=clustered,
        sum_tolerance=shape.options.sum_tolerance,
    )


def coordinates_of(labelled: Iterable[xr.DataArray]) -> dict[Hashable, Any]:
    """Coordinates of the dimensions, each from the first array that has it."""
    arrays = list(labelled)
    return {dim: array[dim].values for array in reversed(arrays) for dim in array.dims if dim in array.coords}


def check_coordinates(labelled: list[xr.DataArray], class_dim: str | None) -> None:
    """Raise ValueError for labelled arrays with different coordinates along a common dimension but ``class_dim``."""
    arrays = [array.drop_vars(class_dim, errors="ignore") for array in labelled] if class_dim else labelled
    try:
        xr.align(*arrays, join="exact", copy=False)
    except ValueError as error:
        raise ValueError(
            "y_true, y_prob and sample_weight expect equal coordinates along their common dimensions; "
            f"align them first, for example by xarray.align. {str(error).splitlines()[0]}"
        ) from error


def check_lengths(n: float, variables: dict[str, xr.Variable], sample_dim: str) -> None:
    """Raise ValueError for another number of labels or weights than of scores."""
    for name, variable in variables.items():
        length = variable.sizes[sample_dim]
        if length == length and n == n and length != n:
            raise ValueError(f"y_prob and {name} expect equally many rows, got {n} rows of scores and {length} {name}.")


def _extra(variable: xr.Variable, *known: str) -> list[Hashable]:
    return [dim for dim in variable.dims if dim not in known]


def _batch_axes(
    variables: Iterable[xr.Variable], known: set[str], coordinates: Mapping[Hashable, Any]
) -> tuple[Axis, ...]:
    """Extra dimensions of all inputs, in order of appearance, with their coordinates."""
    sizes: dict[Hashable, int] = {}
    for variable in variables:
        for dim in _extra(variable, *known):
            if sizes.setdefault(dim, variable.sizes[dim]) != variable.sizes[dim]:
                raise ValueError(
                    f"The inputs expect equal sizes along {dim!r}, got {sizes[dim]} and {variable.sizes[dim]}."
                )
    return tuple(Axis(dim, size, coordinates.get(dim)) for dim, size in sizes.items())


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
            "Several extra dimensions require known chunk sizes along the sample dimension; "
            "call compute_chunk_sizes() first."
        )
    return data.reshape(_product(batch), *data.shape[len(names) :])


def frames_to_arrays(
    inputs: Mapping[str, Any], slicing: Mapping[Hashable, Any], features: Mapping[str, Any], shape: Shape
) -> tuple[dict[str, Any], dict[Hashable, Any], dict[str, Any]]:
    """The inputs with columns of Dask data frames converted to arrays with common chunks."""
    frames = {name: frame for name, frame in inputs.items() if is_frame(frame)}
    measured = [frame for name, frame in frames.items() if name != CLUSTERS]
    slicing_series = {name: values for name, values in slicing.items() if is_frame(values)}
    check_divisions({**frames} | {f"by {name!r}": values for name, values in slicing_series.items()})
    present = complete_rows(measured) if slicing_series and shape.options.skip_missing else None
    coded = {name: series_codes(values, present) for name, values in slicing_series.items()}
    columns = {name: series_feature(values) if is_frame(values) else values for name, values in features.items()}
    series = {name: column for name, column in columns.items() if isinstance(column, FeatureColumn)}
    arrays = joined_arrays(
        frames
        | {f"by {name!r}": codes for name, (codes, _) in coded.items()}
        | {f"feature {name!r}": column.values for name, column in series.items()}
    )
    columns |= {name: replace(column, values=arrays[f"feature {name!r}"]) for name, column in series.items()}
    by = {
        name: SliceCodes(arrays[f"by {name!r}"], coded[name][1]) if name in coded else values
        for name, values in slicing.items()
    }
    return {name: arrays.get(name, values) for name, values in inputs.items()}, by, columns


def _source(
    rows: Rows, features: dict[str, Any], layout: Layout, options: InputOptions, row_filter: RowFilter | None
) -> RowSource:
    others = {"labels": rows.labels, "weights": rows.weights, "groups": rows.group, "clusters": rows.clusters}
    others |= features
    if not any(is_dask(array) for array in (rows.scores, *others.values())):
        whole = replace(rows, features=tuple(features.values()))
        kept = (lambda part: part) if row_filter is None else row_filter.kept
        count = piece_count(whole)
        return MemorySource(lambda: map(kept, pieces(whole)), layout, options.validity, count, is_read_anew=False)
    from calibdask.engine.sources.dask import DaskSource

    return DaskSource(rows.scores, others, layout, options.validity, row_filter)

"""Types of columns: the one that several files have together, and which can be scores, labels or slices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibdask.safe_text import listed, message, visible
from calibdask.storage.arrow_columns import class_names, dtype_of, list_width, to_numpy
from calibdask.storage.columns import ColumnNames
from calibdask.storage.location import Location
from calibdask.storage.row_table import ColumnChoice
from calibdask.storage.text_types import OFFSETS, typed

# Larger whole numbers are no floating-point numbers any more.
_EXACT = 2**53
# Names of classes in all rows together.
_MOST_NAMES = 4096


def common_type(kinds: Iterable[Any]) -> Any:
    """The type that values of all these types have; None where there is none.

    Examples
    --------
    >>> import pyarrow
    >>> common_type([pyarrow.null(), pyarrow.int8(), pyarrow.float32()])
    DataType(double)
    """
    import pyarrow
    from pyarrow import types

    given = [kind for kind in dict.fromkeys(kinds) if not types.is_null(kind)]
    if len(given) < 2:
        return given[0] if given else pyarrow.null()
    plain = list(dict.fromkeys(plain_type(kind) for kind in given))
    numbers = [kind for kind in plain if _is_number(kind)]
    if len(numbers) == len(plain):
        # Arrow has no type of both, and labels may be either.
        plain = [pyarrow.int8() if types.is_boolean(kind) else kind for kind in plain]
        if {"f"} < {dtype_of(kind).kind for kind in plain}:
            # All numbers of 32 bits would not be exact in floating-point numbers of 32 bits.
            plain.append(pyarrow.float64())
    if {getattr(kind, "tz", None) for kind in plain} == {"UTC", OFFSETS}:
        plain = [pyarrow.timestamp("ns", OFFSETS)]
    if all(types.is_date(kind) or types.is_timestamp(kind) for kind in plain):
        plain = [pyarrow.timestamp("ms") if types.is_date(kind) else kind for kind in plain]
    schemas = [pyarrow.schema([("", kind)]) for kind in plain]
    try:
        return pyarrow.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (pyarrow.ArrowTypeError, pyarrow.ArrowInvalid):
        return None


def plain_type(kind: Any) -> Any:
    """The type of the values of a dictionary, and how an extension is stored; any other type as it is."""
    import pyarrow
    from pyarrow import types

    if isinstance(kind, pyarrow.BaseExtensionType):
        return plain_type(kind.storage_type)
    return plain_type(kind.value_type) if types.is_dictionary(kind) else kind


def converted(column: Any, kind: Any) -> Any:
    """A column with values of another type, without loss; of texts the numbers or times that they stand for."""
    import pyarrow
    from pyarrow import types

    if column.type == kind:
        return column
    if class_names(kind) and types.is_struct(column.type):
        return _with_fields(column, kind)
    if is_text(column.type) and not is_text(kind):
        return typed(column, kind)
    if types.is_null(column.type) or column.null_count == len(column):
        return pyarrow.chunked_array([pyarrow.nulls(len(column), kind)])
    plain = column.cast(plain_type(column.type)) if column.type != plain_type(column.type) else column
    return plain.cast(kind)


def _with_fields(column: Any, kind: Any) -> Any:
    """A column of structs with the fields of another type, in their order; missing ones are null."""
    import pyarrow

    there = {column.type.field(k).name for k in range(column.type.num_fields)}
    chunks = []
    for chunk in column.chunks:
        fields = [kind.field(k) for k in range(kind.num_fields)]
        arrays = [
            pyarrow.compute.struct_field(chunk, field.name).cast(field.type)
            if field.name in there
            else pyarrow.nulls(len(chunk), field.type)
            for field in fields
        ]
        chunks.append(pyarrow.StructArray.from_arrays(arrays, fields=fields, mask=chunk.is_null()))
    return pyarrow.chunked_array(chunks, kind)


def by_class(types: Mapping[str, Any], names: ColumnNames, url: str) -> tuple[dict[str, Any], ColumnNames]:
    """Types and names of columns, whose structs of numbers are columns of the classes of the scores, by name.

    Raises
    ------
    ValueError
        If labels are of a class that no score is of.
    """
    import pyarrow

    classes = class_names(types[names.scores[0]]) if len(names.scores) == 1 else ()
    if not classes:
        return dict(types), names
    if len(classes) > _MOST_NAMES:
        raise ValueError(
            f"{url}: column {visible(names.scores[0])!r} has {len(classes):,} names of classes in all; at "
            f"most {_MOST_NAMES:,} are supported. Name answers of different questions alike, for example a, b, c."
        )
    kind = pyarrow.struct([(name, pyarrow.float64()) for name in classes])
    own = class_names(types[names.labels[0]]) if len(names.labels) == 1 else ()
    if strange := [name for name in own if name not in classes]:
        raise ValueError(
            f"{url}: column {visible(names.labels[0])!r} has the class {visible(strange[0])!r}, and the scores are of "
            f"{listed(classes)}; use the same names in both."
        )
    typed_columns = {**types, names.scores[0]: kind, **({names.labels[0]: kind} if own else {})}
    return typed_columns, replace(names, classes=classes)


def values_of(column: Any, *, exact: bool) -> np.ndarray:
    """A column as NumPy array; with ``exact``, missing values turn neither booleans nor large numbers into others.

    Examples
    --------
    >>> import pyarrow
    >>> values_of(pyarrow.chunked_array([[True, None]]), exact=True)
    array([True, None], dtype=object)
    """
    from pyarrow import compute, types

    if exact and 0 < column.null_count < len(column) and is_whole(column.type):
        kind = plain_type(column.type)
        ends = compute.min_max(column.cast(kind))
        if types.is_boolean(kind) or max(-ends["min"].as_py(), ends["max"].as_py()) > _EXACT:
            return _objects(column)
    return to_numpy(column)


def values_as(column: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """A column as NumPy array of a type; blocks of one array must not have several."""
    if dtype.kind == "O" and is_whole(column.type):
        return _objects(column)
    return to_numpy(column).astype(dtype, copy=False)


def dtype_with_missing(kind: Any, *, exact: bool) -> np.dtype[Any]:
    """The NumPy type of a column some of whose values are missing."""
    from pyarrow import types

    if not is_whole(kind):
        return dtype_of(kind)
    return np.dtype(object if exact and types.is_boolean(plain_type(kind)) else np.float64)


def is_whole(kind: Any) -> bool:
    """Whether a type of Arrow is one of whole numbers or booleans, for which NumPy has no missing value."""
    from pyarrow import types

    value = plain_type(kind)
    return bool(types.is_boolean(value) or types.is_integer(value))


def _objects(column: Any) -> np.ndarray:
    values = np.empty(len(column), object)
    values[:] = column.to_pylist()
    return values


def lists_in(schema: Any, names: ColumnNames, further: Sequence[str], location: Location) -> dict[str, int]:
    """The columns of lists and how many values each holds, -1 if their type does not say it.

    Raises
    ------
    ValueError
        If lists stand where one value is expected.
    """
    widths = dict(zip(schema.names, map(list_width, schema.types), strict=True))
    lists = {name: width for name, width in widths.items() if width is not None}
    alone = {group[0] for group in (names.labels, names.scores) if len(group) == 1}
    for name in (*names.columns, *further):
        if name in lists and (name not in alone or name in further):
            raise ValueError(f"{location.url}: column {visible(name)!r} expects one value in each row, got lists.")
    return lists


def check_types(location: Location, choice: ColumnChoice, names: ColumnNames, schema: Any) -> None:
    """Raise ValueError unless scores and weights are numbers, labels these or texts, and slices no nested values.

    Other columns may be of any type, also of such as nothing here knows.
    """
    # Of a label, or of several raters.
    are_texts = all(is_text(schema.field(name).type) for name in names.labels)
    for name in dict.fromkeys((*names.columns, *choice.further)):
        kind = schema.field(name).type
        expected = ""
        if name in (*names.scores, choice.weight) and not _is_number(_item(kind)):
            expected = "numbers"
        elif name in names.labels and not (_is_number(_item(kind)) or are_texts):
            expected = "numbers or texts" if names.labels == (name,) else "numbers"
        elif name in choice.slicing and not (_is_number(kind) or is_text(kind) or _is_time(kind)):
            expected = "numbers, texts or dates"
        if expected:
            raise ValueError(
                f"{location.url}: column {visible(name)!r} expects {expected}, got {message(kind)}"
                f"{_mend(name, kind, expected, is_score=name in names.scores)}."
            )


def schema_of(types: Mapping[str, Any]) -> Any:
    """The schema of columns of these types."""
    import pyarrow

    return pyarrow.schema(list(types.items()))


def mixed_labels_as_texts(types: Mapping[str, Any], labels: Sequence[Any]) -> dict[str, Any]:
    """The types of columns; labels that are numbers and texts are compared as texts, as in a CSV."""
    import pyarrow

    is_mixed = len(labels) == 1 and pyarrow.types.is_union(types[labels[0]])
    return {**types, **({labels[0]: pyarrow.string()} if is_mixed else {})}


def floating(kind: Any) -> Any:
    """Numbers that may be missing or fractions in rows that were not read yet."""
    import pyarrow
    from pyarrow import types

    return pyarrow.float64() if types.is_integer(kind) else kind


def is_text(kind: Any) -> bool:
    """Whether a type of Arrow holds texts."""
    from pyarrow import types

    value = plain_type(kind)
    return bool(types.is_string(value) or types.is_large_string(value) or types.is_string_view(value))


def keep_as_text(name: str) -> str:
    """How to read a column of several types."""
    return f", or keep the column as text: --text {visible(name)}, in Python read_rows(url, text=[{name!r}])"


def _mend(name: str, kind: Any, expected: str, *, is_score: bool) -> str:
    from pyarrow import types

    if is_score and is_text(kind):
        return f"; convert it first: table.set_column(i, {name!r}, table[{name!r}].cast('float64'))"
    if types.is_struct(kind):
        return f"; take one field of it first: pyarrow.compute.struct_field(table[{name!r}], {_numeric_field(kind)!r})"
    if types.is_union(kind):
        return f"; some of its values are texts: correct these{'' if expected == 'numbers' else keep_as_text(name)}"
    if is_score:
        return "; one column for each class is called score_0, score_1, ..."
    target = "float64" if expected == "numbers" else "string"
    return f"; convert it first: table[{name!r}].cast({target!r})"


def _numeric_field(kind: Any) -> str:
    """The field of a struct that holds scores most likely: the last floating-point numbers, alone or in lists."""
    from pyarrow import types

    fields = [kind.field(number) for number in range(kind.num_fields)]
    numeric = [field.name for field in fields if types.is_floating(_item(field.type))]
    return str(numeric[-1] if numeric else fields[0].name)


def _item(kind: Any) -> Any:
    """The type of values in lists, or of the values themselves."""
    if class_names(kind):
        return kind.field(0).type
    return kind if list_width(kind) is None else kind.value_type


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    value = plain_type(kind)
    some = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(is_kind(value) for is_kind in some)


def _is_time(kind: Any) -> bool:
    from pyarrow import types

    value = plain_type(kind)
    return any(is_kind(value) for is_kind in (types.is_date, types.is_timestamp, types.is_time, types.is_duration))

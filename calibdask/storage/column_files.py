"""Columns of one file or of many, in whatever format: as NumPy arrays, Dask arrays or tables of Arrow, part by part.

The columns of a set of files are those of all of them, in whatever order they come. Where a file lacks a column, or has
nothing but missing values in it, values are missing, of the type that the others have.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

import numpy as np

from calibdask.safe_text import visible
from calibdask.storage.arrow_columns import dtype_of
from calibdask.storage.arrow_parts import ArrowParts
from calibdask.storage.column_blocks import (
    PartRange,
    block_arrays,
    lazy_columns,
    load_section,
    refuse_texts_in,
    stacked,
    table_arrays,
)
from calibdask.storage.column_reader import ColumnReader, FilePart, Header
from calibdask.storage.column_types import (
    by_class,
    check_types,
    common_type,
    converted,
    dtype_with_missing,
    floating,
    is_whole,
    keep_as_text,
    lists_in,
    mixed_labels_as_texts,
    schema_of,
)
from calibdask.storage.columns import ColumnNames, choose_columns, choose_scores, unknown
from calibdask.storage.file_sets import FileSet
from calibdask.storage.file_version import Version, check_version, version_of
from calibdask.storage.location import Location
from calibdask.storage.row_table import ColumnChoice, RowTable
from calibdask.storage.sizes import TARGET_BYTES, block_rows, check_rows, check_size
from calibdask.storage.text_types import MISSING, clock_type, has_offsets, kinds_of, type_of

# Files that are looked into side by side, and parts that are read for the types of their texts.
_FILES, _PARTS = 16, 4

# What is read at once.
Block = tuple[PartRange, ...]
Given = TypeVar("Given")
Made = TypeVar("Made")


@dataclass(frozen=True)
class _File:
    """One of the files: what its header says, and the columns in the names of its folders."""

    location: Location
    version: Version
    header: Header
    constants: Mapping[str, Any]

    @property
    def names(self) -> list[str]:
        return [*self.header.schema.names, *self.constants]

    def type_of(self, name: str) -> Any:
        """The type of a column; null if it is not there."""
        import pyarrow

        if name in self.constants:
            return pyarrow.array([self.constants[name]]).type
        found = self.header.schema.get_all_field_indices(name)
        return self.header.schema.field(found[0]).type if found else pyarrow.null()


# A part, and its file.
_Placed = tuple[_File, FilePart]


@dataclass(frozen=True)
class ColumnFiles:
    """Files of a format, which are read as one.

    Attributes
    ----------
    files : FileSet
    reader : ColumnReader
    """

    files: FileSet
    reader: ColumnReader

    def read(self, choice: ColumnChoice) -> RowTable:
        """The columns that are chosen: of NumPy if they fit into one block, else of Dask.

        Raises
        ------
        ValueError
            If a column is not there or several could be meant, or values are of a kind that cannot be read.
        """
        location, files = self.files.location, self._opened()
        names = self._names(files, choice, choose_columns)
        wanted = list(dict.fromkeys((*names.columns, *choice.further)))
        _check_distinct(files, wanted)
        parts = self._parts(files)
        if not self.reader.has_types and _fit_together(parts):
            table = self._table_of_texts(parts, wanted, choice, names)
            check_types(location, choice, names, table.schema)
            columns = table_arrays(table, choice.slicing)
            return choice.collect(names, partial(stacked, columns), columns.__getitem__)
        types = _on_clocks(self._types(files, parts, wanted, choice, names), choice)
        types, names = by_class(types, names, location.url)
        schema = schema_of(types)
        refuse_texts_in(self.reader, location.url, types, (*names.scores, choice.weight), partial(_sections, parts))
        check_types(location, choice, names, schema)
        lists = lists_in(schema, names, choice.further, location)
        dtypes = {
            name: dtype_with_missing(kind, exact=name in choice.slicing)
            if is_whole(kind) and self._has_missing(files, parts, name, kind)
            else dtype_of(kind)
            for name, kind in types.items()
        }
        row_bytes = sum(dtypes[name].itemsize * max(1, lists.get(name, 1)) for name in wanted)
        blocks, sizes = _blocks(parts, wanted, row_bytes, choice.chunk_rows)
        check_size(location.url, names.labels[0], [_whole(sum(sizes))], [_whole(max(sizes, default=1))], row_bytes)
        load = partial(block_arrays, self.reader, types, dtypes)
        is_small = len(blocks) == 1 and sizes[0] * row_bytes <= TARGET_BYTES and choice.chunk_rows is None
        if blocks and not is_small:
            return lazy_columns(choice, names, dtypes, blocks, sizes, load, lists)
        # Of one small block importing Dask would take longer than all the rest.
        columns = load(blocks[0]) if blocks else {name: np.empty(0, dtypes[name]) for name in wanted}
        return choice.collect(names, partial(stacked, columns), columns.__getitem__)

    def parts(self, choice: ColumnChoice) -> ArrowParts:
        """All columns, part by part, as tables of Arrow.

        Raises
        ------
        ValueError
            As `read`.
        """
        import pyarrow

        location, files = self.files.location, self._opened()
        names = self._names(files, choice, choose_scores)
        wanted = self._there(files)
        _check_distinct(files, wanted)
        parts = self._parts(files)
        types = self._types(files, parts, wanted, choice, names, whole=True)
        needed = {*choice.further, *choice.instants}
        types = {
            name: pyarrow.string() if has_offsets(kind) and name not in needed else kind for name, kind in types.items()
        }
        types = _on_clocks(types, choice)
        schema = schema_of(types)
        refuse_texts_in(self.reader, location.url, types, (*names.scores, choice.weight), partial(_sections, parts))
        check_types(location, choice, names, schema)
        sections = [section for part in parts for section in _sections([part], wanted)]
        # Texts are what they are until somebody needs their numbers, or times.
        has_types, loaded_type = self.reader.has_types, self.reader.loaded_type
        stored = {name: loaded_type(kind) if has_types else pyarrow.string() for name, kind in types.items()}
        return ArrowParts(schema, names, sections, partial(load_section, self.reader, stored))

    def _opened(self) -> list[_File]:
        if not self.files.paths:
            url = self.files.location.url
            raise ValueError(f"{url} cannot be read as {self.reader.title}: the folder holds no files.")

        def opened(number: int) -> _File:
            path = self.files.paths[number]
            location, known = self.files.member(path), self.files.versions.get(path, ())
            check_version(location, known)
            with location.reading(self.reader.title):
                version = known or version_of(location)
                header = self.reader.schema(location)
            outside = {name: of[number] for name, of in self.files.constants.items() if name not in header.schema.names}
            return _File(location, version, header, outside)

        return _side_by_side(opened, range(len(self.files.paths)), _FILES)

    def _there(self, files: Sequence[_File]) -> list[str]:
        """The columns of all files."""
        return list(dict.fromkeys([*self.files.types, *(name for file in files for name in file.names)]))

    def _names(self, files: Sequence[_File], choice: ColumnChoice, choose: Callable[..., ColumnNames]) -> ColumnNames:
        url, there = self.files.location.url, self._there(files)
        for name in (*choice.further, *choice.text):
            if name not in there:
                raise unknown(url, "column", name, there)
        try:
            return choose(there, choice.label, choice.score, url, used=choice.further)
        except ValueError as error:
            hint = self.reader.hint(there)
            if not hint:
                raise
            raise ValueError(f"{files[0].location.url} {hint}") from error

    def _parts(self, files: Sequence[_File]) -> list[_Placed]:
        """All parts that are not empty."""

        def found(file: _File) -> list[_Placed]:
            with file.location.reading(self.reader.title):
                return [(file, part) for part in self.reader.parts(file.location, file.header)]

        parts = [part for parts_of_file in _side_by_side(found, files, _FILES) for part in parts_of_file]
        check_rows(self.files.location.url, sum(part.rows or 0 for _, part in parts))
        return [(file, part) for file, part in parts if part.rows != 0]

    def _types(
        self,
        files: Sequence[_File],
        parts: Sequence[_Placed],
        wanted: Sequence[str],
        choice: ColumnChoice,
        names: ColumnNames,
        *,
        whole: bool = False,
    ) -> dict[str, Any]:
        """Type of each column over all files; with ``whole``, text columns are scanned over all rows."""
        if self.reader.has_types:
            known = choice.text_types
            types = {name: known.get(name) or self._common_type(files, parts, name) for name in wanted}
            return mixed_labels_as_texts(types, names.labels)
        open_names = _without_numbers(wanted, choice, names)
        # Labels alone are not worth a pass: the first ones are, and later ones are numbers or an error.
        labels_alone = not whole and {*open_names} <= {*names.labels}
        kinds: dict[str, frozenset[str]] = dict.fromkeys(open_names, frozenset())
        for section_kinds in self._kinds(_sections(parts, open_names, joined=False), open_names):
            kinds = {name: kinds[name] | section_kinds[name] for name in open_names}
            if labels_alone and all(kinds.values()):
                break
        types = _types_of_kinds(wanted, kinds, choice, names)
        if whole:
            return types
        may_lack = {name for name in open_names if labels_alone or MISSING in kinds[name]}
        return {name: floating(kind) if name in may_lack else kind for name, kind in types.items()}

    def _kinds(self, sections: Sequence[PartRange], names: Sequence[str]) -> Iterable[dict[str, frozenset[str]]]:
        def kinds(section: PartRange) -> dict[str, frozenset[str]]:
            table = load_section(self.reader, dict.fromkeys(names), section)
            return {name: kinds_of(table.column(name)) for name in names}

        for start in range(0, len(sections), _PARTS):
            yield from _side_by_side(kinds, sections[start : start + _PARTS], _PARTS)

    def _has_missing(self, files: Sequence[_File], parts: Sequence[_Placed], name: str, kind: Any) -> bool:
        """Whether a column lacks values anywhere, which is known or seen by reading it."""
        if not self.reader.has_types:
            # Of other types, they were seen with the types of the texts (`_types`).
            return dtype_of(kind).kind == "b"
        if any(name not in file.names or file.constants.get(name, 0) is None for file in files):
            return True
        known = [self.reader.has_missing(file.header, name) for file in files if name not in file.constants]
        if None not in known:
            return any(known)

        def lacks(section: PartRange) -> bool:
            return bool(load_section(self.reader, {name: None}, section).column(name).null_count)

        sections = _sections(parts, [name])
        return any(_side_by_side(lacks, sections, _PARTS)) if sections else False

    def _table_of_texts(
        self, parts: Sequence[_Placed], wanted: Sequence[str], choice: ColumnChoice, names: ColumnNames
    ) -> Any:
        """All rows at once, of types that their texts say."""
        import pyarrow

        open_names = _without_numbers(wanted, choice, names)
        given = {name: None if name in open_names else pyarrow.float64() for name in wanted}
        sections = _sections(parts, wanted)
        tables = _side_by_side(partial(load_section, self.reader, given), sections, _PARTS)
        kinds = {name: frozenset().union(*(kinds_of(table.column(name)) for table in tables)) for name in open_names}
        types = _on_clocks(_types_of_kinds(wanted, kinds, choice, names), choice)
        columns = {
            name: [chunk for table in tables for chunk in converted(table.column(name), kind).chunks]
            for name, kind in types.items()
        }
        return pyarrow.table({name: pyarrow.chunked_array(chunks, types[name]) for name, chunks in columns.items()})

    def _common_type(self, files: Sequence[_File], parts: Sequence[_Placed], name: str) -> Any:
        if name in self.files.types:
            return self.files.types[name]
        by_path = {file.location.path: file.type_of(name) for file in files}
        common = common_type(by_path.values())
        if common is not None:
            return common
        # A column of nothing but missing values has whatever type its writer gave it.
        present = {}
        for section in _sections(parts, [name]):
            column = load_section(self.reader, {name: None}, section).column(name)
            if column.null_count < len(column):
                present[section.file.path] = by_path[section.file.path]
        common = common_type(present.values())
        if common is not None:
            return common
        (first, one), *others = present.items()
        second, other = next((path, kind) for path, kind in others if common_type([one, kind]) is None)
        raise ValueError(
            f"{self.files.location.url}: column {visible(name)!r} holds {one} in {first}, and {other} in {second}; "
            f"write both with one type{keep_as_text(name)}."
        )


def _check_distinct(files: Sequence[_File], wanted: Sequence[str]) -> None:
    """Raise ValueError for a column that is there twice and is read; others may be."""
    for file in files:
        twice = [name for name in wanted if file.names.count(name) > 1]
        if twice:
            shown = ", ".join(repr(visible(name)) for name in twice)
            raise ValueError(f"{file.location.url} has several columns called {shown}; rename them.")


def _without_numbers(wanted: Sequence[str], choice: ColumnChoice, names: ColumnNames) -> list[str]:
    """The columns whose values may be texts."""
    return [name for name in wanted if name not in (*names.scores, choice.weight)]


def _types_of_kinds(
    wanted: Sequence[str], kinds: Mapping[str, frozenset[str]], choice: ColumnChoice, names: ColumnNames
) -> dict[str, Any]:
    import pyarrow

    loose = {*names.labels, *choice.features} - {*choice.by}
    types = {
        name: type_of(kinds[name], exact=name not in loose) if name in kinds else pyarrow.float64() for name in wanted
    }
    return types | {name: kind for name, kind in choice.text_types.items() if name in types}


def _on_clocks(types: Mapping[str, Any], choice: ColumnChoice) -> dict[str, Any]:
    """The types, of times with offsets those on the clocks there, unless instants are wanted."""
    return {name: kind if name in choice.instants else clock_type(kind) for name, kind in types.items()}


def _fit_together(parts: Sequence[_Placed]) -> bool:
    """Whether rows that were not counted are read at once: they are no more than a block, or cannot be divided."""
    shares = [part.share for _, part in parts]
    return len(parts) == 1 or (None not in shares and sum(share or 0 for share in shares) <= 1)


def _blocks(
    parts: Sequence[_Placed], wanted: Sequence[str], row_bytes: int, chunk_rows: int | None
) -> tuple[list[Block], list[float]]:
    """Neighbouring parts, also of several files, that are read together, and their rows: NaN if these are not known."""
    counted = all(part.rows is not None for _, part in parts)
    total = sum(part.rows or 0 for _, part in parts)
    most = block_rows(total, max(1, total // max(1, len(parts))), row_bytes, chunk_rows) if counted else 1.0
    groups: list[list[_Placed]] = []
    sizes: list[float] = []
    for file, part in parts:
        size = part.rows if counted else 1.0 if part.share is None else part.share
        if groups and sizes[-1] + (size or 0) <= most:
            groups[-1].append((file, part))
            sizes[-1] += size or 0
        else:
            groups.append([(file, part)])
            sizes.append(size or 0)
    blocks = [tuple(_sections(group, wanted)) for group in groups]
    return blocks, sizes if counted else [np.nan] * len(blocks)


def _sections(parts: Sequence[_Placed], wanted: Sequence[str], *, joined: bool = True) -> list[PartRange]:
    """Neighbouring parts of each file as one section, or each by itself."""
    groups = [[*group] for _, group in groupby(parts, lambda placed: id(placed[0]))] if joined else [[p] for p in parts]
    return [
        PartRange(
            group[0][0].location,
            group[0][0].version,
            tuple(part.place for _, part in group),
            group[0][0].header.layout,
            {name: value for name, value in group[0][0].constants.items() if name in wanted},
            tuple(name for name in wanted if name not in group[0][0].names),
        )
        for group in groups
    ]


def _side_by_side(call: Callable[[Given], Made], given: Sequence[Given], threads: int) -> list[Made]:
    """Map a function over a sequence in threads, keeping the order."""
    if len(given) == 1:
        return [call(given[0])]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(call, given))


def _whole(size: float) -> int:
    """A number of rows; 0 if it is not known."""
    return 0 if np.isnan(size) else int(size)

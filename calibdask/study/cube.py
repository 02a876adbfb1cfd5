"""The cube of a study: laid out once, filled cell by cell, readable at any time."""

import json
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import xarray as xr
import zarr

from calibdask.errors import Unavailable
from calibdask.safe_text import data_without_credentials, shown_address, without_credentials
from calibdask.storage.location import Location, read_error
from calibdask.storage.open_store import CUBE_BEGUN, CUBE_MARK, StoredCube, open_store, read_fingerprint
from calibdask.storage.retry import with_retries
from calibdask.storage.writers import texts_settled
from calibdask.study.fingerprint import FORMAT, differences, fingerprint, versions
from calibdask.study.study import Study

__all__ = ["DONE", "FAILED", "TODO", "Cube", "errors_of", "open_cube", "open_stored_cube"]

TODO, DONE, FAILED = 0, 1, 2
_VERSIONS = "versions"
_STATUS, _ERROR = "status", "error"


@dataclass(frozen=True)
class Cube:
    """A cube at a path or a URL that fsspec supports."""

    address: str

    @property
    def url(self) -> str:
        """The address as messages show it."""
        return shown_address(self.address)

    def quoted(self, error: BaseException) -> str:
        """What an error of a library says of the location."""
        return Location.parse(self.address).quoted(error)

    @property
    def exists(self) -> bool:
        """Whether there is anything at the location."""
        return Location.parse(self.address).exists

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing, or only an empty folder."""
        location = Location.parse(self.address)
        return not location.exists or (location.fs.isdir(location.path) and not location.fs.ls(location.path))

    @property
    def is_laid_out(self) -> bool:
        """Whether there is something other than the remains of an interrupted layout, which hold no cells."""
        return not self.is_empty and self._mark() != CUBE_BEGUN

    def check_replaceable(self) -> None:
        """Raise ValueError if there is anything other than a cube, which is never replaced."""
        if not self.is_empty and self._mark() is None:
            raise ValueError(f"{self.url} already exists and is not a study cube; choose another name.")

    def lay_out(self, study: Study) -> None:
        """Write the axes and the empty variables of a study, replacing an existing cube.

        Raises
        ------
        ValueError
            If the bucket does not exist, or is not writable.
        """
        self.check_replaceable()
        try:
            self._lay_out(study)
        except (FileNotFoundError, PermissionError) as error:
            raise ValueError(f"{self.url} cannot be written: {self.quoted(error)}") from error

    def _lay_out(self, study: Study) -> None:
        cells, inside = study.cells(), study.inside()
        with texts_settled():
            # Written with the first file, so that the remains of an interrupted layout can be recognised.
            begun: dict[str, Any] = {CUBE_MARK: CUBE_BEGUN}
            group = with_retries(lambda: zarr.open_group(self.address, mode="w", zarr_format=3, attributes=begun))
            for name, values in {**cells, **inside}.items():
                _write_axis(group, name, np.asarray(data_without_credentials(list(values))))
            shape = tuple(len(values) for values in cells.values())
            # Cheap cells share chunks along the last axis; every chunk belongs to exactly one task.
            chunks = (*[1] * (len(shape) - 1), max(1, min(study.batch, shape[-1])))
            for variable, dims in study.outputs.items():
                sizes = tuple(len(inside[dim]) for dim in dims)
                kind = study.type_of(variable)
                _make_array(
                    group,
                    variable,
                    shape=shape + sizes,
                    chunks=chunks + tuple(max(1, size) for size in sizes),
                    dtype=kind,
                    fill_value=math.nan if kind.kind == "f" else 0,
                    dimension_names=(*cells, *dims),
                )
            options = {"shape": shape, "chunks": chunks, "dimension_names": tuple(cells)}
            _make_array(group, _STATUS, dtype=np.int8, fill_value=TODO, **options)
            _make_array(group, _ERROR, dtype=str, fill_value="", **options)
            # Last, because a store without a fingerprint is not a cube.
            attributes = {_VERSIONS: json.dumps([versions()]), CUBE_MARK: json.dumps(fingerprint(study))}
            with_retries(lambda: group.attrs.update(attributes))

    def check(self, study: Study) -> None:
        """Raise ValueError, with all differences, if the cube does not belong to the study."""
        there, here = self.fingerprint, json.loads(json.dumps(fingerprint(study)))
        if there.get("format") != FORMAT:
            raise ValueError(
                f"{self.url} has the format {there.get('format')}, and this version writes {FORMAT}; choose another "
                "name, or give overwrite=True (--overwrite)."
            )
        if changes := list(differences(there, here)):
            raise ValueError(
                f"{self.url} is the cube of another study: {'; '.join(changes)}. Choose another name, or give "
                "overwrite=True (--overwrite)."
            )

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Fingerprint of the study of the cube.

        Raises
        ------
        ValueError
            If there is no cube.
        """
        text = self._mark()
        if text is None:
            raise ValueError(f"{self.url} is not a study cube; create one with calibdask run.")
        if text == CUBE_BEGUN:
            raise ValueError(f"{self.url} is a cube whose layout was interrupted; give overwrite=True (--overwrite).")
        return read_fingerprint(self.url, text)

    def _mark(self) -> str | None:
        """The attribute that distinguishes a cube from other stores."""
        text = self._group("r").attrs.get(CUBE_MARK)
        return text if isinstance(text, str) else None

    def join(self) -> None:
        """Record the versions that compute from now on, and warn if others computed the existing cells."""
        group = self._group("r+")
        recorded: list[dict[str, str]] = json.loads(str(group.attrs[_VERSIONS]))
        here = versions()
        if recorded[-1] == here:
            return
        changes = ", ".join(differences(recorded[-1], here))
        warnings.warn(
            f"{self.url} holds cells that other versions have computed ({changes}); the others use the current ones.",
            UserWarning,
            stacklevel=3,
        )
        with texts_settled():
            with_retries(lambda: group.attrs.update({_VERSIONS: json.dumps([*recorded, here])}))

    def _group(self, mode: Any) -> zarr.Group:
        if not self.exists:
            raise ValueError(f"{self.url} does not exist.")
        try:
            with texts_settled():
                return with_retries(lambda: zarr.open_group(self.address, mode=mode, zarr_format=3))
        except Unavailable:
            raise
        except Exception as error:
            raise read_error(Location.parse(self.address), error, "a cube") from error

    def status(self) -> np.ndarray:
        """Status (TODO, DONE or FAILED) of all cells by number; raises ValueError if there is no cube."""
        group: Any = self._group("r")
        cells = [len(values) for values in self.fingerprint["cells"].values()]
        if [*group[_STATUS].shape] != cells:
            raise ValueError(f"{self.url} is damaged: it has {math.prod(cells)} cells, and other ones have a status.")
        return np.asarray(with_retries(lambda: group[_STATUS][...])).ravel()

    def errors(self) -> dict[int, str]:
        """Tracebacks of failed cells by the number of the cell."""
        failed = np.flatnonzero(self.status() == FAILED)
        if not failed.size:
            return {}
        group: Any = self._group("r")
        with texts_settled():
            array = group[_ERROR]
            # Reads only the chunks of these cells: there may be as many chunks as cells.
            texts = with_retries(lambda: array.vindex[np.unravel_index(failed, array.shape)])
        return dict(zip(failed.tolist(), map(str, np.asarray(texts).tolist()), strict=True))

    def chunk_of(self, numbers: Any) -> Any:
        """Number of the chunk of a cell, or those of an array of cells."""
        row, step = self._row
        return numbers // row * -(-row // step) + numbers % row // step

    def chunks(self, numbers: Iterable[int]) -> list[list[int]]:
        """Cells grouped by chunk, both in order; a chunk must have only one writer."""
        ordered = sorted(numbers)
        pairs = zip(self.chunk_of(np.array(ordered, int)).tolist(), ordered, strict=True)
        return [[number for _, number in group] for _, group in groupby(pairs, itemgetter(0))]

    def write(self, cells: Mapping[int, Mapping[str, np.ndarray]]) -> None:
        """Write the values of cells of one chunk, and then their status, so that no cell is ever half done."""
        runs = list(_runs(sorted(cells)))
        for run in runs:
            for variable in cells[run[0]]:
                self._put(variable, run, np.stack([cells[number][variable] for number in run]))
        for run in runs:
            if FAILED in self._at(_STATUS, run):
                with texts_settled():
                    self._put(_ERROR, run, [""] * len(run))
            self._put(_STATUS, run, [DONE] * len(run))

    def fail(self, number: int, text: str) -> None:
        """Store the traceback of a failed cell."""
        run = range(number, number + 1)
        with texts_settled():
            self._put(_ERROR, run, [without_credentials(text)])
        self._put(_STATUS, run, [FAILED])

    def _put(self, variable: str, run: range, values: Any) -> None:
        """Write one variable of neighbouring cells of a chunk."""
        array = self._array(variable)
        # Of the type of the array: NumPy's fixed-width texts would be written as another type.
        values = np.asarray(values, None if variable == _ERROR else array.dtype)
        region = self._region(run)
        with_retries(lambda: array.__setitem__(region, values))

    def _at(self, variable: str, run: range) -> np.ndarray:
        array = self._array(variable)
        return np.asarray(with_retries(lambda: array[self._region(run)]))

    def _region(self, run: range) -> tuple[int | slice, ...]:
        *leading, last = map(int, np.unravel_index(run.start, self._shape))
        return (*leading, slice(last, last + len(run)))

    def _array(self, variable: str) -> Any:
        """An array, opened once, and without the group, whose attributes hold all coordinates."""
        if variable not in self._arrays:
            with texts_settled():
                self._arrays[variable] = with_retries(
                    lambda: zarr.open_array(self.address, path=variable, mode="r+", zarr_format=3)
                )
        return self._arrays[variable]

    @cached_property
    def _arrays(self) -> dict[str, Any]:
        return {}

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self._shape)

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return tuple(self._array(_STATUS).shape)

    @cached_property
    def _row(self) -> tuple[int, int]:
        """Number of cells of a row, and of those that share a chunk."""
        return self._shape[-1], self._array(_STATUS).chunks[-1]

    def __getstate__(self) -> dict[str, Any]:
        """Without cached values: every task carries the cube, and they grow with the number of cells."""
        return {"address": self.address}


def open_cube(store: str) -> xr.Dataset:
    """The cube of a study as a dataset: its variables on named axes, ``status`` and ``error`` of each cell.

    Values of cells that are not done are NaN (0 for integers); ``status`` is 0 for cells that have not been computed, 1
    for those that are done, 2 for those that failed. Values are loaded lazily.

    Parameters
    ----------
    store : str
        A path, or a URL that fsspec supports.

    Raises
    ------
    ValueError
        If there is no cube.

    Examples
    --------
    >>> import tempfile
    >>> from calibdask.study.example import Means
    >>> from calibdask.study.running import run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run(Means(replicates=2), folder + "/means.zarr")
    ...     cube = open_cube(folder + "/means.zarr").load()
    >>> cube.average.dims, int(cube.status.sum())
    (('rows', 'replicate'), 2)
    """
    return open_stored_cube(store).dataset


def open_stored_cube(store: str) -> StoredCube:
    """The same with its fingerprint.

    Raises
    ------
    ValueError
        If there is no cube.
    """
    opened = open_store(str(store))
    if not isinstance(opened, StoredCube):
        raise ValueError(
            f"{shown_address(store)} is not a study cube, which calibdask run creates; it is {opened.kind}."
        )
    return opened


def errors_of(cube: xr.Dataset) -> dict[int, str]:
    """Error messages of the failed cells of an open cube, by the number of the cell.

    Examples
    --------
    >>> cube = xr.Dataset({"status": ("cell", [DONE, FAILED]), "error": ("cell", ["", "ValueError: lost"])})
    >>> errors_of(cube)
    {1: 'ValueError: lost'}
    """
    failed = np.flatnonzero(cube[_STATUS].values == FAILED)
    if not failed.size:
        return {}
    at = np.unravel_index(failed, cube[_STATUS].shape)
    positions = {dim: ("failed", numbers) for dim, numbers in zip(cube[_STATUS].dims, at, strict=True)}
    with texts_settled():
        # Chunks of these only: there may be as many as cells.
        texts = with_retries(
            lambda: cube[_ERROR].variable.isel({d: xr.Variable(*p) for d, p in positions.items()}).values
        )
    return dict(zip(failed.tolist(), map(str, texts.tolist()), strict=True))


def _write_axis(group: zarr.Group, name: str, values: np.ndarray) -> None:
    kind: Any = str if values.dtype.kind in "UO" else values.dtype
    array = _make_array(group, name, shape=values.shape, dtype=kind, dimension_names=(name,))
    with_retries(lambda: array.__setitem__(..., values.astype(object) if kind is str else values))


def _make_array(group: zarr.Group, name: str, **options: Any) -> Any:
    """A new array, which replaces the remains of a failed attempt."""
    return with_retries(lambda: group.create_array(name, overwrite=True, **options))


def _runs(numbers: Sequence[int]) -> Iterator[range]:
    """Runs of consecutive numbers among increasing ones."""
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        yield range(run[0], run[-1] + 1)

"""The cube of a study: laid out once, filled cell by cell, read at any time."""

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

from calibdask.engine.location import located, unreadable
from calibdask.engine.persistence import persistently
from calibdask.engine.writers import texts_settled
from calibdask.halted import Halted
from calibdask.study.fingerprint import FORMAT, differences, fingerprint, versions
from calibdask.study.study import Study

__all__ = ["DONE", "FAILED", "TODO", "Cube", "open_cube"]

TODO, DONE, FAILED = 0, 1, 2
_STUDY, _VERSIONS = "calibdask_study", "versions"
_BEGUN = ""
_STATUS, _ERROR = "status", "error"


@dataclass(frozen=True)
class Cube:
    """A cube at a path or a URL that fsspec knows."""

    url: str

    @property
    def exists(self) -> bool:
        """Whether anything is there."""
        return located(self.url).exists

    @property
    def is_empty(self) -> bool:
        """Whether nothing is there but an empty folder, at most."""
        place = located(self.url)
        return not place.exists or (place.fs.isdir(place.path) and not place.fs.ls(place.path))

    @property
    def is_laid_out(self) -> bool:
        """Whether something is there, other than what is left of a layout that was stopped: it holds no cell."""
        return not self.is_empty and self._mark() != _BEGUN

    @property
    def is_cube(self) -> bool:
        """Whether this is a cube, and no other store."""
        return located(self.url).is_zarr and self._mark() is not None

    def check_replaceable(self) -> None:
        """Raise ValueError if what is there is no cube: nothing else is ever replaced."""
        if not self.is_empty and self._mark() is None:
            raise ValueError(f"{self.url} is there already and is no cube of a study; choose another name.")

    def lay_out(self, study: Study) -> None:
        """Write the axes and the empty variables of a study, in place of the cube that is there.

        Raises
        ------
        ValueError
            If the bucket is not there, or nothing may be written to it.
        """
        self.check_replaceable()
        try:
            self._lay_out(study)
        except (FileNotFoundError, PermissionError) as error:
            raise ValueError(f"{self.url} cannot be written: {error}") from error

    def _lay_out(self, study: Study) -> None:
        cells, inside = study.cells(), study.inside()
        known = fingerprint(study)
        with texts_settled():
            # With the first file that is written: what is left of a layout that was stopped is known for that.
            begun: dict[str, Any] = {_STUDY: _BEGUN}
            group = persistently(lambda: zarr.open_group(self.url, mode="w", zarr_format=3, attributes=begun))
            for name, values in {**cells, **inside}.items():
                _write_axis(group, name, np.asarray(list(values)))
            shape = tuple(len(values) for values in cells.values())
            # Cheap cells share chunks, along the last axis: each chunk belongs to one task, and to no other.
            some = (*[1] * (len(shape) - 1), max(1, min(study.batch, shape[-1])))
            for variable, dims in study.outputs.items():
                sizes = tuple(len(inside[dim]) for dim in dims)
                kind = study.type_of(variable)
                _make_array(
                    group,
                    variable,
                    shape=shape + sizes,
                    chunks=some + tuple(max(1, size) for size in sizes),
                    dtype=kind,
                    fill_value=math.nan if kind.kind == "f" else 0,
                    dimension_names=(*cells, *dims),
                )
            options = {"shape": shape, "chunks": some, "dimension_names": tuple(cells)}
            _make_array(group, _STATUS, dtype=np.int8, fill_value=TODO, **options)
            _make_array(group, _ERROR, dtype=str, fill_value="", **options)
            # Last: a cube without a fingerprint is none.
            told = {_VERSIONS: json.dumps([versions()]), _STUDY: json.dumps(known)}
            persistently(lambda: group.attrs.update(told))

    def check(self, study: Study) -> None:
        """Raise ValueError if the cube is not that of the study, with all differences named."""
        there, here = self.fingerprint, json.loads(json.dumps(fingerprint(study)))
        if there.get("format") != FORMAT:
            raise ValueError(
                f"{self.url} has the format {there.get('format')}, and this version writes {FORMAT}; choose another "
                "name, or give overwrite=True (--overwrite)."
            )
        unlike = list(differences(there, here))
        if unlike:
            raise ValueError(
                f"{self.url} is the cube of another study: {'; '.join(unlike)}. Choose another name, or give "
                "overwrite=True (--overwrite)."
            )

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """What the cube is of.

        Raises
        ------
        ValueError
            If there is no cube.
        """
        text = self._mark()
        if text is None:
            raise ValueError(f"{self.url} is no cube of a study, which calibdask run makes where nothing is yet.")
        if text == _BEGUN:
            raise ValueError(
                f"{self.url} is a cube that was stopped while it was laid out; give overwrite=True (--overwrite)."
            )
        found: dict[str, Any] = json.loads(text)
        return found

    def _mark(self) -> str | None:
        """What tells a cube from other stores."""
        text = self._group("r").attrs.get(_STUDY)
        return text if isinstance(text, str) else None

    def join(self) -> None:
        """Note the versions of what computes from here on, and warn if others have computed what is there."""
        group = self._group("r+")
        known: list[dict[str, str]] = json.loads(str(group.attrs[_VERSIONS]))
        here = versions()
        if known[-1] == here:
            return
        unlike = ", ".join(differences(known[-1], here))
        warnings.warn(
            f"{self.url} holds cells that other versions have computed ({unlike}); the others follow with these.",
            UserWarning,
            stacklevel=3,
        )
        with texts_settled():
            persistently(lambda: group.attrs.update({_VERSIONS: json.dumps([*known, here])}))

    def _group(self, mode: Any) -> zarr.Group:
        if not self.exists:
            raise ValueError(f"{self.url} does not exist.")
        try:
            with texts_settled():
                return persistently(lambda: zarr.open_group(self.url, mode=mode, zarr_format=3))
        except Halted:
            raise
        except Exception as error:
            raise unreadable(self.url, error, "a cube") from error

    def status(self) -> np.ndarray:
        """TODO, DONE or FAILED of all cells by number; raises ValueError if there is no cube."""
        _ = self.fingerprint
        group: Any = self._group("r")
        return np.asarray(persistently(lambda: group[_STATUS][...])).ravel()

    def errors(self) -> dict[int, str]:
        """What went wrong, by the number of the cell."""
        failed = np.flatnonzero(self.status() == FAILED)
        if not failed.size:
            return {}
        group: Any = self._group("r")
        with texts_settled():
            array = group[_ERROR]
            # Chunks of these only: there may be as many as cells.
            texts = persistently(lambda: array.vindex[np.unravel_index(failed, array.shape)])
        return dict(zip(failed.tolist(), map(str, np.asarray(texts).tolist()), strict=True))

    def chunk_of(self, numbers: Any) -> Any:
        """Number of the chunk that a cell is kept in, or those of an array of cells."""
        row, step = self._row
        return numbers // row * -(-row // step) + numbers % row // step

    def chunks(self, numbers: Iterable[int]) -> list[list[int]]:
        """Cells by the chunks that they are kept in, both in order: whoever writes a chunk has to be the only one."""
        ordered = sorted(numbers)
        pairs = zip(self.chunk_of(np.array(ordered, int)).tolist(), ordered, strict=True)
        return [[number for _, number in group] for _, group in groupby(pairs, itemgetter(0))]

    def write(self, cells: Mapping[int, Mapping[str, np.ndarray]]) -> None:
        """Write the values of cells of one chunk, and then that they are done: a cell is done or not, never half."""
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
        """Write what went wrong in a cell."""
        run = range(number, number + 1)
        with texts_settled():
            self._put(_ERROR, run, [text])
        self._put(_STATUS, run, [FAILED])

    def _put(self, variable: str, run: range, values: Any) -> None:
        """Write one variable of neighbouring cells of a chunk."""
        array = self._array(variable)
        # Of the type of the array: texts of NumPy's own kind would be written as something else.
        values = np.asarray(values, None if variable == _ERROR else array.dtype)
        place = self._place(run)
        persistently(lambda: array.__setitem__(place, values))

    def _at(self, variable: str, run: range) -> np.ndarray:
        array = self._array(variable)
        return np.asarray(persistently(lambda: array[self._place(run)]))

    def _place(self, run: range) -> tuple[int | slice, ...]:
        *before, last = map(int, np.unravel_index(run.start, self._shape))
        return (*before, slice(last, last + len(run)))

    def _array(self, variable: str) -> Any:
        """Opened once, since stores charge for every look; without the group, whose attributes hold all coordinates."""
        if variable not in self._arrays:
            with texts_settled():
                self._arrays[variable] = persistently(
                    lambda: zarr.open_array(self.url, path=variable, mode="r+", zarr_format=3)
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
        """Cells of a row, and those of them that share a chunk."""
        return self._shape[-1], self._array(_STATUS).chunks[-1]

    def __getstate__(self) -> dict[str, Any]:
        """Without what has been read: every task carries it, and it grows with the number of cells."""
        return {"url": self.url}


def open_cube(store: str) -> xr.Dataset:
    """The cube of a study as a dataset: its variables on named axes, ``status`` and ``error`` of each cell.

    Cells that are not done are NaN (whole numbers: 0); ``status`` is 0 where there is nothing yet, 1 where a cell is
    done, 2 where it has failed. Values are read when they are needed.

    Parameters
    ----------
    store : str
        A path, or a URL that fsspec knows.

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
    cube = Cube(str(store))
    known = cube.fingerprint
    with texts_settled():
        dataset = xr.open_zarr(str(store), consolidated=False, chunks=None)
    # Texts of any length are a type of NumPy that not all of xarray knows yet.
    texts = {
        name: (axis.dims, np.array(axis.values.tolist()))
        for name, axis in dataset.coords.items()
        if axis.dtype.kind in "TO"
    }
    return dataset.assign_coords(texts).assign_attrs(study=known["study"])


def _write_axis(group: zarr.Group, name: str, values: np.ndarray) -> None:
    kind: Any = str if values.dtype.kind in "UO" else values.dtype
    array = _make_array(group, name, shape=values.shape, dtype=kind, dimension_names=(name,))
    persistently(lambda: array.__setitem__(..., values.astype(object) if kind is str else values))


def _make_array(group: zarr.Group, name: str, **options: Any) -> Any:
    """A new array; over what an attempt that failed midway has left of it."""
    return persistently(lambda: group.create_array(name, overwrite=True, **options))


def _runs(numbers: Sequence[int]) -> Iterator[range]:
    """Neighbours among increasing numbers."""
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        yield range(run[0], run[-1] + 1)

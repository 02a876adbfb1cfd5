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
import zarr

from calibdask.errors import Unavailable
from calibdask.safe_text import visible_address, without_credentials
from calibdask.storage.atomic_replace import owned_name
from calibdask.storage.cell_hashes import CELL_HASHES, VARIABLES, cell_hash
from calibdask.storage.checked_store import CheckedStore, GroupManifest
from calibdask.storage.cube_layout import (
    DONE,
    ERROR,
    FAILED,
    FINISHED,
    LAYOUT,
    STATUS,
    CellChunks,
    check_status,
    mark_finished,
    recorded_versions,
    sealed,
    write_versions,
)
from calibdask.storage.location import Location, read_error
from calibdask.storage.manifest import ArrayRecord
from calibdask.storage.open_store import CUBE_BEGUN, CUBE_MARK, VIEWS, read_fingerprint
from calibdask.storage.retry import with_retries
from calibdask.storage.writers import texts_settled
from calibdask.study.fingerprint import FORMAT, READABLE, differences, fingerprint, other_versions, versions
from calibdask.study.layouts import arrays_of, holds_nothing, make_arrays, records_of, remove, sweep
from calibdask.study.study import Study


@dataclass(frozen=True)
class Cube:
    """A cube at a path or a URL that fsspec supports.

    Parameters
    ----------
    address : str
    layout : str, optional
        The folder of the arrays that cells are written to, for good; None: the one that the cube has at the time.
    record : str
        Versions and BLAS kernels of the processes that compute cells, as JSON; "": none are recorded.

    Notes
    -----
    No cell is done without its values, whoever else writes, however slow the store:

    - The values of a cell and their hashes are stored before its status is sent, and a file of a store is there whole
      or not at all.
    - A layout is made in a folder of its own, whose name nobody else knows before the attribute of the cube names it,
      by one write of one file. Those who compute cells hold on to the folder that they began with. Cells of another
      study, or of the same one before it was laid out again, hence never come among those of this one.
    - Before its first cell a process records its versions, in a file that only processes with the same versions write.
    - Nothing is removed from a folder that the attribute names, and within one all compute the same study: of two that
      write the same chunk both write the same values, since cells depend on their coordinates alone. (Only where cells
      share a chunk, and one that fails for one driver succeeds for another at the same time, one may undo the other.)
    """

    address: str
    layout: str | None = None
    record: str = ""

    @property
    def url(self) -> str:
        """The address as messages show it."""
        return visible_address(self.address)

    def quoted(self, error: BaseException) -> str:
        """Text of a library's error with the location."""
        return Location.parse(self.address).quoted(error)

    @property
    def exists(self) -> bool:
        """Whether there is anything at the location."""
        return Location.parse(self.address).exists

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing, or only an empty folder."""
        return holds_nothing(Location.parse(self.address))

    @property
    def is_laid_out(self) -> bool:
        """Whether there is something other than the remains of an interrupted layout, which hold no cells."""
        return not self.is_empty and self._mark() != CUBE_BEGUN

    def check_replaceable(self) -> None:
        """Raise ValueError if there is anything other than a cube, which is never replaced."""
        if not self.is_empty and self._mark() is None:
            raise ValueError(f"{self.url} already exists and is not a study cube; choose another name.")

    def lay_out(self, study: Study, kernels: str = "") -> "Cube":
        """Write the axes and the empty variables of a study, replacing an existing cube; the cube with this layout.

        Killed at any time, the old cube is there or the new one.

        Parameters
        ----------
        study : Study
        kernels : str
            The BLAS kernels of the processes that compute (`blas_kernels`); "": not known so far.

        Raises
        ------
        ValueError
            If the bucket does not exist, or is not writable.
        """
        self.check_replaceable()
        try:
            return self._lay_out(study, kernels)
        except (FileNotFoundError, PermissionError) as error:
            raise ValueError(f"{self.url} cannot be written: {self.quoted(error)}") from error

    def _lay_out(self, study: Study, kernels: str) -> "Cube":
        layout = owned_name()
        with texts_settled():
            if self.is_empty:
                # Written first, so that the remains of an interrupted layout can be recognised.
                options: dict[str, Any] = {"zarr_format": 3, "attributes": {CUBE_MARK: CUBE_BEGUN}}
                root = with_retries(lambda: zarr.open_group(self.address, mode="w", **options))
            else:
                root = self._group("r+")
            self.sweep()
            group = with_retries(lambda: root.create_group(layout, attributes=sealed({})))
            names = make_arrays(group, study)
            location = Location.parse(self.address)
            # By one file the new cube takes the place of the old one.
            before = self._group("r").attrs.asdict()
            mark = {CUBE_MARK: json.dumps(fingerprint(study)), LAYOUT: layout}
            if study.views:
                mark[VIEWS] = json.dumps(study.views)
            records = records_of(location, layout, names, [*study.cells(), *study.inside()])
            with_retries(lambda: root.attrs.put(sealed(mark, records)))
        if not Location.parse(self.address).has(f"{layout}/zarr.json"):
            raise ValueError(
                f"{self.url}: another process assumed that this one was dead, and removed its files; run it again."
            )
        for name in arrays_of(before):
            remove(location, name)
        return Cube(self.address, layout, json.dumps(versions(kernels)))

    def sweep(self) -> None:
        """Remove what layouts and writes that were killed have left."""
        sweep(Location.parse(self.address), lambda: self._present)

    def check(self, study: Study) -> None:
        """Raise ValueError, with all differences, if the cube does not belong to the study."""
        there, here = self.fingerprint, json.loads(json.dumps(fingerprint(study)))
        if there.get("format") not in READABLE:
            raise ValueError(
                f"{self.url} has the format {there.get('format')}, and this version writes {FORMAT}; choose another "
                "name, or give overwrite=True (--overwrite)."
            )
        if changes := list(differences(there | {"format": FORMAT}, here)):
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
        attributes = self._group("r").attrs
        GroupManifest.of(self.url, attributes)
        text = attributes.get(CUBE_MARK)
        if text is None:
            raise ValueError(f"{self.url} is not a study cube; create one with calibdask run.")
        if text == CUBE_BEGUN:
            raise ValueError(
                f"{self.url} is a cube that is being created, or whose creation was interrupted: wait, or run the "
                "study again to continue."
            )
        return read_fingerprint(self.url, str(text))

    def _mark(self) -> str | None:
        """The attribute that distinguishes a cube from other stores."""
        text = self._group("r").attrs.get(CUBE_MARK)
        return text if isinstance(text, str) else None

    def join(self, kernels: str = "") -> "Cube":
        """The cube with its present layout, for processes with these BLAS kernels ("": not known).

        Warns
        -----
        UserWarning
            If others computed the existing cells.
        """
        here = versions(kernels)
        joined = Cube(self.address, self._present, json.dumps(here))
        if others := other_versions(joined.recorded(), here):
            text = f"{self.url} holds cells that other versions have computed ({others}); the others use"
            if 0 < np.mean(self.status() == DONE) < 1:
                warnings.warn(f"{text} the current ones.", UserWarning, stacklevel=3)
        return joined

    def recorded(self) -> list[dict[str, str]]:
        """Versions and BLAS kernels of the processes that computed cells, the first ones first."""
        location, layout = Location.parse(self.address), self._present if self.layout is None else self.layout
        attributes = self._group("r", layout).attrs.asdict()
        return with_retries(lambda: recorded_versions(location, layout, attributes))

    def finish(self) -> None:
        """Record that all cells are done: from now on a missing chunk is an error of the store."""
        layout = self.layout or ""
        if layout and not self._group("r", layout).attrs.get(FINISHED):
            # In two places, since attributes may be older copies; not written over, as another driver may write it.
            attributes = mark_finished(self._group("r+", layout), Location.parse(self.address), layout)
            self._set_attributes(layout, attributes)

    def _set_attributes(self, layout: str, attributes: Mapping[str, Any]) -> None:
        group = self._group("r+", layout)
        changed = {**group.attrs, **attributes}
        with texts_settled():
            with_retries(lambda: group.attrs.put(sealed(changed) if layout else changed))

    @property
    def _present(self) -> str:
        """The layout that the cube has at present; an empty text in cubes of earlier versions."""
        return str(self._group("r").attrs.get(LAYOUT, ""))

    def check_current(self) -> None:
        """Raise ValueError if the cube was laid out anew since."""
        if self.layout is not None and self._present != self.layout:
            raise ValueError(
                f"{self.url} was created again or removed by another run while this run computed its cells, which are "
                "lost; run it again."
            )

    def _group(self, mode: Any, layout: str = "") -> zarr.Group:
        """The group of the cube, or that of a layout."""
        if not self.exists:
            raise ValueError(f"{self.url} does not exist.")
        try:
            with texts_settled():
                return with_retries(lambda: zarr.open_group(self.address, path=layout, mode=mode, zarr_format=3))
        except Unavailable:
            raise
        except Exception as error:
            raise read_error(Location.parse(self.address), error, "a cube") from error

    def status(self) -> np.ndarray:
        """Status (TODO, DONE or FAILED) of all cells by number; raises ValueError if there is no cube."""
        _ = self.fingerprint
        array = self._array(STATUS)
        return check_status(self.url, np.asarray(with_retries(lambda: array[...])).ravel())

    def errors(self) -> dict[int, str]:
        """Tracebacks of failed cells by the number of the cell."""
        failed = np.flatnonzero(self.status() == FAILED)
        if not failed.size:
            return {}
        with texts_settled():
            array = self._array(ERROR)
            # Reads only the chunks of these cells: there may be as many chunks as cells.
            texts = with_retries(lambda: array.vindex[np.unravel_index(failed, array.shape)])
        return dict(zip(failed.tolist(), map(str, np.asarray(texts).tolist()), strict=True))

    def chunk_of(self, numbers: Any) -> Any:
        """Chunk number of a cell, or of each cell of an array."""
        row, step = self._row
        return numbers // row * -(-row // step) + numbers % row // step

    def chunks(self, numbers: Iterable[int]) -> list[list[int]]:
        """Cells grouped by chunk, both in order; a chunk must have only one writer."""
        ordered = sorted(numbers)
        pairs = zip(self.chunk_of(np.array(ordered, int)).tolist(), ordered, strict=True)
        return [[number for _, number in group] for _, group in groupby(pairs, itemgetter(0))]

    def write(self, cells: Mapping[int, Mapping[str, np.ndarray]]) -> None:
        """Write the values of cells of one chunk, and then their status, so that no cell is ever half done."""
        if self.record:
            write_versions(self.address, self.layout or "", self.record)
        runs = list(_runs(sorted(cells)))
        for run in runs:
            for variable in cells[run[0]]:
                self._put(variable, run, np.stack([cells[number][variable] for number in run]))
        for run in runs:
            had_failed = FAILED in self._at(STATUS, run)
            self._put_hashes({number: cells[number] for number in run}, keep_errors=had_failed)
            self._put(STATUS, run, [DONE] * len(run))
            # After the status: the text of a failed cell is checked, that of one that is done is none.
            if had_failed:
                with texts_settled():
                    self._put(ERROR, run, [""] * len(run))

    def fail(self, number: int, text: str) -> None:
        """Store the traceback of a failed cell."""
        run, text = range(number, number + 1), without_credentials(text)
        with texts_settled():
            self._put(ERROR, run, [text])
        self._put_hashes({number: {ERROR: text}})
        self._put(STATUS, run, [FAILED])

    def _put_hashes(self, cells: Mapping[int, Mapping[str, Any]], *, keep_errors: bool = False) -> None:
        """Write the hashes of the values of neighbouring cells, before their status."""
        if not self._is_hashed:
            return
        layout = self._present if self.layout is None else self.layout
        array = self._array(CELL_HASHES)
        numbers = [*cells]
        run = range(numbers[0], numbers[-1] + 1)
        hashes = self._at(CELL_HASHES, run) if keep_errors else np.zeros((len(cells), array.shape[-1]), np.uint64)
        for row, (number, variables) in zip(hashes, cells.items(), strict=True):
            for at, name in enumerate(array.attrs[VARIABLES]):
                if name in variables:
                    values = variables[name]
                    typed = values if name == ERROR else np.asarray(values, self._array(name).dtype)
                    row[at] = cell_hash(layout, name, number, typed)
        self._put(CELL_HASHES, run, hashes)

    @cached_property
    def _is_hashed(self) -> bool:
        """Whether the cube has hashes of cells, which earlier versions did not write."""
        manifest = GroupManifest.of(self.url, self._group("r").attrs)
        return manifest is not None and any(path.endswith(f"/{CELL_HASHES}") for path in manifest.arrays)

    def _put(self, variable: str, run: range, values: Any) -> None:
        """Write one variable of neighbouring cells of a chunk."""
        array = self._array(variable)
        # Of the type of the array: NumPy's fixed-width texts would be written as another type.
        values = np.asarray(values, None if variable == ERROR else array.dtype)
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
        layout = self._present if self.layout is None else self.layout
        path = f"{layout}/{variable}" if layout else variable
        if path not in self._arrays:
            with texts_settled():
                array: Any = with_retries(lambda: zarr.open_array(self.address, path=path, mode="r+", zarr_format=3))
                if layout:
                    axes = 0 if variable == STATUS else len(self._shape)
                    hashed = variable != STATUS and self._is_hashed
                    outputs = frozenset((variable,)) - {CELL_HASHES}
                    rule = CellChunks(layout, axes, outputs, hashed=hashed)
                    store = CheckedStore(array.store, self.url, {path: ArrayRecord(None)}, rule)
                    array = with_retries(lambda: zarr.open_array(store, path=path, mode="r+", zarr_format=3))
                # A chunk of zeros or NaN is stored too: one that is not there was lost.
                self._arrays[path] = array.with_config({"write_empty_chunks": True})
        return self._arrays[path]

    @cached_property
    def _arrays(self) -> dict[str, Any]:
        return {}

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self._shape)

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return tuple(self._array(STATUS).shape)

    @cached_property
    def _row(self) -> tuple[int, int]:
        """Number of cells of a row, and of those that share a chunk."""
        return self._shape[-1], self._array(STATUS).chunks[-1]

    def __getstate__(self) -> dict[str, Any]:
        """Without cached values: every task carries the cube, and they grow with the number of cells."""
        return {"address": self.address, "layout": self.layout, "record": self.record}


def _runs(numbers: Sequence[int]) -> Iterator[range]:
    """Runs of consecutive numbers among increasing ones."""
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        yield range(run[0], run[-1] + 1)

"""Running a study: compute all cells that are not done, on any cluster, despite interruptions."""

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from calibdask.cluster import ClusterLost, ClusterSpec, cluster_spec
from calibdask.errors import Unavailable, with_notes
from calibdask.safe_text import listed
from calibdask.storage.cube_layout import DONE, FAILED, TODO
from calibdask.storage.location import Location
from calibdask.study.cell_executor import cell_executor
from calibdask.study.cube import Cube
from calibdask.study.fingerprint import other_versions
from calibdask.study.study import Study
from calibdask.study.work import Work

# Variables of every cube besides the outputs of its study.
_RESERVED = ("status", "error", "cell_hashes")
# Floats, integers and booleans, by the kind of their NumPy type.
_KINDS = "fiub"


def validate_study(study: Study) -> None:
    """Raise ValueError if parameters are invalid, or if axes, outputs and types are inconsistent."""
    if study.seed < 0:
        raise ValueError(f"seed expects a non-negative integer, got {study.seed}.")
    for problem in study.problems():
        raise ValueError(problem)
    for problem in _inconsistencies(study):
        raise ValueError(f"{study.name} {problem}")


def _inconsistencies(study: Study) -> Iterator[str]:
    cells, inside = study.cells(), study.inside()
    empty = [name for name, values in cells.items() if not len(values)]
    if not cells or empty:
        yield f"has no cells: {listed(empty)} is empty." if empty else "has no cells: cells() names no axes."
    if shared := sorted(cells.keys() & inside.keys()):
        yield f"has {listed(shared)} both among and inside its cells; an axis is one or the other."
    for variable, dims in study.outputs.items():
        if variable in (*_RESERVED, *cells, *inside):
            yield f"has an output {variable!r}, which is the name of an axis or a reserved name."
        unknown = [dim for dim in dims if dim not in inside]
        if unknown:
            yield f"has an output {variable!r} with the axes {listed(unknown)}, which inside() does not name."
    for variable in study.types:
        if variable not in study.outputs:
            yield f"has a type for {variable!r}, which is not one of its outputs."
        if study.type_of(variable).kind not in _KINDS:
            kind = study.types[variable]
            yield f"has the type {kind!r} for {variable!r}; expected floats, integers or booleans."


# A lost cluster is reopened, unless it is lost this often in a row without a single cell done in between.
_MOST_LOSSES = 3
# Time for the first shard to start and to lay the cube out.
_LAYOUT_TIMEOUT = 600.0
# Time for a scheduler to restart.
_RETURN_TIMEOUT = 60.0
_PAUSE_SECONDS = 2.0


@dataclass(frozen=True)
class CellCounts:
    """Numbers of cells that are ``done``, ``failed`` and ``todo``; ``computed`` counts those done in this run."""

    done: int
    failed: int
    todo: int
    computed: int = 0

    @property
    def total(self) -> int:
        """All cells."""
        return self.done + self.failed + self.todo


def run(
    study: Study,
    store: Any,
    cluster: Any = None,
    resume: bool = True,
    *,
    overwrite: bool = False,
    shard: tuple[int, int] | None = None,
    stop: Callable[[], bool] | None = None,
) -> CellCounts:
    """Compute all cells of a study that are missing in its cube.

    Parameters
    ----------
    study : Study
        The study to compute.
    store : str or path
        Location of the cube: a path, or a URL that fsspec supports.
    cluster : str, ClusterSpec or distributed.Client, optional
        None or ``"threads"``: threads of this process, one per core that it may use; ``"threads:4"``; otherwise a
        client, or a cluster as `calibdask.cluster.cluster_spec` takes it: ``"local:4"``, ``"tls://..."``, ``"slurm"``.
    resume : bool, default True
        Continue an existing cube; False: refuse one.
    overwrite : bool, default False
        Replace an existing cube of any study.
    shard : (int, int), optional
        Compute only this shard, counted from 0, of this number of shards, in a cube written by `lay_out`: independent
        processes together compute all of them.
    stop : callable, optional
        Called repeatedly; once it returns True no further tasks are started, and running tasks on threads finish.

    Returns
    -------
    CellCounts
        ``done``, ``failed``, ``todo`` and ``computed`` (in this run), for all cells or for the cells of the shard.

    Raises
    ------
    ValueError
        If the existing cube has another study, other parameters or another format; the message names all differences.
        If something other than a cube exists there, which is never replaced; if the study is inconsistent; if the
        versions of workers differ from those of this process, or their BLAS kernels from one another.
    Unavailable
        If the store cannot be written, or the cluster is lost and does not come back. Cells that are done are kept.

    Warns
    -----
    UserWarning
        If existing cells were computed, or other cells are being computed, with other versions of Python or packages or
        other BLAS kernels; if a lost scheduler is reconnected.

    Notes
    -----
    Every cell writes its values and then its status, so it is either done or not, and a run may be killed at any time;
    the next one computes the remaining cells. The traceback of a cell that raises is stored in the cube (``error``)
    while the others continue; the next run computes it again. If workers die, their cells are retried one at a time,
    and a cell that kills its worker again has failed. A lost cluster is reopened. Results do not depend on the order of
    cells, on the cluster or on interruptions, because random numbers are keyed by coordinates (`Seeds`). Cells that
    train models are as reproducible as BLAS, whose rounding depends on the processor: the kernels are recorded in the
    cube (``versions``, ``blas``) with the first cell that a process writes, and workers with other kernels are
    rejected.

    Tasks return numbers of cells, never arrays. Worker processes must be able to import the class of the study: define
    it in a module.

    Examples
    --------
    >>> import tempfile
    >>> from calibdask.study.example import Means
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     counts = run(Means(replicates=2), folder + "/means.zarr")
    >>> counts.done, counts.failed
    (2, 0)
    """
    cube = Cube(str(store))
    validate_study(study)
    if shard is not None:
        _check_shard(cube, shard, overwrite=overwrite)
    _check(cube, study, resume=resume, overwrite=overwrite)
    try:
        work = _worked(cube, study, cluster, overwrite, shard or (0, 1), stop or (lambda: False))
    except Unavailable as error:
        raise Unavailable(
            f"{with_notes(error)} Finished cells are kept; call run again with the same arguments to continue."
        ) from error
    return _counts(work)


def lay_out(study: Study, store: Any, *, overwrite: bool = False) -> CellCounts:
    """Write the empty cube of a study, to be filled by shards; an existing one is left unchanged.

    Parameters
    ----------
    study, store, overwrite
        As for `run`.

    Raises
    ------
    ValueError
        As `run` does.
    """
    cube = Cube(str(store))
    validate_study(study)
    _check(cube, study, resume=True, overwrite=overwrite)
    return count_cells(_prepare(cube, study, overwrite=overwrite))


def lay_out_together(study: Study, store: Any, shard: tuple[int, int]) -> None:
    """Lay out the cube if this is the first shard; others wait until it is laid out.

    For processes that are started at the same time, such as the pods of an Indexed Job.

    Raises
    ------
    ValueError
        As `run` does.
    Unavailable
        If the cube is not laid out within ten minutes.
    """
    cube = Cube(str(store))
    if shard[0] == 0:
        lay_out(study, store)
    until = time.monotonic() + _LAYOUT_TIMEOUT
    while not cube.is_laid_out:
        if time.monotonic() > until:
            raise Unavailable(f"{cube.url} is not laid out after {_LAYOUT_TIMEOUT:.0f} seconds, which shard 0 does.")
        time.sleep(_PAUSE_SECONDS)
        Location.parse(cube.address).fs.invalidate_cache()


def count_cells(cube: Cube) -> CellCounts:
    """Numbers of cells of a cube by status."""
    status = cube.status()
    return CellCounts(*(int((status == state).sum()) for state in (DONE, FAILED, TODO)))


def _counts(work: Work) -> CellCounts:
    """Numbers of cells of this run by status."""
    done, failed = work.finished()
    return CellCounts(done, failed, work.total - done - failed, done - work.before)


def _check(cube: Cube, study: Study, *, resume: bool, overwrite: bool) -> None:
    """Raise ValueError unless the location is free, or holds the cube of the study or one that may be replaced."""
    if overwrite or not cube.is_laid_out:
        cube.check_replaceable()
    elif not resume:
        raise ValueError(
            f"{cube.url} already exists; resume it, choose another name or give overwrite=True (--overwrite at the "
            "shell)."
        )
    else:
        cube.check(study)


def _check_shard(cube: Cube, shard: tuple[int, int], *, overwrite: bool) -> None:
    index, count = shard
    if not 0 <= index < count:
        raise ValueError(f"shard expects an index from 0 to below the number of shards, got {index} of {count}.")
    if overwrite:
        raise ValueError("A shard never overwrites: create the cube again first, with lay_out(..., overwrite=True).")
    if not cube.is_laid_out:
        raise ValueError(f"{cube.url} does not exist; create it before running shards (lay_out, or --lay-out).")


def _prepare(cube: Cube, study: Study, *, overwrite: bool, alone: bool = True, kernels: str = "") -> Cube:
    """The cube with the layout that cells are written to; one of many shards leaves what others left."""
    if overwrite or not cube.is_laid_out:
        return cube.lay_out(study, kernels)
    if alone:
        cube.sweep()
    return cube.join(kernels)


def _worked(
    cube: Cube, study: Study, cluster: Any, overwrite: bool, shard: tuple[int, int], stop: Callable[[], bool]
) -> Work:
    """The work after computing all cells that could be; a lost cluster is reopened."""
    work, known, losses = None, 0, 0
    recorded: list[dict[str, str]] = []
    while True:
        try:
            with cell_executor(cluster) as executor, _store_errors(cube):
                # Nothing is written before there are workers.
                if work is None:
                    kernels = executor.kernels()
                    cube = _prepare(cube, study, overwrite=overwrite, alone=shard == (0, 1), kernels=kernels)
                    work, recorded = Work(study, cube, shard, stop, kernels), cube.recorded()
                with _store_errors(cube):
                    work.compute(executor)
                    cube.check_current()
                    _warn_of_others(cube, recorded)
            return work
        except ClusterLost as lost:
            done = 0 if work is None else work.counted()[0]
            known, losses = done, 1 if done > known else losses + 1
            if losses > _MOST_LOSSES or not isinstance(cluster, str | ClusterSpec):
                raise
            warnings.warn(f"{with_notes(lost)} Reconnecting.", UserWarning, stacklevel=3)
            _await(cluster_spec(cluster))


def _warn_of_others(cube: Cube, known: Sequence[Mapping[str, str]]) -> None:
    """Warn of further versions that have computed cells in the meantime, such as by another shard."""
    here = json.loads(cube.record)
    later = [record for record in cube.recorded() if record not in known and record != here]
    if others := other_versions(later, here):
        text = f"{cube.url} holds cells that other versions have computed at the same time ({others})."
        warnings.warn(text, UserWarning, stacklevel=4)


@contextmanager
def _store_errors(cube: Cube) -> Iterator[None]:
    try:
        yield
    except Unavailable:
        raise
    except OSError as error:
        cube.check_current()
        raise Unavailable(f"{cube.url} cannot be written: {cube.quoted(error)}.") from error


def _await(spec: ClusterSpec) -> None:
    """Wait until the scheduler answers again.

    Raises
    ------
    ClusterLost
        If it does not within a minute.
    """
    until = time.monotonic() + _RETURN_TIMEOUT
    time.sleep(_PAUSE_SECONDS)
    while not spec.answers():
        if time.monotonic() > until:
            raise ClusterLost("The scheduler was lost and did not come back.")
        time.sleep(_PAUSE_SECONDS)

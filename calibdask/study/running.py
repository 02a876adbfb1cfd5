"""Run a study: all cells that are not done, wherever there are workers, whatever happens to them."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from calibdask.cluster import ClusterLost, Place, place
from calibdask.halted import Halted
from calibdask.study.announced import check_study
from calibdask.study.crew import crew_at
from calibdask.study.cube import DONE, FAILED, TODO, Cube
from calibdask.study.study import Study
from calibdask.study.work import Work

__all__ = ["CellCounts", "count_cells", "lay_out", "run"]

# A cluster that is lost is opened again, unless it has been lost so often without a single cell done in between.
_MOST_LOSSES = 3
# While a scheduler starts again somewhere.
_SECONDS_TO_RETURN = 60.0
_PAUSE_SECONDS = 2.0


@dataclass(frozen=True)
class CellCounts:
    """How many cells are ``done``, ``failed`` or yet ``todo``; ``computed``, those done in this run."""

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
    """Compute all cells of a study that its cube does not hold yet.

    Parameters
    ----------
    study : Study
        What is computed.
    store : str or path
        Where the cube is, or will be: a path, or a URL that fsspec knows.
    cluster : str, Place or distributed.Client, optional
        None or ``"threads"``: threads of this process, one for each core that it may use; ``"threads:4"``; otherwise a
        client, or where to work as `calibdask.cluster.place` has it: ``"local:4"``, ``"tls://..."``, ``"slurm"``.
    resume : bool, default True
        Go on with a cube that is there; False: refuse one.
    overwrite : bool, default False
        Replace what is there, whatever it is the cube of.
    shard : (int, int), optional
        Of so many shards (the second number) only this one, counted from 0, of a cube that `lay_out` has laid out:
        processes that know nothing of each other compute all of them.
    stop : callable, optional
        Asked now and then whether to stop: what has begun on threads is finished, and no more is begun.

    Returns
    -------
    CellCounts
        ``done``, ``failed``, ``todo`` and, of this run, ``computed``: of all cells, or of those of the shard.

    Raises
    ------
    ValueError
        If the cube there is that of another study, of other parameters or of another format: all differences are named.
        If something else is there, which is never replaced; if the study cannot be laid out as it is; if workers have
        other versions than this process.
    Halted
        If the store cannot be written, or the cluster has gone and does not come back. What is done is kept.

    Warns
    -----
    UserWarning
        If other versions of Python or packages have computed the cells that are there; if a scheduler that has gone is
        connected to again.

    Notes
    -----
    Every cell writes its values and then its status, so that it is done or not, never half, and a run may be killed at
    any time; the next one computes what is left. A cell that raises keeps its traceback in the cube (``error``), and
    the others go on; it is computed anew by the next run. So does a cell that kills its workers: whatever shared them
    with it is tried again, one cell at a time, and one that kills them alone has failed. A cluster that is lost is
    opened again. Results do not depend on the order of cells, on the cluster or on interruptions, since random numbers
    are keyed by coordinates (`Seeds`).

    Tasks return numbers of cells, never arrays. With processes the class of the study must be importable there: define
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
    check_study(study)
    if shard is not None:
        _check_shard(cube, shard, overwrite=overwrite)
    _check(cube, study, resume=resume, overwrite=overwrite)
    try:
        work = _worked(cube, study, cluster, overwrite, shard or (0, 1), stop or (lambda: False))
    except Halted as error:
        raise Halted(f"{error} What is done is kept; call run again with the same arguments to continue.") from error
    return _counts(work)


def lay_out(study: Study, store: Any, *, overwrite: bool = False) -> CellCounts:
    """Write the empty cube of a study, for shards to fill; one that is there already stays as it is.

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
    check_study(study)
    _check(cube, study, resume=True, overwrite=overwrite)
    _prepare(cube, study, overwrite=overwrite)
    return count_cells(cube)


def count_cells(cube: Cube) -> CellCounts:
    """How far a cube is."""
    status = cube.status()
    return CellCounts(*(int((status == each).sum()) for each in (DONE, FAILED, TODO)))


def _counts(work: Work) -> CellCounts:
    """How far the cells are that were to be computed."""
    done, failed = work.counted()
    return CellCounts(done, failed, work.total - done - failed, done - work.before)


def _check(cube: Cube, study: Study, *, resume: bool, overwrite: bool) -> None:
    """See that there is nothing yet, or the cube of the study, or one that may be replaced."""
    if overwrite or not cube.is_laid_out:
        cube.check_replaceable()
    elif not resume:
        raise ValueError(f"{cube.url} is there already; resume it, choose another name, or give overwrite=True.")
    else:
        cube.check(study)


def _check_shard(cube: Cube, shard: tuple[int, int], *, overwrite: bool) -> None:
    index, count = shard
    if not 0 <= index < count:
        raise ValueError(f"shard expects a number from 0 to below the count of shards, got {index} of {count}.")
    if overwrite:
        raise ValueError("A shard never overwrites: lay the cube out anew first, by lay_out(..., overwrite=True).")
    if not cube.is_laid_out:
        raise ValueError(f"{cube.url} is not there; lay it out before its shards run: lay_out, or --lay-out.")


def _prepare(cube: Cube, study: Study, *, overwrite: bool) -> None:
    if overwrite or not cube.is_laid_out:
        cube.lay_out(study)
    else:
        cube.join()


def _worked(
    cube: Cube, study: Study, cluster: Any, overwrite: bool, shard: tuple[int, int], stop: Callable[[], bool]
) -> Work:
    """All work, done as far as it could be; a cluster that is lost is opened again."""
    work, known, losses = None, 0, 0
    while True:
        try:
            with crew_at(cluster) as crew, _store_in_words(cube):
                # Nothing is written before there is someone to work.
                if work is None:
                    _prepare(cube, study, overwrite=overwrite)
                    work = Work(study, cube, shard, stop)
                work.done_by(crew)
            return work
        except ClusterLost as lost:
            done = 0 if work is None else work.counted()[0]
            known, losses = done, 1 if done > known else losses + 1
            if losses > _MOST_LOSSES or not isinstance(cluster, str | Place):
                raise
            warnings.warn(f"{lost} It is opened again.", UserWarning, stacklevel=3)
            _await(place(cluster))


@contextmanager
def _store_in_words(cube: Cube) -> Iterator[None]:
    try:
        yield
    except Halted:
        raise
    except OSError as error:
        raise Halted(f"{cube.url} cannot be written: {error}.") from error


def _await(where: Place) -> None:
    """Wait until somebody answers there again.

    Raises
    ------
    ClusterLost
        If nobody does for a minute.
    """
    until = time.monotonic() + _SECONDS_TO_RETURN
    time.sleep(_PAUSE_SECONDS)
    while not where.answers():
        if time.monotonic() > until:
            raise ClusterLost("The scheduler has gone, and does not come back.")
        time.sleep(_PAUSE_SECONDS)

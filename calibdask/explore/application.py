"""From a store to a page in the browser."""

from collections.abc import Callable, Sequence
from functools import partial

import xarray as xr

from calibdask.analyses.monitoring.period_sums import as_labels, known_labels
from calibdask.estimators.metrics import Metrics
from calibdask.explore.server import PageContent, serve
from calibdask.explore.summaries.own_metrics import OwnMetrics
from calibdask.extras import check_extra
from calibdask.safe_text import visible_address
from calibdask.storage.open_store import Store, StoredCube, StoredResult, open_store
from calibdask.storage.readers import StoredRows
from calibdask.storage.summary import Summary
from calibdask.study.opening import open_cube


def explore(
    store: str,
    *,
    metrics: Metrics | None = None,
    due: str | None = None,
    address: str = "127.0.0.1",
    port: int = 0,
    origins: Sequence[str] = (),
    show: bool = True,
    tell: Callable[[str], object] = lambda _: None,
) -> None:
    """Serve a page on a cube, a summary or a result until interrupted.

    Parameters
    ----------
    store : str
        A cube filled by `calibdask.run`, even while it is running; a summary of `calibdask.summarize`; or other numbers
        on named axes, such as results, in a Zarr group or a netCDF file. A path, or a URL that fsspec knows.
    metrics : estimator, sequence, or mapping from name to estimator, optional
        For a summary: further metrics beside the usual ones; slices can also be sorted by errors. The page names
        metrics that cannot be computed from a summary.
    due : str, optional
        For a summary by period: the delay until the outcomes of a period are known, such as ``"30d"``. Periods that are
        not due are shown as pending and not tested.
    address : str, default "127.0.0.1"
        Address to listen on; by default only this machine can open the page. Anybody who can reach another address can
        read the whole store: there are no passwords.
    port : int, default 0
        0: any free port.
    origins : sequence of str
        ``"HOST:PORT"`` under which browsers open the page, if it differs from its address: behind a proxy, or under
        another name.
    show : bool, default True
        Open a browser.
    tell : function
        Called with the URL of the page once it can be opened.

    Raises
    ------
    ValueError
        If the store does not exist or has no numbers on named axes; if metrics are given for a store other than a
        summary, or under a name that the page uses; if ``due`` is not a time, or periods are not dates.
    OSError
        If the port is in use.
    calibdask.errors.NotInstalled
        Without the packages of ``calibdask[plot]``.

    Notes
    -----
    Only axes are read at first: a cube larger than memory opens as quickly as a small one. The state of the page is
    kept in its URL: a copied URL shows the same view.

    Of a summary with clusters (``groups``) intervals are those of clusters, which count once in a period over time.
    Views that need independent rows, such as decisions and recalibration, say so.
    """
    check_extra("plot")
    serve(page_of(store, metrics, due), address=address, port=port, origins=origins, show=show, tell=tell)


def page_of(store: str, metrics: Metrics | None = None, due: str | None = None) -> Callable[[], PageContent]:
    """A function that makes the page of a store, once for each session.

    Raises
    ------
    ValueError
        As for `explore`.
    """
    shown = visible_address(store)
    name = shown.rstrip("/").rpartition("/")[2]
    opened, own = open_store(store), OwnMetrics.of(metrics)
    if own.estimators and not isinstance(opened, Summary):
        raise ValueError(f"metrics are computed from summaries; {shown} is {opened.kind}.")
    if due is not None:
        _check_due(opened, due, shown)
    # Pages take seconds to import, for which the first browser is not to wait.
    if isinstance(opened, Summary):
        from calibdask.explore.summaries.page import summary_page
        from calibdask.explore.summaries.pool import pool_of

        # What cannot be shown is refused here, not in the browser.
        pool_of(opened)
        return partial(summary_page, opened, name, own, due)
    from calibdask.explore.cubes.page import cube_page

    match opened:
        case StoredCube(dataset=cube):
            cube.close()
            # Cells may have been added since the last session.
            return partial(_stored_cube_page, store, name, cube_page)
        case StoredResult(dataset=result):
            if not _has_axes(result):
                raise ValueError(f"{shown} is a result without slices or other axes to explore; open it by xarray.")
            return partial(cube_page, result, name, None)
        case StoredRows() as rows:
            return partial(cube_page, _numbers(rows), name, None)


def _check_due(opened: Store, due: str, shown: str) -> None:
    from calibdask.analyses.monitoring.due_dates import dates_of, parse_due

    parse_due(due)
    labels = opened.labels if isinstance(opened, Summary) else {}
    if not any(dates_of(as_labels(known_labels(values))) is not None for values in labels.values()):
        raise ValueError(f"due expects a summary by periods that are dates, such as 2026-11-22; {shown} has none.")


def _numbers(store: StoredRows) -> xr.Dataset:
    """Numbers on named axes that are not scored rows.

    Raises
    ------
    ValueError
        If the store holds anything else.
    """
    message = (
        f"{store.url} expects a cube of a study, a summary, or other numbers on named axes; scored rows are summarized "
        "first: calibdask summarize DATA --out summary.zarr."
    )
    if store.labelled is None:
        raise ValueError(message)
    try:
        dataset = store.labelled()
    except ValueError as error:
        raise ValueError(message) from error
    if not _has_axes(dataset) or {"labels", "scores"} <= set(dataset.data_vars):
        raise ValueError(message)
    return dataset


def _has_axes(dataset: xr.Dataset) -> bool:
    """Whether there are numbers along any axis."""
    return any(variable.ndim and variable.dtype.kind in "fiub" for variable in dataset.data_vars.values())


def _stored_cube_page(store: str, name: str, make: Callable[..., PageContent]) -> PageContent:
    return make(open_cube(store), name, store)

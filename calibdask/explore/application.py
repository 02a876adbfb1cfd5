"""From a store to a page in the browser."""

from collections.abc import Callable, Sequence
from functools import partial

import xarray as xr

from calibdask.engine.dataset_files import open_dataset
from calibdask.engine.location import located
from calibdask.engine.summaries import is_summary
from calibdask.engine.summary_files import open_summary
from calibdask.explore.serving import Page, serve
from calibdask.study.cube import Cube, open_cube

__all__ = ["explore", "page_of"]


def explore(
    store: str,
    *,
    address: str = "127.0.0.1",
    port: int = 0,
    origins: Sequence[str] = (),
    show: bool = True,
    tell: Callable[[str], object] = lambda _: None,
) -> None:
    """Serve a page on a cube or a summary until it is interrupted.

    Parameters
    ----------
    store : str
        A cube that `calibdask.run` has filled, or is filling; a summary of `calibdask.summarize`; or other numbers on
        named axes, such as results, in a Zarr group or a netCDF file. A path, or a URL that fsspec knows.
    address : str, default "127.0.0.1"
        Where to listen; by default only this machine can see the page. Whoever reaches another address reads all that
        is in the store: there are no passwords.
    port : int, default 0
        0: one that is free.
    origins : sequence of str
        ``"HOST:PORT"`` as browsers know the page where that is not its address, behind a proxy or another name.
    show : bool, default True
        Open a browser.
    tell : function
        Is told the address of the page once it can be opened.

    Raises
    ------
    ValueError
        If there is no such store, or it holds no numbers on named axes.
    OSError
        If the port is taken.

    Notes
    -----
    Nothing but the axes is read before it is looked at: a cube larger than memory opens as quickly as a small one.
    What is chosen on the page stands in its address: the copied address shows the same again.
    """
    serve(page_of(store), address=address, port=port, origins=origins, show=show, tell=tell)


def page_of(store: str) -> Callable[[], Page]:
    """What makes the page of a store, anew for each session.

    Raises
    ------
    ValueError
        If there is no such store, or it holds no numbers on named axes.
    """
    name = store.rstrip("/").rpartition("/")[2]
    if Cube(store).is_cube:
        open_cube(store).close()
        # Cells may have been added since the last session.
        return partial(_cube_page, store, name)
    opened = _opened(store)
    summary = open_summary(store) if is_summary(opened) else None
    if summary is None:
        return partial(_results_page, opened, name)
    opened.close()
    return partial(_summary_page, summary, name)


def _opened(store: str) -> xr.Dataset:
    """Numbers on named axes."""
    hint = "; scored rows are summarized first: calibdask summarize DATA --out summary.zarr"
    try:
        opened = open_dataset(store)
    except ValueError as error:
        raise ValueError(f"{str(error).removesuffix('.')}{hint if located(store).exists else ''}.") from error
    if not any(variable.ndim and variable.dtype.kind in "fiub" for variable in opened.data_vars.values()):
        raise ValueError(f"{store} expects a cube of a study, a summary, or other numbers on named axes{hint}.")
    return opened


def _cube_page(store: str, name: str) -> Page:
    from calibdask.explore.cubes.page import cube_page

    return cube_page(open_cube(store), name, store)


def _results_page(results: xr.Dataset, name: str) -> Page:
    from calibdask.explore.cubes.page import cube_page

    return cube_page(results, name, None)


def _summary_page(summary: xr.Dataset, name: str) -> Page:
    from calibdask.explore.summaries.page import summary_page

    return summary_page(summary, name)

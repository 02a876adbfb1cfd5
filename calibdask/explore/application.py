"""From a store to a page in the browser."""

from collections.abc import Callable
from functools import partial

import xarray as xr

from calibdask.engine.dataset_files import open_dataset
from calibdask.engine.summary_files import open_summary
from calibdask.explore.serving import Page, serve
from calibdask.study.cube import Cube, open_cube

__all__ = ["explore", "page_of"]


def explore(
    store: str,
    *,
    address: str = "127.0.0.1",
    port: int = 0,
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
    serve(page_of(store), address=address, port=port, show=show, tell=tell)


def page_of(store: str) -> Callable[[], Page]:
    """What makes the page of a store, anew for each session.

    Raises
    ------
    ValueError
        If there is no such store, or it holds no numbers on named axes.
    """
    from calibdask.explore.cube_page import cube_page
    from calibdask.explore.summary_page import summary_page

    name = store.rstrip("/").rpartition("/")[2]
    if Cube(store).is_cube:
        open_cube(store).close()
        # Cells may have been added since the last session.
        return lambda: cube_page(open_cube(store), name, store)
    summary = open_summary(store)
    if summary is not None:
        return partial(summary_page, summary, name)
    return partial(cube_page, _checked(open_dataset(store), store), name, None)


def _checked(results: xr.Dataset, store: str) -> xr.Dataset:
    if not any(variable.ndim and variable.dtype.kind in "fiub" for variable in results.data_vars.values()):
        raise ValueError(
            f"{store} expects a cube of a study, a summary, or other numbers on named axes, and has no such numbers; "
            "scored rows are summarized first: calibdask summarize DATA --out summary.zarr."
        )
    return results

"""``calibdask demo``: from classifiers to a page of reliability diagrams."""

from pathlib import Path
from time import perf_counter

import click

from calibdask.cli.where import cluster_options
from calibdask.cluster import Place

__all__ = ["demo"]

# Fine print of the decomposition that would crowd the table.
_LEFT_OUT = ("resolution", "uncertainty", "within_variance", "within_covariance")


@click.command()
@click.option("--out", metavar="FOLDER", default="calibdask-demo", show_default=True, help="Folder to write to.")
@cluster_options
def demo(out: str, cluster: Place) -> None:
    """Predict, store, evaluate and draw, with data and classifiers of scikit-learn.

    Out-of-fold predictions of five classifiers on two data sets go to a Zarr store in many chunks, are evaluated from
    there through Dask, and drawn on one page that opens without a network.
    """
    from calibdask.cli.tables import console, show
    from calibdask.cluster import connected
    from calibdask.demo import run

    begun = perf_counter()
    shown, notes = console(), console(stderr=True)
    with connected(cluster), notes.status("starting") as status:
        done = run(Path(out), status.update)
    shown.print("Out-of-fold predictions of five scikit-learn classifiers on two data sets")
    for data, result in done.results.items():
        shown.print()
        drop = [name for name in result.data_vars if str(name).endswith(_LEFT_OUT)]
        show(result.drop_vars(drop), shown, title=f"{data}, read in {done.chunks[data]} chunks through Dask")
    shown.print()
    shown.print(f"Predictions          {done.store}", markup=False, soft_wrap=True)
    shown.print(f"Reliability diagrams {done.page}", markup=False, soft_wrap=True)
    shown.print(f"Now yourself:        calibdask evaluate {done.example}", markup=False, soft_wrap=True)
    shown.print(f"{perf_counter() - begun:.0f} s", style="dim")

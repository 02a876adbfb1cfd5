"""``calibdask demo``: from classifiers to reports on their calibration."""

from pathlib import Path
from time import perf_counter

import click

from calibdask.cli.row_options import cluster_options
from calibdask.cluster import ClusterSpec
from calibdask.safe_text import visible

# Parts of the decomposition that would crowd the table.
_LEFT_OUT = {"resolution", "uncertainty", "within_variance", "within_covariance"}


@click.command()
@click.option("--out", metavar="FOLDER", default="calibdask-demo", show_default=True, help="Output folder.")
@cluster_options
def demo(out: str, cluster: ClusterSpec) -> None:
    """Run a demonstration: predict, store, evaluate and report.

    Out-of-fold predictions of five scikit-learn classifiers on two data sets are written to a Zarr store in many
    chunks, evaluated through Dask, and reported on pages that work offline.
    """
    from calibdask.cli.tables import console, show
    from calibdask.cluster import connected
    from calibdask.demo import run
    from calibdask.results.values import Results

    begun = perf_counter()
    shown, notes = console(), console(stderr=True)
    with connected(cluster), notes.status("starting") as status:
        done = run(Path(out), status.update)
    shown.print("Out-of-fold predictions of five scikit-learn classifiers on two data sets")
    for data, result in done.results.items():
        shown.print()
        left_out = [part.variable for part in Results(result) if part.part in _LEFT_OUT]
        show(result.drop_vars(left_out), shown, title=f"{data}, read in {done.chunks[data]} chunks through Dask")
    shown.print()
    shown.print(f"Predictions      {visible(done.store)}", markup=False, soft_wrap=True)
    for page in done.pages.values():
        shown.print(f"Report           {visible(page)}", markup=False, soft_wrap=True)
    shown.print(f"Try it yourself: calibdask evaluate {visible(done.example)}", markup=False, soft_wrap=True)
    shown.print(f"{perf_counter() - begun:.0f} s", style="dim")

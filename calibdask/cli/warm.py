"""``calibdask warm``: compile all kernels, so that nobody waits for them."""

import click

from calibdask.cli.param_types import MetricType
from calibdask.estimators.expression import Expression
from calibdask.safe_text import visible


@click.command()
@click.option(
    "--metric",
    "metrics",
    type=MetricType(),
    metavar="NAME[,...]",
    multiple=True,
    help="Only what these metrics need; repeatable.  [default: all]",
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes.  [default: one for each core]")
def warm(metrics: tuple[list[Expression], ...], jobs: int | None) -> None:
    """Compile the kernels of all metrics beforehand, in processes side by side: some minutes of a core, once.

    They are kept beside the package, where that can be written, else in the user's folder for caches, or in the folder
    that NUMBA_CACHE_DIR names; for this kind of processor, and for this version of calibdask, numba and Python. Run it
    where an image is built, or on one node of a cluster whose nodes share that folder; processes of other users read
    what is kept beside the package.
    """
    from calibdask import warming
    from calibdask.errors import Unavailable
    from calibdask.progress import shown_progress

    folder = warming.kernel_folder()
    if folder is None:
        raise Unavailable(
            "Compiled kernels cannot be kept: neither the folder of the package nor that for caches can be written by "
            "this user alone. Set NUMBA_CACHE_DIR to a folder of your own."
        )
    words = list(dict.fromkeys(metric.keyword for chosen in metrics for metric in chosen))
    with shown_progress("compiling"):
        compiled = warming.warm(warming.jobs(words), jobs)
    click.echo(f"compiled {compiled} kernels; they are kept in {visible(folder)}")

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
    help="Compile only for these metrics; repeatable.  [default: all]",
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Number of processes.  [default: one per core]")
def warm(metrics: tuple[list[Expression], ...], jobs: int | None) -> None:
    """Compile the kernels of all metrics ahead of time.

    This takes some minutes of CPU time, once per processor type and version of calibdask, numba and Python. Kernels are
    cached beside the package if it is writable, else in the user's cache folder, or in NUMBA_CACHE_DIR. Run it when an
    image is built, or on one node of a cluster whose nodes share the folder; other users read the cache beside the
    package.
    """
    from calibdask import warming
    from calibdask.errors import Unavailable
    from calibdask.progress import shown_progress

    folder = warming.kernel_folder()
    if folder is None:
        raise Unavailable(
            "Compiled kernels cannot be cached: neither the package folder nor the user cache is private and "
            "writable. Set NUMBA_CACHE_DIR to a private folder."
        )
    words = list(dict.fromkeys(metric.keyword for chosen in metrics for metric in chosen))
    with shown_progress("compiling"):
        compiled = warming.warm(warming.jobs(words), jobs)
    click.echo(f"compiled {compiled} kernels; they are kept in {visible(folder)}")

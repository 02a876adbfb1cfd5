"""``calibdask explore``: cubes and summaries in the browser."""

import sys

import click

__all__ = ["explore"]


@click.command()
@click.argument("store")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Where to listen.  [default: one that is free]")
@click.option(
    "--address",
    default="127.0.0.1",
    show_default=True,
    help="Another one lets other machines read the store; for 0.0.0.0 give --origin too.",
)
@click.option(
    "--origin", "origins", metavar="HOST:PORT", multiple=True, help="Name of the page behind a proxy; repeatable."
)
@click.option("--browser/--no-browser", "show", default=True, help="Open a browser.  [default: yes]")
def explore(store: str, port: int, address: str, origins: tuple[str, ...], show: bool) -> None:
    """Look at STORE in the browser: a cube of a study, a summary, or results in a file.

    A cube: errors against size, by any of its axes, down to single replicates and cells. A summary: any slices pooled,
    compared, the worst first. What is chosen stands in the address of the page, to be sent to others. Ctrl-C stops it.
    """
    # Panel takes seconds to import.
    if sys.stderr.isatty():
        click.echo(f"{store}: starting ...", err=True)
    if origins and not port:
        raise click.UsageError("--origin names a port, so --port has to be given as well.")

    from calibdask.explore import explore as shown

    def tell(url: str) -> None:
        click.echo(f"{store}: {url} (stop: Ctrl-C)")

    shown(store, address=address, port=port, origins=origins, show=show, tell=tell)

"""``calibdask explore``: cubes and summaries in the browser."""

import sys

import click

from calibdask.safe_text import visible_address


@click.command()
@click.argument("store")
@click.option(
    "--due",
    metavar="TIME",
    help=("Delay until the outcomes of a period are known, such as 30d; until then it is pending."),
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on.  [default: a free one]")
@click.option(
    "--address",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; any but the default lets other machines read the store. 0.0.0.0 needs --origin.",
)
@click.option(
    "--origin",
    "origins",
    metavar="HOST:PORT",
    multiple=True,
    help="Public host name of the page behind a proxy; repeatable.",
)
@click.option("--browser/--no-browser", "show", default=True, help="Open a browser.  [default: yes]")
def explore(store: str, due: str | None, port: int, address: str, origins: tuple[str, ...], show: bool) -> None:
    """Explore a cube, summary or result file in the browser.

    A study cube: errors by size or any other axis, down to single replicates and cells. A summary: slices, pooled or
    compared, the worst first. The address of the page contains the selection and can be shared. Ctrl-C stops the
    server.
    """
    # Panel takes seconds to import.
    if sys.stderr.isatty():
        click.echo(f"{visible_address(store)}: starting ...", err=True)
    if origins and not port:
        raise click.UsageError("--origin names a port, so --port has to be given as well.")

    from calibdask.explore import explore as shown

    def tell(url: str) -> None:
        click.echo(f"{visible_address(store)}: {url} (stop: Ctrl-C)")

    shown(store, due=due, address=address, port=port, origins=origins, show=show, tell=tell)

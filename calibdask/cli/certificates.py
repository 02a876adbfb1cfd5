"""``calibdask certs``: certificates for a cluster."""

import click

from calibdask.safe_text import listed


@click.command()
@click.argument("folder")
@click.option("--host", "hosts", metavar="NAME", multiple=True, help="Name or address of a machine; repeatable.")
@click.option("--days", type=click.IntRange(1, 36_500), default=365, show_default=True, help="How long they are valid.")
def certs(folder: str, hosts: tuple[str, ...], days: int) -> None:
    """Make certificates in FOLDER with which scheduler, workers and clients of a cluster authenticate one another.

    Whoever can read node-key.pem can run any code on that cluster: copy the folder to its machines only. The
    certificates are signed by an authority of their own, whose key is discarded: for a new machine copy the folder, for
    a new cluster make another one.
    """
    from calibdask.cluster.certificates import make_certificates

    try:
        files = make_certificates(folder, hosts, days)
    except ImportError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"wrote {listed(files)}; valid for {days} days")

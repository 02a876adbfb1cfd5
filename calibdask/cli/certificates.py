"""``calibdask certs``: certificates for a cluster."""

import click

__all__ = ["certs"]


@click.command()
@click.argument("folder")
@click.option("--host", "hosts", metavar="NAME", multiple=True, help="Name or address to write in; repeatable.")
@click.option("--days", type=int, default=365, show_default=True, help="How long they are valid.")
def certs(folder: str, hosts: tuple[str, ...], days: int) -> None:
    """Make certificates in FOLDER by which scheduler, workers and clients of a cluster know one another.

    Whoever can read node-key.pem runs any code on that cluster: copy the folder to its machines only. An authority of
    its own has signed them, and its key is thrown away: for a new machine copy the folder, for a new cluster make
    another one.
    """
    from calibdask.cluster.certificates import make_certificates

    try:
        files = make_certificates(folder, hosts, days)
    except ImportError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"wrote {', '.join(map(str, files))}; valid for {days} days")

"""``calibdask certs``: certificates for a cluster."""

import click

from calibdask.safe_text import listed


@click.command()
@click.argument("folder")
@click.option("--host", "hosts", metavar="NAME", multiple=True, help="Name or address of a machine; repeatable.")
@click.option("--days", type=click.IntRange(1, 36_500), default=365, show_default=True, help="Days of validity.")
def certs(folder: str, hosts: tuple[str, ...], days: int) -> None:
    """Create TLS certificates for a cluster.

    Scheduler, workers and clients authenticate one another by the certificates in FOLDER. Anybody who can read
    node-key.pem can run any code on the cluster: copy FOLDER only to its machines. The key of the certificate authority
    is discarded: copy the folder to add a machine, and create a new folder for a new cluster.
    """
    from calibdask.cluster.certificates import make_certificates

    files = make_certificates(folder, hosts, days)
    click.echo(f"wrote {listed(files)}; valid for {days} days")

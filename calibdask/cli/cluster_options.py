"""Options of commands that run on a cluster."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from calibdask.cli.stopping import stopped_by_term
from calibdask.cluster import cluster_spec

_OPTIONS = (
    click.option(
        "--cluster",
        metavar="WHERE",
        default="threads",
        help="Where to compute: threads[:N], local[:N], tcp://, tls://, a scheduler FILE, slurm, kubernetes.",
    ),
    click.option("--tls", metavar="FOLDER", help="Folder of certificates made by calibdask certs."),
    click.option("--insecure", is_flag=True, help="Allow connections without TLS beyond this machine."),
)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command that runs on a cluster, which receives a `ClusterSpec` as ``cluster``."""

    @wraps(command)
    def with_cluster(*arguments: Any, cluster: str, tls: str | None, insecure: bool, **options: Any) -> Any:
        # Which imports this module.
        from calibdask.cli.row_options import shown_warnings

        with stopped_by_term(), shown_warnings():
            return command(*arguments, cluster=cluster_spec(cluster, tls=tls, insecure=insecure), **options)

    decorated: Callable[..., Any] = with_cluster
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated

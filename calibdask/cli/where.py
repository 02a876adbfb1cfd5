"""Where a command works: the options that say so, and the place that they mean."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from calibdask.cli.stopping import stopped_by_term
from calibdask.cluster import place

__all__ = ["cluster_options"]

_OPTIONS = (
    click.option(
        "--cluster",
        metavar="WHERE",
        default="threads",
        help="threads[:N], local[:N], tcp://, tls://, a scheduler FILE, slurm, kubernetes.",
    ),
    click.option("--tls", metavar="FOLDER", help="Certificates of the cluster, made by calibdask certs."),
    click.option("--insecure", is_flag=True, help="Allow connections without TLS beyond this machine."),
)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that works on a cluster; the command gets the place as ``cluster``."""

    @wraps(command)
    def with_place(*arguments: Any, cluster: str, tls: str | None, insecure: bool, **options: Any) -> Any:
        with stopped_by_term():
            return command(*arguments, cluster=place(cluster, tls=tls, insecure=insecure), **options)

    given: Callable[..., Any] = with_place
    for option in reversed(_OPTIONS):
        given = option(given)
    return given

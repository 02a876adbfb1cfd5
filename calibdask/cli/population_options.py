"""The options that say which population numbers are of."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from calibdask.data.population import Population

_POPULATION = (
    click.option(
        "--prevalence",
        metavar="P[,...]",
        help="Weight the rows to a population with this prevalence of y = 1, such as 0.005; or one share per class.",
    ),
    click.option(
        "--train-prevalence",
        metavar="P[,...]",
        help="Correct the scores from this prevalence of the training data to --prevalence, or to that of the rows.",
    ),
    click.option(
        "--sampling-rate",
        metavar="R[,...]",
        help="Correct the scores for training data that kept this share of the negatives, or of each class.",
    ),
)


def population_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which population numbers are of."""
    for option in reversed(_POPULATION):
        command = option(command)
    return command


def population_of(
    prevalence: str | None, train_prevalence: str | None, sampling_rate: str | None
) -> "Population | None":
    """The population of these options; None without any: that of the sample."""
    shares = {
        "prevalence": _shares("--prevalence", prevalence),
        "train_prevalence": _shares("--train-prevalence", train_prevalence),
        "sampling_rate": _shares("--sampling-rate", sampling_rate),
    }
    if all(share is None for share in shares.values()):
        return None
    from calibdask.data.population import Population

    return Population(**shares)


def _shares(option: str, given: str | None) -> "float | list[float] | None":
    """A share, or several between commas."""
    if given is None:
        return None
    try:
        shares = [float(word) for word in given.split(",")]
    except ValueError:
        raise click.UsageError(f"{option} expects a share such as 0.02, or one for each class, got {given}.") from None
    return shares[0] if len(shares) == 1 else shares

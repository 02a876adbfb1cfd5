"""Options that locate scored rows and say where to compute, shared by all commands that read rows."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from calibdask.cli.option_names import shown_warnings
from calibdask.cli.stopping import stopped_by_term
from calibdask.cluster import cluster_spec

# The word for all columns.
ALL = "all"

_CLUSTER = (
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
        with stopped_by_term(), shown_warnings():
            return command(*arguments, cluster=cluster_spec(cluster, tls=tls, insecure=insecure), **options)

    return _with(_CLUSTER, with_cluster)


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
    return _with(_POPULATION, command)


def data_argument(metavar: str = "DATA", *, required: bool = True) -> Callable[[Any], Any]:
    """The argument of rows; bare arrays that ``--score p.npy`` names need none."""

    def given_or_scores(context: click.Context, parameter: click.Parameter, given: Any) -> Any:
        # Options that were given are read before arguments.
        scores = context.params.get("score")
        first = scores[0] if isinstance(scores, list) else scores or ""
        name = first.rpartition("=")[2].partition(",")[0]
        if not given and name.lower().endswith(".npy"):
            return name if parameter.nargs == 1 else (name,)
        if required and not given:
            raise click.MissingParameter(ctx=context, param=parameter)
        return given

    several = -1 if "..." in metavar else 1
    return click.argument("data", metavar=metavar, nargs=several, required=False, callback=given_or_scores)


def _one_or_several(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Any:
    """The name, or names that were repeated; None without."""
    return list(given) if len(given) > 1 else next(iter(given), None)


def _separated(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Names between commas, or repeated."""
    return tuple(name.strip() for words in given for name in words.split(",") if name.strip())


by_option = click.option("--by", metavar="COLUMN", multiple=True, help="Slice by this column or array; repeatable.")
weight_option = click.option("--weight", metavar="COLUMN", help="Column or array of sample weights.")
groups_option = click.option(
    "--groups", metavar="COLUMN", help="Column of clusters of dependent rows, such as patients."
)
_SLICES = (by_option, weight_option, groups_option)
# Of commands that take rows as independent: they read it to refuse it with the reason.
refused_groups_option = click.option("--groups", hidden=True)
_LABEL = click.option(
    "--label",
    metavar="NAME[,...]",
    multiple=True,
    callback=_one_or_several,
    help=(
        "Column or array of labels; or one column per class (one-hot or, with --task, multilabel), as for "
        "--score.  [default: label; labels in array files; or a common name]"
    ),
)
_SCORE = click.option(
    "--score",
    metavar="NAME[,...]",
    multiple=True,
    callback=_one_or_several,
    help=(
        "Column or array of P(y = 1); or one column per class, separated by commas, repeated, or as a quoted "
        "pattern such as 'prob_*'. Repeat NAME=COLUMN for several models."
    ),
)
_MISSING_CHUNKS = click.option(
    "--missing-chunks",
    type=click.Choice(["error", "fill"]),
    default="error",
    show_default=True,
    help="How to treat missing Zarr chunks.",
)
_TEXT = click.option(
    "--text",
    metavar="COLUMN,...",
    multiple=True,
    callback=_separated,
    help="Columns to keep as text, such as codes that are numbers in some rows.",
)

_PLACES = (
    _LABEL,
    _SCORE,
    click.option(
        "--skip-missing", is_flag=True, help="Skip rows without a label, score or weight, and print their number."
    ),
    _TEXT,
    _MISSING_CHUNKS,
)


_READING = (
    click.option(
        "--task",
        type=click.Choice(["binary", "multiclass", "multilabel"]),
        help="Meaning of the axes of labels and scores if both have the same shape.",
    ),
    click.option("--logits", is_flag=True, help="Scores are logits: apply the softmax or the sigmoid."),
    click.option("--labels", metavar="NAME,...", help="Classes in the order of the score columns."),
    click.option("--pos-label", metavar="NAME", help="Positive class, whose probability a single score column holds."),
    click.option("--ignore-label", metavar="NAME", help="Skip rows with this label, and print their number."),
)


def key_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option of commands that compare models on shared rows."""
    option = click.option(
        "--key", metavar="COLUMN", help="Join the rows of several DATA on this column instead of by position."
    )
    return _with((option,), command)


def map_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option of commands that may calibrate the scores first."""
    option = click.option(
        "--map", "map_path", metavar="FILE", help="Apply this map of calibdask calibrate to the scores first."
    )
    return _with((option,), command)


def cluster_check_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option of commands that look for clusters that nobody named."""
    option = click.option(
        "--cluster-check/--no-cluster-check",
        default=True,
        help="Without --groups: warn if rows that share a value of a column named like an identifier (patient_id) are "
        "dependent.  [default: --cluster-check]",
    )
    return _with((option,), command)


_SOFT_LABELS = (
    click.option(
        "--soft-labels",
        is_flag=True,
        help="Labels are shares, such as those of judges: of y = 1, or of each class in columns, lists or objects.",
    ),
    click.option("--raters", is_flag=True, help="Labels are the shares of several raters, the columns of --label."),
)


def soft_label_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that accept shares as labels; several raters are soft labels too."""

    @wraps(command)
    def with_shares(*arguments: Any, soft_labels: bool, raters: bool, **options: Any) -> Any:
        return command(*arguments, soft_labels=soft_labels or raters, raters=raters, **options)

    return _with(_SOFT_LABELS, with_shares)


def _refuse_shares(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    if given:
        from calibdask.data.soft_labels import SUPPORTED

        raise click.UsageError(
            f"{parameter.opts[0]} is not supported by {context.info_name}, which counts labels that are 0 or 1; "
            f"{SUPPORTED} accept shares."
        )


def refused_share_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of shares to a command that refuses them with the reason."""
    refused: Any = {"is_flag": True, "hidden": True, "expose_value": False, "callback": _refuse_shares}
    return _with([click.option(name, **refused) for name in ("--soft-labels", "--raters")], command)


_PERIODS = (
    click.option(
        "--every",
        type=click.Choice(["day", "week", "month", "quarter", "year"]),
        help="Length of the periods into which the timestamps of --period COLUMN are cut.",
    ),
    click.option("--zone", metavar="NAME", help="Time zone of the periods, such as Europe/Paris."),
)


def period_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that cut timestamps into periods."""
    return _with(_PERIODS, command)


def check_every(period: str | None, every: str | None, zone: str | None) -> None:
    """Raise UsageError for options of periods without the ones that they belong to."""
    if every is not None and period is None:
        raise click.UsageError("--every has no effect without --period COLUMN, the column of timestamps.")
    if zone is not None and every is None:
        raise click.UsageError("--zone has no effect without --every.")


def score_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a command that reads rows whether they have labels or not."""
    return _with((_LABEL, _SCORE, _TEXT, _MISSING_CHUNKS), command)


def row_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a command that reads scored rows."""
    return _with(_SLICES, place_options(command))


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the reading options of commands that pool all rows."""
    return _with(_PLACES, _with(_READING, cluster_options(command)))


def _with(options: Sequence[Callable[..., Any]], command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def features_option(use: str = "Columns that describe subgroups") -> Callable[[Any], Any]:
    """The option ``--features``; ``use`` states the purpose of the columns."""
    help_text = f"{use}; repeatable. all: every column besides labels, scores, weights and clusters."
    return click.option("--features", metavar=f"NAME[,...]|{ALL}", multiple=True, help=help_text)

"""The options of the data of an analysis: which columns hold what, and how labels and scores are read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, get_args

from calibdask.statistics.validity import Validity

Task = Literal["binary", "multiclass", "multilabel"]


class InputKeywords(TypedDict, total=False):
    """These options as keyword arguments of public functions."""

    label: Any
    score: Any
    skip_missing: bool
    task: Task | None
    logits: bool
    labels: Any
    pos_label: Any
    ignore_label: Any
    sample_dim: str | Sequence[str]
    class_dim: str
    sum_tolerance: float


class PopulationKeywords(InputKeywords, total=False):
    """Input options with the target population."""

    population: Any


@dataclass(frozen=True, eq=False)
class InputOptions:
    """The options that say how data are read.

    Attributes
    ----------
    task : {"binary", "multiclass", "multilabel"} or None
        What the axes of arrays mean; None: their shapes and the names of their dimensions say it.
    logits : bool
        Whether the scores are logits.
    labels : sequence or None
        The classes in the order of the columns of scores.
    pos_label : label or None
        The class whose probability a vector of scores is.
    ignore_label : label or None
        Rows with this label are left out.
    sample_dim : str or sequence of str
        The dimension of samples, or several that are samples together.
    class_dim : str
        The dimension of classes.
    sum_tolerance : float
        Largest deviation from 1 of the sum of a row of scores.
    label, score : name, sequence of names, or mapping from model to these, optional
        The columns of labels and scores in a container of columns; a mapping of ``score`` names several models.
    skip_missing : bool
        Whether rows without a label, a score or a weight are left out.
    population : calibdask.Population or None
        The population that the rows are weighted to, and their scores corrected for.
    groups : array of shape (n,), or name of a column, optional
        The cluster of each row, such as a patient: rows of different clusters are independent, others need not be.
    soft_labels : bool or "raters"
        Whether labels are shares, of y = 1 or of each class; or columns of raters.
    cluster_check : bool
        Whether columns that look like identifiers are read too, and checked for dependent rows if there are no groups.
    groups_name : str
        What results call the clusters; empty: the name of the column, or ``"groups"``.

    Examples
    --------
    >>> InputOptions(sample_dim=("image", "y", "x")).sample_dims
    ('image', 'y', 'x')
    """

    task: Task | None = None
    logits: bool = False
    labels: Any = None
    pos_label: Any = None
    ignore_label: Any = None
    sample_dim: str | Sequence[str] = "sample"
    class_dim: str = "class"
    sum_tolerance: float = 1e-3
    label: Any = None
    score: Any = None
    skip_missing: bool = False
    population: Any = None
    groups: Any = None
    groups_name: str = ""
    soft_labels: bool | Literal["raters"] = False
    cluster_check: bool = False

    def __post_init__(self) -> None:
        if self.task is not None and self.task not in get_args(Task):
            raise ValueError(f"task expects 'binary', 'multiclass', 'multilabel' or None, got {self.task!r}.")
        if not isinstance(self.logits, bool):
            raise ValueError(f"logits expects True or False, got {self.logits!r}; the scores themselves are y_prob.")
        if not isinstance(self.soft_labels, bool) and self.soft_labels != "raters":
            raise ValueError(
                f"soft_labels expects True, False or 'raters', got {self.soft_labels!r}; the shares are y_true."
            )
        if not isinstance(self.skip_missing, bool):
            raise ValueError(f"skip_missing expects True or False, got {self.skip_missing!r}.")
        if not self.groups_name and self.groups is not None:
            name = self.groups if isinstance(self.groups, str | int) else getattr(self.groups, "name", None)
            # The name of a Dask array is a token, not chosen by the user.
            is_name = isinstance(name, str | int) and not isinstance(getattr(self.groups, "chunks", None), tuple)
            object.__setattr__(self, "groups_name", str(name) if is_name else "groups")
        dims = self.sample_dims
        if not dims or len({*dims, self.class_dim}) != len(dims) + 1:
            raise ValueError(
                f"sample_dim expects one name or several different ones, none of them class_dim={self.class_dim!r}, "
                f"got {self.sample_dim!r}."
            )
        if self.task == "multiclass" and self.pos_label is not None:
            raise ValueError("pos_label belongs to vectors of scores; task='multiclass' expects labels=....")
        if self.task == "multilabel" and self.pos_label is not None:
            raise ValueError("pos_label belongs to vectors of scores; the labels of task='multilabel' are 0 and 1.")

    @property
    def sample_dims(self) -> tuple[str, ...]:
        """The dimensions of samples."""
        return (self.sample_dim,) if isinstance(self.sample_dim, str) else tuple(self.sample_dim)

    @property
    def checks_clusters(self) -> bool:
        """Whether identifiers are checked: of labels that are 0 or 1, without groups."""
        return self.cluster_check and self.groups is None and not self.soft_labels

    @property
    def validity(self) -> Validity:
        """The check of rows."""
        return Validity(sum_tolerance=self.sum_tolerance)

    @property
    def names_classes(self) -> bool:
        """Whether the classes are named."""
        return self.labels is not None or self.pos_label is not None


def refuse_for_summary(options: InputOptions) -> None:
    """Raise ValueError for options about rows, which a summary does not have."""
    for name in ("label", "score", "skip_missing", "task", "logits", "labels", "pos_label", "ignore_label"):
        if getattr(options, name) not in (None, False):
            raise ValueError(f"A summary holds no rows; {name} has no effect on it.")
    if options.groups is not None:
        raise ValueError(
            "A summary holds no rows; groups has no effect on it. Give groups where the rows are summarized: "
            "summarize(..., groups=...) stores the sums that clustered intervals need."
        )

"""`check`: limits that were declared beforehand, each met, broken or undecided."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import xarray as xr

from calibdask.analyses.analysis import Analysis, Heading, Inputs, Outcome
from calibdask.analyses.comparison import compare
from calibdask.analyses.evaluation import interval_choice
from calibdask.analyses.gating.gate import Gate, headline, plain, plain_judgement
from calibdask.analyses.gating.judging import Judges, difference_judged
from calibdask.analyses.gating.limits import Limit, Limits, limits_of
from calibdask.analyses.gating.profiles import profile_of
from calibdask.analyses.soft_evaluation import supported_by_shares
from calibdask.data.data import Data
from calibdask.data.input import Input
from calibdask.data.options import InputOptions, Task
from calibdask.data.population import Population
from calibdask.engine.row_notes import MISSING_SLICES, warning_once
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.scores.mean_gap import MeanGap
from calibdask.estimators.smooth.gridded import on_grid
from calibdask.inference.choice import check_confidence
from calibdask.results.document import Document
from calibdask.safe_text import listed, visible

_LEVEL = 0.95
_OUTCOMES: Mapping[str, Outcome] = {"met": "met", "broken": "found", "cannot be decided": "undecided"}
# The names of several scores of the same rows.
_MODEL, _BASELINE = "model", "baseline"
_LIMIT = {"placeholder": "X|METRIC[.PART]=X|X..Y"}
_NOTES = """Limits file (--limits):
  confidence = 0.95
  by = ["country"]
  groups = "patient"
  profile = "clinical"
  owner = "Model risk committee"
  declared = 2026-01-15
  [limits]
  cutoff-error = 0.01
  ece = 0.03
  "calibration-slope.slope" = [0.9, 1.1]
  [slice-limits]
  ece = 0.05

In Python: cd.check(y_true, y_prob, {"cutoff-error": 0.01}); in tests:
calibdask.testing.assert_calibrated(y_true, y_prob, limit=0.03)."""

# What limits are given as.
LimitSource = str | Mapping[str, Any] | Sequence[str | Limit] | None
Profession = Literal["default", "ml", "clinical", "credit", "ads", "forecast"]


def check(
    y_true: Any,
    y_prob: Any = None,
    limits: LimitSource = None,
    *,
    slice_limits: LimitSource = None,
    by: Any = None,
    not_worse: LimitSource = None,
    baseline: Any = None,
    profile: str = "",
    sample_weight: Any = None,
    confidence: float = 0.95,
    n_boot: int = 1000,
    seed: int = 0,
    label: Any = None,
    score: Any = None,
    skip_missing: bool = False,
    groups: Any = None,
    soft_labels: bool | Literal["raters"] = False,
    task: Task | None = None,
    logits: bool = False,
    labels: Any = None,
    pos_label: Any = None,
    ignore_label: Any = None,
    population: Population | None = None,
) -> Gate:
    """Test numbers against limits that were declared beforehand: each is met, broken or undecided.

    Parameters
    ----------
    y_true, y_prob : array of shape (n,); y_prob (n,) or (n, K)
        As in `calibdask.evaluate`; or, without ``y_prob``, a data frame, the path of a file, or a summary.
    limits : mapping from metric to number, or texts such as ``"ece=0.03"``
        Limits for all rows. A number is the maximum of a loss or of the absolute value of an error or difference, or
        the minimum of a metric for which higher is better; ``(0.9, 1.1)``, or as text
        ``"calibration-slope.slope=0.9..1.1"``, is a range. Metrics are written as on the command line, parts follow a
        dot.
    slice_limits : the same, optional
        Limits for each slice; by default the limits for all rows.
    by : array, mapping from name to array, or names of columns, optional
        Slices; each name is handled separately. For a summary: names of its slices.
    not_worse : the same as limits, optional
        By how much the scores may be worse than the baseline, such as ``{"log-loss": 0.001}``.
    baseline : array of the shape of y_prob, optional
        Scores of another model for the same rows.
    profile : {"", "default", "ml", "clinical", "credit", "ads", "forecast"}
        Profile of additional numbers, see Notes.
    confidence : float, default 0.95
        Each decision uses intervals of this level; for slices the level is 1 - (1 - confidence) / slices, so that all
        of them hold simultaneously.
    n_boot, seed : int
        Number of replicates for intervals that need them (more are used if many slices raise the level), and their
        seed.
    sample_weight, label, score, skip_missing, task, logits, labels, pos_label, ignore_label
        As in `calibdask.evaluate`.
    population : Population, optional
        The population to which the limits refer, as for `calibdask.evaluate`. A prevalence weights the rows, and events
        count as with weights, see Notes.
    groups : array of shape (n,), or name of a column, optional
        The cluster of each row, as for `calibdask.evaluate`: intervals allow for clusters, events count as the
        equivalent number of independent rows, and with fewer than 10 clusters nothing is decided.
    soft_labels : bool or "raters", default False
        Whether labels are shares, as for `calibdask.evaluate`. Limits on metrics that count labels raise an error.

    Returns
    -------
    Gate
        With ``outcome``, ``judgements`` and the measured numbers.

    Raises
    ------
    ValueError
        If there are no limits and no profile, or no such metrics; if a limit does not define which values meet it; and
        as in `calibdask.evaluate`.

    Notes
    -----
    A limit is *met* if the whole interval keeps it, *broken* if none of it does, and else *cannot be decided*: a limit
    that is the true value is met in about (1 - confidence) / 2 of data sets at most. Intervals of binned calibration
    errors and of mean gaps are widened so that they are also valid with few rows and few events. Other intervals are
    valid only with enough events: with fewer than 20 events, or fewer than 20 rows without one (for several classes:
    right and wrong predictions, or rows of the class of the metric), they decide nothing unless they are exact. With
    weights no interval is exact, and events count as (sum w)**2 / sum w**2 over those with the outcome: at most their
    actual number, whatever the weights; with ``groups`` as the independent ones that they are worth, 30 of either at
    least. Slices of fewer than 10 rows are never decided.

    Means over rows, such as the Brier score, have ends that allow for large losses that did not occur: the limits of
    Clopper & Pearson for a mean of the same variance. The log loss is unbounded: a limit on it is undecided unless it
    states a bound, as in ``"log-loss(clip=0.001)=0.4"``.

    Profiles: ``default`` (six numbers), ``ml`` (calibration errors, proper scores, risk and coverage, conformal sets),
    ``clinical`` (observed to expected, calibration intercept and slope, ICI, belt, net benefit, c statistic, Brier
    score), ``credit`` (observed to expected, tests of grades, Hosmer-Lemeshow, AUC; the first two of each slice too),
    ``ads`` (normalized entropy and observed to expected, also by slice; calibration by score decile),
    ``forecast`` (decompositions of Brier score and log loss, reliability with consistency bars, CORP, Murphy curve).

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(20_000)
    >>> cd.check(rng.random(20_000) < scores, scores, {"ece": 0.03}).outcome
    'met'
    >>> cd.check(rng.random(20_000) < scores**2, scores, "ece=0.03").outcome
    'broken'
    """
    options = InputOptions(
        task,
        logits,
        labels,
        pos_label,
        ignore_label,
        label=label,
        score=score,
        skip_missing=skip_missing,
        population=population,
        groups=groups,
        soft_labels=soft_labels,
        cluster_check=True,
    )
    if _are_limits(y_prob):
        raise ValueError(
            "The second argument is y_prob, the scores, got limits; pass limits by keyword if a frame or file replaces "
            f"labels and scores, as in check(data, limits={y_prob!r})."
        )
    data = Data.of(y_true, y_prob, by, sample_weight, options)
    if baseline is not None:
        data = data.with_scores({_MODEL: data.scores, _BASELINE: baseline})
    # Limits may have any form.
    choices: dict[str, Any] = {"limits": limits, "slice_limits": slice_limits, "not_worse": not_worse}
    choices |= {"profile": profile, "confidence": confidence, "n_boot": n_boot, "seed": seed}
    with warning_once():
        return Check(**choices).gate(data)


def _are_limits(y_prob: Any) -> bool:
    """Whether these are limits rather than scores."""
    if isinstance(y_prob, Mapping):
        return bool(y_prob) and all(isinstance(limit, int | float | tuple | str) for limit in y_prob.values())
    texts = [y_prob] if isinstance(y_prob, str) else y_prob if isinstance(y_prob, list | tuple) else []
    return bool(texts) and all(isinstance(text, str | Limit) for text in texts)


@dataclass(frozen=True)
class Check(Analysis):
    """Test DATA against declared limits.

    DATA are scored rows or a summary. A limit is met if the whole confidence interval satisfies it, broken if none of
    the interval does, and undecided otherwise: too few rows give 'undecided'. Intervals of slices are simultaneous over
    all slices of a --by column.

    Parameters
    ----------
    limits : tuple of str
        Limit for all rows, a maximum error or loss, or a range (X alone means ece=X, repeatable).
    slice_limits : tuple of str
        Limit for each slice (repeatable). None: --limit.
    profile : {"default", "ml", "clinical", "credit", "ads", "forecast"}, optional
        Add the numbers that this profession reports.
    not_worse : tuple of str
        Maximum by which DATA may be worse than --baseline (repeatable).
    confidence : float, optional
        Confidence of each decision, simultaneous over the slices of a column. None: 0.95.
    n_boot : int
        Bootstrap replicates of the intervals.
    seed : int
        Seed of random numbers.
    """

    limits: tuple[str, ...] = field(default=(), metadata=_LIMIT)
    slice_limits: tuple[str, ...] = field(default=(), metadata=_LIMIT)
    profile: Profession | None = None
    not_worse: tuple[str, ...] = field(default=(), metadata={"placeholder": "METRIC=X"})
    confidence: float | None = field(default=None, metadata={"placeholder": "LEVEL"})
    n_boot: int = 1000
    seed: int = field(default=0, metadata={"placeholder": "S"})

    name: ClassVar[str] = "check"
    heading: ClassVar[Heading] = "Decide"
    inputs: ClassVar[Inputs] = "limits"
    json_head: ClassVar[Sequence[str]] = ("command",)
    further_formats: ClassVar[Sequence[str]] = (".xml",)
    notes: ClassVar[str] = _NOTES
    statuses: ClassVar[Mapping[Outcome, str]] = {
        "met": "all limits are met",
        "found": "a limit is broken",
        "undecided": "undecided",
    }
    examples: ClassVar[Sequence[tuple[str, str]]] = (
        ("calibdask check new.parquet --limit cutoff-error=0.01", "the recommended limit, independent of bins"),
        ("calibdask check new.parquet --limit ece=0.03 --by country --slice-limit ece=0.05", "also for each country"),
        ("calibdask check new.parquet --limits limits.toml --out check.md --out junit.xml", "limits from a file"),
        (
            "calibdask check new.parquet --baseline old.parquet --not-worse log-loss=0.001",
            "non-inferiority to another model",
        ),
        ("calibdask check new.parquet --limit calibration-slope.slope=0.9..1.1 --profile clinical", "a range"),
    )

    def __post_init__(self) -> None:
        check_confidence(self.level)
        profile_of(self.profile or "")
        object.__setattr__(self, "profile", self.profile or None)
        for name in ("limits", "slice_limits", "not_worse"):
            # Texts can be compared and hashed.
            object.__setattr__(self, name, tuple(map(str, limits_of(getattr(self, name), name.removesuffix("s")))))

    @property
    def level(self) -> float:
        """The confidence of each decision."""
        return _LEVEL if self.confidence is None else self.confidence

    @property
    def decides(self) -> bool:
        """Whether there are limits, or the numbers of a profession."""
        return bool(self.limits or self.slice_limits or self.not_worse or self.profile)

    def with_file(self, declared: Limits) -> "Check":
        """Add the limits of a file; the own ones take precedence."""

        def joined(own: Sequence[str], others: Sequence[Limit]) -> Any:
            return tuple({one.text: one for one in (*others, *limits_of(own))}.values())

        profile: Any = self.profile or declared.profile
        limits, slice_limits = joined(self.limits, declared.limits), joined(self.slice_limits, declared.slice_limits)
        confidence = self.confidence or declared.confidence
        return replace(self, limits=limits, slice_limits=slice_limits, profile=profile, confidence=confidence)

    def compute(self, data: Data) -> xr.Dataset:
        """The numbers of all rows, and the decisions; see `gate`."""
        return self.gate(data).to_dataset()

    def document(self, result: xr.Dataset) -> Document:
        """The outcome, every decision, requirements of undecided limits, and the numbers of the profile."""
        source = result.attrs.get("source", "")
        return Gate.of_dataset(result).document(f"Calibration of {visible(source)}" if source else "")

    def records(self, result: xr.Dataset) -> dict[str, Any]:
        """The outcome, a record for each decision, and the numbers of all rows."""
        return plain(Gate.of_dataset(result))

    def lines(self, result: xr.Dataset) -> list[dict[str, Any]]:
        """A line for each decision."""
        return [{**plain_judgement(one), "where": one.place} for one in Gate.of_dataset(result).judgements]

    def conclusion(self, result: xr.Dataset) -> str:
        """The outcome in a line."""
        return headline(Gate.of_dataset(result))

    def outcome(self, result: xr.Dataset) -> Outcome:
        """Found if a limit is broken."""
        return _OUTCOMES[Gate.of_dataset(result).outcome]

    def gate(self, data: Data) -> Gate:
        """The decisions, with the numbers of all rows and of slices.

        Data of two models have the scores of the model, and of the baseline that it may not be worse than.
        """
        choice = interval_choice(self.level, None, self.n_boot, self.seed)
        assert choice is not None
        whole, slice_limits, margins = map(limits_of, (self.limits, self.slice_limits, self.not_worse))
        of_slices = slice_limits or whole
        if not self.decides:
            raise ValueError('check expects limits, such as {"ece": 0.03}.')
        if bool(margins) != bool(data.models):
            raise ValueError(
                "not_worse and baseline require each other: by how much may the scores be worse, and than which?"
            )
        if margins and not data.has_rows:
            raise ValueError("not_worse compares scores of the same rows; a summary has no rows.")
        given = (data.with_scores(data.scores[_MODEL]) if margins else data).pooled()
        if slice_limits and not given.slice_names:
            raise ValueError("slice_limits expects slices; give by too.")
        rows = given.sliced(()).read(takes_groups=True, takes_shares=True)
        for margin in margins:
            margin.check_margin(rows.source.layout)
        sliced = [given.sliced((name,)).read(takes_groups=True, takes_shares=True) for name in given.slice_names]
        if rows.batch:
            raise ValueError(f"check expects one model, got several along {listed([str(a.name) for a in rows.batch])}.")
        layout = rows.source.layout
        chosen = profile_of(self.profile or "")
        shown = _of_this_grid(chosen.metrics(layout) or ({} if whole else {"mean_gap": MeanGap()}), rows)
        judgements, result = Judges.of(whole, layout).judge(rows, choice, shown)
        measured = {}
        # Not every profile has numbers of slices.
        for one in sliced if of_slices or chosen.of_slices else ():
            own, by_slice = Judges.of(of_slices, layout).judge(
                one, choice, _of_this_grid(chosen.metrics(layout, of_slices=True), one)
            )
            judgements += own
            measured[", ".join(str(axis.name) for axis in one.by)] = by_slice
        # A summary has one number for all slices together.
        if given.has_rows and any(MISSING_SLICES in one.attrs for one in measured.values()):
            missing = sum(int(one.attrs[MISSING_SLICES]) for one in measured.values())
            result = result.assign_attrs({MISSING_SLICES: missing})
        if margins:
            metrics = {str(limit.metric): limit.metric.make() for limit in margins}
            # The first one is what others are compared with.
            both = data.sliced(()).with_scores({name: data.scores[name] for name in (_BASELINE, _MODEL)})
            compared = compare(both, metrics=metrics, ci=self.level, n_boot=self.n_boot, seed=self.seed)
            judgements += [difference_judged(limit, compared.isel(challenger=0), rows) for limit in margins]
        return Gate(tuple(judgements), result, self.level, self.profile or "", measured)


def _of_this_grid(metrics: Mapping[str, Estimator], data: Input) -> dict[str, Estimator]:
    """Metrics of a profile, those that are defined for soft labels if these are; for a summary, on its own grid."""
    return on_grid(supported_by_shares(metrics, data), data.source.step)

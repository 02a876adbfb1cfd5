"""Decisions: whether calibration errors keep the limits that whoever signs off a model has set."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from calibdask.readout import Reading
from calibdask.report.facts import Facts, error_words
from calibdask.report.words import named

__all__ = ["Judgement", "Limits", "line_of", "slices_judged", "whole_judged"]

Outcome = Literal["broken", "cannot be decided", "met"]
_OUTCOMES: tuple[Outcome, ...] = ("broken", "cannot be decided", "met")


@dataclass(frozen=True)
class Limits:
    """The largest calibration errors that are accepted: of all rows of a model, and of each slice.

    ``slices`` is ``rows`` where it is not given; what has no limit is not judged.

    Examples
    --------
    >>> Limits(0.03).of_slices
    0.03
    >>> Limits(3)
    Traceback (most recent call last):
    ...
    ValueError: limit expects a fraction between 0 and 1, such as 0.03 for 3 percentage points, got 3.
    """

    rows: float | None = None
    slices: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        for name, value in {"limit": self.rows, "slice_limit": self.slices}.items():
            if value is not None and (isinstance(value, bool) or not 0 < value < 1):
                raise ValueError(
                    f"{name} expects a fraction between 0 and 1, such as 0.03 for 3 percentage points, got {value!r}."
                )

    def __bool__(self) -> bool:
        """Whether anything is to be judged."""
        return self.rows is not None or self.slices is not None

    @property
    def of_slices(self) -> float | None:
        """The limit of slices."""
        return self.rows if self.slices is None else self.slices


@dataclass(frozen=True)
class Judgement:
    """The error of all rows or of a slice (rows are NaN where nobody counted them), and what its limit says of it."""

    what: str
    rows: float
    metric: str
    error: Reading | None
    limit: float

    @property
    def outcome(self) -> Outcome:
        """Met or broken, if the whole interval is on that side of the limit."""
        error = self.error
        # Comparisons with NaN are false: without an interval nothing is decided.
        if error is None or not error.has_interval:
            return "cannot be decided"
        if error.low > self.limit:
            return "broken"
        return "met" if error.high <= self.limit else "cannot be decided"


def whole_judged(facts: Facts, limits: Limits) -> Judgement | None:
    """The judgement on all rows of a model; None without a limit for them."""
    if limits.rows is None:
        return None
    error = facts.headline
    metric = "–" if error is None else error_words(facts.estimator(error.name))
    return Judgement("all rows", facts.rows, metric, error, limits.rows)


def slices_judged(facts: Facts, limits: Limits) -> Iterator[tuple[str, list[Judgement]]]:
    """The judgements on the slices of each column: first what is broken, then what cannot be decided.

    Examples
    --------
    >>> import numpy as np
    >>> from calibdask.report import measure
    >>> rng = np.random.default_rng(0)
    >>> scores, day = rng.random(3000), rng.choice(["mon", "tue", "wed"], 3000)
    >>> labels = rng.random(3000) < np.where(day == "tue", scores**3, scores)
    >>> facts = Facts("days", measure(labels, scores, by={"day": day}))
    >>> [(name, [(each.what, each.outcome) for each in some]) for name, some in slices_judged(facts, Limits(0.09))]
    [('day', [('tue', 'broken'), ('wed', 'met'), ('mon', 'met')])]
    """
    limit = limits.of_slices
    if limit is None:
        return
    for sliced in facts.sliced:
        words = error_words(sliced.estimator) or "–"
        found = [
            Judgement(each.label, each.rows, words, each.numbers.get(sliced.metric), limit) for each in sliced.slices
        ]
        yield sliced.name, sorted(found, key=lambda each: _OUTCOMES.index(each.outcome))


def line_of(facts: Facts, limits: Limits) -> str:
    """The decisions on a model in a line.

    Examples
    --------
    >>> from calibdask.report import measure
    >>> line_of(Facts("tiny", measure([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.7])), Limits(0.03))
    'tiny: limit 0.03 cannot be decided'
    """
    whole = whole_judged(facts, limits)
    parts = [] if whole is None else [f"limit {whole.limit:g} {whole.outcome}"]
    for name, found in slices_judged(facts, limits):
        own = "" if limits.of_slices == limits.rows else f" (limit {limits.of_slices:g})"
        parts.append(f"by {name}{own}: {_counted(found)}")
    return f"{facts.name}: {'; '.join(parts) or 'no slices to judge'}"


def _counted(found: Sequence[Judgement]) -> str:
    """The slices that do not keep their limit by name."""
    sides = [(outcome, [each.what for each in found if each.outcome == outcome]) for outcome in _OUTCOMES[:-1]]
    told = [f"{named(some)} {outcome}" for outcome, some in sides if some]
    return ", ".join(told) if told else f"all {len(found)} met"

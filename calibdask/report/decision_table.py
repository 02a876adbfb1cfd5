"""Decisions: whether calibration errors keep the limits that are set for the approval of a model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from calibdask.report.model_result import ModelResult
from calibdask.results.decisions import OUTCOMES, Decision, Outcome
from calibdask.results.format import named


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
        """Refuse what is no fraction."""
        for name, value in {"limit": self.rows, "slice_limit": self.slices}.items():
            if value is not None and (isinstance(value, bool) or not 0 < value < 1):
                raise ValueError(
                    f"{name} expects a fraction between 0 and 1, such as 0.03 for 3 percentage points, got {value!r}."
                )

    def __bool__(self) -> bool:
        """Whether there is a limit."""
        return self.rows is not None or self.slices is not None

    @property
    def of_slices(self) -> float | None:
        """The limit of slices."""
        return self.rows if self.slices is None else self.slices


@dataclass(frozen=True)
class Judgement:
    """The decision on all rows or on a slice; ``rows`` are NaN where no diagram counts them."""

    what: str
    rows: float
    label: str
    decision: Decision

    @property
    def outcome(self) -> Outcome:
        """What is decided."""
        return self.decision.outcome

    @property
    def rows_needed(self) -> float:
        """How many rows would decide it, at the same weights; NaN where that cannot be said."""
        evidence = self.decision.evidence
        if evidence is None or not evidence.effective_rows:
            return np.nan
        return self.decision.rows_needed * max(1.0, self.rows / evidence.effective_rows)


def whole_judged(model: ModelResult, limits: Limits) -> Judgement | None:
    """The judgement on all rows of a model; None without a limit for them."""
    if limits.rows is None:
        return None
    label = "–" if model.headline is None else model.headline.label
    return Judgement("all rows", model.rows, label, model.decided(limits.rows))


def slices_judged(model: ModelResult, limits: Limits) -> Iterator[tuple[str, list[Judgement]]]:
    """The judgements on the slices of each column: first what is broken, then what cannot be decided.

    Examples
    --------
    >>> import numpy as np
    >>> from calibdask.report import measure
    >>> rng = np.random.default_rng(0)
    >>> scores, day = rng.random(3000), rng.choice(["mon", "tue", "wed"], 3000)
    >>> labels = rng.random(3000) < np.where(day == "tue", scores**3, scores)
    >>> model = ModelResult("days", measure(labels, scores, by={"day": day}))
    >>> for name, judgements in slices_judged(model, Limits(0.09)):
    ...     print(name, [(judgement.what, judgement.outcome) for judgement in judgements])
    day [('tue', 'broken'), ('wed', 'met'), ('mon', 'met')]
    """
    limit = limits.of_slices
    if limit is None:
        return
    for sliced in model.sliced:
        judgements = [
            Judgement(piece.label, piece.rows, sliced.label, sliced.decided(piece, limit)) for piece in sliced.slices
        ]
        yield sliced.name, sorted(judgements, key=lambda judgement: OUTCOMES.index(judgement.outcome))


def line_of(model: ModelResult, limits: Limits) -> str:
    """The decisions on a model in a line.

    Examples
    --------
    >>> from calibdask.report import measure
    >>> line_of(ModelResult("tiny", measure([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.7])), Limits(0.03))
    'tiny: limit 0.03 cannot be decided'
    """
    whole = whole_judged(model, limits)
    parts = [] if whole is None else [f"limit {limits.rows} {whole.outcome}"]
    for name, judgements in slices_judged(model, limits):
        own = "" if limits.of_slices == limits.rows else f" (limit {limits.of_slices})"
        parts.append(f"by {name}{own}: {_not_met(judgements)}")
    return f"{model.name}: {'; '.join(parts) or 'no slices to judge'}"


def _not_met(judgements: Sequence[Judgement]) -> str:
    """The slices that do not keep their limit, by name."""
    slices = {
        outcome: [judgement.what for judgement in judgements if judgement.outcome == outcome]
        for outcome in OUTCOMES[:-1]
    }
    parts = [f"{named(names)} {outcome}" for outcome, names in slices.items() if names]
    everything = {1: "the one slice", 2: "both"}.get(len(judgements), f"all {len(judgements)}")
    return ", ".join(parts) or f"{everything} met"

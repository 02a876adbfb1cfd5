"""`Gate`: limits checked against data; its dataset, its document, and its plain values for JSON."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from calibdask.analyses.gating.judging import Judgement, overall
from calibdask.analyses.gating.profiles import profile_of
from calibdask.analyses.gating.unseen_losses import EVIDENCE
from calibdask.analyses.monitoring.due_dates import dates_of
from calibdask.results.build import basis_sentences, noted_rows, sentences_of
from calibdask.results.cautions import of_metrics
from calibdask.results.decisions import OUTCOMES, WORDS, Outcome
from calibdask.results.document import (
    Cell,
    CheckedLimit,
    Checks,
    Document,
    Element,
    Listing,
    Section,
    Sentence,
    Table,
    interval,
    number,
    text,
)
from calibdask.results.format import counted, figures, joined, number_of
from calibdask.results.values import Results

# Of a number that is next to its limit nobody waits for so many rows.
_MOST_TIMES, _MANY = 100, 1e7
# Digits that are added until each number is shown on its side of the limits.
_MORE_DIGITS = 5
_CAUTIONS, _ENDS = "gate_cautions", ("low", "high")
_COLUMNS = (
    ("limit", False),
    ("where", False),
    ("rows", True),
    ("number", True),
    ("interval", True),
    ("accepted", False),
    ("decision", False),
)


@dataclass(frozen=True, eq=False)
class Gate:
    """The result of testing data against limits.

    Attributes
    ----------
    judgements : tuple of Judgement
        One for each limit, for all rows and for each slice.
    result : xarray.Dataset
        The measured numbers for all rows, as from `calibdask.evaluate`, including those of the profile.
    confidence : float
        Confidence of each decision, simultaneous for all slices of a column.
    profile : str
        The profile; empty without one.
    slices : mapping from name to xarray.Dataset
        The same for the slices of each column, with the numbers of the profile that apply to slices; intervals hold
        simultaneously for all slices of the column.
    """

    judgements: tuple[Judgement, ...]
    result: xr.Dataset
    confidence: float
    profile: str = ""
    slices: Mapping[str, xr.Dataset] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        """``"broken"`` if any limit is; ``"met"`` if all are; otherwise, or without limits, ``"cannot be decided"``."""
        return overall(self.judgements)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.result.attrs["rows"])

    @property
    def population(self) -> str:
        """The population that the rows are weighted to, in words; empty: the sample."""
        return str(self.result.attrs.get("population", ""))

    def of(self, outcome: Outcome) -> tuple[Judgement, ...]:
        """The judgements with this outcome."""
        return tuple(judgement for judgement in self.judgements if judgement.outcome == outcome)

    @classmethod
    def of_dataset(cls, dataset: xr.Dataset) -> "Gate":
        """The gate of a dataset that `to_dataset` made, without the numbers of slices."""
        names = [one.name for one in fields(Judgement)]
        columns = [dataset[f"decision_{name}"].values.tolist() for name in names]
        found = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
        judgements = [Judgement(**{**one, "where": json.loads(one["where"])}) for one in found]
        return cls(tuple(judgements), dataset, float(dataset.attrs["confidence"]), str(dataset.attrs["profile"]))

    def to_dataset(self) -> xr.Dataset:
        """The numbers of all rows, and the judgements along the dimension ``decision``."""
        internal = [name for name, one in self.result.items() if str(one.attrs.get("metric")).startswith(EVIDENCE)]
        names = [one.name for one in fields(Judgement)]
        columns = {name: [getattr(judgement, name) for judgement in self.judgements] for name in names}
        columns["where"] = [json.dumps(dict(where)) for where in columns["where"]]
        decisions = {f"decision_{name}": ("decision", values) for name, values in columns.items()}
        about = {"confidence": self.confidence, "profile": self.profile, _CAUTIONS: list(cautions(self))}
        return self.result.drop_vars(internal).assign(decisions).assign_attrs(about)

    def with_intervals(self, result: xr.Dataset) -> xr.Dataset:
        """Another result for these rows and this level, with the intervals of the gate for the numbers of both."""
        if result.attrs.get("ci") != self.confidence:
            return result
        ends = {_identity(one): one.values for one in self.result.data_vars.values() if "bound" in one.attrs}
        shared = [
            name for name, one in result.data_vars.items() if _identity(one) in ends and one.attrs["bound"] in _ENDS
        ]
        return result.assign({name: result[name].copy(data=ends[_identity(result[name])]) for name in shared})

    def __repr__(self) -> str:
        return self.document().to_text()

    def _repr_html_(self) -> str:
        return self.document().to_html()

    def _repr_markdown_(self) -> str:
        return self.document().to_markdown()

    def document(self, title: str = "") -> Document:
        """The outcome, every decision, requirements of undecided limits, and the numbers of the profile."""
        return gate_document(self, title)


def _identity(variable: xr.DataArray) -> tuple[str, ...]:
    """The estimator, the part, the bound and the dimensions of a variable."""
    return (
        *(str(variable.attrs.get(name, "")) for name in ("estimator", "part", "setting", "bound")),
        str(dict(variable.sizes)),
    )


def headline(gate: Gate) -> str:
    """The outcome in a line.

    Examples
    --------
    >>> from calibdask.analyses.gating.check import check
    >>> headline(check([0, 1] * 8, [0.4, 0.6] * 8, {"ece": 0.03}))
    'Undecided: the one limit cannot be decided with 16 rows.'
    """
    broken, undecided, every = (len(gate.of("broken")), len(gate.of("cannot be decided")), len(gate.judgements))
    rows = ", ".join(filter(None, (counted(gate.rows, "row"), gate.population)))
    if not every:
        return f"No limits: nothing is decided of {rows}."
    if broken:
        return f"Broken: {broken} of {counted(every, 'limit')}, with {rows}."
    if undecided and every == 1:
        return f"Undecided: the one limit cannot be decided with {rows}."
    if undecided:
        return f"Undecided: none of {counted(every, 'limit')} is broken, {undecided} cannot be decided with {rows}."
    return f"Met: {'the one limit' if every == 1 else f'all {every} limits'}, with {rows}."


def sentence(judgement: Judgement) -> str:
    """One judgement in a sentence.

    Examples
    --------
    >>> sentence(Judgement("ece", -0.03, 0.03, {"c": "a"}, 0.05, 0.04, 0.06, 1000.0))
    'c=a: ece 0.050 (0.040 to 0.060) is outside the limit of 0.03'
    """
    verb = {"met": "is within", "broken": "is outside", "cannot be decided": "may be within or outside"}
    needed = f" ({judgement.reason})" if judgement.reason else ""
    if math.isfinite(judgement.rows_needed):
        needed += f"; {_rows_needed(judgement)}"
    interval = f" ({interval_text(judgement)})" if math.isfinite(judgement.low) else ", without an interval,"
    return (
        f"{judgement.place}: {judgement.name} {value_text(judgement)}{interval} {verb[judgement.outcome]} "
        f"the limit of {accepted(judgement)}{needed}"
    )


def _rows_needed(judgement: Judgement) -> str:
    """How many rows the decision needs, in three digits, and in what sense."""
    number = f"about {float(f'{judgement.rows_needed:.3g}'):,.0f}"
    if judgement.rows_needed > max(_MOST_TIMES * judgement.rows, _MANY):
        number = f"more than {_MOST_TIMES} times as many"
    rows = "rows of this slice" if judgement.where else "rows in all"
    if judgement.reason:
        return f"{number} {rows} would have that many of each, which may not be enough"
    if judgement.leaning == "cannot be decided":
        return f"a calibrated model needs {number} {rows} to meet it"
    return f"{number} {rows} would show it to be {judgement.leaning}, if the estimate does not change"


def interval_text(judgement: Judgement) -> str:
    """The ends that decide."""
    if math.isnan(judgement.low) or math.isnan(judgement.high):
        return "none"
    _, low, high = judged_texts(judgement)
    return f"{low} to {high}"


def value_text(judgement: Judgement) -> str:
    """The estimate, in the digits of the ends that decide."""
    return judged_texts(judgement)[0]


def judged_texts(judgement: Judgement) -> tuple[str, str, str]:
    """The estimate and the ends that decide, in enough digits for each to stay on its side of the limits."""
    numbers = (judgement.value, judgement.low, judgement.high)
    limits = [limit for limit in (judgement.least, judgement.most) if math.isfinite(limit)]
    known = [number for number in numbers if math.isfinite(number)]
    texts = figures(*numbers)
    for more in range(1, _MORE_DIGITS):
        shown = [number_of(text) for text, number in zip(texts, numbers, strict=True) if math.isfinite(number)]
        pairs = product(zip(known, shown, strict=True), limits)
        if all(_side(written, limit) == _side(number, limit) for (number, written), limit in pairs):
            break
        texts = figures(*numbers, more)
    return texts


def _side(number: float, limit: float) -> int:
    """Below, at or above a limit."""
    return (number > limit) - (number < limit)


def accepted(judgement: Judgement) -> str:
    """The values that meet the limit."""
    least, most = (f"{end:g}".replace("-", "−") for end in (judgement.least, judgement.most))
    if math.isinf(judgement.least):
        return f"at most {most}"
    if math.isinf(judgement.most):
        return f"at least {least}"
    return most if judgement.least == -judgement.most else f"{least} to {most}"


def gate_document(gate: Gate, title: str = "") -> Document:
    """The document of a gate: `Gate.document`."""
    elements: list[Element] = [Sentence(headline(gate), lead=True, name="outcome")]
    if gate.judgements:
        rows = [_cells(judgement) for judgement in _worst_first(gate)]
        elements += [Table("", _COLUMNS, rows, name="limits"), Sentence(level_text(gate), name="level")]
    if notes := [*wanting(gate), *cautions(gate)]:
        elements.append(Listing(notes))
    elements.append(Checks([_check(judgement) for judgement in gate.judgements]))
    sections = [Section("limits", "Limits", elements)]
    if gate.profile:
        sections.append(Section("profile", profile_of(gate.profile).title, _profile_elements(gate)))
    return Document(title, counted(gate.rows, "row"), sections, name="check")


def _cells(judgement: Judgement) -> list[Cell]:
    """The row of one limit."""
    outcome = WORDS[judgement.outcome]
    is_counted = not math.isnan(judgement.rows)
    rows = number(judgement.rows, f"{judgement.rows:,.0f}") if is_counted else Cell("–", numeric=True)
    return [
        text(judgement.name),
        text(judgement.place),
        rows,
        number(judgement.value, value_text(judgement)),
        interval(judgement.low, judgement.high, interval_text(judgement)),
        Cell(accepted(judgement), parts=_limits(judgement)),
        Cell("BROKEN" if outcome == "broken" else outcome, mark=outcome),
    ]


def _limits(judgement: Judgement) -> tuple[tuple[str, float], ...]:
    """The limit, or the lower and the upper one, by name."""
    ends = {"limit low": judgement.least, "limit high": judgement.most}
    if judgement.least == -judgement.most:
        return (("limit", judgement.most),)
    given = [(name, end) for name, end in ends.items() if math.isfinite(end)]
    return tuple(given if len(given) > 1 else (("limit", end) for _, end in given))


def _check(judgement: Judgement) -> CheckedLimit:
    name = f"{judgement.name} of {judgement.place}"
    return CheckedLimit(name, WORDS[judgement.outcome], sentence(judgement), judgement.meaning)


def _profile_elements(gate: Gate) -> list[Element]:
    """The numbers of the profile with their intervals, and its note."""
    profile = profile_of(gate.profile)
    columns = [("", False), ("number", True), (f"{100 * gate.confidence:g} % interval", True)]
    rows = [
        [
            text(one.name),
            number(float(one.value.value), one.text),
            interval(one.value.low, one.value.high, one.ends),
        ]
        for one in profile.numbers(gate.result)
    ]
    notes = [Sentence(profile.note, quiet=True)] if profile.note else []
    return [Table("", columns, rows, name="profile"), *notes, *left_out_numbers(gate)]


def left_out_numbers(gate: Gate) -> Iterator[Sentence]:
    """The numbers of the profile that were not measured."""
    if missing := profile_of(gate.profile).left_out(gate.result):
        yield Sentence(f"Without {joined(missing)}: no form for the weights or clusters of these rows.", quiet=True)


def level_text(gate: Gate) -> str:
    """The level of the decisions."""
    has_slices = any(judgement.where for judgement in gate.judgements)
    slices = ", adjusted for the slices of its column (Bonferroni)" if has_slices else ""
    return " ".join((f"Each decision holds at {100 * gate.confidence:g} %{slices}.", *basis_sentences(gate.result)))


def wanting(gate: Gate) -> Iterator[str]:
    """One sentence per undecided limit on the rows needed."""
    for judgement in gate.of("cannot be decided"):
        would = _rows_needed(judgement) if math.isfinite(judgement.rows_needed) else ""
        if words := "; ".join(filter(None, (judgement.reason, would))):
            yield f"{judgement.limit} of {judgement.place}: {words}."


def cautions(gate: Gate) -> Iterator[str]:
    """Caveats on the numbers of the limits and of the profile, one sentence each."""
    if _CAUTIONS in gate.result.attrs:
        yield from sentences_of(gate.result, _CAUTIONS)
        return
    own = dict.fromkeys(
        of_metrics(part for part in Results(gate.result).numbers if not part.metric.startswith(EVIDENCE))
    )
    yield from own
    for column, result in gate.slices.items():
        yield from (f"By {column}: {line}" for line in of_metrics(Results(result).numbers) if line not in own)


def _worst_first(gate: Gate) -> list[Judgement]:
    return sorted(gate.judgements, key=turns(gate.judgements))


def turns(judgements: Sequence[Judgement]) -> Callable[[Judgement], tuple[int, str, str]]:
    """Sort key of judgements: worst outcome first; judgements of periods stand together, in the order of time."""
    columns = {next(iter(one.where)) for one in judgements if len(one.where) == 1}
    of_column = {name: [one for one in judgements if tuple(one.where) == (name,)] for name in columns}
    worst = {
        name: min(OUTCOMES.index(one.outcome) for one in of_periods)
        for name, of_periods in of_column.items()
        if dates_of(np.array([one.where[name] for one in of_periods])) is not None
    }

    def turn(judgement: Judgement) -> tuple[int, str, str]:
        name, label = next(iter(judgement.where.items()), ("", ""))
        # Texts of dates sort by time.
        is_period = len(judgement.where) == 1 and name in worst
        return (worst[name], name, label) if is_period else (OUTCOMES.index(judgement.outcome), "", "")

    return turn


def plain(gate: Gate) -> dict[str, Any]:
    """Plain values for JSON; numbers that do not exist are null."""
    return {
        "outcome": WORDS[gate.outcome],
        "rows": gate.rows,
        "rows_skipped": 0,
        **noted_rows(gate.result.attrs),
        "population": gate.population or "in the sample",
        "confidence": gate.confidence,
        "profile": gate.profile,
        "calibdask_version": str(gate.result.attrs["calibdask_version"]),
        "limits": [plain_judgement(judgement) for judgement in gate.judgements],
        "cautions": list(cautions(gate)),
        "measured": {
            part.variable: _number(part.value().value)
            for part in Results(gate.result).numbers
            if not part.values.ndim and not part.metric.startswith(EVIDENCE)
        },
    }


def plain_judgement(judgement: Judgement) -> dict[str, Any]:
    """Plain values of one decision."""
    numbers = {
        name: _number(getattr(judgement, name))
        for name in ("value", "low", "high", "least", "most", "rows", "rows_needed")
    }
    notes = {"scope": judgement.scope, "decision": WORDS[judgement.outcome], "reason": judgement.reason}
    return {"limit": judgement.limit, "where": dict(judgement.where), **numbers, **notes}


def _number(value: Any) -> float | int | None:
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) >= 1 else number

"""Warnings: what should make a reader of the numbers careful."""

from collections.abc import Iterator

import numpy as np

from calibdask.report.facts import Facts, Sliced
from calibdask.report.words import counted, figure, joined, named, percent, points, spanned

__all__ = ["cautions"]

_FEW_ROWS, _FEW_IN_A_BIN, _FEW_IN_A_SLICE = 300, 10, 100
_FEW_SCORES = 50
_SATURATED = 0.001
_NAMED = 5
# The width of an interval of a slice beyond which little is known of its error.
_WIDE = 0.05
# By how much, and by what part, a binned error exceeds a smooth one that is worth a word.
_BIAS, _BIASED = 0.005, 1.3
# Kish's number over the rows below which weights cost much.
_UNEQUAL = 0.5


def cautions(facts: Facts) -> list[str]:
    """What makes the numbers of a model less than they seem.

    Examples
    --------
    >>> from calibdask.report import measure
    >>> facts = Facts("tiny", measure([0, 1, 1, 1], [0.2, 0.4, 0.6, 1.0]))
    >>> cautions(facts)[0].startswith("There are only 4 rows")
    True
    """
    found = [_rows(facts), _weights(facts), _bins(facts), _values(facts), _saturated(facts), _clipped(facts)]
    return [each for some in (*found, _classes(facts), _biased(facts), _slices(facts)) for each in some] + [
        f"While measuring: {note}" for note in facts.measured.notes
    ]


def _rows(facts: Facts) -> Iterator[str]:
    if facts.rows < _FEW_ROWS:
        yield (
            f"There are only {counted(facts.rows, 'row')}. Below some {_FEW_ROWS} most of a binned calibration error "
            "can be chance, and intervals are rough."
        )


def _weights(facts: Facts) -> Iterator[str]:
    effective = facts.spread("effective_rows")
    if facts.measured.weights and effective < _UNEQUAL * facts.rows:
        yield f"The weights are so unequal that the rows tell no more than {effective:,.0f} equal ones would."


def _bins(facts: Facts) -> Iterator[str]:
    for label, bins in facts.bins if len(facts.bins) == 1 else []:
        few = int((bins.count < _FEW_IN_A_BIN).sum())
        if few:
            where = f" of class {label}" if label else ""
            yield (
                f"{few} of {counted(bins.count.size, 'bin')}{where} that hold rows {'has' if few == 1 else 'have'} "
                f"fewer than {_FEW_IN_A_BIN}: their points in the diagram are mostly noise, and so is the largest gap."
            )


def _values(facts: Facts) -> Iterator[str]:
    distinct = facts.spread("distinct_scores")
    if distinct <= _FEW_SCORES and distinct < facts.rows:
        yield (
            f"The scores take only {distinct:.0f} different values. Between these the curve and the density are drawn, "
            "not measured; trust the diagram."
        )


def _saturated(facts: Facts) -> Iterator[str]:
    shares = {0: facts.spread("at_zero"), 1: facts.spread("at_one")}
    told = [f"{percent(share)} of the scores are {end}" for end, share in shares.items() if share >= _SATURATED]
    if told:
        yield (
            f"{joined(told)} or next to it. Such scores claim certainty: a single wrong one makes the log loss very "
            "large, and no recalibration that keeps their order can tell them apart."
        )


def _clipped(facts: Facts) -> Iterator[str]:
    for each in facts.readings:
        clipped = int(facts.result[each.name].attrs.get("clipped_rows", 0))
        if clipped:
            yield (
                f"{counted(clipped, 'row')} gave the label that came the score 0. The log loss of such a row is "
                f"infinite; {each.name} counts it with the smallest positive score instead."
            )


def _classes(facts: Facts) -> Iterator[str]:
    never = [label for label, bins in facts.classes if bins.means[1] == 0]
    if never:
        yield (
            f"{counted(len(never), 'class', 'classes')} never {'occurs' if len(never) == 1 else 'occur'} as a label "
            f"({named(never)}): nothing is known about the calibration of {'its' if len(never) == 1 else 'their'} "
            "scores but that they should be 0 here."
        )
    if len(facts.bins) == 1 and facts.kind not in ("confidence", "top-k"):
        share = facts.means[1]
        if share in (0.0, 1.0):
            yield f"The outcome {'always' if share else 'never'} came true here: the rows tell little of calibration."


def _biased(facts: Facts) -> Iterator[str]:
    """Where bins see an error that smooth estimates do not."""
    values = {each.name: each.value for each in facts.readings}
    binned = values.get("ece", np.nan)
    smooth = {name: values[name] for name in ("density_ece", "smooth_ece") if np.isfinite(values.get(name, np.nan))}
    if smooth and binned > _BIASED * max(smooth.values()) and binned - max(smooth.values()) > _BIAS:
        others = joined([f"{name} {figure(value)}" for name, value in smooth.items()])
        yield (
            f"The binned error (ece {figure(binned)}) is well above the smooth ones ({others}). The mean of absolute "
            "gaps grows by the noise of bins with few rows; the smooth ones are less prone to that."
        )


def _slices(facts: Facts) -> Iterator[str]:
    for sliced in facts.sliced:
        name, slices = sliced.name, sliced.slices
        few = [each.label for each in slices if each.rows < _FEW_IN_A_SLICE]
        if few:
            yield (
                f"{counted(len(few), 'slice')} of {name} {'has' if len(few) == 1 else 'have'} fewer than "
                f"{_FEW_IN_A_SLICE} rows ({named(few)}): their intervals are wide and rough."
            )
        yield from _wide(sliced)
        if facts.level is not None and len(slices) * (1 - facts.level) >= 1:
            yield (
                f"There are {len(slices)} slices of {name}: of so many {percent(facts.level)} intervals some miss by "
                "chance, and the worst slice looks worse than it is."
            )


def _wide(sliced: Sliced) -> Iterator[str]:
    """The slices of whose error the rows tell little, the widest intervals first."""
    name, metric = sliced.name, sliced.metric
    errors = [(each, each.numbers[metric]) for each in sliced.slices if metric in each.numbers]
    widths = [(error.high - error.low, each, error) for each, error in errors if error.has_interval]
    found = sorted([one for one in widths if one[0] > _WIDE], key=lambda one: -one[0])
    for _, each, error in found[:_NAMED]:
        rows = "an unknown number of rows" if np.isnan(each.rows) else counted(int(each.rows), "row")
        yield (
            f"{name} {each.label} has {rows}: its calibration error may be anything from "
            f"{spanned(error.low, error.high)} percentage points."
        )
    if len(found) > _NAMED:
        yield (
            f"Of {counted(len(found) - _NAMED, 'further slice')} of {name} the interval is wider than {points(_WIDE)} "
            "percentage points too."
        )

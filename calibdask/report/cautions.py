"""The warnings of a report on one model."""

from collections.abc import Iterator

import numpy as np

from calibdask.analyses.gating.gate import cautions as cautions_of_gate
from calibdask.report.headline import is_binned, is_mean_gap, is_smooth
from calibdask.report.model_result import ModelResult
from calibdask.results import cautions as sentences
from calibdask.results.build import CLUSTER_NOTES, sentences_of


def cautions(model: ModelResult) -> list[str]:
    """Caveats on the numbers of a model.

    Examples
    --------
    >>> from calibdask.report import measure
    >>> model = ModelResult("tiny", measure([0, 1, 1, 1], [0.2, 0.4, 0.6, 1.0]))
    >>> cautions(model)[0].startswith("There are only 4 rows")
    True
    """
    notes = [f"While measuring: {note}" for note in model.measured.notes]
    notes += [] if model.measured.over_time is None else model.measured.over_time.notes
    return [
        *_suspects(model),
        *_rows(model),
        *_scores(model),
        *_outcomes(model),
        *_errors(model),
        *_slices(model),
        *notes,
    ]


def _suspects(model: ModelResult) -> Iterator[str]:
    """Scores of other classes than the labels."""
    yield from model.measured.suspects
    if not model.measured.suspects and len(model.bins) == 1 and model.kind == "class":
        bins = model.bins[0][1]
        rows = float(np.fmin(bins.rows, model.spread("effective_rows")))
        yield from sentences.reversed_scores(rows, bins.weight, bins.score, bins.outcome)


def _rows(model: ModelResult) -> Iterator[str]:
    yield from sentences.few_rows(model.rows)
    for note in sentences_of(model.measured.result, CLUSTER_NOTES):
        yield f"{note[:1].upper()}{note[1:]}."
    if model.measured.weights:
        yield from sentences.unequal_weights(model.rows, model.spread("effective_rows"))
    if len(model.bins) == 1:
        bins = model.bins[0][1]
        yield from sentences.few_in_bins(bins.count)
        if model.headline is not None and model.headline.choices.get("binning") == "uniform":
            yield from sentences.crowded_bin(bins.count, model.headline.choices["bins"])


def _scores(model: ModelResult) -> Iterator[str]:
    yield from sentences.few_scores(model.spread("distinct_scores"), model.rows)
    yield from sentences.saturated(model.spread("at_zero"), model.spread("at_one"))
    gate = model.measured.gate
    of_gate = () if gate is None else cautions_of_gate(gate)
    yield from dict.fromkeys((*sentences.of_metrics(model.results.numbers), *of_gate))


def _outcomes(model: ModelResult) -> Iterator[str]:
    yield from sentences.unseen_classes([label for label, bins in model.classes if bins.frequency == 0])
    if len(model.bins) == 1 and model.kind not in ("confidence", "top-k"):
        yield from sentences.one_sided(model.means[1])


def _errors(model: ModelResult) -> Iterator[str]:
    """Warnings if binned and smooth errors of one setting disagree."""
    headline = model.headline
    if headline is not None and is_binned(headline):
        smooth = [
            model.numbers[part.variable]
            for part in model.errors
            if is_smooth(part) and part.setting == headline.setting
        ]
        yield from sentences.binned_above_smooth(model.numbers[headline.variable], smooth)


def _slices(model: ModelResult) -> Iterator[str]:
    for sliced in model.sliced:
        yield from sentences.pooled_models(sliced.name, len(sliced.slices))
        few = [piece.label for piece in sliced.slices if piece.rows < sentences.FEW_IN_A_SLICE]
        yield from sentences.few_in_slices(sliced.name, few)
        if sliced.error is not None and is_mean_gap(sliced.error):
            rows = {piece.label: piece.rows for piece in sliced.slices}
            yield from sentences.wide_slices(sliced.name, rows, sliced.values)
        yield from sentences.many_slices(sliced.name, len(sliced.slices), model.level)

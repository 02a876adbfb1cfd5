"""Whether recalibration would help: what cross-fitted calibrators take away from the loss."""

import shlex
from collections.abc import Iterator, Sequence

import xarray as xr

from calibdask.report.model_result import ModelResult
from calibdask.results.document import Cell, Element, Heading, Sentence, Table, number, text
from calibdask.results.format import counted, figure, joined, minus, percent
from calibdask.results.improvements import improvement_heads, improvement_texts

_READING = (
    "Improvement: the cross-validated reduction of the log loss; negative if the map does harm. Intervals are "
    "pointwise; p-values are adjusted for all calibrators."
)


def recalibration(models: Sequence[ModelResult]) -> Iterator[Element]:
    """Improvement by calibrators for each model, or the reason why it is unknown."""
    if len(models) > 1 and (words := _in_a_line(models)):
        yield Sentence(words)
    for model in models:
        compared = model.measured.recalibration
        if len(models) > 1 and not isinstance(compared, str):
            yield Heading(model.name)
        if not isinstance(compared, str):
            yield Sentence(minus(compared.attrs["reason"]))
            yield from map(Sentence, _maps_of_slices(model))
            yield _table(model, compared)
        elif compared:
            yield Sentence(f"Not known for {model.name}: {compared}")
    if any(not isinstance(model.measured.recalibration, str) for model in models):
        yield Sentence(_READING, quiet=True)


def _maps_of_slices(model: ModelResult) -> Iterator[str]:
    """How to fit maps of their own to slices that are not within their limit for certain, and have rows enough."""
    gate = model.measured.gate
    judged = [] if gate is None else [one for one in gate.judgements if one.outcome != "met" and not one.reason]
    names = list(dict.fromkeys(name for one in judged for name in one.where))
    if names:
        data = shlex.quote(model.measured.source or "DATA")
        each = "" if len(names) == 1 else f", likewise {joined([f'--by {shlex.quote(name)}' for name in names[1:]])}"
        yield (
            f"Slices by {joined(names)} may need separate maps: calibdask calibrate {data} --by "
            f"{shlex.quote(names[0])} --out map.json{each}, with the same options for labels, scores and rows."
        )


def _in_a_line(models: Sequence[ModelResult]) -> str:
    """Models that a map would improve; empty if unknown for all."""
    best = {
        model.name: str(compared.attrs["best"])
        for model in models
        if not isinstance(compared := model.measured.recalibration, str)
    }
    helped = [f"{name} (by {one})" for name, one in best.items() if one != "none"]
    others = [name for name, one in best.items() if one == "none"]
    parts = [f"Yes for {joined(helped)}"] if helped else []
    parts += [f"{'not' if helped else 'Not'} for certain: {joined(others)}"] if others else []
    return f"{'; '.join(parts)}." if parts else ""


def _table(model: ModelResult, compared: xr.Dataset) -> Table:
    columns = [("calibrator", False), ("log loss", True), ("Brier score", True), ("ECE", True)]
    heads = improvement_heads(percent(compared.attrs["ci"]), compared.sizes["calibrator"] - 1)
    columns += [*((head, True) for head in heads), ("preserves ranking", False)]
    texts = improvement_texts(compared)
    rows = [_row(compared.sel(calibrator=name), name, improved) for name, improved in texts.items()]
    left_out = compared.attrs["left_out"]
    note = f"{counted(compared.attrs['folds'], 'fold')}. {f'Left out: {left_out}' if left_out else ''}".strip()
    return Table(f"Recalibration of {model.name}", columns, rows, note)


def _row(values: xr.Dataset, name: str, improved: tuple[str, str, str]) -> list[Cell]:
    taken = "take this one" if name == values.attrs["best"] else ""
    losses = [_cell(float(values[loss])) for loss in ("log_loss", "brier_score", "ece")]
    if name == "none":
        return [text("none", taken), *losses, *[Cell("–", numeric=True)] * 3, text("–")]
    shown, ends, pvalue = improved
    order = "yes" if float(values["monotone"]) == 1 else "no"
    return [
        text(name, taken),
        *losses,
        number(float(values["improvement"]), shown),
        Cell(ends, numeric=True),
        number(float(values["improvement_pvalue_adjusted"]), pvalue),
        text(order),
    ]


def _cell(value: float) -> Cell:
    return number(value, figure(value))

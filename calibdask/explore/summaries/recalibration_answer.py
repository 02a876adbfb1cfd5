"""Whether recalibration would help, and the map that does: cross-fitted to the cells of a summary."""

import shlex
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import xarray as xr
from sklearn.base import clone

from calibdask.analyses.calibrator_comparison import compare_calibrators
from calibdask.analyses.evaluation import evaluate
from calibdask.analyses.summarizing import summarize
from calibdask.calibrators.base import Calibrator
from calibdask.calibrators.curves.isotonic import IsotonicCalibration
from calibdask.calibrators.curves.platt import PlattScaling
from calibdask.calibrators.curves.spline import SplineCalibration
from calibdask.calibrators.stored_map import fit_to_data
from calibdask.data.data import Data
from calibdask.estimators.scores.mean_gap import MeanGap
from calibdask.estimators.smooth.gridded import on_grid
from calibdask.explore.summaries.answer_page import Answer
from calibdask.explore.summaries.decisions_answer import CHOOSE
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.pseudo_rows import PseudoRows
from calibdask.explore.summaries.selection_widgets import selection_text
from calibdask.explore.summaries.slice_gaps import gaps_of
from calibdask.markup import Html
from calibdask.plot.decision_charts import Chart, Line
from calibdask.render.drawing import chart_picture
from calibdask.results.document import Cell, Figure, Figures, Sentence, Table, number, text
from calibdask.results.format import counted, figure, joined, minus, percent, points_of
from calibdask.results.improvements import improvement_heads, improvement_texts
from calibdask.results.over_time import GapEnds, points_text
from calibdask.statistics.exact import Array
from calibdask.storage.summary import Summary

# More slices take longer than a hint may.
_MOST_SLICES = 2000


def worst_slice(
    pool: Pool, selection: Selection, setting: str | int | None
) -> tuple[str, tuple[str, Mapping[str, int]] | None]:
    """Whether a slice of a selection is off by its mean gap, in a sentence; its name and its position if one is.

    Slices by each dimension that is not selected, with ends for all of them together (Bonferroni). Without slices the
    sentence is empty.
    """
    dims = [dim for dim in pool.slices if dim not in dict(selection.slices) and len(pool.labels[dim]) > 1]
    places = [(dim, at) for dim in dims for at in range(len(pool.labels[dim]))]
    if not places:
        return "", None
    by = f"by {joined(dims)}"
    if len(places) > _MOST_SLICES:
        return f"Slices {by} may still be miscalibrated: see the worst slices on the first tab.", None
    groups = [group for dim in dims for group in pool.grid([dim], selection)]
    gaps = gaps_of(pool, groups, setting, 1 - (1 - _LEVEL) / len(groups))
    judged = f"{percent(_LEVEL)} interval, adjusted for {counted(len(groups), 'slice')} {by}"
    worst = int(np.argmax(gaps.distance))
    if not gaps.certain[worst]:
        return f"No slice is significantly miscalibrated on average ({judged}).", None
    dim, at = places[worst]
    name = selection_text(pool, Selection(((dim, (at,)),)))
    ends = GapEnds(*(float(part[worst]) for part in (gaps.value, gaps.low, gaps.high)))
    return f"But a slice is miscalibrated: {name}, scores {points_text(ends)}, {judged}.", (name, {dim: at})


# Maps of one score by what `calibdask calibrate --method` calls them, the simplest first, which is its usual one.
_METHODS: dict[str, Calibrator] = {
    "platt": PlattScaling(),
    "spline": SplineCalibration(),
    "isotonic(centred=true, bounded=true)": IsotonicCalibration(centred=True, bounded=True),
}
# More rows are no use to a page: they tell improvements of a hundred-thousandth from none.
MOST_ROWS = 500_000
_POINTS, _HEIGHT, _LEVEL = 201, 270.0, 0.95
_UNKNOWN = "It is unknown whether recalibration would help"
_READING = (
    "Improvement: reduction of the log loss on rows that the map was not fitted to (the calibration loss), "
    "cross-validated on the cells of the summary; negative if the map does harm."
)


def recalibration(pool: Pool, name: str, selection: Selection, setting: str | int | None) -> Answer:
    """Whether a map of the scores of a selection takes away from the log loss, which, and how to apply it.

    Parameters
    ----------
    pool : Pool
    name : str
        What the command calls the summary.
    selection : Selection
    setting : str, int or None
    """
    if setting == "classwise":
        return Answer.of(Sentence(CHOOSE, lead=True))
    pooled = pool.pooled(selection, setting)
    found = PseudoRows.of(pooled, setting)
    if pool.clustered:
        raise ValueError(
            f"{_UNKNOWN}: cross-fitting keeps the rows of a cluster ({pool.groups_name}) together, and a summary has "
            "buckets of clusters alone; calibdask calibrate ROWS --groups COLUMN --compare computes it."
        )
    if found.weighted:
        raise ValueError(
            f"{_UNKNOWN}: cross-fitting needs counts of rows, which a weighted summary lacks; calibdask calibrate "
            "ROWS --weight COLUMN --compare computes it."
        )
    outcomes, scores = found.rows(MOST_ROWS)
    try:
        compared = compare_calibrators(outcomes, scores, {_named(one): one for one in _METHODS.values()})
    except ValueError as error:
        reason = str(error).removeprefix("compare_calibrators ")
        return Answer.of(Sentence(f"{_UNKNOWN}: it {reason}", lead=True))
    best, reason = compared.attrs["best"], compared.attrs["reason"]
    table = _table(compared)
    if np.isnan(compared["improvement_low"]).all():
        return Answer.of(Sentence(f"{_UNKNOWN}. {reason}", lead=True), table, numbers=(compared,))
    # Where none helps, the one that comes closest to it.
    shown = str(compared["improvement"][1:].idxmax().item()) if best == "none" else best
    method = next(method for method, one in _METHODS.items() if _named(one) == shown)
    # Of binary scores the very map that the command writes.
    binary = pooled if setting is None else Summary.of(summarize(outcomes, scores, settings=["binary"]))
    calibrator = fit_to_data(clone(_METHODS[method]), Data.of(binary, by=()))
    picture = chart_picture(_chart(calibrator, scores), f"{shown}: calibrated score by score", _HEIGHT)
    figures = Figures([Figure(picture, f"Solid: {shown}, fitted to all rows. Dashed: uncalibrated scores.")])
    notes: tuple[str, ...] = tuple(calibrator.cautions_)
    if found.weights.sum() > MOST_ROWS:
        notes += (f"Compared on {len(scores):,} of the {int(found.weights.sum()):,} rows, drawn at random.",)
    evidence = (*map(Sentence, notes), figures, table, Sentence(_READING, quiet=True))
    if best == "none":
        hint, offered = worst_slice(pool, selection, setting)
        lines = filter(None, (_no(pooled, setting, reason, len(scores), found.weights.sum()), hint))
        said = [Sentence(minus(line), lead=True) for line in lines]
        return replace(Answer.of(*said, *evidence, numbers=(compared,)), offered=offered)
    share = float(compared["improvement"].sel(calibrator=best) / compared["log_loss"].sel(calibrator="none"))
    line = f"Yes, recalibration would remove {percent(share)} of the log loss: {reason}"
    applied = Sentence(_applied(pool, name, selection, setting, method))
    return Answer.of(Sentence(minus(line), lead=True), applied, *evidence, numbers=(compared,))


def _no(pooled: Summary, setting: str | int | None, reason: str, compared: int, rows: float) -> str:
    """That no map is shown to help, which is a reason to leave the scores only if all rows show no bias."""
    result = evaluate(pooled, metrics=on_grid({"gap": MeanGap(setting=setting)}, pooled.step), ci=_LEVEL)
    gap = GapEnds(*(float(result[name]) for name in ("gap", "gap_low", "gap_high")))
    drawn = f" on {compared:,} of the {int(rows):,} rows, drawn at random" if rows > MOST_ROWS else ""
    if gap.low > 0 or gap.high < 0:
        value, least, most = points_of(abs(gap.value), *sorted((abs(gap.low), abs(gap.high))))
        side = "low" if gap.value > 0 else "high"
        return (
            f"The comparison is undecided{drawn}, but over all rows the scores are {value} points too {side} "
            f"({least} to {most}): a shift of the logits, --method 'platt(slope=false)', removes that. {reason}"
        )
    if drawn:
        return f"Undecided{drawn}: a smaller improvement may be shown by calibdask calibrate ROWS --compare. {reason}"
    return f"No: leave the scores as they are. {reason}"


def _table(compared: xr.Dataset) -> Table:
    """Losses of each map, and their improvement with its interval."""
    tried = compared.sizes["calibrator"] - 1
    headings = ("log loss", "Brier score", *improvement_heads(percent(compared.attrs["ci"]), tried))
    rows = []
    for name, improved in improvement_texts(compared).items():
        here = compared.sel(calibrator=name)
        losses = [number(float(here[loss]), figure(float(here[loss]))) for loss in ("log_loss", "brier_score")]
        rows.append([text(name), *losses, *(Cell(words, numeric=True) for words in improved)])
    columns = [("calibrator", False), *((heading, True) for heading in headings)]
    return Table("", columns, rows, name="calibrators")


def _named(calibrator: Calibrator) -> str:
    return type(calibrator).__name__


def _chart(calibrator: Calibrator, scores: Array) -> Chart:
    """Chart of the map over the range of all but the largest 0.5 % of the scores."""
    reach = float(np.quantile(scores, 0.995))
    end = float(min(1.0, np.ceil(20 * reach) / 20)) or 1.0
    x = np.linspace(0.0, end, _POINTS)
    mapped = np.asarray(calibrator.predict_proba(x), np.float64)[:, 1]
    shown = np.where((x >= scores.min()) & (x <= scores.max()), mapped, np.nan)
    top = max(end, float(np.nanmax(shown)))
    lines = Line("calibrated", shown), (Line("as they are", x),)
    return Chart(x, "score", "calibrated score", lines[0], (), lines[1], (0.0, end), (0.0, top))


def _applied(pool: Pool, name: str, selection: Selection, setting: str | int | None, method: str) -> str:
    """How to make the map and to apply it, in a sentence."""
    vector = pool.source.layout.vector
    if not vector and not pool.source.has_histogram(pool.source.layout.setting("classwise")):
        return (
            "A map needs the scores of all classes, which this summary lacks: summarize the rows with "
            "the setting classwise, or calibrate the rows themselves."
        )
    # Maps of all models together would be of none of them.
    by = [*pool.models, *(dim for dim, _ in selection.slices)]
    words = ["calibdask", "calibrate", pool.url or name, *(word for dim in by for word in ("--by", dim))]
    command = shlex.join([*words, "--method", method, "--out", "map.json"])
    each = f", one for each {' and '.join(by)}," * bool(by)
    classes = Html(
        " It maps each class separately; to evaluate all classes together, use rows and <code>calibdask "
        "calibrate ROWS --compare</code>."
    )
    return Html(
        "<code>{}</code> writes the map{} and <code>calibdask apply map.json ROWS --out calibrated.parquet</code> "
        "applies it to rows.{} Evaluate it on other rows."
    ).format(command, each, "" if setting is None else classes)

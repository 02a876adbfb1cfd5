"""A tile for each model: its calibration error with interval, its rows, and whether it keeps the limit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

import xarray as xr

from calibdask.analyses.evaluation import evaluate
from calibdask.analyses.gating.check import check
from calibdask.analyses.gating.gate import accepted
from calibdask.analyses.gating.judging import Judgement
from calibdask.estimators.binned.ece import ECE
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.scores.mean_gap import MeanGap
from calibdask.estimators.smooth.gridded import on_grid
from calibdask.explore.summaries.page_metrics import LEVEL, RowChoice
from calibdask.explore.summaries.page_texts import ALONE
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.selection_widgets import label_text
from calibdask.markup import Html
from calibdask.render.text_table import clusters_text
from calibdask.results.decisions import ICONS, WORDS
from calibdask.results.format import PLAIN, POINTS
from calibdask.results.over_time import GapEnds, points_text
from calibdask.results.values import Results
from calibdask.storage.summary import Summary

# More models than these are told by a line.
MOST_MODELS = 12


@dataclass(frozen=True)
class Tile:
    """One model: its error, the mean gap where the setting has one, and the limit held against it, if there is one.

    It ``is_selected`` if it is the one of several that the page shows. ``clusters``: how many independent rows its rows
    are worth, in words.
    """

    name: str
    rows: int
    error: GapEnds
    gap: GapEnds | None
    judgement: Judgement | None
    is_selected: bool = False
    clusters: str = ""


def models_of(pool: Pool) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
    """The first of the models, each with its name and its place; one without a name where there are no models."""
    places = product(*(range(len(pool.labels[dim])) for dim in pool.models))
    return [
        (" · ".join(label_text(pool.labels[dim][index]) for dim, index in zip(pool.models, place, strict=True)), at)
        for place in islice(places, MOST_MODELS)
        for at in [tuple(zip(pool.models, place, strict=True))]
    ]


def tiles_of(pool: Pool, selection: Selection, choice: RowChoice, limit: float | None) -> list[Tile]:
    """The tiles of the models that have rows in a selection."""
    tiles = []
    for name, at in models_of(pool):
        chosen = Selection(selection.slices, at)
        if rows := pool.rows(chosen):
            tile = _tile(name, rows, pool.pooled(chosen, choice.setting), choice, limit)
            tiles.append(replace(tile, is_selected=bool(at) and dict(at) == _model_of(pool, selection)))
    return tiles if len(tiles) > 1 else [replace(tile, is_selected=False) for tile in tiles]


def _model_of(pool: Pool, selection: Selection) -> dict[str, int]:
    """The place of the model of a selection."""
    return {**dict.fromkeys(pool.models, 0), **dict(selection.models)}


def _tile(name: str, rows: int, pooled: Summary, choice: RowChoice, limit: float | None) -> Tile:
    metrics: dict[str, Estimator] = {"ece": ECE(bins=choice.bins, setting=choice.setting)}
    if choice.setting != "classwise":
        metrics |= on_grid({"gap": MeanGap(setting=choice.setting)}, pooled.step)
    result = evaluate(pooled, metrics=metrics, ci=LEVEL)
    error, gap = (_ends(result, metric) if metric in result else None for metric in ("ece", "gap"))
    clusters = clusters_text(result)
    assert error is not None
    judgement = None
    if limit is not None:
        setting = "" if choice.setting is None else f", setting={choice.setting}"
        (judgement,) = check(pooled.dataset, limits={f"ece(bins={choice.bins}{setting})": limit}).judgements
        # The ends that decide, which hold with few rows too.
        error = GapEnds(judgement.value, judgement.low, judgement.high)
    return Tile(name, rows, error, gap, judgement, clusters=clusters)


def _ends(result: xr.Dataset, metric: str) -> GapEnds:
    (part,) = Results(result).of(metric, "")
    value = part.value()
    return GapEnds(value.value, value.low, value.high)


def tiles_html(tiles: Sequence[Tile], models: int) -> Html:
    """The tiles; and how many of so many models have none."""
    items = Html().join(map(_item, tiles))
    more = Html("<p class='quiet'>The first {} of {:,} models.</p>").format(MOST_MODELS, models)
    return Html("<ul class='tiles' aria-label='Models'>{}</ul><p class='quiet'>95 % intervals: {}.</p>{}").format(
        items, ALONE, more if models > MOST_MODELS else ""
    )


def _item(tile: Tile) -> Html:
    name = Html("<h2>{}</h2>").format(tile.name) if tile.name else ""
    number = Html("<p class='number'><span>ECE</span> {} <small>{}</small></p>").format(
        PLAIN.estimate(*tile.error), _interval(tile.error)
    )
    css, state = "none", Html()
    if tile.judgement is not None:
        icon, css = ICONS[tile.judgement.outcome], WORDS[tile.judgement.outcome]
        reason = f"; {tile.judgement.reason}" if tile.judgement.reason else ""
        words = f"limit {accepted(tile.judgement)} {css}{reason}"
        state = Html("<p class='state'><b aria-hidden='true'>{}</b> {}</p>").format(icon, words)
    gap = Html("<p>{}</p>").format(_gap_text(tile.gap)) if tile.gap is not None else ""
    clusters = Html("<p class='quiet'>{}</p>").format(tile.clusters) if tile.clusters else ""
    shown, below = (Html(" aria-current='true'"), ", shown below") if tile.is_selected else (Html(), "")
    return Html("<li class='{}'{}>{}{}{}{}<p class='quiet'>{:,} rows{}</p>{}</li>").format(
        css, shown, name, number, state, gap, tile.rows, below, clusters
    )


def _interval(ends: GapEnds) -> str:
    if ends.low != ends.low or ends.high != ends.high:
        return "without an interval"
    return PLAIN.span(ends.low, ends.high)


def _gap_text(gap: GapEnds) -> str:
    """On which side scores are, if that is certain."""
    if gap.low != gap.low:
        return ""
    if gap.low <= 0 <= gap.high:
        return f"Direction undecided ({POINTS.span(gap.low, gap.high)} points)"
    return f"Scores {points_text(gap)}"

"""How features and scores are cut: learnt from the rows, or as a summary has them."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np

from calibdask.analyses.auditing.features import PLURALS, Learnt, Values, check_values, is_whole
from calibdask.analyses.auditing.planning import LatticePlan
from calibdask.data.features import FeatureColumn
from calibdask.data.input import Input
from calibdask.engine.plan import run_requests
from calibdask.safe_text import listed
from calibdask.statistics.bins.binnings import EqualMass
from calibdask.statistics.cluster_sizes import ClusterSizes, ClusterSizesState
from calibdask.statistics.lattice.coding import Categories, Coding, Cut, check_names, name_of
from calibdask.statistics.lattice.lattice_sums import LatticeState
from calibdask.statistics.lattice.whole_numbers import WholeNumbers, WholeNumbersState
from calibdask.statistics.settings import Setting
from calibdask.storage.summary_lattice import Cuts

# Cells of scores by depth: triples of features are many.
_SCORE_CELLS, _SCORE_CELLS_OF_TRIPLES = 64, 16
# More rows, or columns, than any data have.
_MOST_WHOLE = 10**12


def learnt_cuts(
    data: Input, setting: Setting, depth: int, values: Values, score_cells: int | None
) -> tuple[Cuts, list[str], ClusterSizesState | None]:
    """The cuts that suit the rows, what to know about features, and the sizes of clusters, if there are any.

    They take one pass, and mostly one that narrows quantiles.

    Raises
    ------
    ValueError
        If no feature has two different values, or edges are of none of them.

    Warns
    -----
    UserWarning
        Of features that are left out, and of those that mix types.
    """
    values.check_features(data.features)
    values = values.suiting(data.features, depth)
    sizes = {-2: iter(ClusterSizes())} if data.source.layout.clustered else {}
    cells = score_cells or (_SCORE_CELLS if depth < 3 else _SCORE_CELLS_OF_TRIPLES)
    learnt: Any = run_requests(
        {
            # No user's feature has these numbers.
            -1: EqualMass(cells).edges(setting),
            **sizes,
            **{number: values.learn(column, number) for number, column in enumerate(data.features)},
        },
        data.source,
    ).estimates
    of_features: list[Learnt] = [learnt[number] for number in range(len(data.features))]
    notes = [feature.note for feature in of_features if feature.note]
    codings = tuple(coding for feature in of_features for coding in feature.codings)
    if not codings:
        raise ValueError(f"audit expects a feature with two different values, got none: {listed(notes)}.")
    check_names(codings)
    for feature in of_features:
        if feature.warning:
            warnings.warn(feature.warning, UserWarning, stacklevel=3)
    notes += [feature.remark for feature in of_features if feature.remark]
    cuts = Cuts(setting, learnt[-1], codings, depth, max(values.most, values.categories or 0))
    return cuts, notes, learnt.get(-2)


def reused_cuts(cuts: Cuts, data: Input, setting: Setting) -> Cuts:
    """Cuts of a summary, of the columns of further rows.

    Raises
    ------
    ValueError
        If columns are missing, or of another kind.
    """
    if setting != cuts.setting:
        raise ValueError(f"cuts belong to scores of the setting {cuts.setting}, but these rows have {setting}.")
    columns = {column.name: (number, column) for number, column in enumerate(data.features)}
    if set(columns) != set(cuts.names):
        raise ValueError(
            f"cuts expects the features of the summary, {listed(cuts.names)}, got {listed(columns)}; leave features "
            "out, or learn new cuts into another summary."
        )
    return replace(cuts, features=tuple(_of_column(coding, *columns[coding.name]) for coding in cuts.features))


def _of_column(coding: Coding, number: int, column: FeatureColumn) -> Coding:
    """The coding for a column of that number."""
    if isinstance(coding, Categories):
        kinds: Sequence[str] = ("category", "text")
    else:
        kinds = ("date",) if coding.part else ("number",)
    if column.kind not in kinds:
        raise ValueError(
            f"Feature {column.name!r} expects {PLURALS[kinds[0]]}, as when its cuts were learnt, got "
            f"{PLURALS[column.kind]}; convert it, or learn new cuts into another summary."
        )
    if isinstance(coding, Cut):
        return replace(coding, column=number)
    return replace(coding, column=number, labels=column.labels)


def filled(cuts: Cuts, data: Input) -> LatticeState:
    """The sums of all segments; a large lattice is filled part by part.

    Warns
    -----
    UserWarning
        Of numbers other than those that values are called by.
    """
    weighted, workers = data.source.layout.weighted, data.source.workers
    plan = LatticePlan(cuts.setting, cuts.edges, cuts.features, cuts.depth, weighted, workers=workers)
    parts: list[LatticeState] = []
    further = {coding: iter(WholeNumbers(coding.column, coding.part)) for coding in cuts.features if _is_named(coding)}
    for statistic in plan.parts():
        answers: Any = run_requests({"lattice": iter(statistic), **further}, data.source).estimates
        parts.append(answers["lattice"])
        for coding in further:
            _warn_of_others(coding, answers[coding])
        further = {}
    if len(parts) == 1:
        return parts[0]
    sums = {name: np.concatenate([getattr(part, name) for part in parts]) for name in LatticeState._fields[:-1]}
    return LatticeState(**sums, largest=parts[0].largest)


def _is_named(coding: Coding) -> TypeGuard[Cut]:
    """Whether values are called by single numbers."""
    return isinstance(coding, Cut) and coding.top is not None


def _warn_of_others(coding: Cut, found: WholeNumbersState) -> None:
    """Warn of numbers that were not there when the cuts were learnt."""
    known = [*coding.edges.values.tolist(), coding.top]
    if found.whole and np.isin(found.numbers, known).all():
        return
    warnings.warn(
        f"Feature {name_of(coding)} has numbers other than {listed([f'{number:.0f}' for number in known])}, from which "
        "its cuts were learnt: each counts as the next one above, or the last; learn new cuts into another summary.",
        UserWarning,
        stacklevel=4,
    )


def check_cutting(depth: int, min_rows: int, values: int | None, score_cells: int | None) -> None:
    """Raise ValueError for numbers of segments and cells that make no sense."""
    check_values(values)
    for name, value in {"depth": depth, "min_rows": min_rows, "score_cells": score_cells or 1}.items():
        if not is_whole(value) or value < 1:
            raise ValueError(f"{name} expects a whole number from 1 on, got {value!r}.")
        if value > _MOST_WHOLE:
            raise ValueError(f"{name} expects a whole number up to {_MOST_WHOLE:,}, got {value!r}.")


def one_setting(data: Input, setting: str | int | None = None) -> Setting:
    """The setting of an audit, of one column of scores of one model; raises ValueError for others."""
    layout = data.source.layout
    chosen = layout.setting(setting)
    if layout.batch > 1:
        raise ValueError("audit expects the scores of one model, (n,) or (n, K); audit models one by one.")
    if chosen.kind not in ("class", "confidence"):
        raise ValueError(
            f"audit expects a setting with one column of scores: 'binary', 'confidence' or a class, got {setting!r}."
        )
    return chosen

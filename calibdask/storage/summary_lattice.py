"""Lattices in summaries: sums by segment and cell of scores, with the cuts of their features, that add up."""

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.exact import Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.lattice.coding import Categories, Coding, Cut
from calibdask.statistics.lattice.lattice_sums import LatticeState
from calibdask.statistics.lattice.segments import Segments, subsets_of
from calibdask.statistics.settings import Setting
from calibdask.storage.checked_summary import check_segments, whole
from calibdask.storage.summary_scores import WORD, WORD_UNIT, joined, limb_units, split

ROWS, EVENTS, SCORE, SPREAD = LATTICE = ("segment_rows", "segment_events", "segment_score", "segment_spread")
# How features and scores are cut, as JSON: a scalar coordinate outlives sums, selections and files.
CUTS = "segment_cuts"
SEGMENT, CELL = "segment", "segment_cell"
_DIMS = {ROWS: (SEGMENT, CELL), EVENTS: (SEGMENT, CELL), SCORE: (SEGMENT, CELL, WORD), SPREAD: (SEGMENT, WORD)}


@dataclass(frozen=True)
class Cuts:
    """How scores and features are cut into the segments and cells of a lattice.

    Parameters
    ----------
    setting : Setting
        Which scores and outcomes.
    edges : Edges
        Of the cells of scores.
    features : tuple of Coding
        In summaries each has values for other rows and for missing ones: rows of another day may have such.
    depth : int
        Largest number of features of a segment.
    values : int
        How many values a feature could have, which results tell.
    """

    setting: Setting
    edges: Edges
    features: tuple[Coding, ...]
    depth: int
    values: int

    @property
    def segments(self) -> Segments:
        """All segments."""
        sizes = tuple(feature.size for feature in self.features)
        return Segments(sizes, subsets_of(len(sizes), min(self.depth, len(sizes))))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are cut, each once."""
        return tuple(dict.fromkeys(feature.name for feature in self.features))

    def opened(self) -> "Cuts":
        """The cuts with values for rows unlike the rows from which they were learnt."""
        return replace(self, features=tuple(_opened(feature) for feature in self.features))

    def as_json(self) -> str:
        """The text that summaries hold."""
        document = {
            "setting": str(self.setting),
            "depth": self.depth,
            "values": self.values,
            "scores": self.edges.values.ravel().tolist(),
            "closed": self.edges.closed,
            "features": [_coding_json(feature) for feature in self.features],
        }
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str) -> "Cuts":
        """Cuts from their JSON text; raises ValueError for invalid documents."""
        try:
            document = json.loads(text)
            setting = Setting.parse(document["setting"])
            if setting is None:
                raise ValueError(f"{document['setting']!r} is no setting")
            edges = Edges(
                FrozenArray(np.array(document["scores"], np.float64).reshape(1, 1, 1, -1)), document["closed"]
            )
            columns = {name: at for at, name in enumerate(dict.fromkeys(one["name"] for one in document["features"]))}
            features = tuple(_coding(one, columns[one["name"]]) for one in document["features"])
            return cls(setting, edges, features, int(document["depth"]), int(document["values"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{CUTS} of a summary is damaged ({error}); copy the summary again.") from error


def stored_cuts(dataset: xr.Dataset) -> Cuts | None:
    """The cuts of the lattice of a summary; None if it has none.

    Raises
    ------
    ValueError
        If it has lost a part of it.
    """
    there = [name for name in LATTICE if name in dataset]
    if not there and CUTS not in dataset.coords:
        return None
    lost = [name for name in (*LATTICE, CUTS) if name not in dataset.variables]
    if lost:
        raise ValueError(
            f"This summary has lost {', '.join(lost)}; select from summaries without dropping variables, and merge "
            "summaries with the same cuts of features by calibdask.merge."
        )
    texts = np.unique(dataset[CUTS].values.astype(str))
    if texts.size != 1:
        raise ValueError("These summaries are incompatible: their features are cut differently.")
    return Cuts.from_json(str(texts[0]))


def lattice_variables(cuts: Cuts, state: LatticeState) -> tuple[dict[str, xr.Variable], dict[Hashable, Any]]:
    """Variables and coordinates of a lattice without weights."""
    values = {ROWS: state.rows, EVENTS: state.hits, SCORE: split(state.score), SPREAD: split(state.spread)}
    variables = {name: xr.Variable(_DIMS[name], values[name]) for name in LATTICE}
    return variables, {CUTS: ((), cuts.as_json()), WORD_UNIT: (WORD, limb_units())}


def lattice_state(dataset: xr.Dataset, cuts: Cuts) -> LatticeState:
    """The sums of all rows of a summary without models: slices are added up.

    Raises
    ------
    ValueError
        If numbers are missing or wrong.
    """
    count, cells = cuts.segments.count, cuts.edges.bins
    sizes = {SEGMENT: count, CELL: cells, WORD: 2}
    read = {}
    for name, dims in _DIMS.items():
        array = dataset[name]
        if not {*dims} <= {*array.dims} or any(array.sizes[dim] != sizes[dim] for dim in dims):
            raise ValueError(f"{name} expects all segments and cells, {sizes}, got {dict(array.sizes)}; select slices.")
        given = array.transpose(..., *dims).values
        read[name] = whole(given.reshape(-1, *(sizes[dim] for dim in dims)).sum(0))
    check_segments(read[ROWS], read[EVENTS], int(dataset["rows"].sum()))
    none = np.zeros(0)
    score, spread = joined(read[SCORE]), joined(read[SPREAD])
    return LatticeState(read[ROWS], read[EVENTS], score, none, none, spread, none, none, np.asarray(1.0))


def segment_sums(dataset: xr.Dataset, dim: str) -> xr.Dataset:
    """Rows, events and words of the sums of scores by entry of a dimension, segment and cell; others are added up."""
    sums = {}
    for name in (ROWS, EVENTS, SCORE):
        dims, array = (dim, *_DIMS[name]), dataset[name]
        sums[name] = array.sum([gone for gone in array.dims if gone not in dims]).transpose(*dims)
    return xr.Dataset(sums)


def closed(cuts: Cuts, state: LatticeState, depth: int) -> tuple[Cuts, LatticeState]:
    """Cuts and sums without the values for other and missing rows where there are none, as rows would have them."""
    open_segments = cuts.segments
    kept = []
    for place, feature in enumerate(cuts.features):
        first = open_segments.first((place,))
        rows = state.rows[first : first + feature.size].sum(-1)
        kept.append([value for value in range(feature.size) if value < _own(feature) or rows[value]])
    features = tuple(
        _closed(feature, [value - _own(feature) for value in values if value >= _own(feature)])
        for feature, values in zip(cuts.features, kept, strict=True)
    )
    fewer = replace(cuts, features=features, depth=depth)
    at = np.concatenate([_numbers(open_segments, subset, kept) for subset in fewer.segments.subsets])
    chosen = {name: getattr(state, name)[at] for name in ("rows", "hits", "score", "spread")}
    return fewer, state._replace(**chosen)


def differing(one: Cuts, two: Cuts) -> tuple[str, str]:
    """The first thing in which cuts differ, in the words of each; equal texts where nothing does."""
    if one.names != two.names:
        return ", ".join(one.names), ", ".join(two.names)
    for a, b in ((one.setting, two.setting), (f"depth {one.depth}", f"depth {two.depth}")):
        if a != b:
            return str(a), str(b)
    for a, b in zip(*[[*map(_coding_json, cuts.features), *_cells(cuts)] for cuts in (one, two)], strict=False):
        if a != b:
            return _in_words(a), _in_words(b)
    return "", ""


def _cells(cuts: Cuts) -> list[Mapping[str, Any]]:
    """The cells of scores: how many, and where."""
    edges = cuts.edges.values.ravel().tolist()
    return [{"name": "cells of scores", "kept": len(edges) - 1}, {"name": "cells of scores", "edges": edges}]


def _in_words(document: Mapping[str, Any]) -> str:
    name = f"{document['name']}.{document['part']}" if document.get("part") else document["name"]
    top = f", up to {document['top']:.0f}" if "top" in document else ""
    return f"{name} cut at {document['edges']}{top}" if "edges" in document else f"{name} of {document['kept']}"


def _numbers(segments: Segments, subset: tuple[int, ...], kept: list[list[int]]) -> Counts:
    """The numbers of the segments of a subset that have these values only."""
    shape = [segments.sizes[i] for i in subset]
    numbers = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
    return np.asarray(segments.first(subset) + numbers[np.ix_(*(kept[i] for i in subset))].ravel())


def _own(feature: Coding) -> int:
    """How many values stand for something else than other and missing rows."""
    return feature.edges.values.size + 1 if isinstance(feature, Cut) else len(feature.kept)


def _opened(feature: Coding) -> Coding:
    return replace(feature, missing=True) if isinstance(feature, Cut) else replace(feature, other=True, missing=True)


def _closed(feature: Coding, further: list[int]) -> Coding:
    """The feature with only the values for other and missing rows that occur, in this order."""
    if isinstance(feature, Cut):
        return replace(feature, missing=bool(further))
    return replace(feature, other=0 in further, missing=1 in further)


def _coding_json(feature: Coding) -> Mapping[str, Any]:
    if isinstance(feature, Cut):
        document = {"name": feature.name, "part": feature.part, "edges": feature.edges.values.tolist()}
        # Summaries of earlier versions have neither, and fit those that need neither.
        further = {"unit": feature.unit or None, "top": feature.top}
        return document | {name: value for name, value in further.items() if value is not None}
    return {"name": feature.name, "kept": list(feature.kept)}


def _coding(document: Mapping[str, Any], column: int) -> Coding:
    if "edges" in document:
        edges = FrozenArray(np.array(document["edges"], np.float64))
        part, unit, top = document["part"], document.get("unit", ""), document.get("top")
        return Cut(document["name"], column, edges, True, part, unit, top)
    return Categories(document["name"], column, tuple(document["kept"]), other=True, missing=True)

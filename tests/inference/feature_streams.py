"""Streams whose features are watched value by value: calibrated ones, and ones with a shift planted in one value.

Rows are drawn and counted by value and cell of scores, as a summary by features holds them, for all streams at once;
test_feature_streams.py holds such counts against `calibdask.watch` of summaries of the same rows, to the last bit.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

import calibdask as cd
from calibdask.inference.multiplicity import e_benjamini_hochberg
from calibdask.inference.sequential.cells import PeriodCells
from calibdask.inference.sequential.processes import Monitor, ProcessState
from calibdask.storage.summary import Summary
from calibdask.storage.summary_lattice import Cuts

ALPHA = 0.05
FEATURES = tuple(f"x{number}" for number in range(5))
VALUES, SHARES = np.array(["a", "b", "c", "d"]), (0.45, 0.29, 0.25, 0.01)
# Features share a cause, which scores depend on as well.
COMMON = 0.3
# The shift is planted in this value of the first feature, a quarter of the rows.
PLANTED = 2
HISTORY = 20_000


@dataclass(frozen=True)
class Rows:
    """Rows of one day by stream: positions of values (features, streams, rows), scores and labels (streams, rows)."""

    values: np.ndarray
    score: np.ndarray
    label: np.ndarray


def drawn(rng: np.random.Generator, streams: int, rows: int, shift: float = 0.0) -> Rows:
    """One day of each stream; scores are multiples of 2**-20, so that their sums are exact."""
    shape = (streams, rows)
    common = rng.choice(VALUES.size, shape, p=SHARES)
    own = rng.choice(VALUES.size, (len(FEATURES), *shape), p=SHARES)
    values = np.where(rng.random(own.shape) < COMMON, common, own)
    score = 1 / (1 + np.exp(1.6 - 0.4 * common - rng.normal(size=shape)))
    score = np.clip(np.rint(score * 2**20), 1, 2**20 - 1) / 2**20
    chance = score + np.where(values[0] == PLANTED, shift, 0.0)
    return Rows(values, score, (rng.random(shape) < chance).astype(np.int64))


def summarized(rows: Rows, stream: int, **options: object) -> object:
    """The summary by features of one stream's day."""
    columns = {name: VALUES[values[stream]] for name, values in zip(FEATURES, rows.values, strict=True)}
    return cd.summarize(rows.label[stream], rows.score[stream], features=columns, **options)


@cache
def history() -> object:
    """The summary of earlier rows, by which those of all days are cut."""
    return summarized(drawn(np.random.default_rng(28), 1, HISTORY), 0, depth=1)


@cache
def cuts() -> Cuts:
    """Of the history: each value has a slice, and so have other and missing ones, which have no rows here."""
    return Summary.of(history()).cuts


def slice_of(feature: int, value: int) -> int:
    """The number of the slice of a value; that of all rows is 0."""
    return 1 + sum(coding.size for coding in cuts().features[:feature]) + value


def slices() -> int:
    """How many slices are watched."""
    return slice_of(len(FEATURES), 0)


def with_rows() -> list[int]:
    """The numbers of the slices that have rows: all rows, and every value by name."""
    return [0, *(slice_of(feature, value) for feature in range(len(FEATURES)) for value in range(VALUES.size))]


def cells_of(rows: Rows) -> PeriodCells:
    """What the summaries of the streams say of one day; a process is a slice of a stream."""
    inner = cuts().edges.thresholds(np.float64)[0, 0, 0]
    streams, size = len(rows.score), inner.size + 1
    cell = np.searchsorted(inner, rows.score)
    stream = np.arange(streams)[:, None] * slices()
    parts = [np.zeros_like(rows.values[0]), *(slice_of(i, 0) + values for i, values in enumerate(rows.values))]
    sums = np.zeros((3, streams * slices() * size))
    for part in parts:
        at = ((stream + part) * size + cell).ravel()
        for total, weights in zip(sums, (None, rows.label.ravel(), rows.score.ravel()), strict=True):
            total += np.bincount(at, weights, total.size)
    edges = np.r_[0.0, np.clip(inner, 0.0, 1.0), 1.0]
    return PeriodCells.of_sums(*sums.reshape(3, -1, size), edges)


@dataclass(frozen=True)
class Told:
    """By stream and slice: the first look of a discovery among all slices, NaN if none, and whether E ever alarmed.

    ``log_e`` and ``found`` are those of the last look.
    """

    first: np.ndarray
    alarm: np.ndarray
    log_e: np.ndarray
    found: np.ndarray


def watched(days: Iterable[Rows], streams: int) -> Told:
    """What `calibdask.watch` with features says of each stream after the last day."""
    shape = (streams, slices())
    monitor, state = Monitor(0.0, ALPHA), ProcessState.empty(streams * slices())
    first, found = np.full(shape, np.nan), np.zeros(shape, bool)
    for look, rows in enumerate(days):
        state, _ = monitor.advanced(state, cells_of(rows), look)
        found = e_benjamini_hochberg(state.log_e.reshape(shape), ALPHA)
        first[np.isnan(first) & found] = look + 1
    alarm = (state.largest >= monitor.threshold).reshape(shape)
    return Told(first, alarm, state.log_e.reshape(shape), found)


def simulated(streams: int, looks: int, rows: int, seed: int, *, shift: float = 0.0, since: int = 1) -> Told:
    """Streams of so many rows a day, with a shift of the outcomes of one value from the look ``since`` on."""
    rng = np.random.default_rng((seed, rows))
    days = (drawn(rng, streams, rows, shift if look >= since else 0.0) for look in range(1, looks + 1))
    return watched(days, streams)

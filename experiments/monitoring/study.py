"""False alarms and delays of `calibdask.watch`, and of what else is used to watch a model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import xarray as xr

import calibdask as cd
from experiments.monitoring import charts
from experiments.monitoring.counted import summary_of
from experiments.monitoring.kinds import KINDS, SCORES, Floats

E_PROCESS, E_TOLERANCE = "e-process", "e-process, tolerance"
DETECTOR, DETECTOR_YEAR, DETECTOR_TOLERANCE = "detector", "detector, all looks", "detector, all looks, tolerance"
# Those that never fall silent again.
LASTING = (E_PROCESS, E_TOLERANCE)
WATCHED = (E_PROCESS, E_TOLERANCE, DETECTOR, DETECTOR_YEAR, DETECTOR_TOLERANCE)
MONITORS = (
    *WATCHED,
    "daily test",
    "daily test, Bonferroni",
    "cusum",
    "cusum, Brier",
    "moving ece, 95 %",
    "moving ece, 99 %",
    "psi 0.1",
    "psi 0.25",
)
# Days of a summary that are watched by one call: summaries of all would take gigabytes.
_DAYS_AT_ONCE = 8


@dataclass(frozen=True, kw_only=True)
class Monitoring(cd.Study):
    """Which looks at streams of rows raise a signal, by monitor, before and after a change.

    A cell is a number of rows a day, with all kinds of streams. Rows are counted by score and outcome, and not listed.

    Parameters
    ----------
    rows : tuple of int
        Rows a day.
    kinds : tuple of str
        Names in `KINDS`.
    replicates : int
        Streams of each kind.
    looks : int
        Days on which one looks.
    change : int
        The look, from 0, on which the change begins.
    history : int
        Calibrated days before the first look, from which the moving ECE and PSI have their limits and shares.
    window : int
        Days of the moving ECE.
    alpha, tolerance : float
        As in `calibdask.watch`. With alpha its detector gives a false signal in 1 / alpha looks or more on average;
        "all looks" is the one with alpha / looks, of which a share of alpha at most ever signals while one looks.
    """

    rows: tuple[int, ...] = (20, 100, 1000, 10_000, 100_000, 1_000_000)
    kinds: tuple[str, ...] = tuple(KINDS)
    replicates: int = 25
    looks: int = 365
    change: int = 100
    history: int = 90
    window: int = 7
    alpha: float = 0.05
    tolerance: float = 0.01

    outputs: ClassVar = {
        "first": ("kind", "replicate", "monitor"),
        "caught": ("kind", "replicate", "monitor"),
        "signals": ("kind", "replicate", "monitor"),
        "since": ("kind", "replicate"),
        "outside": ("kind", "replicate"),
    }
    types: ClassVar = dict.fromkeys(("first", "caught", "signals", "since"), "float32") | {"outside": "bool"}
    presets: ClassVar = {"quick": {"rows": (100, 10_000), "replicates": 4, "looks": 120, "change": 60}}

    def problems(self) -> Iterator[str]:
        """Values that cells could not compute."""
        if unknown := sorted({*self.kinds} - {*KINDS}):
            yield f"kinds expects some of {', '.join(KINDS)}, got {', '.join(unknown)}."
        if not self.rows or min(*self.rows, self.replicates) < 1:
            yield "rows and replicates expect numbers from 1 on."
        if not 0 < self.change < self.looks:
            yield "change expects a look between the first and the last."
        if not 1 <= self.window < self.history:
            yield "history expects more days than the window."

    def cells(self) -> dict[str, Any]:
        """A cell for each number of rows."""
        return {"rows": self.rows}

    def inside(self) -> dict[str, Any]:
        """Kinds, streams, and ways to watch them."""
        return {"kind": self.kinds, "replicate": range(self.replicates), "monitor": MONITORS}

    def cell(self, at: Mapping[str, Any], seeds: Any) -> dict[str, Any]:
        """Look at all streams on every day.

        ``first`` is the number of the first look with a signal, from 1, and ``caught`` that of the first one from the
        change on, counted from it; NaN if there is none. ``signals`` is the share of looks with a signal. ``since``
        says how many days after the change the e-process dates it in the end, NaN without an alarm; ``outside``
        whether the confidence sequence of the gap ever failed to contain the mean offset.
        """
        since = np.arange(-self.history, self.looks) - self.change
        streams = [
            [
                KINDS[kind].draw(at["rows"], since, seeds.generator(kind=kind, replicate=r))
                for r in range(self.replicates)
            ]
            for kind in self.kinds
        ]
        counts = np.array(streams)
        watched, dated, outside = self._watched(counts[:, :, self.history :])
        signals = {**watched, **self._charted(counts.sum(-1).astype(np.float64), counts[..., 1].astype(np.float64))}
        by_monitor = np.stack([signals[name] for name in MONITORS], 2)
        return {
            "first": _first(by_monitor),
            "caught": _first(by_monitor[..., self.change :]),
            "signals": by_monitor.mean(-1),
            "since": dated,
            "outside": outside,
        }

    def _watched(self, counts: npt.NDArray[np.int64]) -> tuple[dict[str, charts.Signals], Floats, charts.Signals]:
        """Signals of `calibdask.watch`, when it dates the change, and where its confidence sequence fails."""
        truth = self._mean_offsets(counts.sum(-1))
        alarms: dict[str, list[Any]] = {name: [] for name in WATCHED}
        outside = np.zeros(counts.shape[:2], np.bool_)
        choices = ((0.0, self.alpha), (0.0, self.alpha / self.looks), (self.tolerance, self.alpha / self.looks))
        states: list[Any] = [None, None, None]
        for start in range(0, self.looks, _DAYS_AT_ONCE):
            days = np.arange(start, min(start + _DAYS_AT_ONCE, self.looks))
            coordinates = {"kind": np.arange(len(self.kinds)), "replicate": np.arange(self.replicates), "day": days}
            array = xr.DataArray(counts[:, :, days], coordinates, (*coordinates, "score", "outcome"))
            summary = summary_of(array)
            results = [
                cd.watch(summary, "day", ["kind", "replicate"], tolerance, alpha, state=state)
                for (tolerance, alpha), state in zip(choices, states, strict=True)
            ]
            states = [result.attrs["state"] for result in results]
            plain, year, tolerant = results
            # P-values are valid at any level: an alarm is one at alpha or below.
            signals = (
                plain.alarm,
                tolerant.pvalue <= self.alpha,
                plain.detected,
                year.detected,
                tolerant.detected,
            )
            for name, signal in zip(WATCHED, signals, strict=True):
                alarms[name].append(signal.values)
            here = truth[..., days]
            outside |= ((plain.gap_low.values > here) | (plain.gap_high.values < here)).any(-1)
        watched = {name: np.concatenate(parts, -1) for name, parts in alarms.items()}
        dated = np.where(watched[E_PROCESS][..., -1], plain.since.values[..., -1] - self.change, np.nan)
        return watched, dated, outside

    def _mean_offsets(self, rows: npt.NDArray[np.int64]) -> Floats:
        """P(outcome | score) - score, mean over all rows up to each look, (kinds, streams, looks)."""
        since = np.arange(self.looks) - self.change
        offsets = np.array([KINDS[kind].chances(since) - SCORES for kind in self.kinds])
        total = (rows * offsets[:, None]).sum(-1).cumsum(-1)
        return np.asarray(total / rows.sum(-1).cumsum(-1), np.float64)

    def _charted(self, rows: Floats, events: Floats) -> dict[str, charts.Signals]:
        """Signals of all others, on all looks."""
        looks = slice(self.history, None)
        z = charts.standardised(rows, events)[..., looks]
        limit = charts.cusum_limit(self.looks, self.alpha)
        ece = charts.moving_ece(rows, events, self.window)
        psi = charts.stability_index(rows, self.history)
        return {
            "daily test": charts.daily(z, self.alpha),
            "daily test, Bonferroni": charts.daily(z, self.alpha / self.looks),
            "cusum": charts.cusum(z, limit),
            "cusum, Brier": charts.cusum(charts.brier_residuals(rows, events)[..., looks], limit),
            "moving ece, 95 %": charts.above_history(ece, self.history, 0.95),
            "moving ece, 99 %": charts.above_history(ece, self.history, 0.99),
            "psi 0.1": psi > 0.1,
            "psi 0.25": psi > 0.25,
        }


def _first(signals: charts.Signals) -> Floats:
    """The number of the first signal along the last axis, from 1; NaN if there is none."""
    return np.where(signals.any(-1), signals.argmax(-1) + 1.0, np.nan)

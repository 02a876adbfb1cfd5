"""How many calibrated streams ever raise an alarm: e-processes against daily p-values on the same streams.

    python -m tests.inference.false_alarms [--streams 10000] [--looks 365]

Outcomes are drawn by cell, binomial around the score: what a summary of such rows would hold. A second table is of
models that are off, watched with a tolerance.
"""

import argparse
import sys

import numpy as np
from scipy import special

from calibdask.inference.sequential.cells import PeriodCells
from calibdask.inference.sequential.processes import Monitor, ProcessState
from calibdask.inference.sequential.sequences import error_ends, gap_ends

ALPHA = 0.05
# Streams differ in their traffic and in where their scores lie.
ROWS = (20, 100, 1_000, 10_000, 100_000, 1_000_000)
SCORES = np.array([0.001, 0.01, 0.03, 0.08, 0.15, 0.25, 0.4, 0.6, 0.75, 0.9, 0.97, 0.995])
AT_ONCE = 2_000


def streams(count: int, looks: int, seed: int, *, offset: float = 0.0, tolerance: float = 0.0) -> dict[str, np.ndarray]:
    """For each stream its rows a day, and whether each of the ways to look at it ever raised an alarm.

    ``first`` is the look of the first alarm of the e-process, NaN if there is none. Sequences are outside where they do
    not contain the true mean offset, or error, of the rows so far.
    """
    rng = np.random.default_rng(seed)
    rows = rng.choice(ROWS, count)
    shares = rng.dirichlet(np.full(SCORES.size, 0.5), count)
    chances = np.clip(SCORES + offset, 0, 1)
    monitor, state = Monitor(tolerance, ALPHA), ProcessState.empty(count)
    daily, outside, detections = np.zeros(count, bool), np.zeros((2, count), bool), np.zeros(count)
    first, seen = np.full(count, np.nan), np.zeros((count, SCORES.size))
    for look in range(looks):
        cells = rng.multinomial(rows, shares)
        events = rng.binomial(cells, chances)
        state, detection = monitor.advanced(state, PeriodCells.of_table(cells, events, SCORES), look)
        first[np.isnan(first) & (state.largest >= monitor.threshold)] = look + 1
        detections += detection.detected
        seen += cells
        spread = np.sqrt((cells * SCORES * (1 - SCORES)).sum(-1))
        residual = events.sum(-1) - (cells * SCORES).sum(-1)
        daily |= 2 * special.ndtr(-np.abs(residual) / spread) <= ALPHA
        residuals = state.events - state.scores
        low, high = gap_ends(state.rows.sum(-1), residuals.sum(-1), state.square, ALPHA)
        truth = seen @ (chances - SCORES) / seen.sum(-1)
        outside[0] |= (low > truth) | (high < truth)
        low, high = error_ends(state.rows, residuals, state.square, ALPHA)
        outside[1] |= (low > np.abs(truth)) | (high < np.abs(truth))
    return {
        "rows": rows,
        "alarm": ~np.isnan(first),
        "first": first,
        "daily": daily,
        "gap": outside[0],
        "error": outside[1],
        "detections": detections / looks,
    }


def main() -> None:
    """Print the shares, with their standard errors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--looks", type=int, default=365)
    chosen = parser.parse_args()
    calibrated = _all_streams(chosen.streams, chosen.looks)
    lines = ["| rows a day | streams | e-process | daily p-values | gap outside | error outside | detections a day |"]
    lines.append("|---|---|---|---|---|---|---|")
    for label, kept in _by_rows(calibrated):
        texts = [_share(calibrated[name][kept]) for name in ("alarm", "daily", "gap", "error")]
        lines.append(
            f"| {label} | {kept.sum():,} | {' | '.join(texts)} | {calibrated['detections'][kept].mean():.3%} |"
        )
    within = _all_streams(chosen.streams // 5, chosen.looks, offset=0.005, tolerance=0.01)
    beyond = _all_streams(chosen.streams // 5, 30, offset=0.02, tolerance=0.01)
    lines += ["", "| rows a day | streams | off by 0.005: ever | off by 0.02: on the first day | median day |"]
    lines.append("|---|---|---|---|---|")
    for (label, kept), (_, caught) in zip(_by_rows(within), _by_rows(beyond), strict=True):
        first = np.nan_to_num(beyond["first"][caught], nan=np.inf)
        day = np.median(first)
        lines.append(
            f"| {label} | {kept.sum():,} | {_share(within['alarm'][kept])} | {_share(first == 1)} | "
            f"{day:.0f} |".replace(" inf ", " over 30 ")
        )
    sys.stdout.write("\n".join(lines) + "\n")


def _all_streams(count: int, looks: int, **more: float) -> dict[str, np.ndarray]:
    parts = [streams(AT_ONCE, looks, seed, **more) for seed in range(-(-count // AT_ONCE))]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _by_rows(told: dict[str, np.ndarray]) -> list[tuple[str, np.ndarray]]:
    return [*((f"{rows:,}", told["rows"] == rows) for rows in ROWS), ("all", told["rows"] > 0)]


def _share(hits: np.ndarray) -> str:
    share = hits.mean()
    return f"{share:.2%} ± {np.sqrt(share * (1 - share) / hits.size):.2%}"


if __name__ == "__main__":
    main()

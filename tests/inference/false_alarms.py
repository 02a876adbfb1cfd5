"""How many calibrated streams ever raise an alarm: e-processes against daily p-values on the same streams.

    python -m tests.inference.false_alarms [--streams 10000] [--looks 365]

Outcomes are drawn by cell, binomial around the score: what a summary of such rows would hold.
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


def streams(count: int, looks: int, seed: int) -> dict[str, np.ndarray]:
    """For each stream its rows a day, and whether each of the ways to look at it ever raised an alarm."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(ROWS, count)
    shares = rng.dirichlet(np.full(SCORES.size, 0.5), count)
    monitor, state = Monitor(0.0, ALPHA), ProcessState.empty(count)
    daily, outside, detections = np.zeros(count, bool), np.zeros((2, count), bool), np.zeros(count)
    for look in range(looks):
        cells = rng.multinomial(rows, shares)
        events = rng.binomial(cells, SCORES)
        state, detection = monitor.advanced(state, PeriodCells.of_table(cells, events, SCORES), look)
        detections += detection.detected
        spread = np.sqrt((cells * SCORES * (1 - SCORES)).sum(-1))
        residual = events.sum(-1) - (cells * SCORES).sum(-1)
        daily |= 2 * special.ndtr(-np.abs(residual) / spread) <= ALPHA
        residuals = state.events - state.scores
        low, high = gap_ends(state.rows.sum(-1), residuals.sum(-1), state.square, ALPHA)
        outside[0] |= (low > 0) | (high < 0)
        outside[1] |= error_ends(state.rows, residuals, state.square, ALPHA)[0] > 0
    alarm = state.largest >= monitor.threshold
    return {
        "rows": rows,
        "alarm": alarm,
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
    parts = [streams(AT_ONCE, chosen.looks, seed) for seed in range(-(-chosen.streams // AT_ONCE))]
    told = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    lines = ["| rows a day | streams | E-process | daily p-values | gap outside | error outside | detections a day |"]
    lines.append("|---|---|---|---|---|---|---|")
    for label, kept in [*((f"{rows:,}", told["rows"] == rows) for rows in ROWS), ("all", told["rows"] > 0)]:
        shares = [told[name][kept].mean() for name in ("alarm", "daily", "gap", "error")]
        errors = [np.sqrt(share * (1 - share) / kept.sum()) for share in shares]
        texts = [f"{share:.2%} ± {error:.2%}" for share, error in zip(shares, errors, strict=True)]
        lines.append(f"| {label} | {kept.sum():,} | {' | '.join(texts)} | {told['detections'][kept].mean():.3%} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

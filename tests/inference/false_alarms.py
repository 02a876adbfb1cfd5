"""How many calibrated streams ever raise an alarm: e-processes against daily p-values on the same streams.

    python -m tests.inference.false_alarms [--streams 10000] [--looks 365]
    python -m tests.inference.false_alarms --features [--streams 10000] [--looks 60]

Outcomes are drawn by cell, binomial around the score: what a summary of such rows would hold. A second table is of
models that are off, watched with a tolerance. With ``--features`` every value of five features is watched, in
calibrated streams and in ones with a shift planted in one value.
"""

import argparse
import sys

import numpy as np
from scipy import special

from calibdask.inference.sequential.cells import PeriodCells
from calibdask.inference.sequential.processes import Monitor, ProcessState
from calibdask.inference.sequential.sequences import error_ends, gap_ends
from tests.inference import feature_streams

ALPHA = 0.05
# Streams differ in their traffic and in where their scores lie.
ROWS = (20, 100, 1_000, 10_000, 100_000, 1_000_000)
SCORES = np.array([0.001, 0.01, 0.03, 0.08, 0.15, 0.25, 0.4, 0.6, 0.75, 0.9, 0.97, 0.995])
AT_ONCE = 2_000
# Of streams whose features are watched: rows a day, the planted shift, and the look that it begins on.
FEATURE_ROWS, SHIFT, SINCE = (30, 300), 0.1, 20
FEATURES_AT_ONCE = 500


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
    parser.add_argument("--looks", type=int, help="365; with --features 60")
    parser.add_argument("--features", action="store_true", help="watch every value of five features")
    chosen = parser.parse_args()
    lines = of_features if chosen.features else of_streams
    sys.stdout.write("\n".join(lines(chosen.streams, chosen.looks or (60 if chosen.features else 365))) + "\n")


def of_streams(count: int, looks: int) -> list[str]:
    """Tables of whole streams: calibrated ones, and ones that are off."""
    calibrated = _all_streams(count, looks)
    lines = ["| rows a day | streams | e-process | daily p-values | gap outside | error outside | detections a day |"]
    lines.append("|---|---|---|---|---|---|---|")
    for label, kept in _by_rows(calibrated):
        texts = [_share(calibrated[name][kept]) for name in ("alarm", "daily", "gap", "error")]
        lines.append(
            f"| {label} | {kept.sum():,} | {' | '.join(texts)} | {calibrated['detections'][kept].mean():.3%} |"
        )
    within = _all_streams(count // 5, looks, offset=0.005, tolerance=0.01)
    beyond = _all_streams(count // 5, 30, offset=0.02, tolerance=0.01)
    lines += ["", "| rows a day | streams | off by 0.005: ever | off by 0.02: on the first day | median day |"]
    lines.append("|---|---|---|---|---|")
    for (label, kept), (_, caught) in zip(_by_rows(within), _by_rows(beyond), strict=True):
        first = np.nan_to_num(beyond["first"][caught], nan=np.inf)
        day = np.median(first)
        lines.append(
            f"| {label} | {kept.sum():,} | {_share(within['alarm'][kept])} | {_share(first == 1)} | "
            f"{day:.0f} |".replace(" inf ", " over 30 ")
        )
    return lines


def of_features(count: int, looks: int) -> list[str]:
    """Tables of streams whose values of features are watched: calibrated ones, and ones with a planted shift.

    A planted value is found if it is a discovery after the shift began and not before; the other values of its feature
    stay calibrated.
    """
    lines = ["| rows a day | streams | a discovery, ever | E >= 1 / alpha of some slice | E >= 1 / alpha of a slice |"]
    lines.append("|---|---|---|---|---|")
    for rows in FEATURE_ROWS:
        first, alarm = _feature_streams(count, looks, rows)
        # Values that no row has are never tested.
        alone = alarm[:, feature_streams.with_rows()].mean(-1)
        error = alone.std() / np.sqrt(count)
        texts = [_share(~np.isnan(first).all(-1)), _share(alarm.any(-1)), f"{alone.mean():.2%} ± {error:.2%}"]
        lines.append(f"| {rows:,} | {count:,} | {' | '.join(texts)} |")
    lines += ["", "| rows a day | streams | found before | found since | days until half are | other values found |"]
    lines.append("|---|---|---|---|---|---|")
    feature = [feature_streams.slice_of(0, value) for value in range(feature_streams.VALUES.size)]
    planted = feature.pop(feature_streams.PLANTED)
    for rows in FEATURE_ROWS:
        first, _ = _feature_streams(count // 10, looks, rows, shift=SHIFT, since=SINCE)
        days = np.nan_to_num(first[:, planted], nan=np.inf) - SINCE + 1
        half = np.median(days)
        middle = f"{half:.0f}" if np.isfinite(half) else f"over {looks - SINCE + 1}"
        before, since, others = days < 1, (days >= 1) & np.isfinite(days), ~np.isnan(first[:, feature]).all(-1)
        texts = [_share(before), _share(since), middle, _share(others)]
        lines.append(f"| {rows:,} | {first.shape[0]:,} | {' | '.join(texts)} |")
    return lines


def _feature_streams(count: int, looks: int, rows: int, **shifted: float) -> tuple[np.ndarray, np.ndarray]:
    """The first look of a discovery, and whether E ever alarmed, by stream and slice."""
    sizes = [min(FEATURES_AT_ONCE, count - start) for start in range(0, count, FEATURES_AT_ONCE)]
    told = [
        feature_streams.simulated(size, looks, rows, 2 * number + bool(shifted), **shifted)
        for number, size in enumerate(sizes)
    ]
    return np.concatenate([part.first for part in told]), np.concatenate([part.alarm for part in told])


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

"""How often audits accuse calibrated models, how often they find a planted segment, and how many they list for two.

Run: python -m experiments.calibration.audits [--runs 1000] [--planted 100] [--two 10] [--only two|others]; writes the
tables of audits.md.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import calibdask as cd

PAGE = Path(__file__).with_name("audits.md")
MARKER = "<!-- Below: written by audits.py. -->\n"
TWO_MARKER = "<!-- Below: written by audits.py --only two. -->\n"
FEATURES = 20
# Scores, rows and the smallest segments of calibrated models.
SCORES: dict[str, tuple[tuple[float, float], int, int]] = {
    "usual, 3000 rows": ((2.0, 5.0), 3000, 30),
    "rare, 3000 rows": ((0.3, 12.0), 3000, 30),
    "saturated, 10,000 rows": ((0.05, 0.05), 10_000, 100),
}
# The planted segment: a hundredth of the rows, off by this much.
PLANTED_ROWS, SHIFT = 1_000_000, 0.05
# Two planted segments among dependent features, of two features each: with and without rows in common.
FIRST = "x15 = 4, x17 = 3"
SECOND = {"yes": "x11 = 4, x19 = 4", "no": "x15 = 0, x19 = 2"}
SHIFTS = (0.05, 0.1)


def dependent_features(rng: np.random.Generator, rows: int) -> dict[str, NDArray[Any]]:
    """Numbers and categories that share a common cause, some with missing values."""
    common = rng.normal(size=rows)
    features: dict[str, NDArray[Any]] = {}
    for number in range(FEATURES):
        values = common + rng.normal(size=rows) * (0.3 + number / 10)
        if number % 2:
            features[f"x{number}"] = np.clip(np.round(values + 2), 0, 4).astype(np.int8)
        else:
            values[rng.random(rows) < 0.05] = np.nan
            features[f"x{number}"] = values
    return features


def accused(name: str, runs: int) -> tuple[int, int]:
    """In how many runs a calibrated model has a segment found, and a discovery."""
    (a, b), rows, min_rows = SCORES[name]
    found = discovered = 0
    for seed in range(runs):
        rng = np.random.default_rng((seed, rows))
        scores = rng.beta(a, b, rows)
        result = cd.audit(rng.random(rows) < scores, scores, dependent_features(rng, rows), min_rows=min_rows)
        found += bool(result.found.any())
        discovered += bool(result.discovery.any())
    return found, discovered


def finds_planted(seed: int) -> tuple[bool, bool]:
    """Whether a planted segment is found, and is all that is described."""
    rng = np.random.default_rng((seed, 7))
    features = {f"x{number}": rng.integers(0, 5, PLANTED_ROWS).astype(np.int8) for number in range(FEATURES)}
    features["x0"] = rng.integers(0, 10, PLANTED_ROWS).astype(np.int8)
    features["x1"] = rng.integers(0, 10, PLANTED_ROWS).astype(np.int8)
    scores = rng.beta(2, 5, PLANTED_ROWS) * 0.9
    truth = scores + SHIFT * ((features["x0"] == 3) & (features["x1"] == 7))
    result = cd.audit(rng.random(PLANTED_ROWS) < truth, scores, features, values=10)
    name = "x0 = 3, x1 = 7"
    return bool(result.found.sel(segment=name)), result.segment[result.described].values.tolist() == [name]


def lists_two(seed: int, shared: str, shift: float) -> tuple[int, int, int]:
    """Segments that are candidates for the description, those described, and how many of the planted ones are."""
    rng = np.random.default_rng((seed, 77))
    features = dependent_features(rng, PLANTED_ROWS)
    scores = rng.beta(2, 5, PLANTED_ROWS) * 0.8
    first = (features["x15"] == 4) & (features["x17"] == 3)
    if shared == "yes":
        second = (features["x11"] == 4) & (features["x19"] == 4)
    else:
        second = (features["x15"] == 0) & (features["x19"] == 2)
    truth = scores + shift * first + shift * second
    result = cd.audit(rng.random(PLANTED_ROWS) < truth, scores, features)
    described = result.segment[result.described].values.tolist()
    return int(result.attrs["candidates"]), len(described), len({FIRST, SECOND[shared]} & set(described))


def table_of_accused(runs: int) -> list[str]:
    """Calibrated models by kind of their scores."""
    lines = ["| scores | models | a segment found | a discovery (e-BH) |", "|---|---|---|---|"]
    for name in SCORES:
        begun = time.perf_counter()
        found, discovered = accused(name, runs)
        lines.append(f"| {name} | {runs} | {found} | {discovered} |")
        print(f"{lines[-1]} {time.perf_counter() - begun:.0f} s", flush=True)
    return lines


def table_of_planted(runs: int) -> list[str]:
    """Models with a planted segment."""
    outcomes = np.array([finds_planted(seed) for seed in range(runs)])
    found, alone = outcomes.sum(0).tolist()
    lines = ["| rows | share of the segment | shift | models | found | described, and nothing else |", "|---" * 6 + "|"]
    lines.append(f"| {PLANTED_ROWS:,} | 1 % | {SHIFT} | {runs} | {found} | {alone} |")
    print(lines[-1], flush=True)
    return lines


def table_of_two(runs: int) -> list[str]:
    """Models with two planted segments."""
    lines = [
        "| rows in common | shift | models | candidates: median | most | described: median | most | both described |",
        "|---" * 8 + "|",
    ]
    for shared in SECOND:
        for shift in SHIFTS:
            outcomes = np.array([lists_two(seed, shared, shift) for seed in range(runs)])
            before, after = ([f"{np.median(column):g}", str(column.max())] for column in outcomes.T[:2])
            both = int((outcomes[:, 2] == 2).sum())
            lines.append(f"| {' | '.join([shared, str(shift), str(runs), *before, *after, str(both)])} |")
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Count, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="calibrated models of each kind")
    parser.add_argument("--planted", type=int, default=100, help="models with a planted segment")
    parser.add_argument("--two", type=int, default=10, help="models with two planted segments, of each kind")
    parser.add_argument("--only", choices=("two", "others"), help="the tables that are made again; the rest stays")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page whose tables are replaced")
    options = parser.parse_args()
    prose, _, others = PAGE.read_text(encoding="utf-8").partition(MARKER)
    if options.only != "others":
        lines = table_of_two(options.two)
        prose = "\n".join([prose.partition(TWO_MARKER)[0] + TWO_MARKER, *lines, "", ""])
    if options.only != "two":
        lines = ["", *table_of_accused(options.runs), "", *table_of_planted(options.planted)]
        others = "\n".join(lines) + "\n"
    options.out.write_text(prose + MARKER + others, encoding="utf-8")


if __name__ == "__main__":
    main()

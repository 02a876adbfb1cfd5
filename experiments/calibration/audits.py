"""How often audits accuse calibrated models, how often they find a planted segment, and how many they list for two.

Run: python -m experiments.calibration.audits [--runs 1000] [--planted 100] [--two 10] [--clustered 200]
[--only two|clusters|others]; writes the tables of audits.md. Clusters: also how often watches of calibrated clustered
streams raise an alarm.
"""

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import calibdask as cd

PAGE = Path(__file__).with_name("audits.md")
MARKER = "<!-- Below: written by audits.py. -->\n"
TWO_MARKER = "<!-- Below: written by audits.py --only two. -->\n"
CLUSTERS_MARKER = "<!-- Below: written by audits.py --only clusters. -->\n"
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
# Clusters of audits, the planted shift in half of them, and the days and clusters of a day of watches.
CLUSTERS, CLUSTER_SHIFT = (60, 200, 600), 0.2
DAYS, CLUSTERS_OF_A_DAY = 10, 40


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


def clustered_rows(rng: np.random.Generator, clusters: int, shift: NDArray[Any] | float) -> tuple[Any, Any, Any]:
    """Outcomes, scores and clusters of 1 to 20 rows, whose outcomes one uniform number of the cluster decides."""
    groups = np.repeat(np.arange(clusters), rng.integers(1, 21, clusters))
    scores = rng.beta(2, 5, groups.size) * 0.8
    shifts = np.broadcast_to(shift, clusters)[groups]
    return rng.random(clusters)[groups] < scores + shifts, scores, groups


def clustered_findings(seed: int, clusters: int, shift: float) -> tuple[bool, bool]:
    """Whether audits with groups and without find anything; a half of the clusters is off by the shift."""
    rng = np.random.default_rng((seed, clusters))
    ward = rng.integers(0, 2, clusters)
    outcomes, scores, groups = clustered_rows(rng, clusters, shift * ward)
    features = {
        "ward": ward[groups],
        "sex": rng.integers(0, 2, clusters)[groups],
        "hour": rng.integers(0, 4, groups.size),
    }
    given: dict[str, Any] = {"min_rows": 30, "score_cells": 16}
    found = (cd.audit(outcomes, scores, features, groups=of, **given).found for of in (groups, None))
    with_groups, without = (bool(of.any()) for of in found)
    return with_groups, without


def clustered_alarms(seed: int) -> tuple[bool, bool]:
    """Whether watches of a calibrated stream, with groups and without, ever raise an alarm."""
    rng = np.random.default_rng((seed, 3))
    outcomes, scores, number = clustered_rows(rng, DAYS * CLUSTERS_OF_A_DAY, 0.0)
    day, customer = np.divmod(number, CLUSTERS_OF_A_DAY)
    given: dict[str, Any] = {"by": {"day": day}, "settings": ["binary"], "buckets": 16}
    summaries = (cd.summarize(outcomes, scores, groups=of, **given) for of in (customer, None))
    with_groups, without = (bool(cd.watch(summary).alarm.any()) for summary in summaries)
    return with_groups, without


def table_of_clusters(runs: int) -> list[str]:
    """Shares of clustered data sets with a finding or an alarm."""
    lines = ["| analysis | data | data sets | with groups | without |", "|---" * 5 + "|"]
    cases: list[tuple[str, str, Any]] = []
    for words, shift in (("calibrated", 0.0), (f"half of them off by {CLUSTER_SHIFT}", CLUSTER_SHIFT)):
        for clusters in CLUSTERS:
            function = partial(clustered_findings, clusters=clusters, shift=shift)
            cases.append(("audit, a segment found", f"{clusters} clusters, {words}", function))
    stream = f"{DAYS} days of {CLUSTERS_OF_A_DAY} clusters, calibrated"
    cases.insert(len(CLUSTERS), ("watch, any alarm", stream, clustered_alarms))
    for analysis, words, function in cases:
        share = np.mean([function(seed) for seed in range(runs)], 0)
        error = np.sqrt(np.maximum(share * (1 - share), 1 / runs) / runs)
        cells = (f"{of:.3f} ± {size:.3f}" for of, size in zip(share, error, strict=True))
        lines.append(f"| {' | '.join([analysis, words, str(runs), *cells])} |")
        print(lines[-1], flush=True)
    return lines


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
    parser.add_argument("--clustered", type=int, default=200, help="clustered data sets of each kind")
    tables = ("two", "clusters", "others")
    parser.add_argument("--only", choices=tables, help="the tables that are made again; the rest stays")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page whose tables are replaced")
    options = parser.parse_args()
    prose, _, others = PAGE.read_text(encoding="utf-8").partition(MARKER)
    prose, _, two = prose.partition(TWO_MARKER)
    clustered, _, rest = prose.partition(CLUSTERS_MARKER)
    if options.only in (None, "clusters"):
        _, heading, further = rest.partition("## ")
        rest = "\n".join(["", *table_of_clusters(options.clustered), "", heading + further])
    if options.only in (None, "two"):
        _, heading, further = two.partition("## ")
        two = "\n".join(["", *table_of_two(options.two), "", heading + further])
    prose = clustered + CLUSTERS_MARKER + rest + TWO_MARKER + two
    if options.only in (None, "others"):
        lines = ["", *table_of_accused(options.runs), "", *table_of_planted(options.planted)]
        others = "\n".join(lines) + "\n"
    options.out.write_text(prose + MARKER + others, encoding="utf-8")


if __name__ == "__main__":
    main()

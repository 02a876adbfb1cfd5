"""Mending by segments: seconds and effect of `MulticalibratedScaling` beside MCGrad, on the same rows."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.scaling.machine import surroundings
from experiments.scaling.menders import CATEGORIES, ERROR_ROWS, MENDERS, NUMBERS
from experiments.scaling.tables import Table, markdown
from experiments.scaling.timing import ratio

PAGE = Path(__file__).with_name("results") / "mending.md"
ROOT = Path(__file__).parents[2]
CLOCKS = ("fit", "fit_cpu", "predict", "predict_cpu")
VALUES = np.array(["a", "b", "c", "d", "e"])
Measurements = dict[str, list[dict[str, float]]]


def rows_of(count: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Labels, scores and ten features, and the true probabilities; two groups are off.

    Six categories of five values and four normal numbers share a cause. P(y = 1) is the score but for rows with x0 = b
    and x6 > 0.7, whose log-odds are larger by 0.7, and with x1 = d and x2 = a, smaller by 0.8.
    """
    rng = np.random.default_rng((41, seed))
    cause = rng.normal(size=count)
    common = np.searchsorted([-0.84, -0.25, 0.25, 0.84], cause)
    columns: dict[str, Any] = {}
    for name in CATEGORIES:
        columns[name] = VALUES[np.where(rng.random(count) < 0.3, common, rng.integers(0, VALUES.size, count))]
    for name in NUMBERS:
        columns[name] = 0.5 * cause + np.sqrt(0.75) * rng.normal(size=count)
    z = -2 + 0.5 * cause + rng.normal(size=count)
    first = (columns["x0"] == "b") & (columns["x6"] > 0.7)
    second = (columns["x1"] == "d") & (columns["x2"] == "a")
    score, truth = (1 / (1 + np.exp(-logit)) for logit in (z, z + 0.7 * first - 0.8 * second))
    label = (rng.random(count) < truth).astype(np.int64)
    return pd.DataFrame({"label": label, "score": score, **columns}), truth


def called(python: str, arguments: Sequence[str], threads: int) -> dict[str, float]:
    """What one process of `experiments.scaling.menders` prints."""
    done = subprocess.run(
        [python, "-m", "experiments.scaling.menders", *arguments],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def seconds_rows(rows: int, threads: int, seen: Measurements) -> list[dict[str, Any]]:
    """Medians over rounds, and the ratio to calibdask within a round."""
    lines = []
    for name, measurements in seen.items():
        line: dict[str, Any] = {"rows": rows, "threads": threads, "rounds": len(measurements), "mender": name}
        for clock in CLOCKS:
            line[clock] = statistics.median(one[clock] for one in measurements)
        for clock in ("fit_cpu", "predict_cpu"):
            # A clock of processes may stand still during a short call.
            of, to = ([max(one[clock], 1e-9) for one in seen[which]] for which in (name, "calibdask"))
            line[f"{clock}_ratio"] = ratio(of, to).median
        lines.append(line)
    return lines


def effect_rows(rows: int, losses: dict[str, float], errors: dict[str, float]) -> list[dict[str, Any]]:
    """Log loss above that of the true probabilities, in thousandths, and MCE_sigma."""
    return [
        {
            "rows": rows,
            "scores": {"before": "as they come", "calibdask": "mended by calibdask", "mcgrad": "mended by mcgrad"}[
                name
            ],
            "log_loss": losses[name],
            "above_truth_1000": 1000 * (losses[name] - losses["truth"]),
            "mce_sigma": errors[name],
        }
        for name in ("before", *MENDERS)
    ]


def log_losses(fresh: pd.DataFrame, truth: np.ndarray, folder: Path) -> dict[str, float]:
    """Of the true probabilities, of the scores before and after each way."""
    scores = {"truth": truth, "before": fresh.score.to_numpy()}
    scores |= {name: np.load(folder / f"{name}.npy") for name in MENDERS}
    return {name: float(-np.log(np.where(fresh.label == 1, s, 1 - s)).mean()) for name, s in scores.items()}


def tables_of(seconds: list[dict[str, Any]], effects: list[dict[str, Any]]) -> dict[str, Table]:
    """Seconds and effect."""
    return {
        "seconds": Table(
            "Elapsed and processor seconds (`cpu`) of a fit and of mending as many fresh rows: medians of rounds, each "
            "in a process of its own after a small fit; ratios of processor seconds within a round. Other work shared "
            "the cores: elapsed seconds are too long, and ratios of processor seconds are what to go by.",
            seconds,
        ),
        "effect": Table(
            "Of as many fresh rows as were fitted to: log loss, and what it is above that of the true probabilities, "
            f"in thousandths; mcgrad's own MCE_sigma of {ERROR_ROWS:,} of them, by segments of up to two features.",
            effects,
        ),
    }


def main() -> None:
    """Measure round by round, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scaling.mending", description=__doc__)
    parser.add_argument("--mcgrad", required=True, metavar="PYTHON", help="an interpreter that has mcgrad==0.1.5")
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="idle cores: OpenMP's threads spin")
    parser.add_argument("--rounds", type=int, nargs="+", default=[3, 2], help="of each number of rows")
    parser.add_argument("--out", type=Path, default=PAGE)
    chosen = parser.parse_args()
    pythons = {"calibdask": sys.executable, "mcgrad": chosen.mcgrad}
    seconds: list[dict[str, Any]] = []
    effects: list[dict[str, Any]] = []
    for count, rounds in zip(chosen.rows, chosen.rounds, strict=True):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            rows_of(count, 0)[0].to_parquet(folder / "fit.parquet")
            fresh, truth = rows_of(count, 1)
            fresh.to_parquet(folder / "fresh.parquet")
            for threads in chosen.threads:
                seen: Measurements = {name: [] for name in MENDERS}
                for _ in range(rounds):
                    for name, python in pythons.items():
                        seen[name].append(called(python, [name, temporary, str(threads)], threads))
                        print(count, threads, name, seen[name][-1], flush=True)
                seconds += seconds_rows(count, threads, seen)
            errors = called(chosen.mcgrad, ["error", temporary], max(chosen.threads))
            effects += effect_rows(count, log_losses(fresh, truth, folder), errors)
        chosen.out.write_text(page_of(seconds, effects), encoding="utf-8")


def page_of(seconds: list[dict[str, Any]], effects: list[dict[str, Any]]) -> str:
    """The page."""
    about = {name: value for name, value in surroundings("cores", 1).items() if name != "rounds"}
    return TITLE + markdown(tables_of(seconds, effects), about)


TITLE = """# Mending by segments

Written by `python -m experiments.scaling.mending --mcgrad PYTHON`, with an interpreter that has mcgrad 0.1.5.

`MulticalibratedScaling` beside MCGrad, with the defaults of both (each with five folds), on simulated rows of ten
features: six categories of five values and four numbers, which share a cause. The probability that the score states is
right but for two groups: log-odds are larger by 0.7 where x0 = b and x6 > 0.7, and smaller by 0.8 where x1 = d and
x2 = a. Fifths of x6, by which calibdask cuts it, do not end at 0.7. With one thread: threads of OpenMP that wait for
each other use up processor time where cores are shared.

"""


if __name__ == "__main__":
    main()

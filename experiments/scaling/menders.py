"""One measurement of one way to mend scores, in the interpreter that has its package; see mending.py.

    python -m experiments.scaling.menders calibdask|mcgrad FOLDER THREADS
    python -m experiments.scaling.menders error FOLDER

Reads ``fit.parquet`` and ``fresh.parquet``, writes the mended scores of the latter, and prints JSON. This file imports
neither package before it needs it: interpreters have one of them.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

CATEGORIES, NUMBERS = tuple(f"x{i}" for i in range(6)), tuple(f"x{i}" for i in range(6, 10))
FEATURES = (*CATEGORIES, *NUMBERS)
# Of a fit that loads modules and kernels before the clock starts; and of the multicalibration error.
WARM_ROWS, ERROR_ROWS = 2_000, 100_000


def calibdask(threads: int) -> tuple[Callable[[pd.DataFrame], Any], Callable[[Any, pd.DataFrame], Any]]:
    """Fit and predict, with defaults."""
    import dask

    import calibdask as cd

    scheduler: dict[str, Any] = {"scheduler": "threads", "num_workers": threads}

    def fit(frame: pd.DataFrame) -> Any:
        with dask.config.set(scheduler):
            return cd.MulticalibratedScaling().fit(frame.label, frame.score, features=frame[[*FEATURES]])

    def predict(fitted: Any, frame: pd.DataFrame) -> Any:
        with dask.config.set(scheduler):
            return np.asarray(fitted.predict_proba(frame.score, frame[[*FEATURES]]))[:, 1]

    return fit, predict


def mcgrad(threads: int) -> tuple[Callable[[pd.DataFrame], Any], Callable[[Any, pd.DataFrame], Any]]:
    """Fit and predict, with defaults; ``OMP_NUM_THREADS`` sets the threads."""
    from mcgrad.methods import MCGrad

    columns = {"categorical_feature_column_names": [*CATEGORIES], "numerical_feature_column_names": [*NUMBERS]}
    return (
        lambda frame: MCGrad().fit(frame, "score", "label", **columns),
        lambda fitted, frame: fitted.predict(frame, "score", **columns),
    )


MENDERS = {"calibdask": calibdask, "mcgrad": mcgrad}


def measured(name: str, folder: Path, threads: int) -> dict[str, float]:
    """Elapsed and processor seconds of a fit, and of mending the fresh rows."""
    rows, fresh = (pd.read_parquet(folder / f"{part}.parquet") for part in ("fit", "fresh"))
    fit, predict = MENDERS[name](threads)
    predict(fit(rows[:WARM_ROWS]), fresh[:WARM_ROWS])
    seconds, fitted = _seconds(lambda: fit(rows))
    further, scores = _seconds(lambda: predict(fitted, fresh))
    np.save(folder / f"{name}.npy", np.asarray(scores, np.float64))
    return {"fit": seconds[0], "fit_cpu": seconds[1], "predict": further[0], "predict_cpu": further[1]}


def _seconds(call: Callable[[], Any]) -> tuple[tuple[float, float], Any]:
    begun, used = time.perf_counter(), time.process_time()
    answer = call()
    return (time.perf_counter() - begun, time.process_time() - used), answer


def errors(folder: Path) -> dict[str, float]:
    """MCE_sigma of mcgrad on fresh rows, by segments of up to two features: before, and after each way."""
    from mcgrad.metrics import MulticalibrationError

    fresh = pd.read_parquet(folder / "fresh.parquet")
    options: dict[str, Any] = {"max_depth": 2, "max_values_per_segment_feature": 5, "max_n_segments": None}
    found = {}
    for name in ("before", *MENDERS):
        scores = fresh.score if name == "before" else np.load(folder / f"{name}.npy")
        error = MulticalibrationError(
            fresh.assign(score=scores)[:ERROR_ROWS],
            "label",
            "score",
            categorical_segment_columns=[*CATEGORIES],
            numerical_segment_columns=[*NUMBERS],
            precision_dtype="float64",
            **options,
        )
        found[name] = float(error.mce_sigma)
    return found


def main() -> None:
    """Print one measurement."""
    name, folder, *threads = sys.argv[1:]
    told = errors(Path(folder)) if name == "error" else measured(name, Path(folder), int(threads[0]))
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()

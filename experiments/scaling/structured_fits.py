"""One fit of structured vector scaling, in the interpreter that has its package; see recalibration.py.

    python -m experiments.scaling.structured_fits calibdask|probmetrics FILE THREADS

Reads labels, scores and fresh scores from FILE (.npz), and prints JSON: seconds of a fit, of processors, and the log
loss of the fresh rows. This file imports neither package before it needs it: interpreters have one of them.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Fit = Callable[[Any, Any], Any]
# Rows of a fit that loads modules and kernels before the clock starts.
WARM_ROWS = 2_000


def calibdask(threads: int) -> Fit:
    """With defaults."""
    import dask

    import calibdask as cd

    def fit(labels: Any, scores: Any) -> Any:
        with dask.config.set(scheduler="threads", num_workers=threads):
            return cd.StructuredScaling().fit(labels, scores)

    return fit


def probmetrics(threads: int) -> Fit:
    """With defaults."""
    import torch
    from probmetrics.calibrators import SVSCalibrator

    torch.set_num_threads(threads)
    return lambda labels, scores: SVSCalibrator().fit(scores, labels)


FITS = {"calibdask": calibdask, "probmetrics": probmetrics}


def measured(name: str, path: str, threads: int) -> dict[str, float]:
    """Elapsed and processor seconds of a fit, and the log loss of the fresh rows."""
    rows = np.load(path)
    fit = FITS[name](threads)
    fit(rows["labels"][:WARM_ROWS], rows["scores"][:WARM_ROWS])
    begun, used = time.perf_counter(), time.process_time()
    fitted = fit(rows["labels"], rows["scores"])
    seconds, cpu = time.perf_counter() - begun, time.process_time() - used
    calibrated = np.asarray(fitted.predict_proba(rows["fresh_scores"]), np.float64)
    of_labels = calibrated[np.arange(len(calibrated)), rows["fresh_labels"]]
    return {"fit_s": seconds, "fit_cpu_s": cpu, "fresh_log_loss": float(-np.log(of_labels).mean())}


def main() -> None:
    """Print one measurement."""
    name, path, threads = sys.argv[1:]
    sys.stdout.write(json.dumps(measured(name, path, int(threads))) + "\n")


if __name__ == "__main__":
    main()

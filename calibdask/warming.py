"""Compiling kernels before they are needed, in processes side by side."""

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from calibdask.engine.progress_events import Stage, advance, start_stage
from calibdask.estimators.expression import Expression
from calibdask.estimators.signatures import signatures
from calibdask.kernels.compilation import observed

# From so many rows on, kernels for many rows are used.
_MANY, _FEW = 8192, 200
# Columns of scores: a vector of P(y = 1), few classes, and so many that other kernels are used.
_COLUMNS = (1, 4, 40)
_DTYPES = ("float32", "float64")
# Quick enough for many rows.
_QUICK = {
    "ece",
    "ece-a",
    "ece-c",
    "ece-ac",
    "mce",
    "brier-score",
    "log-loss",
    "density-ece",
    "smooth-ece",
    "brier-decomposition",
}


@dataclass(frozen=True)
class MetricJob:
    """Evaluations that compile what a metric needs for one type and width of scores.

    Parameters
    ----------
    metric : str
    columns : int
        1: a vector of P(y = 1).
    dtype : {"float32", "float64"}
    """

    metric: str
    columns: int
    dtype: str

    def run(self) -> int:
        """Evaluate rows of nothing, plain, weighted and sliced; returns the number of kernels that were compiled."""
        import calibdask as cd

        rows = _MANY if self.metric in _QUICK else _FEW
        rng = np.random.default_rng(0)
        scores: Any = rng.random((rows, max(self.columns, 2)))
        scores = (scores / scores.sum(1, keepdims=True)).astype(self.dtype)
        scores = scores[:, 1] if self.columns == 1 else scores
        labels, slices = rng.integers(0, max(self.columns, 2), rows), np.arange(rows) % 2
        compiled: list[str] = []
        with observed(compiled.append):
            for options in ({}, {"by": slices}, {"sample_weight": np.ones(rows) / 2}):
                for metric in self._variants():
                    try:
                        cd.evaluate(labels, scores, [metric], sum_tolerance=0.01, **options)
                    except (TypeError, ValueError):
                        # Some metrics do not apply to a vector, to weights, or to so many classes.
                        continue
        return len(compiled)

    def _variants(self) -> Iterator[Any]:
        signature = signatures()[self.metric]
        yield Expression(self.metric).make({})
        if self.columns > 1 and "classwise" in getattr(signature.choices.get("setting"), "words", ()):
            yield Expression(self.metric).make({"setting": "classwise"})


@dataclass(frozen=True)
class AuditJob:
    """An audit and a mended map, of one type of scores.

    Parameters
    ----------
    dtype : {"float32", "float64"}
    """

    dtype: str

    def run(self) -> int:
        """Audit rows of nothing, plain and weighted; returns the number of kernels that were compiled."""
        import calibdask as cd

        rng = np.random.default_rng(0)
        scores, features = (
            rng.random(_MANY).astype(self.dtype),
            {"x": rng.random(_MANY), "t": np.arange(_MANY) % 3 == 0},
        )
        # Two segments are off, which are told apart.
        off = np.where(features["t"], scores**3, np.where(features["x"] > 0.8, np.sqrt(scores), scores))
        labels = (rng.random(_MANY) < off).astype(np.int64)
        compiled: list[str] = []
        with observed(compiled.append):
            for weight in (None, np.ones(_MANY) / 2):
                cd.audit(labels, scores, features, sample_weight=weight)
                cd.MulticalibratedScaling(folds=2, rounds=1).fit(labels, scores, weight, features=features)
        return len(compiled)


def jobs(metrics: Sequence[str] = ()) -> list[MetricJob | AuditJob]:
    """Compilation jobs for these metrics (all by default) and for audits, the longest first."""
    words = metrics or sorted(signatures(), key=lambda word: word in _QUICK, reverse=True)
    audits = [] if metrics else [AuditJob(dtype) for dtype in _DTYPES]
    return [*audits, *(MetricJob(*chosen) for chosen in product(words, _COLUMNS, _DTYPES))]


def kernel_folder() -> str | None:
    """Where kernels are kept; None where they cannot be."""
    from calibdask.kernels.dispatch import folders

    write = folders().write
    return None if write is None else str(write)


def warm(chosen: Sequence[MetricJob | AuditJob], processes: int | None = None) -> int:
    """Run jobs in as many processes as there are cores, or so many; returns the number of kernels that were compiled.

    What has been compiled before is not compiled again; two processes that need the same kernel at the same time may
    both compile it.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    start_stage(Stage("kernels", "jobs", len(chosen)))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes or cores, len(chosen)), mp_context=context) as pool:
        running = [pool.submit(job.run) for job in chosen]
        total = 0
        for done, finished in enumerate(as_completed(running), 1):
            total += finished.result()
            advance(done, len(chosen))
    return total

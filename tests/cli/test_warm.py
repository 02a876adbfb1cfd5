"""``calibdask warm`` compiles kernels beforehand."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from calibdask import warming
from calibdask.cli import main
from calibdask.kernels import actions, dispatch, lattice, overlaps
from calibdask.kernels.compilation import observed
from calibdask.kernels.dispatch import Folders


def test_jobs_cover_all_metrics_and_types_of_scores() -> None:
    every = warming.jobs()
    audits, metrics = (
        [job for job in every if isinstance(job, kind)] for kind in (warming.AuditJob, warming.MetricJob)
    )
    assert {job.dtype for job in metrics} == {job.dtype for job in audits} == {"float32", "float64"}
    assert {"ece", "skce", "corp"} < {job.metric for job in metrics if isinstance(job, warming.MetricJob)}
    chosen = warming.jobs(["ece"])
    assert all(isinstance(job, warming.MetricJob) and job.metric == "ece" for job in chosen)


def test_audits_are_run_plain_and_weighted(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    names = {"fill": lattice, "fill_weighted": lattice, "add_overlaps": overlaps, "add_weighted_overlaps": overlaps}
    for name, module in names.items():
        kernel = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, kernel=kernel, name=name: (calls.append(name), kernel(*given)))
    warming.AuditJob("float32").run()
    assert set(names) == set(calls)


@dataclass(frozen=True)
class OneKernel:
    """A job that compiles a single kernel."""

    def run(self) -> int:
        compiled: list[str] = []
        with observed(compiled.append):
            actions.cheapest(np.ones((2, 2)), np.eye(2), np.zeros(2, np.int64))
        return len(compiled)


def test_kernels_are_compiled_in_other_processes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(dispatch, "folders", lambda: Folders.chosen(str(tmp_path)))
    monkeypatch.setattr(warming, "jobs", lambda metrics: [OneKernel()])
    assert main(["warm", "--jobs", "1"]) == 0
    assert capsys.readouterr().out == f"compiled 1 kernels; they are kept in {warming.kernel_folder()}\n"
    assert any(path.name.startswith("actions.cheapest") for path in tmp_path.rglob("*"))


def test_a_job_evaluates_all_kinds_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def evaluated(labels: Any, scores: Any, metrics: Any, **options: Any) -> None:
        asked.append((scores.ndim, str(scores.dtype), *sorted(options)))

    monkeypatch.setattr(cd, "evaluate", evaluated)
    warming.MetricJob("brier-score", 1, "float32").run()
    kinds = [(), ("by",), ("sample_weight",)]
    assert asked == [(1, "float32", *sorted([*kind, "sum_tolerance"])) for kind in kinds]


def test_warming_is_refused_where_nothing_can_be_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warming, "kernel_folder", lambda: None)
    assert main(["warm"]) != 0
    assert "NUMBA_CACHE_DIR" in capsys.readouterr().err

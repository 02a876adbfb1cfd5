"""``calibdask warm`` compiles kernels beforehand."""

from pathlib import Path

import pytest

from calibdask import warming
from calibdask.cli import main
from calibdask.kernels import dispatch, lattice, overlaps
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


def test_kernels_of_a_metric_are_compiled_in_other_processes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(dispatch, "folders", lambda: Folders.chosen(str(tmp_path)))
    monkeypatch.setattr(warming, "_COLUMNS", (1,))
    monkeypatch.setattr(warming, "_DTYPES", ("float64",))
    assert main(["warm", "--metric", "brier-score", "--jobs", "1"]) == 0
    assert f"they are kept in {tmp_path}" in capsys.readouterr().out
    assert any(path.name.startswith("scores.score_sums") for path in tmp_path.rglob("*"))


def test_warming_is_refused_where_nothing_can_be_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warming, "kernel_folder", lambda: None)
    assert main(["warm"]) != 0
    assert "NUMBA_CACHE_DIR" in capsys.readouterr().err

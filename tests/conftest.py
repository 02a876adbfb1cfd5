"""How tests are run quickly, and the command as those of all kinds call it."""

import atexit
import gc
import os
import re
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

# Examples without a random seed: they change with the test and with constants of modules that are loaded.
# --hypothesis-profile=default draws others.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")

# Before NumPy and scikit-learn are loaded, here and in processes that tests start: more threads wait busily, for small
# matrices and for each other in boosted trees.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Modules in C++ complain of what is still there as they end.
atexit.register(gc.unfreeze)

# Minutes each, most of them of waiting.
LONGEST = (
    "tests/clusters/test_object_stores.py",
    "tests/clusters/test_appended_stores.py",
    "tests/clusters/test_faults.py",
    "tests/clusters/test_pod_startup.py",
    "tests/storage/test_periods.py",
    "tests/clusters/test_slurm.py",
    "tests/clusters/test_kubernetes_runs.py",
    "tests/clusters/test_kubernetes.py",
    "tests/clusters/test_integrity.py",
    "tests/clusters/test_many_cells.py",
    "tests/front/test_wheel.py",
)
# Tests of these files share at most a server: what in their names tells parts apart that are run side by side.
APART = {
    "tests/clusters/test_object_stores.py": "moto|rclone",
    "tests/clusters/test_appended_stores.py": "test_.*",
    "tests/clusters/test_integrity.py": "test_.*",
    "tests/storage/test_periods.py": r"while_appending\[20\]|lose_nothing\[60\]",
}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Modules and thousands of tests stay: a search for garbage need not pass over them, 0.4 s each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What is there after a file stays, too: modules, kernels, caches. What can be found as garbage is freed before."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files are begun first, so that none of them is what the others wait for at the end."""
    ranks = {file: rank for rank, file in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(LONGEST)))


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Side by side, each file or part of ``APART`` is run by one worker: what its tests share is computed once.

    In the order of the folders, so that the workers seldom need the same kernels at the same time.
    """
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, test = nodeid.partition("::")
            part = re.search(APART[file], test) if file in APART else None
            return f"{file}::{part.group()}" if part else file

    config.option.loadscopereorder = False
    return Scheduling(config, log)


@pytest.fixture
def without_recalibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports say why calibrators are not compared, which takes four fifths of the time of a report of few rows."""

    class NotCompared:
        def __init__(self, **_: Any) -> None:
            pass

        def run(self, _: Any) -> None:
            raise ValueError("Calibrators are not compared here.")

    monkeypatch.setattr("calibdask.report.measuring.CompareCalibrators", NotCompared)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Call ``calibdask``; its status, and what it prints on either stream."""
    from calibdask.cli import main

    def call(*arguments: Any) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call

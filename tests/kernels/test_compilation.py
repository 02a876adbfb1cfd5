"""Kernels are compiled when they are called, kept where nobody else can write, and announced."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from calibdask.kernels import dispatch
from calibdask.kernels.bin_sums import bin_sums, weighted_bin_sums
from calibdask.kernels.checks import first_doubtful
from calibdask.kernels.dispatch import Claim, Folders, loaded, saved
from calibdask.kernels.label_sets import count_sets
from calibdask.kernels.scores import score_sums

KERNEL = """
import warnings
import sys
import numpy as np
import calibdask.kernels.compiled as c
assert "numba" not in sys.modules
from calibdask.kernels.compilation import observed
double = c.inlined(lambda x: x + x)
kernel = c.compiled(lambda x: double(x))
names = []
import calibdask.kernels.dispatch
print(flush=True)
sys.stdin.readline()
with warnings.catch_warnings(record=True) as caught, observed(names.append):
    warnings.simplefilter("always")
    assert (kernel(1.5), kernel(2), kernel(3)) == (3.0, 4, 6)
print(len(names), len(caught), *{str(warning.message) for warning in caught})
"""


def run(folder: Path | str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", KERNEL],
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder)},
        check=True,
        capture_output=True,
        text=True,
        input="\n",
    )
    return done.stdout.lstrip()


def test_a_kernel_is_compiled_once_for_each_type_and_again_where_its_file_is_damaged(tmp_path: Path) -> None:
    assert run(tmp_path).split() == ["2", "0"]
    assert run(tmp_path).split() == ["0", "0"]
    one, other = (path for path in tmp_path.rglob("*") if path.is_file())
    other.write_bytes(one.read_bytes())
    one.write_bytes(b"")
    assert run(tmp_path).split() == ["2", "0"]
    assert run(tmp_path).split() == ["0", "0"]


def test_processes_at_once_compile_a_kernel_once_together(tmp_path: Path) -> None:
    """All are at the same place before the first call, which compiles for about a second."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", KERNEL],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    compiled = [process.communicate()[0].split()[0] for process in started]
    assert sum(map(int, compiled)) == 2
    assert not list(tmp_path.rglob("*.claim"))


def test_a_claim_is_waited_for_and_given_back(tmp_path: Path) -> None:
    claim = Claim(tmp_path, "kernel")
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(Claim, tmp_path, "kernel")
        with pytest.raises(TimeoutError):
            other.result(timeout=0.2)
        claim.release()
        other.result().release()
    # Where nothing can be written there is nothing to wait for.
    Claim(tmp_path / "nowhere", "kernel").release()


def test_rows_of_any_kind_share_their_kernels() -> None:
    """Arrays of a file may be read-only; labels are of any type of integers, or whole floats."""
    labels, scores = np.arange(2000) % 2, np.linspace(0, 1, 2000)
    fixed = scores.copy()
    fixed.flags.writeable = False
    kernels = bin_sums, score_sums, first_doubtful
    values, variants = [], []
    for given in (labels, labels.astype(np.int8), labels > 0, labels.astype(np.float32)):
        for rows in (scores, fixed):
            result = cd.evaluate(given, rows, ["ece", "brier-score"])
            values.append((float(result.ece), float(result.brier_score)))
            variants.append([{*kernel.dispatcher.signatures} for kernel in kernels])
    assert all(variant == variants[0] for variant in variants)
    assert len({*values}) == 1


def test_slices_share_the_kernels_of_all_rows() -> None:
    """The edges of bins are those of all slices: copied for each of them, or used as they are where there is one."""
    labels, scores, weights = np.arange(400) % 2, np.linspace(0, 1, 400), np.ones(400)
    metrics = {"ece": cd.ECE(mapping="convex"), "sets": cd.ConformalThreshold()}
    variants = []
    for by in (None, labels):
        cd.evaluate(labels, scores, metrics, sample_weight=weights, by=by)
        variants.append([{*kernel.dispatcher.signatures} for kernel in (weighted_bin_sums, count_sets)])
    assert variants[0] == variants[1]


@pytest.mark.parametrize("dtype", [np.float64, np.uint64])
def test_labels_of_models_in_columns_share_the_kernels_of_rows(dtype: type) -> None:
    labels, scores = np.arange(400) % 2, np.tile(np.linspace(0, 1, 400), (3, 1))
    variants = []
    for given in (np.stack([labels] * 3), np.stack([labels] * 3, 1).astype(dtype).T):
        cd.evaluate(given, scores, "ece", task="binary")
        variants.append({*bin_sums.dispatcher.signatures})
    assert variants[0] == variants[1]


def test_kernels_run_where_nothing_can_be_written_with_one_warning() -> None:
    said = run(Path(os.devnull, "nowhere"))
    assert said.startswith("2 1 Compiled kernels cannot be kept")
    assert "NUMBA_CACHE_DIR" in said


def test_without_a_home_and_beside_read_only_sources_nothing_is_written(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(dispatch, "_beside_sources", lambda: Path(os.devnull, "package"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path(os.devnull, "home")))
    assert Folders.chosen("").write is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    chosen = Folders.chosen("").write
    assert chosen is not None
    assert chosen.parent == tmp_path / "calibdask"
    assert chosen.stat().st_mode & 0o777 == 0o700


def test_no_change_of_a_saved_kernel_is_loaded(tmp_path: Path) -> None:
    saved(tmp_path, "kernel", b"code")
    content = (tmp_path / "kernel").read_bytes()
    changed = [content[:size] for size in range(len(content))]
    changed += [content + b"\0"]
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        changed.append(bytes(flipped))
    for damaged in changed:
        (tmp_path / "kernel").write_bytes(damaged)
        assert loaded(tmp_path, "kernel") is None
    (tmp_path / "another").write_bytes(content)
    assert loaded(tmp_path, "another") is None


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners of files")
def test_nothing_is_loaded_that_others_could_have_written(tmp_path: Path) -> None:
    saved(tmp_path, "kernel", b"code")
    assert loaded(tmp_path, "kernel") == b"code"
    for mode in (0o620, 0o602):
        (tmp_path / "kernel").chmod(mode)
        assert loaded(tmp_path, "kernel") is None
    assert loaded(tmp_path, "another") is None
    (tmp_path / "kernel").chmod(0o600)
    tmp_path.chmod(0o777)
    assert loaded(tmp_path, "kernel") is None


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners of files")
def test_nothing_is_written_where_others_can_write(tmp_path: Path) -> None:
    folder = Folders.chosen(str(tmp_path)).write
    assert folder is not None
    folder.chmod(0o777)
    chosen = Folders.chosen(str(tmp_path))
    assert chosen.write is None
    assert folder not in chosen.read

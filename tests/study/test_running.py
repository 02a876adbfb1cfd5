"""Studies: cubes that are the same from anywhere, resumed after any end, and never mixed."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli import main
from calibdask.cluster import ClusterLost
from calibdask.cluster.versions import blas_kernels
from calibdask.errors import Unavailable
from calibdask.study.cell_executor import CellExecutor
from calibdask.study.cube import Cube
from calibdask.study.fingerprint import FORMAT, versions
from calibdask.study.loading import load_study
from calibdask.study.running import lay_out
from calibdask.study.work import ship
from tests.study.cubes import NAME, computed, cube_of, raise_it, same_cubes
from tests.study.sample_study import Misshapen, Walks

COMMAND = [sys.executable, "-c", "import sys; from calibdask.cli import main; sys.exit(main())"]


def test_a_cube_holds_what_cells_compute(tmp_path: Path) -> None:
    study = Walks(seed=3)
    counts = cd.run(study, tmp_path / "w.zarr")
    assert (counts.done, counts.failed, counts.todo, counts.computed, counts.total) == (6, 0, 0, 6, 6)
    cube = cube_of(tmp_path / "w.zarr")
    assert cube.end.dims == ("length", "model", "replicate")
    assert cube.path.dims == ("length", "model", "replicate", "step")
    assert cube.longest.dims == ("length", "model")
    assert cube.model.values.tolist() == ["up", "down"]
    assert cube.step.values.tolist() == [0.25, 0.5, 1.0]
    for number, at in enumerate(study.coordinates()):
        for name, values in study.computed(number).items():
            np.testing.assert_array_equal(cube[name].sel(at), values)
    # Models leave the model out of their keys, and see the same steps.
    np.testing.assert_array_equal(cube.end.sel(model="up"), -cube.end.sel(model="down"))
    assert (cube.status == 1).all()
    assert cube.attrs["study"] == "Walks"
    assert json.loads(cube.attrs["versions"])[0]["calibdask"] == cd.__version__


def test_processes_fill_the_same_cube(tmp_path: Path) -> None:
    cd.run(Walks(), tmp_path / "threads.zarr")
    log = tmp_path / "log"
    # The log is another parameter: the cube is another one, its values are the same.
    cd.run(Walks(log=str(log)), tmp_path / "processes.zarr", "local:2")
    same_cubes(cube_of(tmp_path / "threads.zarr"), cube_of(tmp_path / "processes.zarr"))
    pids = {line.split()[-1] for line in log.read_text().splitlines()}
    assert str(os.getpid()) not in pids
    assert len(computed(log)) == 6


def test_a_client_is_taken_as_it_is(tmp_path: Path) -> None:
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        assert cd.run(Walks(), tmp_path / "w.zarr", client).done == 6


def killed_after(cells: int, command: list[str], store: Path, log: Path) -> int:
    """Run in a process group of its own and kill all of it once so many cells are done; the number of them then."""
    process = subprocess.Popen(
        command, cwd=Path(__file__).parents[2], start_new_session=True, stdout=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            # A store is looked at for longer than a cell takes, a log is not.
            if log.exists() and log.read_text().count("\n") >= cells:
                done = int((Cube(str(store)).status() == 1).sum())
                if done >= cells:
                    break
            time.sleep(0.02)
        assert process.poll() is None, "ended before it was killed"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return int((Cube(str(store)).status() == 1).sum())


def test_killed_twice_and_resumed(tmp_path: Path) -> None:
    store, log = tmp_path / "killed.zarr", tmp_path / "log"
    lengths = tuple(range(2, 42))
    settings = {"lengths": ",".join(map(str, lengths)), "seconds": "0.05", "log": str(log)}
    command = [*COMMAND, "run", NAME, "--store", str(store)]
    command += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    done = 0
    for round_ in range(2):
        done = killed_after(20 * (round_ + 1), command, store, log)
    before = len(computed(log))
    assert done < 80
    assert main(command[len(COMMAND) :]) == 0
    # Only what was not done is computed again: nothing twice but cells that were under way at a kill.
    assert len(computed(log)) - before == 80 - done
    threads = os.cpu_count() or 1
    assert len(computed(log)) <= 80 + 2 * threads
    cd.run(Walks(lengths=lengths), tmp_path / "whole.zarr")
    same_cubes(cube_of(store), cube_of(tmp_path / "whole.zarr"))
    assert cd.run(load_study(NAME).with_settings(settings), store).computed == 0


def test_a_cell_that_raises_leaves_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    store, broken, log = tmp_path / "w.zarr", tmp_path / "broken", tmp_path / "log"
    broken.touch()
    command = ["run", NAME, "--store", str(store), "--set", f"broken={broken}", "--set", f"log={log}"]
    assert main(command) == 3
    assert "1 cell failed; see calibdask status" in capsys.readouterr().err
    assert main(["status", str(store)]) == 3
    output = capsys.readouterr().out
    assert "Walks: 5 of 6 cells done, 1 failed, 0 to do" in output
    assert "cell length = 20, model = down" in output
    assert 'raise RuntimeError("this cell is broken")' in output
    cube = cube_of(store)
    assert np.isnan(cube.end.sel(length=20, model="down")).all()
    assert int(cube.status.sel(length=20, model="down")) == 2
    assert "RuntimeError: this cell is broken" in str(cube.error.sel(length=20, model="down").item())
    broken.unlink()
    log.unlink()
    assert main(command) == 0
    assert computed(log) == ["20 down"]
    cd.run(Walks(), tmp_path / "whole.zarr")
    same_cubes(cube_of(store), cube_of(tmp_path / "whole.zarr"))
    assert main(["status", str(store)]) == 0


def test_results_of_other_shapes_are_errors_of_their_cells(tmp_path: Path) -> None:
    counts = cd.run(Misshapen(), tmp_path / "m.zarr")
    assert (counts.done, counts.failed) == (0, 2)
    errors = Cube(str(tmp_path / "m.zarr")).errors()
    assert r"end expects the shape (3,) of replicate, got (1,)" in errors[0]
    assert "expects the variables ['end'], got ['beginning']" in errors[1]


@pytest.mark.parametrize(
    ("study", "words"),
    [
        (Walks(replicates=5), ["parameters.replicates: 4 there, 5 here", "inside.replicate"]),
        (Walks(scale=2.0, seed=1), ["parameters.seed: 0 there, 1 here", "parameters.scale: 1.0 there, 2.0 here"]),
        (Misshapen(), ["study: 'Walks' there, 'Misshapen' here", "outputs.path"]),
    ],
    ids=["axis", "parameters", "study"],
)
def test_cubes_of_other_studies_are_refused(study: cd.Study, words: list[str], tmp_path: Path) -> None:
    cd.run(Walks(), tmp_path / "w.zarr")
    before = cube_of(tmp_path / "w.zarr")
    with pytest.raises(ValueError, match="is the cube of another study") as refused:
        cd.run(study, tmp_path / "w.zarr")
    assert all(word in str(refused.value) for word in words)
    assert "--overwrite" in str(refused.value)
    same_cubes(cube_of(tmp_path / "w.zarr"), before)
    assert cd.run(study, tmp_path / "w.zarr", overwrite=True).todo == 0


def test_what_is_no_cube_is_refused(tmp_path: Path) -> None:
    xr.Dataset({"x": ("y", [1.0])}).to_zarr(tmp_path / "other.zarr", consolidated=False, zarr_format=3)
    (tmp_path / "file").write_text("nothing")
    for name, message in (("other.zarr", "is not a study cube"), ("file", "cannot be read as a cube")):
        with pytest.raises(ValueError, match=message):
            cd.run(Walks(), tmp_path / name)
    with pytest.raises(ValueError, match="does not exist"):
        cd.open_cube(str(tmp_path / "nowhere.zarr"))
    cd.run(Walks(), tmp_path / "w.zarr")
    with pytest.raises(ValueError, match="already exists; resume it"):
        cd.run(Walks(), tmp_path / "w.zarr", resume=False)
    metadata = tmp_path / "w.zarr" / "zarr.json"
    result = json.loads(metadata.read_text())
    older = json.loads(result["attributes"]["calibdask_study"]) | {"format": 0}
    result["attributes"]["calibdask_study"] = json.dumps(older)
    del result["attributes"]["_nc_calibdask_checksums"]
    metadata.write_text(json.dumps(result))
    with pytest.raises(ValueError, match=f"has the format 0, and this version writes {FORMAT}"):
        cd.run(Walks(), tmp_path / "w.zarr")


def test_urls(tmp_path: Path) -> None:
    cd.run(Walks(), tmp_path / "here.zarr")
    cd.run(Walks(), "memory://cubes/there.zarr")
    same_cubes(cd.open_cube("memory://cubes/there.zarr").load(), cube_of(tmp_path / "here.zarr"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([NAME, "--set", "size=3"], "has the parameters preset, seed, lengths, models, replicates"),
        ([NAME, "--set", "replicates=many"], "replicates expects a value such as 4, got 'many'"),
        ([NAME, "--set", "preset=slow"], "has the presets quick; got 'slow'"),
        ([NAME, "--set", "replicates"], "--set expects NAME=VALUE"),
        (["tests.study.sample_study:Nothing"], "There is no study"),
        (["nowhere.at.all:Study"], "There is no study"),
        (["tests.study.sample_study:NAME"], "There is no study"),
        (["os:path"], "expects a cd.Study"),
        (["Walks"], "Expected a folder with a study.py, or module:object"),
        (["tests"], "has no file study.py"),
    ],
)
def test_bad_use_writes_nothing(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert main(["run", *arguments, "--store", str(tmp_path / "w.zarr")]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "w.zarr").exists()


def test_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line now and then where there is no terminal: done, failed, rate and time left."""
    import io
    import re

    from rich.console import Console

    from calibdask import progress

    broken = tmp_path / "broken"
    broken.touch()
    text = io.StringIO()
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.0)
    with progress.cell_progress("running Walks", Console(file=text, width=200)):
        cd.run(Walks(lengths=(5, 20, 40, 60, 80), broken=str(broken), seconds=0.02), tmp_path / "w.zarr")
    lines = text.getvalue().splitlines()
    assert re.fullmatch(r"running Walks: 0 of 10 cells", lines[0])
    assert re.fullmatch(r"running Walks: \d+ of 10 cells(, 1 failed)?, [\d.e+]+ a second, 0:\d\d left", lines[-2])
    assert lines[-1].startswith("running Walks: 9 of 10 cells, 1 failed, ")
    with progress.cell_progress("running Walks", Console(file=io.StringIO(), force_terminal=True)):
        cd.run(Walks(), tmp_path / "shown.zarr")


def test_times_left_are_clocks() -> None:
    from calibdask.progress import _clock

    assert [_clock(seconds) for seconds in (3.6, 75, 3725)] == ["0:04", "1:15", "1:02:05"]


def test_overwriting_replaces_cubes_only(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    xr.Dataset({"x": ("y", [1.0])}).to_zarr(tmp_path / "data.zarr", consolidated=False, zarr_format=3)
    for there in (folder, tmp_path / "data.zarr", folder / "notes.txt"):
        with pytest.raises(ValueError, match=r"cannot be read as a cube|is not a study cube"):
            cd.run(Walks(), there, overwrite=True)
    assert (folder / "notes.txt").read_text() == "mine"
    assert float(xr.open_zarr(tmp_path / "data.zarr", consolidated=False).x[0]) == 1.0
    (tmp_path / "empty").mkdir()
    assert cd.run(Walks(), tmp_path / "empty").done == 6


def test_a_layout_that_was_stopped_may_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("calibdask.study.cube.make_arrays", stopped)
    with pytest.raises(KeyboardInterrupt):
        cd.run(Walks(), tmp_path / "w.zarr")
    monkeypatch.undo()
    with pytest.raises(ValueError, match="whose creation was interrupted"):
        Cube(str(tmp_path / "w.zarr")).status()
    with pytest.raises(ValueError, match="create it before running shards"):
        cd.run(Walks(), tmp_path / "w.zarr", shard=(0, 2))
    # It holds no cell: the same command goes on.
    assert cd.run(Walks(), tmp_path / "w.zarr").done == 6


def test_a_layout_that_was_stopped_at_once_may_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibdask.study.layouts._write_axis", lambda *_: raise_it(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        cd.run(Walks(), tmp_path / "w.zarr")
    monkeypatch.undo()
    assert cd.run(Walks(lengths=(3,)), tmp_path / "w.zarr").done == 2


def test_a_disk_that_is_full_at_once_halts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr("calibdask.study.layouts._write_axis", lambda *_: raise_it(full))
    with pytest.raises(Unavailable, match=r"w\.zarr cannot be written: .*No space left"):
        cd.run(Walks(), tmp_path / "w.zarr")


@pytest.mark.parametrize("error", [OSError("Timed out"), AttributeError("ncores"), RuntimeError("closed")])
def test_a_client_that_has_lost_its_scheduler(error: Exception, tmp_path: Path) -> None:
    class Client:
        status = "closed"

        def nthreads(self) -> dict[str, int]:
            raise error

    with pytest.raises(ClusterLost, match="The scheduler was lost"):
        _ = CellExecutor(None, Client()).threads  # type: ignore[arg-type]


def test_what_workers_cannot_do_is_no_error_of_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cube, "write", lambda *_: raise_it(RuntimeError("no credentials")))
    with pytest.raises(Unavailable, match=r"Workers cannot compute .RuntimeError: no credentials"):
        cd.run(Walks(), tmp_path / "w.zarr")
    assert not Cube(str(tmp_path / "w.zarr")).status().any()


def test_shipped_studies_are_loaded_by_the_same_code_only() -> None:
    shipped = ship(len, Walks)
    assert (shipped.module, shipped("abc")) == ("tests.study.sample_study", 3)
    with pytest.raises(ValueError, match=r"different code of tests\.study\.sample_study"):
        replace(shipped, code="another")("abc")
    with pytest.raises(ImportError, match="nowhere"):
        replace(shipped, module="nowhere")("abc")
    assert ship(len, type("Typed", (), {"__module__": "__main__"})).module == ""


@pytest.mark.parametrize("cluster", ["locl:2", "slurmy", "threads:0", "local:0"])
def test_a_cluster_that_is_none_leaves_the_cube_as_it_is(cluster: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"as the cluster|expects at least one"):
        cd.run(Walks(), tmp_path / "new.zarr", cluster)
    assert not (tmp_path / "new.zarr").exists()
    cd.run(Walks(), tmp_path / "w.zarr", "threads:1")
    with pytest.raises(ValueError, match=r"as the cluster|expects at least one"):
        cd.run(Walks(), tmp_path / "w.zarr", cluster, overwrite=True)
    assert (cube_of(tmp_path / "w.zarr").status == 1).all()


def test_cells_of_other_versions_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = versions(blas_kernels())
    monkeypatch.setattr("calibdask.study.cube.versions", lambda kernels: whole | {"numpy": "1.0"})
    lay_out(Walks(), tmp_path / "w.zarr")
    cd.run(Walks(), tmp_path / "w.zarr", shard=(0, 2))
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="other versions have computed .numpy: '1.0' there"):
        cd.run(Walks(), tmp_path / "w.zarr")
    cd.run(Walks(), tmp_path / "w.zarr")
    known = json.loads(str(cd.open_cube(str(tmp_path / "w.zarr")).attrs["versions"]))
    assert [environment["numpy"] for environment in known] == ["1.0", whole["numpy"]]

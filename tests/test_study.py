"""Studies: cubes that are the same from anywhere, resumed after any end, and never mixed."""

import errno
import json
import os
import pickle
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
from calibdask.cli.stopping import stopped_by_term
from calibdask.cluster import ClusterLost
from calibdask.engine.persistence import persistently
from calibdask.halted import Halted
from calibdask.study import running
from calibdask.study.crew import Crew
from calibdask.study.cube import Cube
from calibdask.study.fingerprint import FORMAT, differences, versions
from calibdask.study.loading import load_study
from calibdask.study.parcel import packed
from calibdask.study.seeds import Seeds
from tests.sample_study import Misshapen, Walks

NAME = "tests.sample_study:Walks"
COMMAND = [sys.executable, "-c", "import sys; from calibdask.cli import main; sys.exit(main())"]


def cube_of(path: Path) -> xr.Dataset:
    return cd.open_cube(str(path)).load()


def computed(log: Path) -> list[str]:
    return [line.rsplit(" ", 1)[0] for line in log.read_text().splitlines()] if log.exists() else []


def same(a: xr.Dataset, b: xr.Dataset) -> None:
    """Bit for bit, NaN and all."""
    xr.testing.assert_identical(a.drop_attrs(), b.drop_attrs())
    for name in ("end", "path", "longest"):
        assert a[name].values.tobytes() == b[name].values.tobytes()


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


@pytest.mark.parametrize("where", ["local:1", "local:2"])
def test_processes_fill_the_same_cube(where: str, tmp_path: Path) -> None:
    cd.run(Walks(), tmp_path / "threads.zarr")
    log = tmp_path / "log"
    # The log is another parameter: the cube is another one, its values are the same.
    cd.run(Walks(log=str(log)), tmp_path / "processes.zarr", where)
    same(cube_of(tmp_path / "threads.zarr"), cube_of(tmp_path / "processes.zarr"))
    pids = {line.split()[-1] for line in log.read_text().splitlines()}
    assert str(os.getpid()) not in pids
    assert len(computed(log)) == 6


def test_a_client_is_taken_as_it_is(tmp_path: Path) -> None:
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        assert cd.run(Walks(), tmp_path / "w.zarr", client).done == 6


def killed_after(cells: int, command: list[str], store: Path, folder: Path) -> int:
    """Run in a process group of its own and kill all of it once so many cells are done; the number of them then."""
    process = subprocess.Popen(
        command, cwd=Path(__file__).parent.parent, start_new_session=True, stdout=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            try:
                done = int((Cube(str(store)).status() == 1).sum())
            except ValueError:
                done = 0
            if done >= cells:
                break
            time.sleep(0.02)
        assert process.poll() is None, "ended before it was killed"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return int((Cube(str(store)).status() == 1).sum())


def test_killed_three_times_and_resumed(tmp_path: Path) -> None:
    store, log = tmp_path / "killed.zarr", tmp_path / "log"
    lengths = tuple(range(2, 42))
    settings = {"lengths": ",".join(map(str, lengths)), "seconds": "0.05", "log": str(log)}
    command = [*COMMAND, "run", NAME, "--store", str(store)]
    command += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    done = 0
    for round_ in range(3):
        done = killed_after(15 * (round_ + 1), command, store, tmp_path)
    before = len(computed(log))
    assert done < 80
    assert main(command[len(COMMAND) :]) == 0
    # Only what was not done is computed again: nothing twice but cells that were under way at a kill.
    assert len(computed(log)) - before == 80 - done
    threads = os.cpu_count() or 1
    assert len(computed(log)) <= 80 + 3 * threads
    cd.run(Walks(lengths=lengths), tmp_path / "whole.zarr")
    same(cube_of(store), cube_of(tmp_path / "whole.zarr"))
    assert cd.run(load_study(NAME).with_settings(settings), store).computed == 0


def test_a_cell_that_raises_leaves_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent)
    store, broken, log = tmp_path / "w.zarr", tmp_path / "broken", tmp_path / "log"
    broken.touch()
    command = ["run", NAME, "--store", str(store), "--set", f"broken={broken}", "--set", f"log={log}"]
    assert main(command) == 3
    assert "1 cell failed; see calibdask status" in capsys.readouterr().err
    assert main(["status", str(store)]) == 3
    told = capsys.readouterr().out
    assert "Walks: 5 of 6 cells done, 1 failed, 0 to do" in told
    assert "cell length = 20, model = down" in told
    assert 'raise RuntimeError("this cell is broken")' in told
    cube = cube_of(store)
    assert np.isnan(cube.end.sel(length=20, model="down")).all()
    assert int(cube.status.sel(length=20, model="down")) == 2
    assert "RuntimeError: this cell is broken" in str(cube.error.sel(length=20, model="down").item())
    broken.unlink()
    log.unlink()
    assert main(command) == 0
    assert computed(log) == ["20 down"]
    cd.run(Walks(), tmp_path / "whole.zarr")
    same(cube_of(store), cube_of(tmp_path / "whole.zarr"))
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
    same(cube_of(tmp_path / "w.zarr"), before)
    assert cd.run(study, tmp_path / "w.zarr", overwrite=True).todo == 0


def test_what_is_no_cube_is_refused(tmp_path: Path) -> None:
    xr.Dataset({"x": ("y", [1.0])}).to_zarr(tmp_path / "other.zarr", consolidated=False, zarr_format=3)
    (tmp_path / "file").write_text("nothing")
    for name, message in (("other.zarr", "is no cube of a study"), ("file", "cannot be read as a cube")):
        with pytest.raises(ValueError, match=message):
            cd.run(Walks(), tmp_path / name)
    with pytest.raises(ValueError, match="does not exist"):
        cd.open_cube(str(tmp_path / "nowhere.zarr"))
    cd.run(Walks(), tmp_path / "w.zarr")
    with pytest.raises(ValueError, match="is there already; resume it"):
        cd.run(Walks(), tmp_path / "w.zarr", resume=False)
    metadata = tmp_path / "w.zarr" / "zarr.json"
    found = json.loads(metadata.read_text())
    older = json.loads(found["attributes"]["calibdask_study"]) | {"format": 0}
    found["attributes"]["calibdask_study"] = json.dumps(older)
    metadata.write_text(json.dumps(found))
    with pytest.raises(ValueError, match=f"has the format 0, and this version writes {FORMAT}"):
        cd.run(Walks(), tmp_path / "w.zarr")


def test_urls(tmp_path: Path) -> None:
    cd.run(Walks(), tmp_path / "here.zarr")
    cd.run(Walks(), "memory://cubes/there.zarr")
    same(cd.open_cube("memory://cubes/there.zarr").load(), cube_of(tmp_path / "here.zarr"))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"preset": "quick"}, Walks(replicates=2, lengths=(5,))),
        ({"preset": "quick", "replicates": "7"}, Walks(replicates=7, lengths=(5,))),
        ({"lengths": "1,2,3", "scale": "0.5", "seed": "9"}, Walks(lengths=(1, 2, 3), scale=0.5, seed=9)),
        ({"models": "up", "log": "a,b"}, Walks(models=("up",), log="a,b")),
        ({"replicates": 3}, Walks(replicates=3)),
    ],
    ids=str,
)
def test_settings_have_the_types_of_parameters(settings: dict[str, Any], expected: Walks) -> None:
    assert Walks().with_settings(settings) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([NAME, "--set", "size=3"], "has the parameters preset, seed, lengths, models, replicates"),
        ([NAME, "--set", "replicates=many"], "replicates expects a value such as 4, got 'many'"),
        ([NAME, "--set", "preset=slow"], "has the presets quick; got 'slow'"),
        ([NAME, "--set", "replicates"], "--set expects NAME=VALUE"),
        (["tests.sample_study:Nothing"], "There is no study"),
        (["nowhere.at.all:Study"], "There is no study"),
        (["tests.sample_study:NAME"], "There is no study"),
        (["os:path"], "expects a cd.Study"),
        (["Walks"], "Expected a folder with a study.py, or module:object"),
        (["tests"], "expects a file study.py, and has none"),
    ],
)
def test_bad_use_writes_nothing(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent)
    assert main(["run", *arguments, "--store", str(tmp_path / "w.zarr")]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "w.zarr").exists()


SHORT = '''
from dataclasses import dataclass
from typing import ClassVar

import calibdask as cd


@dataclass(frozen=True, kw_only=True)
class Rolls(cd.Study):
    """Means of dice."""

    sides: tuple[int, ...] = (6, 20)
    outputs: ClassVar = {"average": ()}

    def cells(self):
        return {"side": self.sides}

    def cell(self, at, seeds):
        return {"average": seeds.generator().integers(1, at["side"] + 1, 1000).mean()}
'''


def test_a_study_of_ones_own_in_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "dice_of_my_own"
    folder.mkdir()
    (folder / "study.py").write_text(SHORT)
    try:
        assert main(["run", str(folder), "--store", str(tmp_path / "dice.zarr"), "--set", "sides=6"]) == 0
        assert cube_of(tmp_path / "dice.zarr").average.item() == pytest.approx(3.5, abs=0.3)
        assert "1 of 1 cells done, 1 computed now" in capsys.readouterr().out
    finally:
        sys.path.remove(str(tmp_path))


def test_seeds_are_keyed_by_values() -> None:
    at = (("rows", 10), ("model", "a"))
    one = Seeds(1, at).generator().random(3)
    np.testing.assert_array_equal(Seeds(1, at[::-1]).generator().random(3), one)
    np.testing.assert_array_equal(Seeds(1, (("rows", np.int64(10)), ("model", "a"))).generator().random(3), one)
    np.testing.assert_array_equal(Seeds(1, at).generator("model", "rows").random(3), one)
    others = [
        Seeds(2, at).generator(),
        Seeds(1, at).generator("rows"),
        Seeds(1, at).generator(size=3),
        Seeds(1, (("rows", 11), at[1])).generator(),
        Seeds(1, (("rows", "10"), at[1])).generator(),
    ]
    draws = [one[0], *(other.random() for other in others)]
    assert len(set(draws)) == len(draws)
    with pytest.raises(ValueError, match="has the coordinates rows, model, got 'size'"):
        Seeds(1, at).generator("size")
    assert pickle.loads(pickle.dumps(Walks(scale=2.0))) == Walks(scale=2.0)


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
    with progress.told_cells("running Walks", Console(file=text, width=200)):
        cd.run(Walks(lengths=(5, 20, 40, 60, 80), broken=str(broken), seconds=0.02), tmp_path / "w.zarr")
    lines = text.getvalue().splitlines()
    assert re.fullmatch(r"running Walks: 0 of 10 cells", lines[0])
    assert re.fullmatch(r"running Walks: \d+ of 10 cells(, 1 failed)?, [\d.e+]+ a second, 0:\d\d left", lines[-2])
    assert lines[-1].startswith("running Walks: 9 of 10 cells, 1 failed, ")
    with progress.told_cells("running Walks", Console(file=io.StringIO(), force_terminal=True)):
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
        with pytest.raises(ValueError, match=r"cannot be read as a cube|is no cube of a study"):
            cd.run(Walks(), there, overwrite=True)
    assert (folder / "notes.txt").read_text() == "mine"
    assert float(xr.open_zarr(tmp_path / "data.zarr", consolidated=False).x[0]) == 1.0
    (tmp_path / "empty").mkdir()
    assert cd.run(Walks(), tmp_path / "empty").done == 6


def test_a_layout_that_was_stopped_may_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped() -> dict[str, str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("calibdask.study.cube.versions", stopped)
    with pytest.raises(KeyboardInterrupt):
        cd.run(Walks(), tmp_path / "w.zarr")
    monkeypatch.undo()
    with pytest.raises(ValueError, match="was stopped while it was laid out"):
        Cube(str(tmp_path / "w.zarr")).status()
    with pytest.raises(ValueError, match="lay it out before its shards run"):
        cd.run(Walks(), tmp_path / "w.zarr", shard=(0, 2))
    # It holds no cell: the same command goes on.
    assert cd.run(Walks(), tmp_path / "w.zarr").done == 6


def test_a_layout_that_was_stopped_at_once_may_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibdask.study.cube._write_axis", lambda *_: raise_it(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        cd.run(Walks(), tmp_path / "w.zarr")
    monkeypatch.undo()
    assert cd.run(Walks(lengths=(3,)), tmp_path / "w.zarr").done == 2


def test_a_disk_that_is_full_at_once_halts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr("calibdask.study.cube._write_axis", lambda *_: raise_it(full))
    with pytest.raises(Halted, match=r"w\.zarr cannot be written: .*No space left"):
        cd.run(Walks(), tmp_path / "w.zarr")


def test_shards_tell_of_their_own_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken").touch()
    command = ["run", NAME, "--store", str(tmp_path / "s.zarr"), "--set", f"broken={tmp_path / 'broken'}"]
    assert main([*command, "--lay-out"]) == 0
    # The cell that fails is the fourth of six.
    assert [main([*command, "--shard", f"{i}/2"]) for i in range(2)] == [0, 3]
    assert main(["status", str(tmp_path / "s.zarr")]) == 3


@pytest.mark.parametrize("error", [OSError("Timed out"), AttributeError("ncores"), RuntimeError("closed")])
def test_a_client_that_has_lost_its_scheduler(error: Exception, tmp_path: Path) -> None:
    class Client:
        status = "closed"

        def nthreads(self) -> dict[str, int]:
            raise error

    with pytest.raises(ClusterLost, match="The scheduler has gone"):
        _ = Crew(None, Client()).threads  # type: ignore[arg-type]


def test_what_workers_cannot_do_is_no_error_of_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cube, "write", lambda *_: raise_it(RuntimeError("no credentials")))
    with pytest.raises(Halted, match=r"Workers cannot compute .RuntimeError: no credentials"):
        cd.run(Walks(), tmp_path / "w.zarr")
    assert not Cube(str(tmp_path / "w.zarr")).status().any()


def test_parcels_are_opened_by_the_same_code_only() -> None:
    parcel = packed(len, Walks)
    assert (parcel.module, parcel("abc")) == ("tests.sample_study", 3)
    with pytest.raises(ValueError, match=r"other code of tests\.sample_study"):
        replace(parcel, code="another")("abc")
    with pytest.raises(ImportError, match="nowhere"):
        replace(parcel, module="nowhere")("abc")
    assert packed(len, type("Typed", (), {"__module__": "__main__"})).module == ""


@pytest.mark.parametrize("cluster", ["locl:2", "slurmy", "threads:0", "local:0"])
def test_a_cluster_that_is_none_leaves_the_cube_as_it_is(cluster: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"place to work|expects at least one"):
        cd.run(Walks(), tmp_path / "new.zarr", cluster)
    assert not (tmp_path / "new.zarr").exists()
    cd.run(Walks(), tmp_path / "w.zarr", "threads:1")
    with pytest.raises(ValueError, match=r"place to work|expects at least one"):
        cd.run(Walks(), tmp_path / "w.zarr", cluster, overwrite=True)
    assert (cube_of(tmp_path / "w.zarr").status == 1).all()


def test_cells_of_other_versions_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = versions()
    monkeypatch.setattr("calibdask.study.cube.versions", lambda: whole | {"numpy": "1.0"})
    cd.run(Walks(), tmp_path / "w.zarr")
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="other versions have computed .numpy: '1.0' there"):
        cd.run(Walks(), tmp_path / "w.zarr")
    cd.run(Walks(), tmp_path / "w.zarr")
    known = json.loads(str(xr.open_zarr(tmp_path / "w.zarr", consolidated=False).attrs["versions"]))
    assert [each["numpy"] for each in known] == ["1.0", whole["numpy"]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outputs": {"status": ()}}, "has an output 'status', which is the name"),
        ({"outputs": {"end": ("axis",)}}, "has an output 'end' with the axes axis, which inside"),
        ({"types": {"path": "text"}}, "data type"),
        ({"types": {"other": "int64"}}, "has a type for 'other', which is none of its outputs"),
        ({"types": {"end": "complex128"}}, "has the type 'complex128' for 'end'"),
        ({"inside": lambda self: {"length": [1]}, "outputs": {"end": ("length",)}}, "has length among its cells"),
        ({"cells": lambda self: {}}, "has no cells: it names no axes"),
        ({"cells": lambda self: {"length": []}}, "has no cells: length is empty"),
        ({"problems": lambda self: ["no such thing"]}, "no such thing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_studies_that_cannot_be_laid_out(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        cd.run(type("Odd", (Walks,), changes)(), tmp_path / "o.zarr")
    assert not (tmp_path / "o.zarr").exists()


def test_types_of_variables(tmp_path: Path) -> None:
    whole = cd.run(Walks(), tmp_path / "w.zarr")
    assert whole.computed == 6
    kinds = {"types": {"end": "float32", "longest": "int16"}}
    cd.run(type("Typed", (Walks,), kinds)(), tmp_path / "t.zarr")
    one, other = cube_of(tmp_path / "t.zarr"), cube_of(tmp_path / "w.zarr")
    assert (one.end.dtype, one.longest.dtype, one.path.dtype) == (np.float32, np.int16, np.float64)
    np.testing.assert_array_equal(one.end, other.end.astype(np.float32))
    np.testing.assert_array_equal(one.longest, other.longest.astype(np.int16))


def test_inputs_belong_to_the_fingerprint(tmp_path: Path) -> None:
    first, second = (type("Reads", (Walks,), {"inputs": lambda self, size=size: {"rows": size}}) for size in (1, 2))
    cd.run(first(), tmp_path / "r.zarr")
    with pytest.raises(ValueError, match=r"inputs\.rows: 1 there, 2 here"):
        cd.run(second(), tmp_path / "r.zarr")


def test_differences_of_long_sequences_name_what_is_new() -> None:
    names = [f"estimator-{i}" for i in range(20)]
    assert list(differences({"a": names}, {"a": [*names, "new"]})) == ["a: ['new'] here only"]
    assert list(differences({"a": [1, 2]}, {"a": [2, 1]})) == ["a: [1, 2] there, [2, 1] here"]


def test_further_keys_are_no_coordinates() -> None:
    seeds = Seeds(0, (("size", 100),))
    with pytest.raises(ValueError, match="size is a coordinate of the cell; give further keys another name"):
        seeds.generator(size=5)


def test_folders_that_python_cannot_import(tmp_path: Path) -> None:
    for name, message in (("bad.v2", "a name that Python can import, got 'bad.v2'"), ("json", "another module 'json'")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.py").write_text(SHORT)
        with pytest.raises(ValueError, match=message):
            load_study(str(tmp_path / name))


def test_parameters_expect_defaults(tmp_path: Path) -> None:
    (tmp_path / "dice_without").mkdir()
    (tmp_path / "dice_without" / "study.py").write_text(SHORT.replace(" = (6, 20)", ""))
    with pytest.raises(ValueError, match="expects a default for every parameter"):
        load_study(str(tmp_path / "dice_without"))


def test_a_module_beside_is_found(tmp_path: Path) -> None:
    """By the command as it is installed, which does not look into the folder where it is called."""
    (tmp_path / "rolls_beside.py").write_text(SHORT)
    command = "import sys; sys.path.remove(''); from calibdask.cli import main; sys.exit(main(sys.argv[1:]))"
    study = f"rolls_beside:{SHORT.split('class ')[1].split('(', maxsplit=1)[0]}"
    arguments = [sys.executable, "-c", command, "run", study, "--store", "r.zarr"]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_whole_numbers_may_have_exponents() -> None:
    assert Walks().with_settings({"replicates": "2e1"}).replicates == 20
    with pytest.raises(ValueError, match=r"replicates expects a value such as 4, got '2\.5'"):
        Walks().with_settings({"replicates": "2.5"})


class Batched(Walks):
    """Cheap cells, three to a task and to a chunk."""

    batch = 3


LENGTHS = tuple(range(2, 9))


def test_cells_of_a_task_share_a_chunk(tmp_path: Path) -> None:
    whole = Walks(models=tuple("abcdefg"), lengths=(5, 6))
    cd.run(whole, tmp_path / "one.zarr")
    cd.run(Batched(**whole.parameters()), tmp_path / "three.zarr", "threads:2")
    same(cube_of(tmp_path / "one.zarr"), cube_of(tmp_path / "three.zarr"))
    files = {name: len(list((tmp_path / name / "end" / "c").rglob("*"))) for name in ("one.zarr", "three.zarr")}
    assert files["three.zarr"] < files["one.zarr"] / 2
    cube = Cube(str(tmp_path / "three.zarr"))
    assert cube.chunks(range(14)) == [[0, 1, 2], [3, 4, 5], [6], [7, 8, 9], [10, 11, 12], [13]]
    assert cube.chunk_of(np.arange(14)).tolist() == [0, 0, 0, 1, 1, 1, 2, 3, 3, 3, 4, 4, 4, 5]


def test_a_broken_cell_spares_those_of_its_chunk(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.touch()
    study = Batched(models=("up", "down", "aside"), broken=str(broken))
    counts = cd.run(study, tmp_path / "w.zarr")
    assert (counts.done, counts.failed) == (8, 1)
    assert "this cell is broken" in cube_of(tmp_path / "w.zarr").error.sel(length=20, model="down").item()
    broken.unlink()
    assert cd.run(study, tmp_path / "w.zarr").computed == 1
    assert not cube_of(tmp_path / "w.zarr").error.values.astype(bool).any()


@pytest.mark.parametrize("kind", [Walks, Batched])
@pytest.mark.parametrize("count", [1, 2, 5, 30])
def test_shards_fill_one_cube(kind: type[Walks], count: int, tmp_path: Path) -> None:
    study = kind(lengths=LENGTHS, models=("up", "down", "aside", "about"))
    laid = running.lay_out(study, tmp_path / "s.zarr")
    assert (laid.total, laid.todo) == (28, 28)
    found = [cd.run(study, tmp_path / "s.zarr", "threads:2", shard=(i, count)).computed for i in reversed(range(count))]
    assert sum(found) == 28
    assert max(found) - min(found) <= 28 / count + 3
    cd.run(study, tmp_path / "w.zarr")
    same(cube_of(tmp_path / "s.zarr"), cube_of(tmp_path / "w.zarr"))
    assert running.lay_out(study, tmp_path / "s.zarr").done == 28


def test_shards_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", NAME, "--store", str(tmp_path / "s.zarr")]
    assert main([*command, "--shard", "0/2"]) == 2
    assert "lay it out before its shards run" in capsys.readouterr().err
    assert main([*command, "--lay-out"]) == 0
    assert "laid out, 0 of 6 cells done" in capsys.readouterr().out
    for shard in ("0/2", "1/2"):
        assert main([*command, "--shard", shard]) == 0
        assert f"3 of 3 cells of shard {shard} done, 3 computed now" in capsys.readouterr().out
    for shard in ("2/2", "1", "a/b", "-1/2"):
        assert main([*command, f"--shard={shard}"]) == 2
        assert "--shard expects INDEX/COUNT" in capsys.readouterr().err
    assert main([*command, "--shard", "0/2", "--overwrite"]) == 2
    assert "A shard never overwrites" in capsys.readouterr().err
    assert (cube_of(tmp_path / "s.zarr").status == 1).all()


def test_a_run_that_is_to_stop_begins_no_more(tmp_path: Path) -> None:
    log = tmp_path / "log"
    study = Walks(lengths=LENGTHS, log=str(log), seconds=0.02)
    counts = cd.run(study, tmp_path / "w.zarr", "threads:2", stop=lambda: len(computed(log)) >= 3)
    assert 3 <= counts.computed == counts.done == len(computed(log)) < 14
    assert cd.run(study, tmp_path / "w.zarr").done == 14


def test_stores_that_fail_now_and_then_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("calibdask.engine.persistence.time.sleep", pauses.append)
    errors = [OSError(errno.EIO, "hiccup"), TimeoutError("slow"), ConnectionResetError("cut")]

    def call() -> int:
        if errors:
            raise errors.pop()
        return 7

    assert persistently(call) == 7
    assert pauses == sorted(pauses)
    assert len(pauses) == 3
    for final in (OSError(errno.ENOSPC, "full"), FileNotFoundError("gone"), PermissionError("no"), ValueError("bad")):
        pauses.clear()
        with pytest.raises(type(final)):
            persistently(lambda final=final: raise_it(final))
        assert not pauses
    with pytest.raises(Halted, match=r"does not answer .OSError: .* for ever"):
        persistently(lambda: raise_it(OSError(errno.EIO, "for ever")))
    assert 20 < sum(pauses) < 60


def raise_it(error: BaseException) -> None:
    raise error


def test_a_store_that_cannot_be_written_halts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = Walks()
    cd.run(study, tmp_path / "w.zarr", shard=None, stop=lambda: True)
    monkeypatch.setattr(Cube, "write", lambda *_: raise_it(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(Halted, match=r"w\.zarr cannot be written: .*No space left.*call run again"):
        cd.run(study, tmp_path / "w.zarr")
    monkeypatch.undo()
    assert cd.run(study, tmp_path / "w.zarr").done == 6


def test_a_second_term_is_another_wish_only_later(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[int] = []
    monkeypatch.setattr("calibdask.cli.stopping._SECONDS_OF_ONE_WISH", 0.2)
    kept = signal.signal(signal.SIGTERM, lambda number, frame: got.append(number))
    try:
        with stopped_by_term() as stop:
            assert not stop()
            for _ in range(2):
                signal.raise_signal(signal.SIGTERM)
            assert stop()
            assert not got
            time.sleep(0.25)
            with pytest.raises(SystemExit) as ended:
                signal.raise_signal(signal.SIGTERM)
            assert ended.value.code == 143
        assert not got
    finally:
        assert signal.signal(signal.SIGTERM, kept) is not kept


def test_what_is_to_be_ignored_stays_ignored() -> None:
    kept = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopped_by_term() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, kept)


def test_term_ends_what_does_not_ask_yet() -> None:
    closed: list[bool] = []

    def work() -> None:
        with stopped_by_term():
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                closed.append(True)

    with pytest.raises(SystemExit) as ended:
        work()
    assert (ended.value.code, closed) == (143, [True])

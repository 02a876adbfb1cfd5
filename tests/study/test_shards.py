"""Shards of a study, and cells that share a chunk."""

from pathlib import Path

import numpy as np
import pytest

import calibdask as cd
from calibdask.cli import main
from calibdask.study import running
from calibdask.study.cube import Cube
from tests.study.cubes import LENGTHS, NAME, cube_of, same_cubes
from tests.study.sample_study import Walks


def test_shards_tell_of_their_own_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken").touch()
    command = ["run", NAME, "--store", str(tmp_path / "s.zarr"), "--set", f"broken={tmp_path / 'broken'}"]
    assert main([*command, "--lay-out"]) == 0
    # The cell that fails is the fourth of six.
    assert [main([*command, "--shard", f"{i}/2"]) for i in range(2)] == [0, 3]
    assert main(["status", str(tmp_path / "s.zarr")]) == 3


class Batched(Walks):
    """Cheap cells, three to a task and to a chunk."""

    batch = 3


def test_cells_of_a_task_share_a_chunk(tmp_path: Path) -> None:
    whole = Walks(models=tuple("abcdefg"), lengths=(5, 6))
    cd.run(whole, tmp_path / "one.zarr")
    cd.run(Batched(**whole.parameters()), tmp_path / "three.zarr", "threads:2")
    same_cubes(cube_of(tmp_path / "one.zarr"), cube_of(tmp_path / "three.zarr"))
    files = {name: len(list((tmp_path / name).rglob("end/c/**/*"))) for name in ("one.zarr", "three.zarr")}
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


@pytest.mark.parametrize(("kind", "count"), [(Walks, 5), (Batched, 16)])
def test_shards_fill_one_cube(kind: type[Walks], count: int, tmp_path: Path) -> None:
    study = kind(lengths=LENGTHS, models=("up", "down", "aside", "about"))
    laid = running.lay_out(study, tmp_path / "s.zarr")
    assert (laid.total, laid.todo) == (28, 28)
    result = [
        cd.run(study, tmp_path / "s.zarr", "threads:2", shard=(i, count)).computed for i in reversed(range(count))
    ]
    assert sum(result) == 28
    assert max(result) - min(result) <= 28 / count + 3
    cd.run(study, tmp_path / "w.zarr")
    same_cubes(cube_of(tmp_path / "s.zarr"), cube_of(tmp_path / "w.zarr"))
    assert running.lay_out(study, tmp_path / "s.zarr").done == 28


def test_shards_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", NAME, "--store", str(tmp_path / "s.zarr")]
    assert main([*command, "--shard", "0/2"]) == 2
    assert "create it before running shards" in capsys.readouterr().err
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

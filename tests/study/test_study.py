"""What a study says of itself: its parameters, axes, seeds, layout and fingerprint, and where it is found."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from calibdask.cli import main
from calibdask.study.fingerprint import differences
from calibdask.study.loading import load_study
from calibdask.study.seeds import Seeds
from tests.study.cubes import cube_of
from tests.study.sample_study import Walks


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outputs": {"status": ()}}, "has an output 'status', which is the name"),
        ({"outputs": {"end": ("axis",)}}, "has an output 'end' with the axes axis, which inside"),
        ({"types": {"path": "text"}}, "data type"),
        ({"types": {"other": "int64"}}, "has a type for 'other', which is not one of its outputs"),
        ({"types": {"end": "complex128"}}, "has the type 'complex128' for 'end'"),
        ({"inside": lambda self: {"length": [1]}, "outputs": {"end": ("length",)}}, "has length both among"),
        ({"cells": lambda self: {}}, r"cells\(\) names no axes"),
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
    with pytest.raises(ValueError, match="size is a coordinate of the cell; use other names for further keys"):
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

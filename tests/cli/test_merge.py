"""``calibdask merge``: stored summaries of days as one of the week."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.storage.writers import write_dataset
from tests.cli.sample_rows import DAY, LABELS, SCORES, Run, open_result

NAMES = [f"day{day}.{'zarr' if number else 'nc'}" for number, day in enumerate(np.unique(DAY))]


@pytest.fixture(scope="module")
def stored_once(rows_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("days") / "data"
    shutil.copytree(rows_once, folder)
    for name, day in zip(NAMES, np.unique(DAY), strict=True):
        rows = day == DAY
        write_dataset(
            cd.summarize(LABELS[rows], SCORES[rows], by={"day": DAY[rows]}, settings=["confidence"]), folder / name
        )
    write_dataset(
        cd.summarize(LABELS, SCORES, by={"day": DAY}, settings=["confidence"], step=0.003), folder / "coarse.nc"
    )
    first, second = (open_result(folder / name) for name in NAMES[:2])
    (first + second).to_netcdf(folder / "lost.nc", engine="h5netcdf")
    return folder


@pytest.fixture
def data(stored_once: Path, tmp_path: Path) -> Path:
    return shutil.copytree(stored_once, tmp_path, dirs_exist_ok=True)


@pytest.fixture
def days(data: Path) -> list[Path]:
    return [data / name for name in NAMES]


@pytest.mark.parametrize("name", ["week.nc"])
def test_days_become_a_week(name: str, run: Run, data: Path, days: list[Path]) -> None:
    status, out, err = run("merge", *reversed(days), "--out", data / name)
    assert (status, err) == (0, "")
    assert out.startswith(f"wrote {data / name}: {len(LABELS)} rows, {len(days)} slices, 3 classes, ")
    expected = cd.summarize(LABELS, SCORES, by={"day": DAY}, settings=["confidence"])
    xr.testing.assert_identical(open_result(data / name), expected)


def test_other_names_of_a_summary(run: Run, data: Path, days: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)
    for number, path in enumerate(days[:2]):
        link = Path(f"link{number}{path.suffix}")
        link.symlink_to(path)
        for other in (f"./{path.name}", str(path), f"file://{path}", link):
            status, _, err = run("merge", path.name, other, "--out", "x.zarr")
            assert (status, "is given more than once, so its rows would count several times" in err) == (2, True)
    assert not Path("x.zarr").exists()


BAD = [
    (["merge", "--out", "x.zarr"], "Missing argument"),
    (["merge", "FIRST"], "Missing option '--out'"),
    (["merge", "FIRST", "FIRST", "--out", "x.zarr"], "is given more than once, so its rows would count several times"),
    (["merge", "FIRST", "rows.csv", "--out", "x.zarr"], "merge expects summaries that calibdask summarize wrote"),
    (["merge", "FIRST", "coarse.nc", "--out", "x.zarr"], "merge expects summaries with the same step"),
    (["merge", "FIRST", "--out", "FIRST", "--overwrite"], "would replace the input"),
    (["merge", "FIRST", "lost.nc", "--out", "x.zarr"], "keeps only the slices common to all summaries"),
    (["evaluate", "lost.nc"], "calibdask merge at the shell"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_bad_use(
    arguments: list[str], message: str, run: Run, data: Path, days: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    status, out, err = run(*(days[0].name if word == "FIRST" else word for word in arguments))
    assert (status, out) == (2, "")
    assert message in err
    assert not Path("x.zarr").exists()

"""``calibdask merge``: stored summaries of days as one of the week."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from tests.cli.sample_rows import DAY, LABELS, SCORES, Run, open_result


@pytest.fixture
def days(data: Path) -> list[Path]:
    paths = []
    for day in np.unique(DAY):
        rows = day == DAY
        path = data / f"day{day}.{'zarr' if paths else 'nc'}"
        summary = cd.summarize(LABELS[rows], SCORES[rows], by={"day": DAY[rows]}, settings=["confidence"])
        if path.suffix == ".nc":
            summary.to_netcdf(path, engine="h5netcdf")
        else:
            summary.to_zarr(path, consolidated=False)
        paths.append(path)
    return paths


@pytest.mark.parametrize("name", ["week.zarr", "week.nc"])
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
            assert (status, "is given more than once, and its rows would count as often" in err) == (2, True)
    assert not Path("x.zarr").exists()


BAD = [
    (["merge", "--out", "x.zarr"], "Missing argument"),
    (["merge", "FIRST"], "Missing option '--out'"),
    (["merge", "FIRST", "FIRST", "--out", "x.zarr"], "is given more than once, and its rows would count as often"),
    (["merge", "FIRST", "rows.csv", "--out", "x.zarr"], "merge expects summaries that calibdask summarize wrote"),
    (["merge", "FIRST", "coarse.nc", "--out", "x.zarr"], "merge expects summaries with the same step"),
    (["merge", "FIRST", "--out", "FIRST", "--overwrite"], "would replace the input"),
    (["merge", "FIRST", "lost.nc", "--out", "x.zarr"], "keeps only the slices that all summaries have"),
    (["evaluate", "lost.nc"], "calibdask merge at the shell"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_bad_use(
    arguments: list[str], message: str, run: Run, data: Path, days: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    coarse = cd.summarize(LABELS, SCORES, by={"day": DAY}, settings=["confidence"], step=0.003)
    coarse.to_netcdf("coarse.nc", engine="h5netcdf")
    with xr.open_dataset(days[0]) as first, xr.open_zarr(days[1], consolidated=False) as second:
        (first + second).load().to_netcdf("lost.nc", engine="h5netcdf")
    status, out, err = run(*(days[0].name if word == "FIRST" else word for word in arguments))
    assert (status, out) == (2, "")
    assert message in err
    assert not Path("x.zarr").exists()

"""``calibdask calibrate --compare``: which method helps, and what does not go with it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import calibdask as cd
from calibdask.cli import main


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    z = rng.normal(size=2000)
    label = (rng.random(2000) < expit(0.3 + 1.5 * z)).astype(int)
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"label": label, "score": expit(z)}).to_parquet(path)
    return path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--compare", "--out", "map.json"], "--compare does not write a map"),
        (["--compare", "--method", "beta"], "--compare does not write a map"),
        ([], "Missing option '--out', the map to write; --compare only compares methods."),
    ],
)
def test_what_does_not_go_together(
    rows: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", str(rows), *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not Path("map.json").exists()


@pytest.mark.parametrize("command", [["compare-maps"]])
def test_rows_of_a_cluster_stay_together(
    rows: Path, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_parquet(rows).assign(customer=[f"c{number // 5}" for number in range(2000)])
    path = tmp_path / "customers.parquet"
    frame.to_parquet(path)
    compared = cd.compare_calibrators(path, groups="customer")
    assert main([*command, str(path), "--groups", "customer"]) == 0
    table = capsys.readouterr().out.partition("\n\n")[0]
    lines = {line.split()[0]: line.split() for line in table.splitlines()}
    for name in compared.calibrator.values[1:].tolist():
        ends = [float(cell) for cell in lines[name][5:7]]
        expected = [float(compared[f"improvement{end}"].sel(calibrator=name)) for end in ("_low", "_high")]
        assert ends == pytest.approx(expected, abs=6e-4)

"""Every command reads every kind of file: generated from both lists, the same numbers as from a Parquet file."""

import io
import json
import os
import sys
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

from calibdask.storage import standard_input
from calibdask.storage.formats import COLUMN_FORMATS, column_format
from tests.cli.sample_rows import Run

pytestmark = pytest.mark.usefixtures("without_recalibration")

ROWS = 400
RNG = np.random.default_rng(23)
SCORES = RNG.random(ROWS)
COLUMNS = {
    "label": (RNG.random(ROWS) < SCORES).astype(int),
    "score": SCORES,
    "other": np.sqrt(SCORES),
    "g": RNG.integers(0, 3, ROWS),
    "w": RNG.integers(1, 4, ROWS).astype(float),
    "day": 20261120 + np.arange(ROWS) // 100,
}
FRAME = pd.DataFrame(COLUMNS)


def write_zarr(folder: Path) -> None:
    group = zarr.open_group(folder / "rows.zarr", mode="w")
    for name, values in COLUMNS.items():
        group.create_array(name, data=values, chunks=(90,))


def write_bare(folder: Path) -> None:
    for name, values in COLUMNS.items():
        np.save(folder / f"{name}.npy", values)


# What is written, and what the rows are called then; of standard input the file that is piped in.
CONTAINERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "parquet": ("rows.parquet", lambda folder: FRAME.to_parquet(folder / "rows.parquet", row_group_size=90)),
    "csv": ("rows.csv", lambda folder: FRAME.to_csv(folder / "rows.csv", index=False)),
    "csv.gz": ("rows.csv.gz", lambda folder: FRAME.to_csv(folder / "rows.csv.gz", index=False)),
    "jsonl": (
        "rows.jsonl",
        lambda folder: (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, FRAME.to_dict("records")))),
    ),
    "feather": ("rows.feather", lambda folder: FRAME.to_feather(folder / "rows.feather")),
    "npz": ("rows.npz", lambda folder: np.savez(folder / "rows.npz", **COLUMNS)),
    "npy": ("score.npy", write_bare),
    "npy alone": ("", write_bare),
    "zarr": ("rows.zarr", write_zarr),
    "nc": ("rows.nc", lambda folder: FRAME.rename_axis("sample").to_xarray().to_netcdf(folder / "rows.nc")),
    "folder": (
        "parts",
        lambda folder: (
            (folder / "parts").mkdir(),
            [
                FRAME[start : start + 90].to_parquet(folder / f"parts/{start:03d}.parquet")
                for start in range(0, ROWS, 90)
            ],
        ),
    ),
    "stdin": ("-", lambda folder: FRAME.to_csv(folder / "-", index=False)),
}
# ROWS stands for the data and what names labels and scores; {g} for the name of a column.
COMMANDS: dict[str, str] = {
    "evaluate": "evaluate ROWS --by {g} --weight {w} --json",
    "evaluate models": "evaluate DATA --score new={score} --score old={other} --label {label} --json",
    "evaluate periods": "evaluate ROWS --period {day} --json",
    "evaluate receipt": "evaluate ROWS --receipt OUT.json",
    "panel of tests": "evaluate ROWS --panel tests --json",
    "compare": "compare DATA --score new={score} --score old={other} --label {label} --n-boot 20 --json",
    "check": "check ROWS --limit ece=0.5 --by {g} --n-boot 20 --json",
    "check baseline": "check DATA --score new={score} --score old={other} --label {label} --baseline old "
    "--not-worse brier=0.5 --n-boot 20 --json",
    "report": "report ROWS --by {g} --features {w} --n-boot 20 --out OUT.html",
    "report periods": "report ROWS --period {day} --n-boot 20 --out OUT.html",
    "summarize": "summarize ROWS --by {g} --out OUT.zarr",
    "summarize features": "summarize ROWS --features {g},{w} --out OUT.zarr",
    "append": "summarize ROWS --period {day} --append OUT.zarr",
    "audit": "audit ROWS --features {g},{w} --json",
    "calibrate": "calibrate ROWS --method platt --out OUT.json",
    "calibrate by": "calibrate ROWS --method platt --by {g} --out OUT.json",
    "compare calibrators": "calibrate ROWS --compare",
    "threshold": "threshold ROWS --risk 0.3 --json",
}
# What differs between files of the same rows.
UNEQUAL = ("passes", "file", "source", "checksum", "command")
READ_AGAIN = {
    "evaluate": "evaluate OUT --metric ece --json",
    "watch": "watch OUT --json",
}


def test_every_format_is_there() -> None:
    assert {column_format(data) for data, _ in CONTAINERS.values() if data} >= {*COLUMN_FORMATS}


def words_of(command: str, container: str, folder: Path) -> list[Any]:
    """The words of a command for the rows of a container."""
    data = CONTAINERS[container][0]
    place = data if data in ("-", "score.npy", "") else str(folder / data)
    # Bare arrays are named by their files; slices of a summary have names without folders.
    named = {name: f"{name}.npy" if container.startswith("npy") else name for name in COLUMNS}
    text = command.format(**named)
    text = text.replace("ROWS", f"{place} --label {named['label']} --score {named['score']}").replace("DATA", place)
    return text.replace("OUT", str(folder / "out")).split()


def settled(text: str, folder: Path) -> Any:
    """What a command says without the names of files, times and seconds."""
    shown = text.replace(f"{folder}/", "").replace(".npy", "")
    try:
        document = json.loads(shown)
    except ValueError:
        return [line.split(": ")[0] for line in shown.splitlines()][:1]
    return without_names(document)


def without_names(document: Any) -> Any:
    """A document without what names the files."""
    if isinstance(document, dict):
        return {name: without_names(value) for name, value in document.items() if name not in UNEQUAL}
    return [without_names(value) for value in document] if isinstance(document, list) else document


def about(document: Any) -> Any:
    """A document with numbers about: sums of floats depend on where rows are cut."""
    if isinstance(document, dict):
        return {name: about(value) for name, value in document.items()}
    if isinstance(document, list):
        return [about(value) for value in document]
    return pytest.approx(document, rel=1e-6, abs=1e-9) if isinstance(document, float) else document


def called(run: Run, command: str, container: str, folder: Path) -> Any:
    """Status 0 or 1, and what is said; and what can be read again."""
    folder.mkdir()
    os.chdir(folder)
    CONTAINERS[container][1](folder)
    status, out, err = run(*words_of(command, container, folder))
    assert status in (0, 1), err
    said = [status, settled(out, folder)]
    stored = folder / "out.zarr"
    if stored.exists():
        reading = READ_AGAIN["watch" if "--append" in command else "evaluate"].replace("OUT", str(stored))
        status, out, err = run(*reading.split())
        assert status in (0, 1), err
        said.append(settled(out, folder))
    if (folder / "out.json").exists() and "--method" in command:
        document = json.loads((folder / "out.json").read_text().replace(f"{folder}/", "").replace(".npy", ""))
        said.append(without_names(document))
    return said


@pytest.fixture(autouse=True)
def piped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input gives the rows, whenever it is read first; commands may change the folder."""
    monkeypatch.chdir(tmp_path)
    text = io.BytesIO(FRAME.to_csv(index=False).encode())
    text.isatty = lambda: False  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(text))
    standard_input._spooled.cache_clear()


@pytest.fixture(scope="module")
def of_parquet() -> dict[str, Any]:
    return {}


# All commands read rows by the same code: each container is tested with some of them, each command with one.
OTHERS = [name for name in CONTAINERS if name != "parquet"]
PAIRS = [*((name, "evaluate") for name in OTHERS), *zip(cycle(OTHERS), [*COMMANDS][1:], strict=False)]


@pytest.mark.parametrize(("container", "command"), PAIRS)
def test_commands(container: str, command: str, run: Run, tmp_path: Path, of_parquet: dict[str, Any]) -> None:
    if command not in of_parquet:
        of_parquet[command] = about(called(run, COMMANDS[command], "parquet", tmp_path / "expected"))
    assert called(run, COMMANDS[command], container, tmp_path / "given") == of_parquet[command]


# Of the others in tests/cli/test_apply.py.
@pytest.mark.parametrize("container", ["jsonl", "npy", "stdin"])
def test_apply(container: str, run: Run, tmp_path: Path) -> None:
    os.chdir(tmp_path)
    CONTAINERS[container][1](tmp_path)
    fit = words_of("calibrate ROWS --method platt --out OUT.json", container, tmp_path)
    status, _, err = run(*fit)
    assert status == 0, err
    data, *naming = words_of("ROWS", container, tmp_path)
    status, _, err = run("apply", tmp_path / "out.json", data, *naming, "--out", tmp_path / "out.zarr")
    assert status == 0, err
    from_store = xr.open_zarr(tmp_path / "out.zarr", consolidated=False)
    status, out, err = run("evaluate", *words_of("ROWS", container, tmp_path), "--map", tmp_path / "out.json", "--json")
    assert status == 0, err
    expected = json.loads(out)["mean_score"]
    assert float(from_store["scores"].mean()) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(from_store["labels"].values, COLUMNS["label"])

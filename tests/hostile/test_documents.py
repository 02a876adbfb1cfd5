"""Documents that users name in options: pipes, devices, endless, deep and ambiguous ones are refused in a sentence."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pytest
import zarr

from calibdask.cli import main
from tests.hostile.sizes import LABELS, ROWS, SCORES

DEEP = 10**5
# Commands by the suffix of the document that they read; the document comes last.
COMMANDS = {
    "limits": (".toml", ["check", "{}/d.parquet", "--limits"]),
    "facts": (".toml", ["report", "{}/d.parquet", "--out", "{}/o.html", "--facts"]),
    "receipt": (".json", ["verify", "{}/d.parquet"]),
    "map": (".json", ["apply", "{}/d.parquet", "--out", "{}/o.parquet"]),
    "map in a pass": (".json", ["evaluate", "{}/d.parquet", "--map"]),
    "state": (".json", ["watch", "{}/s.zarr", "--state"]),
    "scheduler file": (".json", ["evaluate", "{}/d.parquet", "--cluster"]),
}


def written(content: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(content) and None


def sparse(path: Path) -> None:
    """A terabyte of zeros that takes no room."""
    path.touch()
    os.truncate(path, 1 << 40)


HOSTILE: dict[str, dict[str, Callable[[Path], None]]] = {
    "pipe": dict.fromkeys((".toml", ".json"), lambda path: os.mkfifo(path)),
    "device": dict.fromkeys((".toml", ".json"), lambda path: path.symlink_to("/dev/zero")),
    "deep": {".toml": written(f"a = {'[' * DEEP}"), ".json": written("[" * DEEP)},
    "deep names": {".toml": written(f"{'a.' * DEEP}b = 1"), ".json": written('{"a":' * DEEP)},
    "twice": {".toml": written("[limits]\nece = 0.1\nece = 0.9"), ".json": written('{"kind": 1, "kind": 2}')},
    "endless": dict.fromkeys((".toml", ".json"), sparse),
    "no text": dict.fromkeys((".toml", ".json"), lambda path: path.write_bytes(b"\xff\xfe\xfa") and None),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("documents")
    pd.DataFrame({"label": LABELS, "score": SCORES}).to_parquet(path / "d.parquet")
    assert (
        main(["summarize", str(path / "d.parquet"), "--append", str(path / "s.zarr"), "--period", "day=2026-11-01"])
        == 0
    )
    return path


def refusal(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    capfd.readouterr()
    status = main(arguments)
    out, err = capfd.readouterr()
    assert (status, out) == (2, ""), err
    assert len(err.splitlines()) == 1, err
    assert "This should not have happened" not in err
    return err


# One function reads the documents of each suffix: one command has all kinds, the others have two.
READ = [(reader, kind) for reader in ("limits", "receipt") for kind in HOSTILE]
READ += [(reader, kind) for reader in {*COMMANDS} - {"limits", "receipt"} for kind in ("endless", "deep")]


@pytest.mark.parametrize(("reader", "kind"), sorted(READ))
def test_documents_are_refused(
    reader: str, kind: str, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    suffix, words = COMMANDS[reader]
    document = tmp_path / f"x{suffix}"
    HOSTILE[kind][suffix](document)
    command, *rest = (word.format(folder) for word in words)
    first_argument = reader in ("receipt", "map")
    refusal([command, str(document), *rest] if first_argument else [command, *rest, str(document)], capfd)
    assert not [path for path in folder.iterdir() if path.name.startswith("o.")]


@pytest.mark.parametrize("name", ["zarr.json", "scores/zarr.json", "scores/c/0"])
def test_pipes_in_stores_are_refused(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    for array, values in (("labels", LABELS), ("scores", SCORES)):
        group.create_array(array, data=values)
    member = tmp_path / "a.zarr" / name
    member.unlink()
    os.mkfifo(member)
    assert "is a pipe" in refusal(["evaluate", str(tmp_path / "a.zarr")], capfd)


@pytest.mark.parametrize(
    "pattern", ["log/00000000.jsonl", "log/00000001.jsonl", "periods/*.zarr/zarr.json", "zarr.json"]
)
def test_pipes_in_stores_of_periods_are_refused(
    pattern: str, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "s.zarr"
    shutil.copytree(folder / "s.zarr", store)
    member = next(store.glob(pattern), store / pattern)
    member.unlink(missing_ok=True)
    os.mkfifo(member)
    assert "is a pipe" in refusal(["evaluate", str(store), "--by", "day"], capfd)


def test_pipes_in_summaries_and_progress_are_refused(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data, summary, out = str(folder / "d.parquet"), tmp_path / "s.zarr", tmp_path / "o.csv"
    assert main(["summarize", data, "--out", str(summary)]) == 0
    (summary / "rows" / "zarr.json").unlink()
    os.mkfifo(summary / "rows" / "zarr.json")
    assert "is a pipe" in refusal(["evaluate", str(summary)], capfd)
    assert main(["calibrate", data, "--method", "platt", "--out", str(tmp_path / "m.json")]) == 0
    unfinished = tmp_path / ".o.csv.unfinished"
    unfinished.mkdir()
    os.mkfifo(unfinished / "progress.json")
    assert "is a pipe" in refusal(["apply", str(tmp_path / "m.json"), data, "--out", str(out)], capfd)


def arrow_file(path: Path) -> bytes:
    table = pa.table({"label": LABELS, "score": SCORES, "s": ["aaaa", "bbbb"] * (ROWS // 2)})
    with pa.OSFile(str(path), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return path.read_bytes()


def moved(content: bytes, first: int, by: int) -> bytes:
    """The offsets of texts from ``first`` on, moved."""
    offsets = np.arange(0, 4 * (ROWS + 1), 4, dtype=np.int32)
    at = content.index(offsets.tobytes())
    offsets[first:] += by
    return content[:at] + offsets.tobytes() + content[at + offsets.nbytes :]


@pytest.mark.parametrize(
    ("forge", "command"),
    [
        (lambda content: moved(content, 6, 2_000_000), ["evaluate", "--by", "s"]),
        (lambda content: moved(content, 0, 1_500_000_000), ["audit", "--features", "s"]),
        (lambda content: moved(content, 3, -16), ["check", "--limit", "ece=0.5", "--by", "s"]),
        (lambda content: content.replace(ROWS.to_bytes(8, "little"), (1 << 33).to_bytes(8, "little")), ["evaluate"]),
    ],
    ids=["a text beyond its buffer", "texts elsewhere", "texts before their buffer", "lengths"],
)
def test_arrow_files_whose_lengths_lie_are_refused(
    forge: Callable[[bytes], bytes], command: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.arrow"
    path.write_bytes(forge(arrow_file(path)))
    assert "cannot be read as Arrow" in refusal([command[0], str(path), *command[1:]], capfd)

"""Damage that leaves every single file readable: members that change places, are lost, doubled, foreign or old."""

import sys
import tempfile
import warnings
from pathlib import Path

import pytest

from calibdask.calibrators import applying
from tests.storage.integrity import WRITERS, cases, silent_differences

# A longer run: python -m tests.storage.test_integrity 2000 [KIND ...]
TIMES = 20


@pytest.mark.filterwarnings("ignore:Object at")  # of a folder that has lost what says that it is an array
@pytest.mark.parametrize("name", WRITERS)
def test_no_damage_is_silent(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Several chunks of few rows.
    monkeypatch.setattr(applying, "TARGET_BYTES", 1000)
    assert not silent_differences(cases(name, tmp_path), TIMES, seed=0)


@pytest.mark.parametrize("name", ["unfinished.zarr", "unfinished.parquet", "unfinished.csv"])
def test_files_of_an_unfinished_output_are_checked(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "TARGET_BYTES", 1000)
    write, read = WRITERS[name]
    write(str(tmp_path / name), 1)
    assert read(str(tmp_path / name))
    chunk = next(path for path in sorted((tmp_path / name).rglob("*")) if path.is_file() and "json" not in path.name)
    for content, message in ((chunk.read_bytes() + b"\n", "is not what was written"), (None, "is missing")):
        chunk.unlink() if content is None else chunk.write_bytes(content)
        with pytest.raises(ValueError, match=f"{chunk.name}.* {message}.*--overwrite"):
            read(str(tmp_path / name))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    applying.TARGET_BYTES = 1000
    for kind in sys.argv[2:] or WRITERS:
        with tempfile.TemporaryDirectory() as folder:
            silent = silent_differences(cases(kind, Path(folder)), int(sys.argv[1]), seed=1)
        sys.stdout.write("\n  ".join([f"{kind}: {sys.argv[1]} cases, {len(silent)} silent", *silent]) + "\n")
        sys.stdout.flush()

"""Damage that leaves every single file readable: members that change places, are lost, doubled, foreign or old."""

import sys
import tempfile
import warnings
from pathlib import Path

import pytest

from calibdask.calibrators import applying
from tests.storage.integrity import WRITERS, cases, silent_differences

# A longer run: python -m tests.storage.test_integrity 2000 [KIND ...]
TIMES = 25


@pytest.mark.filterwarnings("ignore:Object at")  # of a folder that has lost what says that it is an array
@pytest.mark.parametrize("name", WRITERS)
def test_no_damage_is_silent(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Several chunks of few rows.
    monkeypatch.setattr(applying, "TARGET_BYTES", 1000)
    assert not silent_differences(cases(name, tmp_path), TIMES, seed=0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    applying.TARGET_BYTES = 1000
    for kind in sys.argv[2:] or WRITERS:
        with tempfile.TemporaryDirectory() as folder:
            silent = silent_differences(cases(kind, Path(folder)), int(sys.argv[1]), seed=1)
        sys.stdout.write("\n  ".join([f"{kind}: {sys.argv[1]} cases, {len(silent)} silent", *silent]) + "\n")
        sys.stdout.flush()

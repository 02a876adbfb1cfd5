"""Files of rows."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.sample_rows import COUNTRY, DAY, LABELS, SCORES, WEIGHTS


@pytest.fixture(scope="session")
def rows_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written once; tests get copies, which they may write beside or change."""
    folder = tmp_path_factory.mktemp("rows")
    columns = {"label": LABELS, "country": COUNTRY, "day": DAY, "w": WEIGHTS}
    pd.DataFrame({**columns, **{f"score_{k}": SCORES[:, k] for k in range(3)}}).to_csv(folder / "rows.csv", index=False)
    np.savez(folder / "binary.npz", labels=LABELS > 0, scores=1 - SCORES[:, 0])
    return folder


@pytest.fixture
def data(rows_once: Path, tmp_path: Path) -> Path:
    return shutil.copytree(rows_once, tmp_path, dirs_exist_ok=True)

"""Files of rows."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.sample_rows import COUNTRY, DAY, LABELS, SCORES, WEIGHTS


@pytest.fixture
def data(tmp_path: Path) -> Path:
    columns = {"label": LABELS, "country": COUNTRY, "day": DAY, "w": WEIGHTS}
    pd.DataFrame({**columns, **{f"score_{k}": SCORES[:, k] for k in range(3)}}).to_csv(
        tmp_path / "rows.csv", index=False
    )
    np.savez(tmp_path / "binary.npz", labels=LABELS > 0, scores=1 - SCORES[:, 0])
    return tmp_path

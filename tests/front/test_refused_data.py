"""Data that are refused by name, with the code or the option that mends them, and before all rows are read."""

from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import calibdask as cd
from calibdask.data import periods
from calibdask.storage import column_blocks, sizes
from tests.cli.sample_rows import Run
from tests.front.test_ways_in_options import FUNCTIONS, settled

N = 3000
RNG = np.random.default_rng(11)
SCORES = RNG.random(N)
FRAME = pd.DataFrame(
    {
        "label": (RNG.random(N) < SCORES).astype(int),
        "score": SCORES,
        "at": pd.date_range("2026-11-01", periods=N, freq="min"),
    }
)
WRITERS: dict[str, Any] = {
    "csv": lambda path: FRAME.to_csv(path, index=False),
    "jsonl": lambda path: FRAME.to_json(path, orient="records", lines=True, date_format="iso"),
    "parquet": lambda path: FRAME.to_parquet(path, index=False, row_group_size=150),
    "feather": lambda path: FRAME.to_feather(path, chunksize=150),
}
OF_PERIODS = {
    "evaluate": "evaluate DATA --period at",
    "summarize": "summarize DATA --period at --append OUT.zarr",
    "report": "report DATA --period at --out OUT.html",
}


@pytest.mark.parametrize(("kind", "command"), [*zip(WRITERS, cycle(OF_PERIODS), strict=False)])
def test_timestamps_are_no_periods(kind: str, command: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{kind}"
    WRITERS[kind](path)
    words = OF_PERIODS[command].replace("DATA", str(path)).replace("OUT", str(tmp_path / "out")).split()
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert "--period at is a column of timestamps with" in err
    assert "cut it into periods by --every day" in err
    if kind == "csv":
        assert run(*words, "--every", "month")[0] == 0


def test_they_are_refused_before_all_rows_are_read(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    load = column_blocks.load_section
    monkeypatch.setattr(column_blocks, "load_section", lambda *given: read.extend(given[2].places) or load(*given))
    monkeypatch.setattr("calibdask.storage.column_files.TARGET_BYTES", 0)
    monkeypatch.setattr(sizes, "TARGET_BYTES", 150 * 24)
    monkeypatch.setattr(periods, "LOOKED_AT", 500)
    WRITERS["parquet"](tmp_path / "rows.parquet")
    status, _, err = run("evaluate", tmp_path / "rows.parquet", "--period", "at")
    assert status == 2
    assert "timestamps with 500 different values among its first 500; cut it" in err
    assert 0 < len(set(read)) <= 4


MATRICES = cycle([sparse.csr_matrix, sparse.coo_array])


@pytest.mark.parametrize(
    ("function", "made"), [*zip(sorted({*FUNCTIONS} - {"compare", "audit", "fit"}), MATRICES, strict=False)]
)
def test_sparse_matrices(made: Any, function: str) -> None:
    matrix = made(np.eye(2)[FRAME.label.to_numpy()])
    with pytest.raises(ValueError, match=r"y_prob is a sparse matrix, c.._\w+; pass y_prob\.toarray\(\)\."):
        FUNCTIONS[function][1](y_true=FRAME.label.to_numpy(), y_prob=matrix)
    with pytest.raises(ValueError, match=r"y_true is a sparse matrix"):
        cd.evaluate(matrix, SCORES, metrics="ece")


def test_sparse_matrices_are_not_fitted_to() -> None:
    with pytest.raises(TypeError, match=r"Use '\.toarray\(\)'"):
        cd.PlattScaling().fit(FRAME.label.to_numpy(), sparse.csr_matrix(SCORES[:, None]))


class DenseVector:
    """A vector of Spark ML, as its data frames hold them after toPandas."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def toArray(self) -> np.ndarray:
        return self.values


@pytest.mark.parametrize("function", ["ece", "fingerprint"])
def test_vectors_of_spark(function: str) -> None:
    matrix = np.stack([1 - SCORES, SCORES], axis=1)
    frame = pd.DataFrame({"label": FRAME.label, "probability": [DenseVector(row) for row in matrix]})
    named = cd.evaluate(frame, label="label", score="probability", metrics="ece")
    assert named.ece.item() == cd.ece(FRAME.label.to_numpy(), matrix)
    numbers_of = FUNCTIONS[function][1]
    given, expected = [numbers_of(y_true=FRAME.label, y_prob=one) for one in (frame.probability, matrix)]
    assert settled(given) == settled(expected)


KEYS: dict[str, pd.Series] = {
    "numbers": pd.Series(np.arange(N)),
    "texts": pd.Series(np.arange(N)).astype(str),
    "times": FRAME["at"],
}


@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        ("compare A B", ("numbers", "texts")),
        ("evaluate A B", ("texts", "numbers")),
        ("check A --baseline B --not-worse brier=0.9", ("numbers", "times")),
        ("compare A B", ("times", "texts")),
    ],
)
def test_keys_of_several_types(kinds: tuple[str, str], command: str, run: Run, tmp_path: Path) -> None:
    paths = {}
    for name, kind in zip("AB", kinds, strict=True):
        paths[name] = str(tmp_path / f"{name}.parquet")
        FRAME[["label", "score"]].assign(id=KEYS[kind]).to_parquet(paths[name])
    words = [paths.get(word, word) for word in command.split()]
    status, out, err = run(*words, "--key", "id")
    assert (status, out) == (2, "")
    assert "--key id expects values of one type in all files, got" in err
    assert "write the column as text in all of them" in err

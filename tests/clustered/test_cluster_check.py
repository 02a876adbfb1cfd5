"""The check for clusters that nobody named: its warning, its false alarms, and where it is off."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner

import calibdask as cd
from calibdask.cli import cli
from calibdask.cluster_check import Dependence, dependence, sentence
from calibdask.data.clusters import identifier_numbers
from calibdask.errors import ClusteredRowsWarning
from calibdask.statistics.block import Block
from calibdask.statistics.identifier_sums import MOST_VALUES, UNIT, IdentifierSums, IdentifierSumsState
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from tests.clustered.clustered_data import ClusteredRows, clustered_rows

pytestmark = pytest.mark.usefixtures("without_recalibration")

ROWS = clustered_rows(clusters=70, size=20)


def frame_of(rows: ClusteredRows, name: str = "patient_id") -> pd.DataFrame:
    return pd.DataFrame({"label": rows.y, "score": rows.p, name: rows.g})


FRAME = frame_of(ROWS)


def state_of(residual: Any, values: Any) -> IdentifierSumsState:
    """The state, from the definition."""
    distinct, codes = np.unique(values, return_inverse=True)
    powers = [np.bincount(codes, np.rint(residual**k / UNIT)) for k in range(1, 5)]
    rows = np.bincount(codes)
    return IdentifierSumsState(np.zeros(1, int), distinct, rows, np.array(powers).astype(np.int64))


@pytest.mark.parametrize(
    "data",
    [FRAME, pl.from_pandas(FRAME), dd.from_pandas(FRAME, npartitions=3), FRAME.astype({"patient_id": str})],
    ids=["pandas", "polars", "dask", "texts"],
)
def test_dependent_rows_of_an_identifier_are_found(data: Any) -> None:
    with pytest.warns(ClusteredRowsWarning, match=r"same patient_id are dependent.*groups='patient_id'"):
        result = cd.evaluate(data, metrics=cd.BrierScore())
    assert f": {len(FRAME):,} rows have 70 values" in result.attrs["cluster_caution"]
    assert "worth about" in result.attrs["cluster_caution"]
    assert "intervals would be too narrow" in result.attrs["cluster_caution"]
    with pytest.warns(ClusteredRowsWarning, match="intervals are too narrow"):
        cd.check(data, limits={"ece": 0.2}, n_boot=50)


def test_counts_of_a_sample_are_no_more_than_there_are_rows() -> None:
    sampled = Dependence(1_391_590.0, 25_472.0, 0.0043, 1.11, 1e-9, is_sample=True)
    words = sentence("user_id", sampled, intervals=True)
    assert "about 1,390,000 rows have about 25,400 values" in words
    assert "worth about 1,250,000 independent ones" in words


def test_nothing_is_said_where_groups_are_given_or_rows_are_independent() -> None:
    cd.evaluate(FRAME, metrics=cd.BrierScore(), groups="patient_id")
    cd.evaluate(FRAME, metrics=cd.BrierScore(), by="patient_id")
    cd.evaluate(FRAME.rename(columns={"patient_id": "age"}), metrics=cd.BrierScore())
    independent = FRAME.assign(patient_id=np.random.default_rng(0).permutation(ROWS.g))
    assert "cluster_caution" not in cd.evaluate(independent, metrics=cd.BrierScore()).attrs
    unique = FRAME.assign(patient_id=np.arange(len(FRAME)))
    assert "cluster_caution" not in cd.evaluate(unique, metrics=cd.BrierScore()).attrs


def test_missing_identifiers_belong_to_no_cluster() -> None:
    some = FRAME.assign(patient_id=FRAME.patient_id.astype("Int64").mask(FRAME.index % 2 == 0))
    with pytest.warns(ClusteredRowsWarning, match=f"{len(FRAME) // 2:,} rows"):
        cd.evaluate(some, metrics=cd.BrierScore())
    assert identifier_numbers(np.array(["a", None, "a"], object)).tolist()[1] == -1


def test_the_test_statistic_is_the_sum_over_pairs() -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 30, 300)
    residual = rng.uniform(-1, 1, 300)
    found = dependence(state_of(residual, values))
    assert found is not None
    centred = residual - residual.mean()
    same = (values[:, None] == values) & ~np.eye(300, dtype=bool)
    products = np.outer(centred, centred)
    assert found.correlation == pytest.approx(products[same].mean() / (centred**2).mean(), rel=1e-6)
    sizes = np.bincount(values)
    effect = 1 + ((sizes**2).sum() / 300 - 1) * found.correlation
    assert found.design_effect == pytest.approx(effect)


@pytest.mark.parametrize("size", [2, 5, 50])
@pytest.mark.parametrize("rate", [0.5, 0.02])
def test_independent_rows_seldom_raise_a_false_alarm(size: int, rate: float) -> None:
    rng = np.random.default_rng(size)
    alarms = 0
    for _ in range(200):
        clusters = int(rng.integers(10, 60))
        values = np.repeat(np.arange(clusters), rng.integers(1, 2 * size, clusters) + 1)
        scores = rng.beta(1, 1 / rate - 1, values.size)
        found = dependence(state_of((rng.random(values.size) < scores) - scores, values))
        alarms += found is not None and found.pvalue < 0.001
    assert alarms <= 2


def test_states_of_blocks_add_up_to_the_state_of_all_rows() -> None:
    rng = np.random.default_rng(2)
    n = 60_000
    labels, scores = rng.integers(0, 2, (1, n)), rng.random((1, n, 1))
    values = identifier_numbers(rng.integers(0, 30_000, n))
    statistic = IdentifierSums(Setting("class", 1), 0)

    def state(start: int, stop: int) -> IdentifierSumsState:
        at = slice(start, stop)
        return statistic.from_block(Block(Layout(), scores[:, at], labels[:, at], features=(values[at],)))

    whole = state(0, n)
    cuts = [0, 20_001, 45_000, 45_000, n]
    first, second, empty, last = (state(*pair) for pair in pairwise(cuts))
    merged = statistic.merge(statistic.merge(last, empty), statistic.merge(first, second))
    for own, expected in zip(merged, whole, strict=True):
        np.testing.assert_array_equal(own, expected)
    assert int(whole.level[0]) > 0
    assert MOST_VALUES / 3 < whole.value.size <= MOST_VALUES


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "rows.parquet"
    FRAME.to_parquet(path, index=False)
    return str(path)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_files_are_checked(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows.{suffix}"
    getattr(FRAME, f"to_{suffix}")(path, index=False)
    with pytest.warns(ClusteredRowsWarning, match="patient_id"):
        cd.evaluate(path, metrics=cd.BrierScore())


@pytest.mark.filterwarnings("always:Rows with the same")
@pytest.mark.parametrize("command", ["evaluate", "check", "report"])
def test_commands_warn_once_and_can_be_told_not_to(command: str, file: str, tmp_path: Path) -> None:
    options = {"evaluate": [], "check": ["--limit", "ece=0.5"], "report": ["--out", str(tmp_path / "page.html")]}
    own = {name: [*words, *(["--n-boot", "20"] if words else [])] for name, words in options.items()}
    done = CliRunner().invoke(cli, [command, file, *own[command]])
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("Rows with the same patient_id are dependent") == 1
    assert "Give --groups patient_id for clustered intervals" in done.stderr
    quiet = CliRunner().invoke(cli, [command, file, *own[command], "--no-cluster-check", *_overwrite(command)])
    assert quiet.exit_code == 0
    assert "dependent" not in quiet.stderr
    if command == "evaluate":
        grouped = CliRunner().invoke(cli, [command, file, "--groups", "patient_id"])
        assert "dependent" not in grouped.stderr


def _overwrite(command: str) -> list[str]:
    return ["--overwrite"] if command == "report" else []


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, "\ud800"])
def test_columns_that_identify_nothing_are_no_error(value: Any) -> None:
    rng = np.random.default_rng(3)
    score = rng.random(40)
    frame = pd.DataFrame({"y": rng.random(40) < score, "p": score, "patient_id": pd.Series([value] * 40, dtype=object)})
    found = cd.evaluate(frame, metrics="brier-score", label="y", score="p")
    assert float(found.brier_score) == pytest.approx(float(np.mean((frame.y - score) ** 2)))

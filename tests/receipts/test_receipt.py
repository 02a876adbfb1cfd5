"""Receipts: what a second party gets, and what is said where something differs."""

import copy
import json
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.analyses.receipts.document import hash_of
from calibdask.cli import main


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    scores = rng.random(3000)
    labels = (rng.random(3000) < scores).astype(int)
    return pd.DataFrame({"label": labels, "score": scores, "c": rng.choice(["a", "b"], 3000)})


def _receipt(rows: pd.DataFrame, **options: Any) -> dict[str, Any]:
    return cd.receipt(rows.label.to_numpy(), rows.score.to_numpy(), "ece,brier-score,corp", by={"c": rows.c}, **options)


@pytest.fixture(scope="module")
def receipt(rows: pd.DataFrame) -> dict[str, Any]:
    return _receipt(rows, limits="ece=0.05")


def test_a_second_party_gets_the_same_hash(rows: pd.DataFrame, receipt: dict[str, Any]) -> None:
    shuffled = rows.sample(frac=1, random_state=3)
    assert _receipt(shuffled, limits="ece=0.05")["hash"] == receipt["hash"]
    lazy = {name: da.from_array(shuffled[name].to_numpy(), chunks=700) for name in ("label", "score")}
    codes = {"c": shuffled.c.to_numpy()}
    outcome = cd.verify(json.loads(json.dumps(receipt)), lazy["label"], lazy["score"], by=codes)
    assert outcome.agrees
    assert outcome.again["hash"] == receipt["hash"]


def test_it_says_what_was_measured_with_all_digits(rows: pd.DataFrame, receipt: dict[str, Any]) -> None:
    result = cd.evaluate(rows, metrics=cd.ECE(), by="c", ci=0.95)
    for place, label in (("c=a", "a"), ("c=b", "b")):
        assert receipt["numbers"]["ece"][place] == result.ece.sel(c=label).item()
        assert receipt["numbers"]["ece_high"][place] == result.ece_high.sel(c=label).item()
    # Its ends come from rows resampled by their numbers.
    assert "brier-score" in receipt["numbers"]
    assert "brier-score_low" not in receipt["numbers"]
    assert [entry["where"] for entry in receipt["decisions"]] == [{}, {"c": "a"}, {"c": "b"}]
    assert receipt["decisions"][0]["number"] == cd.evaluate(rows, metrics=cd.ECE()).ece.item()
    assert receipt["hash"] == hash_of(receipt)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("score", 0.123, "The scores differ from those of the receipt; labels, weights and slices are the same."),
        ("label", None, "The labels differ"),
        ("c", None, "The slices differ"),
    ],
)
def test_what_differs_is_named(column: str, value: Any, said: str, rows: pd.DataFrame, receipt: dict[str, Any]) -> None:
    changed = rows.copy()
    other = {"label": 1 - rows.label.iloc[7], "c": "a" if rows.c.iloc[7] == "b" else "b", "score": value}
    changed.loc[changed.index[7], column] = other[column]
    outcome = cd.verify(receipt, changed.label, changed.score, by={"c": changed.c})
    assert outcome.problems[0].startswith(said)
    assert any(problem.startswith("ece.c=") for problem in outcome.problems)
    # The labels that the slices have do not matter to all rows.
    assert any(problem.startswith("ece of all rows was ") for problem in outcome.problems) == (column != "c")


def test_rows_that_are_missing_and_rows_that_belong_elsewhere(rows: pd.DataFrame, receipt: dict[str, Any]) -> None:
    fewer = rows.iloc[1:]
    assert cd.verify(receipt, fewer.label, fewer.score, by={"c": fewer.c}).problems[0] == (
        "The receipt is of 3,000 rows, and these are 2,999."
    )
    labels = rows.label.to_numpy().copy()
    one, zero = np.flatnonzero(labels)[0], np.flatnonzero(labels == 0)[0]
    labels[[one, zero]] = labels[[zero, one]]
    (first, *_) = cd.verify(receipt, labels, rows.score, by={"c": rows.c}).problems
    assert "combined differently into rows" in first


def test_receipts_that_were_changed(rows: pd.DataFrame, receipt: dict[str, Any]) -> None:
    changed = copy.deepcopy(receipt)
    changed["numbers"]["ece"]["c=a"] = 0.001
    problems = cd.verify(changed, rows.label, rows.score, by={"c": rows.c}).problems
    assert problems[0].startswith("The receipt was changed after it was made")
    assert problems[1].startswith("ece.c=a was 0.001")


def test_decisions_that_differ_are_named(rows: pd.DataFrame) -> None:
    receipt = cd.receipt(rows.label, rows.score, "ece", limits="ece=0.1", by={"c": rows.c})
    problems = cd.verify(receipt, rows.label, rows.score**2, by={"c": rows.c}).problems
    assert "The decision on ece of all rows was met in the receipt, and is broken here." in problems
    assert len([problem for problem in problems if problem.startswith("ece.c=a was ")]) == 1
    plain = cd.receipt(rows.label, rows.score, "ece", limits="ece=0.1")
    problems = cd.verify(plain, rows.label, rows.score**2).problems
    assert [problem.split(" was ")[0] for problem in problems[1:]] == [
        "ece",
        "ece_high",
        "ece_low",
        "The decision on ece",
    ]
    with pytest.raises(ValueError, match="damaged: its entry 'decisions'"):
        cd.verify({**plain, "decisions": [1]}, rows.label, rows.score)


def test_weights_agree_within_rounding(rows: pd.DataFrame) -> None:
    weights = np.random.default_rng(0).random(len(rows))
    receipt = cd.receipt(rows.label, rows.score, "ece", sample_weight=weights)
    order = np.random.default_rng(1).permutation(len(rows))
    shuffled = rows.iloc[order]
    assert cd.verify(receipt, shuffled.label, shuffled.score, sample_weight=weights[order]).agrees
    with pytest.raises(ValueError, match="give sample_weight"):
        cd.verify(receipt, rows.label, rows.score)


def test_what_is_no_receipt(rows: pd.DataFrame, receipt: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "receipt.json"
    for text, said in [("{", "not JSON"), ("[]", "not a receipt"), ('{"kind": "other"}', "not a receipt")]:
        path.write_text(text)
        with pytest.raises(ValueError, match=said):
            cd.verify(path, rows.label, rows.score)
    with pytest.raises(ValueError, match="damaged"):
        cd.verify({**receipt, "numbers": 3}, rows.label, rows.score)
    with pytest.raises(ValueError, match="format"):
        cd.verify({**receipt, "format": 99}, rows.label, rows.score)
    with pytest.raises(ValueError, match="slices"):
        cd.verify(receipt, rows.label, rows.score)
    with pytest.raises(TypeError, match="got a summary"):
        cd.receipt(cd.summarize(rows.label, rows.score))


def _resealed(receipt: dict[str, Any], **changes: Any) -> dict[str, Any]:
    changed = {**receipt, **changes}
    return {**changed, "hash": hash_of(changed)}


def test_entries_that_no_receipt_has_are_refused(rows: pd.DataFrame, receipt: dict[str, Any]) -> None:
    """Nobody would compare them, and whoever reads the file may take them for something."""
    decision = receipt["decisions"][0]
    for changes in (
        {"outcome": "met"},
        {"data": {**receipt["data"], "of": "another"}},
        {"request": {**receipt["request"], "owner": "me"}},
        {"request": {**receipt["request"], "reading": {**receipt["request"]["reading"], "score": "p"}}},
        {"made": {**receipt["made"], "outcome": "met"}},
        {"decisions": [{**decision, "comment": "accepted"}]},
        {"request": {**receipt["request"], "metrics": [1]}},
        {"request": {**receipt["request"], "n_boot": True}},
        {"decisions": [{**decision, "decision": "accepted"}]},
        {"numbers": {"ece": [0.1]}},
    ):
        with pytest.raises(ValueError, match="The receipt is damaged"):
            cd.verify(_resealed(receipt, **changes), rows.label, rows.score, by={"c": rows.c})


def test_all_of_a_receipt_is_compared(rows: pd.DataFrame, receipt: dict[str, Any]) -> None:
    """Decisions that are there twice, in another order or missing; a request that is written otherwise."""
    first, *others = receipt["decisions"]
    forged = {**first, "decision": "met", "number": 0.01}
    for decisions in ([forged, first, *others], [*others, first], others, []):
        problems = cd.verify(_resealed(receipt, decisions=decisions), rows.label, rows.score, by={"c": rows.c}).problems
        assert "The decisions are not those on the limits of the receipt, each once and in their order." in problems
    request = {**receipt["request"], "limits": ["ece=0.0500"]}
    (problem,) = cd.verify(_resealed(receipt, request=request), rows.label, rows.score, by={"c": rows.c}).problems
    assert problem == "request.limits[0] is ece=0.0500 in the receipt, and is written ece=0.05 here."


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("{", '{"decisions": [], ', "the name 'decisions' is there twice"),
        ('"rows": 3000', '"rows": 3000, "rows": 2999', "the name 'rows' is there twice"),
        ('"confidence": 0.95', '"confidence": 9.5e-1', "the number 9.5e-1 is expected as 0.95"),
        ('"rows": 3000', '"rows": 3e3', "the number 3e3 is expected as 3000.0"),
        ('"seed": 0', '"seed": -0', "the number -0 is expected as 0"),
        ('"seed": 0', '"seed": NaN', "a number is expected, got NaN"),
    ],
)
def test_files_that_may_be_read_in_two_ways_are_refused(
    before: str, after: str, said: str, receipt: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "receipt.json"
    text = json.dumps(receipt)
    assert before in text
    path.write_text(text.replace(before, after, 1))
    with pytest.raises(ValueError, match=said):
        cd.verify(path, [0, 1], [0.5, 0.5])


def test_a_receipt_is_of_one_state_of_the_rows() -> None:
    calls = []

    def scores(block: Any) -> Any:
        calls.append(1)
        return block if len(calls) < 3 else block / 2

    lazy = da.from_array(np.linspace(0, 1, 50), chunks=-1).map_blocks(scores, meta=np.empty(0))
    labels = da.from_array(np.arange(50) % 2, chunks=-1)
    with pytest.raises(ValueError, match="The rows changed while they were measured"):
        cd.receipt(labels, lazy, "mean-gap", limits="mean-gap=0.4")


def test_slices_without_a_name_are_verified(rows: pd.DataFrame) -> None:
    receipt = cd.receipt(rows.label, rows.score, "mean-gap", by=rows.c)
    assert cd.verify(receipt, rows.label, rows.score, by=rows.c).agrees


def test_the_gate_of_a_receipt_is_that_of_check(rows: pd.DataFrame, tmp_path: Path) -> None:
    data, receipt, gate = (tmp_path / name for name in ("rows.parquet", "receipt.json", "gate.json"))
    rows.to_parquet(data)
    words = ["check", str(data), "--limit", "ece=0.2", "--profile", "ml", "--n-boot", "20", "--by", "c"]
    assert main([*words, "--receipt", str(receipt), "--out", str(gate)]) == 0
    with_receipt = json.loads(gate.read_text())
    assert main([*words, "--out", str(gate), "--overwrite"]) == 0
    alone = json.loads(gate.read_text())
    assert {**with_receipt, "command": ""} == {**alone, "command": ""}
    decisions = json.loads(receipt.read_text())["decisions"]
    assert [one["number"] for one in decisions] == [limit["value"] for limit in alone["limits"]]


def test_at_the_shell(rows: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, copied, receipt = (tmp_path / name for name in ("rows.parquet", "copy.csv", "receipt.json"))
    rows.to_parquet(data)
    rows.sample(frac=1, random_state=0).to_csv(copied, index=False)
    words = ["--limit", "ece=0.2", "--by", "c", "--profile", "ml", "--n-boot", "20", "--receipt", str(receipt)]
    assert main(["check", str(data), *words]) == 0
    assert main(["verify", str(receipt), str(copied)]) == 0
    assert "The receipt agrees: 3,000 rows" in capsys.readouterr().out
    rows.iloc[1:].to_csv(copied, index=False)
    assert main(["verify", str(receipt), str(copied)]) == 1
    assert "2,999" in capsys.readouterr().out
    assert main(["verify", str(data), str(copied)]) == 2
    assert main(["verify", str(tmp_path / "none.json"), str(copied)]) == 2

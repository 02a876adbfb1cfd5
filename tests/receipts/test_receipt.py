"""Receipts: what a second party gets, and what is said where something differs."""

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.analyses.gating.check import Check
from calibdask.analyses.receipts import receipt as receipts
from calibdask.analyses.receipts.document import checksum_of, hash_of
from calibdask.cli import main
from calibdask.storage import csv_files

_LOST = object()


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
    assert receipt["checksum"] == checksum_of(receipt)


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
    changed["hash"] = hash_of(changed)
    return {**changed, "checksum": checksum_of(changed)}


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
        ('"decisions"', r'"\u0064ecisions"', r"the text .*u0064ecisions\" is expected as \"decisions\""),
        ('"ece=0.05"', r'"ec\u0065=0.05"', r"the text .* is expected as \"ece=0.05\""),
        ('"hash"', r'"decisions": [], "\u0064ecisions": [], "hash"', "the name 'decisions' is there twice"),
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


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16-le", "latin-1"])
def test_files_that_are_not_utf8_are_refused(encoding: str, receipt: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "receipt.json"
    named = {**receipt, "made": {**receipt["made"], "platform": "\xe9"}}
    path.write_bytes(json.dumps(named, ensure_ascii=False).encode(encoding))
    with pytest.raises(ValueError, match="is not a receipt: it is not JSON as calibdask writes it"):
        cd.verify(path, [0, 1], [0.5, 0.5])


def test_other_spellings_of_a_file_are_the_same_receipt(
    rows: pd.DataFrame, receipt: dict[str, Any], tmp_path: Path
) -> None:
    """White space, the order of names, and whether characters beyond ASCII are escaped."""
    path = tmp_path / "receipt.json"
    by = {"c": rows.c.replace({"a": "\xe9"})}
    made = cd.receipt(rows.label, rows.score, "ece", by=by)
    for options in ({"indent": 3}, {"sort_keys": True}, {"ensure_ascii": False}, {"separators": (",", ":")}):
        path.write_text(json.dumps(made, **options), encoding="utf-8")
        assert cd.verify(path, rows.label, rows.score, by=by).agrees


def _places(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all entries that have none below them."""
    below = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    found = [inner for name, value in below for inner in _places(value, (*place, name))]
    yield from found or [place]


def _spelt_otherwise(value: Any) -> list[Any]:
    """Values that Python takes for the same, or nearly, and that are others in JSON."""
    match value:
        case bool():
            return [int(value), not value]
        case int():
            return [float(value), value + 1, *([bool(value)] if value in (0, 1) else [])]
        case float():
            return [np.nextafter(value, 9.0).item(), -value, str(value), *([int(value)] if value == int(value) else [])]
        case str():
            return [value + " ", None]
        case None:
            return ["", 0]
    return [None]


@pytest.mark.filterwarnings("ignore::calibdask.errors.SuspectScoresWarning")  # where logits is edited
@pytest.mark.parametrize("seal", ["none", "all"])
def test_each_entry_is_compared_exactly(seal: str) -> None:
    """No entry can be edited, with its hashes or without; ``made`` can where somebody makes a new checksum."""
    calibrated = np.tile([0, 0, 0, 1, 0, 1, 1, 1], 25), np.tile(np.repeat([0.25, 0.75], 4), 25)
    receipt = cd.receipt(*calibrated, "ece", limits="ece=0.5", n_boot=10)
    assert 0.0 in receipt["numbers"].values()
    silent = []
    for place in _places(receipt):
        *parents, last = place
        before = receipt
        for name in parents:
            before = before[name]
        # What is not sealed again differs from its digests, whatever the other value is.
        for value in [*_spelt_otherwise(before[last])[: None if seal == "all" else 1], _LOST]:
            edited = copy.deepcopy(receipt)
            part: Any = edited
            for name in parents:
                part = part[name]
            if value is _LOST:
                del part[last]
            else:
                part[last] = value
            if seal == "all":
                if "hash" in edited:
                    edited["hash"] = hash_of(edited)
                edited["checksum"] = checksum_of(edited)
            if edited == receipt and json.dumps(edited) == json.dumps(receipt):
                continue
            try:
                outcome = cd.verify(edited, *calibrated)
            except (ValueError, TypeError):
                continue
            # Another choice that makes no difference, such as --skip-missing: a true receipt of that request.
            is_true = edited["request"] == outcome.again["request"] and edited["hash"] == outcome.again["hash"]
            if outcome.agrees and not (seal == "all" and place[0] == "request" and is_true):
                silent.append(place[0])
    # Who recomputes all digests can change where and when a receipt was made, and nothing else: hence signatures.
    assert {*silent} == ({"made"} if seal == "all" else set())


def test_a_receipt_of_the_first_format_has_no_checksum(rows: pd.DataFrame, receipt: dict[str, Any]) -> None:
    first = {name: value for name, value in receipt.items() if name != "checksum"}
    with pytest.raises(ValueError, match="its entry 'checksum' is missing"):
        cd.verify(first, rows.label, rows.score, by={"c": rows.c})
    # A hash of the second format is no hash of the first one.
    (problem,) = cd.verify({**first, "format": 1}, rows.label, rows.score, by={"c": rows.c}).problems
    assert "its hash does not match its contents" in problem
    first["format"] = 1
    first["hash"] = hash_of(first)
    assert cd.verify(first, rows.label, rows.score, by={"c": rows.c}).agrees
    with pytest.raises(ValueError, match="it has the unknown entries checksum"):
        cd.verify({**first, "checksum": ""}, rows.label, rows.score, by={"c": rows.c})


def test_a_receipt_is_of_one_state_of_the_rows() -> None:
    calls = []

    def scores(block: Any) -> Any:
        calls.append(1)
        return block if len(calls) < 3 else block / 2

    lazy = da.from_array(np.linspace(0, 1, 50), chunks=-1).map_blocks(scores, meta=np.empty(0))
    labels = da.from_array(np.arange(50) % 2, chunks=-1)
    with pytest.raises(ValueError, match="The rows changed while they were measured"):
        cd.receipt(labels, lazy, "mean-gap", limits="mean-gap=0.4")


@pytest.mark.parametrize(
    ("step", "held"), [("evaluate", "held in memory"), ("evaluate", "read anew"), ("check", "read anew")]
)
def test_a_file_that_is_replaced_between_two_passes(
    step: str,
    held: str,
    rows: pd.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A receipt takes several passes: the fingerprint, the numbers, the decisions, the fingerprint again.

    Small files are read once, so that all is of the state before. Larger ones are read in each pass, as blocks of a
    version of the file: another one is an error, even if the first one comes back in the end.
    """
    data, other, old, receipt = (tmp_path / name for name in ("rows.csv", "other.csv", "old.csv", "receipt.json"))
    for path, frame in ((data, rows), (old, rows), (other, rows.assign(label=1 - rows.label))):
        frame.to_csv(path, index=False)
    if held == "read anew":
        monkeypatch.setattr(csv_files, "_CSV_BLOCK_BYTES", 1 << 14)
    measure, decide = receipts.evaluate, Check.gate

    def evaluated(*arguments: Any, **options: Any) -> Any:
        if step == "evaluate":
            other.replace(data)
        result = measure(*arguments, **options)
        # The content and the time of the first one again.
        shutil.copy2(old, data)
        return result

    def decided(*arguments: Any) -> Any:
        other.replace(data)
        return decide(*arguments)

    monkeypatch.setattr(receipts, "evaluate", evaluated)
    if step == "check":
        monkeypatch.setattr(Check, "gate", decided)
    words = ["check", str(data), "--limit", "ece=0.2", "--receipt", str(receipt), "--n-boot", "10"]
    status = main(words)
    message = capsys.readouterr().err
    if held == "held in memory":
        assert (status, message) == (0, "")
        monkeypatch.undo()
        assert main(["verify", str(receipt), str(old)]) == 0
    else:
        assert status == 2
        assert "rows.csv was replaced or written to while it was read" in message
        assert not receipt.exists()


def test_rows_that_a_receipt_does_not_cover_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"label": rng.integers(0, 2, 400).astype(float), "score": rng.random(400)})
    frame.loc[:9, "label"] = np.nan
    frame["half"] = np.arange(400) % 2
    frame.to_csv(tmp_path / "rows.csv", index=False)
    receipt, rows = str(tmp_path / "receipt.json"), str(tmp_path / "rows.csv")
    evaluated = ("--metric", "ece", "--by", "half", "--groups", "half", "--skip-missing", "--receipt", receipt)
    assert main(["evaluate", rows, *evaluated]) == 0
    capsys.readouterr()
    assert main(["verify", receipt, rows]) == 0
    covered = "Covered: labels, scores, slices by half and groups by half; no other columns. "
    assert capsys.readouterr().out.endswith(f"{covered}10 rows without a label are not covered.\n")
    frame["label"] = 1 - frame.label
    frame.to_csv(rows, index=False)
    assert main(["verify", receipt, rows]) == 1
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "The labels differ from those of the receipt; scores, weights, slices and groups are the same."
    assert len(lines) <= 5


def test_blocks_that_change_while_they_are_measured_have_no_receipt() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(3000)
    labels = (rng.random(3000) < scores).astype(int)
    calls: list[int] = []

    def blocks() -> list[tuple[np.ndarray, np.ndarray]]:
        calls.append(1)
        first = scores[:1500] / (1 if len(calls) < 3 else 2)
        return [(labels[:1500], first), (labels[1500:], scores[1500:])]

    with pytest.raises(ValueError, match="rows changed while they were measured"):
        cd.receipt(blocks, metrics="mean-gap")
    same = [(labels[:1500], scores[:1500]), (labels[1500:], scores[1500:])]
    assert cd.receipt(same, metrics="mean-gap")["numbers"] == cd.receipt(labels, scores, metrics="mean-gap")["numbers"]

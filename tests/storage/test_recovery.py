"""Recovery of stores of periods: any file of the log may be damaged, and all that is intact is there again."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli import main
from calibdask.errors import Damaged
from calibdask.storage.open_store import open_store
from calibdask.storage.summary import Summary
from calibdask.storage.summary_totals import TOTALS
from tests.storage.integrity import Tree

DAYS = [f"2026-08-{day:02d}" for day in (29, 30, 31)]
HARM: dict[str, Callable[[bytes], bytes | None]] = {
    "truncate": lambda content: content[: len(content) // 2],
    "flip": lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:],
    "empty": lambda content: b"",
    "garbage": lambda content: random.Random(0).randbytes(len(content)),
    "delete": lambda content: None,
}


def day(number: int, *, weighted: bool = False) -> xr.Dataset:
    rng = np.random.default_rng(number)
    scores = rng.random(40)
    weights = rng.random(40) if weighted else None
    labels, country = (rng.random(40) < scores).astype(int), np.array(["a", "b"])[np.arange(40) % 2]
    return cd.summarize(labels, scores, by={"c": country}, settings=["binary"], step=0.01, sample_weight=weights)


def numbers(url: str) -> Any:
    """All numbers by period, and the sums over slices as they are stored."""
    store = open_store(url)
    assert isinstance(store, Summary)
    summaries = [store.dataset, *([] if store.by_period is None else [store.by_period.dataset])]
    # Totals are those of all periods.
    loaded = [summary.drop_vars(TOTALS, errors="ignore").drop_attrs().load() for summary in summaries]
    return [{label: one.sel(day=label).drop_vars("day").to_dict() for label in one.day.values} for one in loaded]


def made(url: str, *, weighted: bool = False) -> Any:
    for number, label in enumerate(DAYS):
        cd.append(day(number, weighted=weighted), url, {"day": label})
    return numbers(url)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any]:
    """A store that is copied, and its numbers."""
    url = str(tmp_path_factory.mktemp("whole") / "store.zarr")
    return url, made(url)


def copied(whole: tuple[str, Any], folder: Path) -> tuple[str, Any]:
    return str(shutil.copytree(whole[0], folder / "store.zarr")), whole[1]


def harm(url: str, name: str, kind: str) -> None:
    tree = Tree(url)
    content = HARM[kind](tree.content()[name])
    if content is None:
        tree.remove(name)
    else:
        tree.write(name, content)


def check_recovered(url: str, name: str, kind: str, before: Any) -> None:
    """Everything refuses the damage and advises the recovery, which brings all numbers back."""
    harm(url, name, kind)
    healing = name == "zarr.json" and kind == "delete"
    calls = [lambda: cd.open_summary(url), lambda: cd.append(day(3), url, {"day": "2026-09-01"})]
    for call in calls[: 1 if healing else 2]:
        with pytest.raises(Damaged, match=r"recover_periods \(summarize --append STORE --recover --reason TEXT"):
            call()
    found = cd.recover_periods(url, "damaged")
    lost_record = name.startswith("log/")
    assert found["damaged"] == [name]
    assert found["recovered"] == ([DAYS[int(name[4:12])]] if lost_record else [])
    assert (found["replaced"], found["lost"], sorted(found["periods"])) == ([], [], DAYS)
    assert numbers(url) == before
    (event,) = json.loads(cd.open_summary(url).attrs["history"])
    assert (event["action"], event["reason"], event["added"]) == ("recover", "damaged", found["recovered"])


FILES = ["zarr.json", *(f"log/{number:08d}.jsonl" for number in range(3))]


@pytest.mark.parametrize("kind", HARM)
@pytest.mark.parametrize("name", FILES)
def test_each_file_of_the_log_may_be_damaged(name: str, kind: str, tmp_path: Path, whole: tuple[str, Any]) -> None:
    url, before = copied(whole, tmp_path)
    check_recovered(url, name, kind, before)


def test_a_recovered_store_is_one_like_any_other(tmp_path: Path, whole: tuple[str, Any]) -> None:
    """It grows, and is damaged and recovered again."""
    url, _ = copied(whole, tmp_path)
    harm(url, FILES[1], "flip")
    cd.recover_periods(url, "damaged")
    assert cd.recover_periods(url, "nothing")["damaged"] == []
    cd.append(day(3), url, {"day": "2026-09-01"})
    cd.append(day(0), url, {"day": DAYS[0]}, replace="the same")
    after = numbers(url)
    assert [*after[0]] == [*DAYS, "2026-09-01"]
    last = max(file for file in Tree(url).content() if file.startswith("log/"))
    harm(url, last, "flip")
    again = cd.recover_periods(url, "once more")
    assert (again["damaged"], again["recovered"], again["replaced"]) == ([last], [DAYS[0]], [DAYS[0]])
    assert numbers(url) == after
    history = json.loads(cd.open_summary(url).attrs["history"])
    assert [(one["action"], one["reason"]) for one in history] == [("recover", "damaged"), ("recover", "once more")]


def test_with_weights(tmp_path: Path) -> None:
    url = str(tmp_path / "store.zarr")
    before = made(url, weighted=True)
    harm(url, FILES[2], "garbage")
    assert cd.recover_periods(url, "damaged")["recovered"] == [DAYS[1]]
    assert numbers(url) == before


@pytest.mark.parametrize("kind", HARM)
def test_each_file_of_a_period_may_be_damaged(kind: str, tmp_path: Path, whole: tuple[str, Any]) -> None:
    """Those of a period whose record is there are replaced; of one whose record is lost too, they are given up."""
    record = json.loads(Path(whole[0], FILES[3]).read_text().split("\n")[0])
    folder = record["added"][0]["folder"]
    for name in (
        f"{folder}/zarr.json",
        min(
            file for file in Tree(whole[0]).content() if file.startswith(f"{folder}/") and file.endswith("t/zarr.json")
        ),
        min(file for file in Tree(whole[0]).content() if file.startswith(f"{folder}/") and "/c/" in file),
        f"{folder[:-5]}.zip",
    ):
        url, before = copied(whole, tmp_path)
        harm(url, name, kind)
        # Nothing of the log is damaged.
        assert cd.recover_periods(url, "damaged")["damaged"] == []
        harm(url, FILES[3], "flip")
        found = cd.recover_periods(url, "damaged")
        assert found["damaged"] == [FILES[3]]
        if name.endswith(".zip"):
            # It holds sums of what is there.
            assert (found["recovered"], numbers(url)) == ([DAYS[2]], before)
        else:
            assert found["recovered"] == []
            assert [file for file in found["lost"] if file.endswith(".zarr")] == [folder]
            assert numbers(url)[0] == {label: before[0][label] for label in DAYS[:2]}
            cd.append(day(2), url, {"day": DAYS[2]}, replace="summarized again")
            assert numbers(url) == before
        shutil.rmtree(url)


def test_lost_records_that_changed_periods(tmp_path: Path, whole: tuple[str, Any]) -> None:
    """One that replaced, one that merged and one that removed; and what later records say of the same periods."""
    url, _ = copied(whole, tmp_path)
    cd.append(day(7), url, {"day": DAYS[1]}, replace="better")
    after = numbers(url)
    harm(url, "log/00000003.jsonl", "flip")
    found = cd.recover_periods(url, "damaged")
    assert (found["recovered"], found["replaced"], found["lost"]) == ([DAYS[1]], [DAYS[1]], [])
    assert numbers(url) == after

    merged = str(shutil.copytree(whole[0], tmp_path / "merged.zarr"))
    cd.append(day(3), merged, {"day": "2026-12-01"})
    cd.expire(merged, 30)
    after = numbers(merged)
    harm(merged, "log/00000004.jsonl", "empty")
    found = cd.recover_periods(merged, "damaged")
    assert (found["recovered"], sorted(found["replaced"])) == (["2026-08"], DAYS)
    assert numbers(merged) == after
    with pytest.raises(ValueError, match="has the day 2026-08-30 within 2026-08, into which it was merged"):
        cd.append(day(1), merged, {"day": DAYS[1]})

    dropped = str(shutil.copytree(whole[0], tmp_path / "dropped.zarr"))
    cd.drop_periods(dropped, [DAYS[0]], "wrong")
    harm(dropped, "log/00000003.jsonl", "garbage")
    assert sorted(cd.recover_periods(dropped, "damaged")["periods"]) == DAYS

    settled = str(shutil.copytree(whole[0], tmp_path / "settled.zarr"))
    cd.append(day(8), settled, {"day": DAYS[0]}, replace="better")
    cd.drop_periods(settled, [DAYS[1]], "wrong")
    after = numbers(settled)
    for lost in ("log/00000000.jsonl", "log/00000001.jsonl"):
        harm(settled, lost, "truncate")
    found = cd.recover_periods(settled, "damaged")
    assert (found["damaged"], found["recovered"]) == (["log/00000000.jsonl", "log/00000001.jsonl"], [])
    assert len(found["lost"]) == 4
    assert numbers(settled) == after


def test_records_of_other_places_and_stores(tmp_path: Path, whole: tuple[str, Any]) -> None:
    url, before = copied(whole, tmp_path)
    other = str(tmp_path / "other.zarr")
    made(other)
    records = [Path(url, name) for name in FILES[1:]]
    shutil.copy(Path(other, FILES[2]), records[1])
    assert cd.recover_periods(url, "a foreign record")["damaged"] == [FILES[2]]
    assert numbers(url) == before
    second = str(tmp_path / "second.zarr")
    shutil.copytree(other, second)
    shutil.copy(Path(second, FILES[1]), Path(second, FILES[3]))
    assert cd.recover_periods(second, "copied")["damaged"] == [FILES[3]]
    assert numbers(second) == numbers(other)
    for name in FILES[1:]:
        harm(other, name, "empty")
    with pytest.raises(Damaged, match="no record of log/ is what was written; summarize the data again"):
        cd.recover_periods(other, "all")


def test_an_interrupted_recovery_is_made_again(tmp_path: Path, whole: tuple[str, Any]) -> None:
    url, before = copied(whole, tmp_path)
    harm(url, FILES[2], "flip")
    head = Path(url, "zarr.json").read_bytes()
    cd.recover_periods(url, "damaged")
    # Killed before the head was there.
    Path(url, "zarr.json").write_bytes(head)
    with pytest.raises(Damaged):
        cd.open_summary(url)
    assert cd.recover_periods(url, "again")["damaged"] == ["zarr.json"]
    assert numbers(url) == before


def test_at_the_shell(tmp_path: Path, whole: tuple[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    url, _ = copied(whole, tmp_path)
    harm(url, FILES[3], "truncate")
    assert main(["evaluate", url]) == 2
    assert "--recover --reason TEXT" in capsys.readouterr().err
    words = ["summarize", "--append", url, "--recover"]
    assert main(words) == 2
    assert main([*words, "--reason", "a full disk"]) == 0
    said = capsys.readouterr().out
    assert (
        f"recovered 3 periods in {url}: damaged: log/00000002.jsonl; added again from their own files: 2026-08-31"
        in said
    )
    assert main([*words, "--reason", "a full disk"]) == 0
    assert "nothing to recover: the log is intact in" in capsys.readouterr().out
    assert main(["summarize", "--append", str(tmp_path / "none.zarr"), "--recover", "--reason", "x"]) == 2
    assert main([*words, "--drop", DAYS[0], "--reason", "x"]) == 2
    assert numbers(url) == whole[1]

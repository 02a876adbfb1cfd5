"""Recovery of stores of periods: any file of the log may be damaged, and the last intact state is there again."""

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
    """Everything refuses the damage and advises the recovery, which goes back to the state before it."""
    harm(url, name, kind)
    healing = name == "zarr.json" and kind == "delete"
    calls = [lambda: cd.open_summary(url), lambda: cd.append(day(3), url, {"day": "2026-09-01"})]
    for call in calls[: 1 if healing else 2]:
        with pytest.raises(Damaged, match=r"recover_periods \(summarize --append STORE --recover --reason TEXT"):
            call()
    kept = len(DAYS) if name == "zarr.json" else int(name[4:12])
    if not kept:
        with pytest.raises(Damaged, match="no state of its log is intact; summarize the data again"):
            cd.recover_periods(url, "damaged")
        return
    found = cd.recover_periods(url, "damaged")
    assert found["damaged"] == [name]
    assert (found["undone"], found["missing"], found["periods"]) == (DAYS[kept + 1 :], [], DAYS[:kept])
    assert len(found["lost"]) == 2 * (len(DAYS) - kept)
    assert numbers(url)[0] == {label: before[0][label] for label in DAYS[:kept]}
    (event,) = json.loads(cd.open_summary(url).attrs["history"])
    assert (event["action"], event["reason"], event["removed"]) == ("recover", "damaged", found["undone"])
    for number in range(kept, len(DAYS)):
        cd.append(day(number), url, {"day": DAYS[number]})
    assert numbers(url) == before


FILES = ["zarr.json", *(f"log/{number:08d}.jsonl" for number in range(3))]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, kind) for name in FILES for kind in ("flip", "delete")),
        (FILES[0], "empty"),
        (FILES[2], "truncate"),
        (FILES[3], "garbage"),
    ],
)
def test_each_file_of_the_log_may_be_damaged(name: str, kind: str, tmp_path: Path, whole: tuple[str, Any]) -> None:
    url, before = copied(whole, tmp_path)
    check_recovered(url, name, kind, before)


def test_a_recovered_store_is_one_like_any_other(tmp_path: Path, whole: tuple[str, Any]) -> None:
    """It grows, and is damaged and recovered again, also where the record of the first recovery is damaged."""
    url, before = copied(whole, tmp_path)
    harm(url, FILES[3], "flip")
    cd.recover_periods(url, "damaged")
    assert cd.recover_periods(url, "nothing")["damaged"] == []
    cd.append(day(3), url, {"day": "2026-09-01"})
    cd.append(day(0), url, {"day": DAYS[0]}, replace="the same")
    assert [*numbers(url)[0]] == [*DAYS[:2], "2026-09-01"]
    names = sorted(file for file in Tree(url).content() if file.startswith("log/"))
    harm(url, names[-1], "flip")
    again = cd.recover_periods(url, "once more")
    assert (again["damaged"], again["periods"]) == ([names[-1]], [*DAYS[:2], "2026-09-01"])
    history = json.loads(cd.open_summary(url).attrs["history"])
    assert [(one["action"], one["reason"]) for one in history] == [("recover", "damaged"), ("recover", "once more")]
    for name in [*names[3:], f"log/{len(names):08d}.jsonl"]:
        harm(url, name, "flip")
    last = cd.recover_periods(url, "all recoveries are lost")
    assert last["periods"] == DAYS[:2]
    assert numbers(url)[0] == {label: before[0][label] for label in DAYS[:2]}


def test_with_weights(tmp_path: Path) -> None:
    url = str(tmp_path / "store.zarr")
    before = made(url, weighted=True)
    harm(url, FILES[2], "garbage")
    assert cd.recover_periods(url, "damaged")["periods"] == DAYS[:1]
    assert numbers(url)[0] == {DAYS[0]: before[0][DAYS[0]]}


@pytest.mark.parametrize("kind", ["flip", "delete"])
def test_a_period_whose_numbers_are_damaged_too_is_left_out(kind: str, tmp_path: Path, whole: tuple[str, Any]) -> None:
    url, before = copied(whole, tmp_path)
    folder = json.loads(Path(url, FILES[1]).read_text().split("\n")[0])["added"][0]["folder"]
    harm(url, f"{folder}/zarr.json", kind)
    # Nothing of the log is damaged.
    assert cd.recover_periods(url, "damaged")["damaged"] == []
    harm(url, FILES[3], "flip")
    found = cd.recover_periods(url, "damaged")
    assert (found["damaged"], found["missing"], found["periods"]) == ([FILES[3]], [DAYS[0]], [DAYS[1]])
    assert folder in found["lost"]
    assert numbers(url)[0] == {DAYS[1]: before[0][DAYS[1]]}


def rows(url: str) -> int:
    return int(cd.open_summary(url)["rows"].sum())


def grown(folder: Path, whole: tuple[str, Any]) -> tuple[str, list[tuple[int, list[str]]]]:
    """A store after additions, a merge, a replacement and a removal; rows and periods after each record."""
    url = str(shutil.copytree(whole[0], folder / "grown.zarr"))
    states = [(40 * (number + 1), DAYS[: number + 1]) for number in range(3)]
    changes: list[Callable[[], Any]] = [
        lambda: cd.append(day(3), url, {"day": "2026-12-01"}),
        lambda: cd.expire(url, 30),
        lambda: cd.append(day(4), url, {"day": "2026-12-02"}),
        lambda: cd.append(day(5), url, {"day": "2026-12-01"}, replace="better"),
        lambda: cd.drop_periods(url, ["2026-12-02"], "consent withdrawn"),
        lambda: cd.append(day(6), url, {"day": "2026-12-03"}),
    ]
    for change in changes:
        change()
        states.append((rows(url), cd.open_summary(url)["day"].values.tolist()))
    return url, states


def test_no_damage_of_a_log_that_merged_replaced_and_removed_counts_rows_twice(
    tmp_path: Path, whole: tuple[str, Any]
) -> None:
    """Each record, and some two: what is left is a state that the store had."""
    made_store, states = grown(tmp_path, whole)
    count = len(states)
    pairs = {(one,) for one in range(count)} | {(one, one + 2) for one in (1, 4, 6)}
    for damaged in sorted(pairs):
        url = str(shutil.copytree(made_store, tmp_path / "copy.zarr"))
        for number in damaged:
            harm(url, f"log/{number:08d}.jsonl", "delete" if number % 2 else "flip")
        if damaged[0] == 0:
            with pytest.raises(Damaged):
                cd.recover_periods(url, "damaged")
        else:
            found = cd.recover_periods(url, "damaged")
            total, periods = states[damaged[0] - 1]
            assert sorted([*found["periods"], *found["missing"]]) == sorted(periods), damaged
            assert rows(url) == total - 40 * len(found["missing"])
        shutil.rmtree(url)


def test_nothing_of_another_store_is_taken(tmp_path: Path, whole: tuple[str, Any]) -> None:
    """A head, a record, a folder of numbers, and the record of a recovery."""
    url, before = copied(whole, tmp_path)
    other = str(tmp_path / "other.zarr")
    made(other)
    cd.append(day(9), other, {"day": "2026-09-09"})
    shutil.copy(Path(other, "zarr.json"), Path(url, "zarr.json"))
    assert cd.recover_periods(url, "a foreign head")["damaged"] == ["zarr.json"]
    assert numbers(url) == before

    url, before = copied(whole, tmp_path / "folder")
    folder = json.loads(Path(other, "log/00000003.jsonl").read_text().split("\n")[0])["added"][0]["folder"]
    shutil.copytree(Path(other, folder), Path(url, folder))
    with pytest.raises(Damaged):
        cd.open_summary(url)
    found = cd.recover_periods(url, "foreign numbers")
    assert (found["damaged"], found["lost"], found["periods"]) == (["log/00000003.jsonl"], [folder], DAYS)
    assert numbers(url) == before

    url, before = copied(whole, tmp_path / "record")
    shutil.copy(Path(other, FILES[2]), Path(url, FILES[2]))
    assert cd.recover_periods(url, "a foreign record")["damaged"] == [FILES[2]]
    assert numbers(url)[0] == {DAYS[0]: before[0][DAYS[0]]}

    url, before = copied(whole, tmp_path / "recovery")
    harm(other, "log/00000003.jsonl", "flip")
    cd.recover_periods(other, "of the other")
    shutil.copy(Path(other, "log/00000004.jsonl"), Path(url, "log/00000004.jsonl"))
    found = cd.recover_periods(url, "a foreign recovery")
    assert found["damaged"] == ["log/00000003.jsonl", "log/00000004.jsonl"]
    assert numbers(url) == before


def test_records_that_are_no_files_or_far_away(tmp_path: Path, whole: tuple[str, Any]) -> None:
    url, before = copied(whole, tmp_path)
    Path(url, FILES[3]).unlink()
    Path(url, FILES[3]).mkdir()
    assert cd.recover_periods(url, "a folder")["damaged"] == [FILES[3]]
    assert numbers(url)[0] == {label: before[0][label] for label in DAYS[:2]}
    url, _ = copied(whole, tmp_path / "far")
    shutil.copy(Path(url, FILES[2]), Path(url, "log/99999999.jsonl"))
    with pytest.raises(ValueError, match=r"no gaps, got log/99999999\.jsonl; remove that file"):
        cd.recover_periods(url, "a stray record")


def test_an_interrupted_recovery_is_made_again(tmp_path: Path, whole: tuple[str, Any]) -> None:
    url, before = copied(whole, tmp_path)
    harm(url, FILES[3], "flip")
    head = Path(url, "zarr.json").read_bytes()
    cd.recover_periods(url, "damaged")
    # Killed before the head was there.
    Path(url, "zarr.json").write_bytes(head)
    with pytest.raises(Damaged):
        cd.open_summary(url)
    assert cd.recover_periods(url, "again")["damaged"] == ["zarr.json"]
    assert numbers(url)[0] == {label: before[0][label] for label in DAYS[:2]}


def test_at_the_shell(tmp_path: Path, whole: tuple[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    url, _ = copied(whole, tmp_path)
    harm(url, FILES[2], "truncate")
    assert main(["evaluate", url]) == 2
    assert "--recover --reason TEXT" in capsys.readouterr().err
    words = ["summarize", "--append", url, "--recover"]
    assert main(words) == 2
    assert main([*words, "--reason", "a full disk"]) == 3
    said = capsys.readouterr().out
    assert f"recovered 1 period in {url}: damaged: log/00000001.jsonl; state of: 20" in said
    assert f"undone changes of: {DAYS[2]}; files that are not part of this state: periods/" in said
    assert main([*words, "--reason", "a full disk"]) == 0
    assert "nothing to recover: the log is intact in" in capsys.readouterr().out
    assert main(["summarize", "--append", str(tmp_path / "none.zarr"), "--recover", "--reason", "x"]) == 2
    assert main([*words, "--drop", DAYS[0], "--reason", "x"]) == 2
    assert cd.open_summary(url)["day"].values.tolist() == DAYS[:1]
    # All periods are there again.
    harm(url, "zarr.json", "truncate")
    assert main([*words, "--reason", "a damaged head"]) == 0
    said = capsys.readouterr().out
    assert "damaged: zarr.json" in said
    assert "undone" not in said
    # A record that was the last: nothing behind it, but its numbers are lost.
    day = cd.summarize([0, 1], [0.2, 0.4], settings=["binary"])
    other = str(tmp_path / "other.zarr")
    for label in DAYS[:2]:
        cd.append(day, other, {"day": label})
    harm(other, "log/00000001.jsonl", "delete")
    assert main(["summarize", "--append", other, "--recover", "--reason", "x"]) == 3
    assert "files that are not part of this state: periods/" in capsys.readouterr().out

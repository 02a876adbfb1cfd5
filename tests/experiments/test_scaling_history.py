"""The history of measurements by commit."""

from pathlib import Path
from typing import Any

import pytest

from experiments.scaling.history import lines_of, page_of, read, record, verdict
from experiments.scaling.tables import Table


def line(name: str, ratio: float, race: str = "ece", machine: str = "one") -> dict[str, Any]:
    bounds = {"low": ratio - 0.5, "high": ratio + 0.5}
    return {"commit": name, "date": "2026-01-01", "machine": machine, "race": race, "ratio": ratio, **bounds}


@pytest.mark.parametrize(
    ("ratios", "said"),
    [([5.0], ""), ([5.0, 5.8], ""), ([5.0, 6.1], "**slower** than a"), ([9.0, 5.0, 6.1], "**slower** than b")],
)
def test_slower_than_the_best_before(ratios: list[float], said: str) -> None:
    assert verdict([line(name, ratio) for name, ratio in zip("abcd", ratios, strict=False)]) == said


def test_faster() -> None:
    assert verdict([line("a", 5.0), line("b", 3.0)]) == "faster than a"


def test_record_of_races(tmp_path: Path) -> None:
    row = {"seconds": 1.0, "nanoseconds": 2.0, "ratio": 3.0, "low": 2.5, "high": 3.5}
    table = Table("", [{"entrant": "read", **row}, {"entrant": "calibdask", **row}])
    lines = lines_of({"ece": table, "none of ours": Table("", [{"entrant": "read", **row}])}, {"machine": "one"}, "abc")
    assert [(entry["race"], entry["ratio"]) for entry in lines] == [("ece", 3.0)]
    path, page = tmp_path / "history.jsonl", tmp_path / "history.md"
    record(lines, path, page)
    record([line("def", 9.0)], path, page)
    assert [entry["commit"] for entry in read(path)] == ["abc", "def"]
    assert "| ece | 3 | 9 | **slower** than abc |" in page.read_text()


def test_processors_have_tables_of_their_own() -> None:
    page = page_of([line("a", 5.0), line("b", 9.0, machine="two"), line("b", 4.0, race="mce", machine="two")])
    one, two = page.split("## two")
    assert "| ece | 5 |" in one
    assert "slower" not in two.partition("|")[2]
    assert "| mce | 4 |" in two

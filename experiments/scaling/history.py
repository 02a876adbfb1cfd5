"""Measurements by commit and processor, so that a slower commit is seen."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.scaling.tables import Table

RECORD = Path(__file__).with_name("results") / "history.jsonl"
PAGE = RECORD.with_suffix(".md")
# Commits that the page shows for each processor.
SHOWN = 6
OURS = "calibdask"

_TITLE = """# History

Written by `python -m experiments.scaling --record`, which adds the present commit to `history.jsonl`. Ratios to the
reference of each race, which is merely reading the data as a rule, as medians over rounds. A race is slower where
its smallest ratio of all rounds is above the largest one of the best commit before it."""


def commit() -> str:
    """The commit that is checked out; a mark if files differ from it."""
    words = ["git", "-C", str(RECORD.parent), "describe", "--always", "--dirty=+", "--abbrev=8", "--exclude=*"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def lines_of(tables: Mapping[str, Table], attributes: Mapping[str, Any], commit: str) -> list[dict[str, Any]]:
    """A line for each race in which calibdask ran."""
    where = {"commit": commit, "date": datetime.now(UTC).strftime("%Y-%m-%d"), "machine": attributes["machine"]}
    return [
        where
        | {"race": name, **{key: round(row[key], 6) for key in ("seconds", "nanoseconds", "ratio", "low", "high")}}
        for name, table in tables.items()
        for row in table.rows
        if row["entrant"] == OURS
    ]


def record(lines: Iterable[Mapping[str, Any]], path: Path = RECORD, page: Path = PAGE) -> None:
    """Add lines to the record, and write its page."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    page.write_text(page_of(read(path)), encoding="utf-8")


def read(path: Path) -> list[dict[str, Any]]:
    """All lines of the record."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def page_of(lines: list[dict[str, Any]]) -> str:
    """For each processor, the races by the last commits, the newest last."""
    parts = [_TITLE]
    for machine in dict.fromkeys(line["machine"] for line in lines):
        here = [line for line in lines if line["machine"] == machine]
        commits = list(dict.fromkeys(line["commit"] for line in here))[-SHOWN:]
        heads = [f"{name} ({next(line['date'] for line in here if line['commit'] == name)})" for name in commits]
        parts.append(f"## {machine}\n\n| race | {' | '.join(heads)} | |\n|---{'|---' * len(heads)}|---|")
        for race in dict.fromkeys(line["race"] for line in here):
            # A commit that was measured more than once counts with its last measurement.
            of_commit = {line["commit"]: line for line in here if line["race"] == race}
            ratios = [f"{of_commit[name]['ratio']:.3g}" if name in of_commit else "" for name in commits]
            parts[-1] += f"\n| {race} | {' | '.join(ratios)} | {verdict(list(of_commit.values()))} |"
    return "\n\n".join(parts) + "\n"


def verdict(lines: list[dict[str, Any]]) -> str:
    """Whether the last of these measurements of one race is slower, or faster, than the best one before it."""
    *before, last = lines
    if not before:
        return ""
    best = min(before, key=lambda line: float(line["ratio"]))
    if last["low"] > best["high"]:
        return f"**slower** than {best['commit']}"
    return f"faster than {best['commit']}" if last["high"] < best["low"] else ""

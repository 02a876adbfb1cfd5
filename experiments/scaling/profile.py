"""Time of the panel by statistic, relative to reading the same rows."""

import time
from collections import defaultdict
from functools import partial
from statistics import median
from typing import Any

from calibdask.engine.rows import Rows, make_block
from calibdask.statistics.settings import Setting
from experiments.scaling.data import read
from experiments.scaling.kernels import requested
from experiments.scaling.panel import evaluated
from experiments.scaling.store import drawn
from experiments.scaling.tables import Table
from experiments.scaling.timing import timed

_CHUNK = 400_000


def by_statistic(rows: int, rounds: int, classes: int = 10) -> Table:
    """Processor time of each statistic of the panel, of reading, and of the whole call."""
    labels, scores = drawn(0, rows, classes)
    whole = timed({"read": partial(read, labels, scores), "panel": partial(evaluated, labels, scores)}, rounds)
    parts = [_parts(labels, scores) for _ in range(rounds + 1)][1:]
    seconds = {"merely reading": whole["read"].median("cores")}
    seconds |= {name: median(item[name] for item in parts) for name in parts[0]}
    seconds["all else"] = whole["panel"].median("cores") - sum(seconds.values()) + seconds["merely reading"]
    seconds["the panel"] = whole["panel"].median("cores")
    ordered = sorted(seconds.items(), key=lambda item: item[1])
    lines = [
        {"part": name, "ns_a_score": value / scores.size * 1e9, "share": value / seconds["the panel"]}
        for name, value in ordered
    ]
    about = (
        f"{rows} x {classes} float32 scores in memory: nanoseconds of processor time a score, and shares of the panel."
    )
    return Table(about, lines)


def _parts(labels: Any, scores: Any) -> dict[str, float]:
    """Seconds of each statistic, block by block."""
    asked, layout = requested(labels[:1000], scores[:1000])
    seconds: dict[str, float] = defaultdict(float)
    for start in range(0, len(labels), _CHUNK):
        here = slice(start, start + _CHUNK)
        block = make_block(Rows(scores[None, here], labels[None, here]), layout, start)
        begin = time.process_time()
        block.columns(Setting("confidence"))
        seconds["largest scores"] += time.process_time() - begin
        for statistic in asked:
            begin = time.process_time()
            statistic.from_block(block)
            seconds[_name(statistic)] += time.process_time() - begin
    return seconds


def _name(statistic: Any) -> str:
    words = [type(statistic).__name__, *(str(getattr(statistic, name, "")) for name in ("setting", "second"))]
    return " ".join(word for word in words if word not in ("", "none"))

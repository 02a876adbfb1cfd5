"""Memory of an audit: planned for all threads before the lattice is filled, and feasible is said in megabytes."""

import re

import pytest

import calibdask as cd
from tests.auditing.test_audit import FEATURES, table
from tests.equality import same_results

FRAME = table()
PLANNING = "calibdask.analyses.auditing.planning"


def test_more_threads_fill_smaller_parts_in_more_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    given = (FRAME.label, FRAME.score, FRAME[FEATURES], 3)
    whole = cd.audit(*given)
    monkeypatch.setattr(f"{PLANNING}._memory", lambda: 1 << 26)
    passes = []
    for threads in (2, 60):
        monkeypatch.setattr(f"{PLANNING}.number_of_threads", lambda threads=threads: threads)
        result = cd.audit(*given)
        same_results(result, whole, weighted=False)
        passes.append(result.attrs["passes"])
    assert whole.attrs["passes"] <= passes[0] < passes[1]
    assert re.search(r"\d pass(es)? cuts? features and scores, [2-8] fill the lattice", result.attrs["passes_why"])


def test_what_fits_is_said_in_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{PLANNING}._memory", lambda: 32_000_000)
    monkeypatch.setattr(f"{PLANNING}.number_of_threads", lambda: 8)
    # Eight parts that are kept, and 19 that are being filled or added up, take half of it.
    with pytest.raises(ValueError, match=r"at most 4\.7 MB here, for 8 threads in half of 32 MB") as error:
        cd.audit(FRAME.label, FRAME.score, FRAME[FEATURES], 3, score_cells=64, values=9)
    said = str(error.value)
    fits = {name: int(value) for name, value in re.findall(r"(depth|score_cells|values)=(\d+) ", said)}
    assert set(fits) == {"depth", "score_cells", "values"}
    assert re.search(r"depth=\d \([\d,]+ segments\) of [\d.]+ MB", said)
    given = {"depth": 3, "score_cells": 64, "values": 9}
    for name, value in fits.items():
        cd.audit(FRAME.label, FRAME.score, FRAME[FEATURES], **{**given, name: value})
    with pytest.raises(ValueError, match="feasible"):
        cd.audit(FRAME.label, FRAME.score, FRAME[FEATURES], **{**given, "values": fits["values"] + 1})


def test_lattices_of_all_folds_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = FRAME.drop(columns="weight")
    monkeypatch.setattr(f"{PLANNING}._memory", lambda: 8_000_000)
    monkeypatch.setattr(f"{PLANNING}.number_of_threads", lambda: 8)
    cd.MulticalibratedScaling(depth=2, folds=2).fit(frame)
    with pytest.raises(ValueError, match=r"cells of scores, 11 times over; feasible: depth=1 "):
        cd.MulticalibratedScaling(depth=2, folds=10).fit(frame)

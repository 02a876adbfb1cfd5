"""The recording of numbers finds what a refactoring would change, and nothing else."""

import copy
from pathlib import Path

import numpy as np
import pytest

from tests.parity.cases import cases
from tests.parity.numbers import Recording, compare, main, record

_CHOSEN = (
    "evaluate | binary | ece",
    "evaluate | matrix | mean_gap in classwise",
    "evaluate | matrix | ece in multiclass",
    "evaluate | matrix | dask | brier_score",
    "shorthand | binary | ece",
    "shell | evaluate binary.npz --json",
)


def chosen() -> Recording:
    return record(case for case in cases() if case.name in _CHOSEN)


@pytest.fixture(scope="module")
def recording() -> Recording:
    return chosen()


def test_what_is_computed_again_is_equal(recording: Recording) -> None:
    assert sorted(recording) == sorted(_CHOSEN)
    assert list(compare(recording, chosen())) == []
    assert recording["evaluate | matrix | ece in multiclass"]["raises"][1] == "ValueError"


def test_a_change_of_the_last_bit_is_found(recording: Recording) -> None:
    case = "evaluate | matrix | mean_gap in classwise"
    changed = copy.deepcopy(recording)
    values = changed[case]["m"][1]
    values[2] = np.nextafter(values[2], 1)
    (difference,) = compare(recording, changed)
    assert difference[:3] == ("differs", case, "m")
    assert difference.values.startswith("1 of 3, the first at (2,): ")
    assert all(repr(array["m"][1][2].item()) in difference.values for array in (recording[case], changed[case]))


def test_signs_of_zero_types_and_dimensions_differ() -> None:
    def of(dims: tuple[str, ...], values: object) -> Recording:
        return {"case": {"value": (dims, np.asarray(values))}}

    zero = of((), 0.0)
    assert list(compare(of((), np.nan), of((), np.nan))) == []
    for other in (of((), -0.0), of((), 0), of((), np.float32(0)), of(("day",), [0.0]), of((), np.nan)):
        assert [difference.kind for difference in compare(zero, other)] == ["differs"]


def test_missing_additional_and_reworded(recording: Recording) -> None:
    shell = "shell | evaluate binary.npz --json"
    changed = copy.deepcopy(recording)
    changed["new"] = changed.pop("shorthand | binary | ece")
    changed[shell]["json.metrics.ece.meaning"] = ((), np.asarray("other words"))
    del changed[shell]["json.rows"]
    kinds = {(difference.kind, difference.case) for difference in compare(recording, changed)}
    expected = {("missing", "shorthand | binary | ece"), ("additional", "new"), ("missing", shell), ("reworded", shell)}
    assert kinds == expected


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = tmp_path / "one.pkl", tmp_path / "other.pkl"
    for file, only in ((one, "shorthand | binary | "), (other, "shorthand | binary | ece")):
        assert main(["record", str(file), "--only", only]) == 0
    assert main(["compare", str(one), "--only", "shorthand | binary | ece"]) == 0
    assert capsys.readouterr().out.endswith(": 0 differs, 0 missing, 0 additional, 0 reworded\n")
    assert main(["compare", str(other), str(one)]) == 0
    assert main(["compare", str(one), str(other)]) == 1
    assert "missing: shorthand | binary | mce / value: " in capsys.readouterr().out

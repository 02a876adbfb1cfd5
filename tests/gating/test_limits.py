"""Limits as they are written."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import calibdask as cd
from calibdask.analyses.gating.limits import Limit, Limits, limits_of


def test_numbers_ranges_parts_and_choices() -> None:
    limit = Limit.parse("calibration-slope.slope = 0.9..1.1")
    assert (limit.low, limit.high, limit.bound) == (0.9, 1.1, None)
    limit = Limit.parse("ece(bins=10, norm=l2)=0.03")
    assert (limit.text, limit.bound, str(limit)) == ("ece(bins=10, norm=l2)", 0.03, "ece(bins=10, norm=l2)=0.03")
    assert Limit.parse("mean-gap=..0.02").range("statistic", "zero") == (-math.inf, 0.02)
    assert Limit.parse("ece=3e-2").range("error", "zero") == (-0.03, 0.03)
    assert Limit.parse("log-loss=0.5").range("score", "lower") == (-math.inf, 0.5)
    assert Limit.parse("corp.discrimination=0.1").range("term", "higher") == (0.1, math.inf)
    assert limits_of({"ece": 0.03}) == limits_of("ece=0.03") == limits_of(["ece=0.03"])
    assert limits_of({"ece": (0, 0.03)}) == limits_of("ece=0..0.03")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ece", "a metric and a number"),
        ("ece=much", "expects a number, or a range"),
        ("ece=0.5..0.1", "expects a number, or a range"),
        ("ece=..", "expects a number, or a range"),
        ("ece=inf", "expects a number, or a range"),
        ("ece=1e999", "expects a number, or a range"),
        ("ecx=0.1", "There is no metric 'ecx'"),
        ("=0.1", "a metric and a number"),
    ],
)
def test_what_is_no_limit(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Limit.parse(text)


def test_two_limits_of_one_number_and_bounds_that_say_too_little() -> None:
    with pytest.raises(ValueError, match="two limits"):
        limits_of(["ece=0.1", "ece=0.2"])
    with pytest.raises(ValueError, match="either side"):
        Limit.parse("mean-gap=0.1").range("statistic", "none")
    with pytest.raises(ValueError, match="from 0 on"):
        Limit.parse("ece=-0.1").range("error", "zero")
    with pytest.raises(ValueError, match="no interval"):
        Limit.parse("spiegelhalter-test.pvalue=0.05").range("pvalue", "none")


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (
            {"ece": 3},
            "ece is from 0 to 1 for any data, and nothing can break a limit of 3; .* 3 percentage points",
        ),
        ({"ece": 1}, "nothing can break"),
        ({"ece": (0.0, math.inf)}, "nothing can break a limit of 0..inf"),
        ({"ece": (-math.inf, math.inf)}, "expects a number, or a range"),
        ({"mean-gap": 5}, "from -1 to 1"),
        ({"mean-gap": (2, 3)}, "nothing can keep a limit of 2..3"),
        ({"brier-score": 25}, "from 0 to 1"),
        ({"smooth-ece": "0.."}, "nothing can break"),
        ({"log-loss": "0.."}, "at least 0"),
        ({"c-statistic": 0}, "nothing can break"),
        ({"skce": 2}, "from -2 to 2"),
    ],
)
def test_limits_that_no_data_break_or_keep_are_refused_everywhere(limit: dict[str, Any], said: str) -> None:
    labels, scores = [0, 1, 1, 0] * 10, [0.2, 0.4, 0.6, 0.8] * 10
    summary = cd.summarize(labels, scores)
    calls: list[Callable[[], object]] = [
        lambda: cd.check(labels, scores, limit),
        lambda: cd.check(labels, scores, "ece=0.1", slice_limits=limit, by=labels),
        lambda: cd.receipt(labels, scores, limits=limit),
    ]
    if "skce" not in limit:
        calls.append(lambda: cd.check(summary, limits=limit))
    for call in calls:
        with pytest.raises(ValueError, match=said):
            call()


def test_margins_that_no_model_exceeds_are_refused() -> None:
    labels, scores = [0, 1, 1, 0] * 10, [0.2, 0.4, 0.6, 0.8] * 10
    with pytest.raises(ValueError, match="no model can be worse by more than a limit of 1"):
        cd.check(labels, scores, not_worse={"brier-score": 1}, baseline=scores)


def test_decisions_are_rather_right_than_wrong(tmp_path: Path) -> None:
    labels, scores = [0, 1, 1, 0] * 10, [0.2, 0.4, 0.6, 0.8] * 10
    (tmp_path / "limits.toml").write_text("confidence = 0.3\n[limits]\nece = 0.03\n")
    calls: list[Callable[[], object]] = [
        lambda: cd.check(labels, scores, "ece=0.1", confidence=0.3),
        lambda: cd.receipt(labels, scores, limits="ece=0.1", confidence=0.3),
        lambda: cd.threshold(labels, scores, risk=0.1, confidence=0.3),
        lambda: Limits.read(str(tmp_path / "limits.toml")),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"confidence expects a number from 0\.5 on"):
            call()


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(
        'confidence = 0.9\nby = "country"\nprofile = "ml"\nowner = "Risk"\ndeclared = 2026-01-15\n'
        '[limits]\nece = 0.03\n"mean-gap" = [-0.01, 0.02]\n'
        "[slice-limits]\nece = 0.05\n"
    )
    limits = Limits.read(str(path))
    assert (limits.by, limits.profile, limits.confidence) == (("country",), "ml", 0.9)
    assert (limits.owner, limits.declared) == ("Risk", "2026-01-15")
    assert [list(map(str, given)) for given in (limits.limits, limits.slice_limits)] == [
        ["ece=0.03", "mean-gap=-0.01..0.02"],
        ["ece=0.05"],
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("limits = 3", "expects a table"),
        ("[limits]\nece = 'a'", "expects a number"),
        ("[limit]\nece = 0.1", "'limit'|also limit"),
        ("confidence = 2", "between 0 and 1"),
        ("by = 3", "names of columns"),
        ("profile = 3", "expects a name"),
        ("owner = 3", "owner expects a name"),
        ("declared = 3", "a day such as 2026-01-15"),
        ("[limits", "is not a TOML file"),
    ],
)
def test_files_that_are_none(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        Limits.read(str(path))

"""The first page of a report: facts, banners, the numbers of a profession, hashes."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.analyses.gating.gate import Gate
from calibdask.analyses.gating.judging import Judgement
from calibdask.analyses.gating.profiles import PROFILES
from calibdask.report import Measured, measure
from calibdask.report.limit_bar import large_bar, range_of, small_bar
from tests.report.page_reader import Reader, page_of
from tests.report.sample_rows import COUNTRY, LABELS, TRUTH
from tests.report.test_consistency import counted, drawn_sides


@pytest.fixture(scope="module")
def gates() -> dict[str, Gate]:
    """Of the same rows: met, broken by a slice, and undecided."""
    by = {"country": COUNTRY}
    few = {"y_true": LABELS[:40], "y_prob": TRUTH[:40]}
    return {
        "met": cd.check(LABELS, TRUTH, {"ece": 0.2}, n_boot=50),
        "broken": cd.check(LABELS, TRUTH**3, {"ece": 0.9}, slice_limits={"ece": 0.01}, by=by, n_boot=50),
        "undecided": cd.check(limits={"ece": 0.03}, n_boot=50, **few),
    }


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("met", "✓ met Within the limit"),
        ("broken", "✗ broken Outside the limit: country="),
        ("undecided", "? undecided"),
    ],
)
def test_icon_word_and_colour_say_the_same(
    word: str, line: str, gates: dict[str, Any], extreme: Measured, tmp_path: Path
) -> None:
    html, reader = page_of(tmp_path, {"m": replace(extreme, gate=gates[word])})
    banners = [given for _, given in reader.tags if (given.get("class") or "").startswith("banner")]
    assert [given["class"] for given in banners] == [f"banner {word}"]
    assert line in reader.text
    # No other verdict stands beside it.
    assert 'class="finding' not in html
    (large,) = [given for given in reader.having("svg", role="img") if "limit-bar" in str(given["class"])]
    assert "0.2" in str(large["aria-label"]) or word != "met"


def test_several_models_share_one_table(gates: dict[str, Any], extreme: Measured, tmp_path: Path) -> None:
    models = {name: replace(extreme, gate=gate) for name, gate in gates.items()}
    _, reader = page_of(tmp_path, models)
    assert [len(reader.having("article", **{"class": f"banner {word}"})) for word in gates] == [1, 1, 1]
    assert reader.text.count("where rows events met broken undecided") == 1


def test_pictures_agree_with_decisions() -> None:
    """The interval lies on the side of the limit that the word says."""
    for low, high, outcome in ((0.0, 0.02, "met"), (0.05, 0.07, "broken"), (0.02, 0.05, "cannot be decided")):
        judgement = Judgement("ece", -0.03, 0.03, {}, (low + high) / 2, low, high, 100.0)
        assert judgement.outcome == outcome
        picture = small_bar(judgement, range_of([judgement]))
        (limit,) = (float(x) for x in re.findall(r'class="limit" x1="([\d.]+)"', picture))
        first, last = (
            float(x) for x in re.findall(r'class="interval" x1="([\d.]+)" y1="[\d.]+" x2="([\d.]+)"', picture)[0]
        )
        assert {"met": last < limit, "broken": first > limit, "cannot be decided": first < limit < last}[outcome]
        assert "limit 0.03" in large_bar(judgement, "")


@pytest.mark.parametrize("ends", [(float("nan"), float("nan")), (0.1, float("inf")), (0.0, 0.0)])
def test_pictures_of_what_is_not_known(ends: tuple[float, float]) -> None:
    judgement = Judgement("ece", -0.03, 0.03, {}, 0.0, *ends, 100.0)
    assert not re.search("nan|inf", large_bar(judgement, ""))


def test_facts_profile_and_receipt_at_the_shell(run: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame({"label": LABELS, "score": TRUTH, "country": COUNTRY})
    frame.loc[3, "score"] = np.nan
    frame.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "facts.toml").write_text('model = "Sepsis <score>"\nversion = 2\n')
    words = ["--by", "country", "--profile", "credit", "--limit", "ece=0.3", "--skip-missing", "--n-boot", "20"]
    files = ["--facts", tmp_path / "facts.toml", "--fact", "Purpose=approval", "--receipt", tmp_path / "receipt.json"]
    status, out, _ = run("report", tmp_path / "rows.csv", *words, *files, "--out", tmp_path / "page.html")
    assert status == 0
    assert "Met: all" in out
    reader = Reader((tmp_path / "page.html").read_text())
    receipt = json.loads((tmp_path / "receipt.json").read_text())
    assert f"Hash of the receipt: {receipt['hash']}." in reader.text
    assert receipt["data"]["fingerprint"] in reader.text
    for said in (
        "Sepsis <score>",
        "Version 2",
        "Purpose approval",
        "kB",
        "1 row without a score is not used.",
        "Decision and reasons; name, date, signature",
    ):
        assert said in reader.text
    for names in PROFILES["credit"].names.values():
        assert all(name in reader.text for name in names.values())
    assert run("verify", tmp_path / "receipt.json", tmp_path / "rows.csv")[0] == 0


def test_what_an_approval_needs_stands_first(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outcome, the period and the origin of the limits; what nobody says is called missing."""
    monkeypatch.chdir(tmp_path)
    days = np.datetime64("2026-03-01") + np.arange(LABELS.size) % 3
    frame = pd.DataFrame({"label": LABELS, "score": TRUTH**1.1, "day": days})
    frame.to_csv("rows.csv", index=False)
    limits = 'owner = "Model risk"\ndeclared = 2026-01-15\n[limits]\nece = 0.3\n'
    Path("limits.toml").write_text(limits)
    few = ("--n-boot", "10", "--overwrite", "--out", "page.html")

    def facts(*words: str) -> dict[str, str]:
        assert run("report", "rows.csv", *words, *few)[0] == 0
        html = Path("page.html").read_text()
        before, banner, _ = html.partition('<article class="banner')
        assert banner
        return dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", before))

    origin = "limits.toml, declared by Model risk on 2026-01-15"
    found = facts("--limits", "limits.toml", "--fact", "outcome=default in a year", "--period", "day")
    assert found == {
        "Model": "rows", "Outcome": "default in a year", "Period": "2026-03-01 to 2026-03-03", "Limits": origin
    }  # fmt: skip
    options = "options of the command, owner not stated"
    found = facts("--limit", "ece=0.3")
    assert found == {"Model": "rows", "Outcome": "not stated", "Period": "not stated", "Limits": options}
    assert facts("--limits", "limits.toml", "--limit", "ece=0.2")["Limits"] == f"{origin}; {options}"
    assert facts("--limit", "ece=0.2", "--fact", "limits=board, 2025")["Limits"] == "board, 2025"
    # Without limits nothing is decided, and nothing is missing.
    assert facts() == {}


def test_numbers_have_one_minus_sign_and_one_name(extreme: Measured, tmp_path: Path) -> None:
    worse = measure(LABELS, np.clip(TRUTH + 0.1, 0, 1), by={"country": COUNTRY}, n_boot=20)
    worse = replace(
        worse, audited=cd.audit(LABELS, np.clip(TRUTH + 0.1, 0, 1), {"country": COUNTRY, "part": TRUTH > 0.5})
    )
    gate = cd.check(LABELS, np.clip(TRUTH + 0.1, 0, 1), {"ece": 0.02, "mean-gap": (-0.02, 0.01)}, n_boot=20)
    html, reader = page_of(tmp_path, {"extreme": extreme, "worse": replace(worse, gate=gate)})
    shown = " ".join(re.sub(r"<(style|script|code)>.*?</\1>", "", html, flags=re.S).split())
    texts = [*re.findall(">([^<]*)<", shown), *re.findall('aria-label="([^"]*)"', shown)]
    assert sum(text.count("−") for text in texts) > 20
    # Numbers that a program reads keep the sign of programs.
    assert 'value="-0.' in html
    assert [text for text in texts if re.search(r"(?<![\w.])-\d|\de-\d", text)] == []
    assert "Expected calibration error" not in shown.partition("Appendix")[0].partition("</nav>")[2]
    assert reader.text.count("Calibration error (ECE)") > 3
    assert "The calibration error (ECE, 15 bins of equal width) is" in reader.text


def test_models_file_their_numbers_side_by_side(extreme: Measured, tmp_path: Path) -> None:
    gates = {
        name: cd.check(LABELS, scores, {"ece": 0.1}, profile="credit", n_boot=20)
        for name, scores in (("old", TRUTH), ("new", TRUTH**1.2))
    }
    _, reader = page_of(tmp_path, {name: replace(extreme, gate=gate) for name, gate in gates.items()})
    first, second = (LABELS.mean() / scores.mean() for scores in (TRUTH, TRUTH**1.2))
    ends = r"\([\d. to]+\)"
    said = rf"Realised / expected defaults: {first:.3f} {ends} for old; {second:.3f} {ends} for new\."
    assert re.search(said, reader.text)
    assert reader.text.count("Back-testing of probabilities of default, 95 % intervals number old new") == 1


# Pictures of a profile: how their captions begin, and the lines of their intervals.
DRAWN: dict[str, dict[str, tuple[str, ...]]] = {
    "clinical": {"calibration belt; p": ("band", "ends"), "decision curve; solid": ("ends",)},
    "forecast": {"murphy curve; solid": ("ends",)},
}


@pytest.mark.parametrize(("profile", "drawn"), DRAWN.items())
def test_a_profile_draws_its_curves(profile: str, drawn: dict[str, tuple[str, ...]], run: Any, tmp_path: Path) -> None:
    scores = TRUTH if profile == "clinical" else TRUTH**1.15
    pd.DataFrame({"label": LABELS, "score": scores}).to_csv(tmp_path / "rows.csv", index=False)
    assert run("summarize", tmp_path / "rows.csv", "--out", tmp_path / "rows.zarr")[0] == 0
    for data in ("rows.csv", "rows.zarr"):
        words = ["--profile", profile, "--n-boot", "10", "--out", tmp_path / "page.html"]
        assert run("report", tmp_path / data, *words, "--overwrite")[0] == 0
        html = (tmp_path / "page.html").read_text()
        figures = re.findall(r"<figure>(.*?)<figcaption>rows: (.*?)</figcaption>", html, re.S)
        assert not any("nan" in picture or "inf" in picture for picture, _ in figures)
        found = {
            caption: tuple(re.findall(r'<path class="(band|ends)"', picture))
            for picture, caption in figures
            if "curve main" in picture and 'class="reference dashed"' in picture
        }
        assert [caption.startswith(words) for caption, words in zip(found, drawn, strict=True)] == [True] * len(drawn)
        assert list(found.values()) == list(drawn.values())
        if profile == "forecast":
            # Consistency bars, in which points have the colours that the numbers say.
            expected = cd.evaluate(LABELS, scores, {"x": cd.ConsistencyBars(bins=10)}, ci=0.95)
            (bars,) = [picture for picture, caption in figures if caption.startswith("reliability with consistency")]
            assert drawn_sides(bars.rpartition("<figure>")[2]) == counted(expected)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fact", "version"), "--fact expects NAME=TEXT"),
        (("--facts", "none.toml"), "none.toml cannot be read"),
        (("--limit", "ecx=0.1"), "There is no metric"),
        (("--receipt", "receipt.txt"), ".json"),
    ],
)
def test_bad_use(run: Any, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    pd.DataFrame({"label": LABELS, "score": TRUTH}).to_csv(tmp_path / "rows.csv", index=False)
    status, out, err = run("report", tmp_path / "rows.csv", *words, "--out", tmp_path / "page.html")
    assert (status, out) == (2, "")
    assert said in err
    assert not (tmp_path / "page.html").exists()


def test_observed_over_expected_counts_weights(tmp_path: Path) -> None:
    """Of rare outcomes the table of gaps has the ratio of weighted sums, of all rows and of each slice."""
    rng = np.random.default_rng(5)
    scores = rng.beta(1, 60, 4000)
    labels = (rng.random(4000) < 1.5 * scores).astype(int)
    weights = np.where(labels == 1, 1.0, 5.0)
    region = np.arange(4000) % 2
    measured = measure(labels, scores, {"gap": cd.MeanGap()}, sample_weight=weights, by={"region": region}, n_boot=20)
    _, reader = page_of(tmp_path, {"m": measured})
    shown = re.findall(r"O/E ([\d.]+)", reader.text)
    kept = [np.ones(4000, bool), region == 0, region == 1]
    ratios = [(weights * labels)[rows].sum() / (weights * scores)[rows].sum() for rows in kept]
    assert sorted(shown) == sorted(f"{ratio:.2f}" for ratio in ratios)

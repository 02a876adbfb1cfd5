"""The reliability diagram in characters: what it shows, when, and at which price."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli import main
from calibdask.cli.text_plot import PLAIN, SIGNS, Signs, TextDiagram, heading_of, picture_lines, suited
from calibdask.render.text_layout import joined, width_of
from calibdask.results.reliability import BinnedReliability

RNG = np.random.default_rng(4)
ROWS = 3000
SCORES = RNG.random(ROWS)
CODE = "import sys; from calibdask.cli import main; sys.exit(main())"
EDGES = np.linspace(0, 1, 6)


def diagram(score: list[float], outcome: list[float], count: list[float]) -> xr.Dataset:
    bins = {"score": score, "outcome": outcome, "count": count, "weight": count}
    bins |= {"lower": EDGES[:-1], "upper": EDGES[1:]}
    return xr.Dataset({name: ("bin", np.asarray(values, np.float64)) for name, values in bins.items()})


ONE = diagram([0.1, 0.3, 0.5, 0.75, 0.9], [0.25, 0.3, np.nan, 0.25, 0.899], [1000, 500, 0, 4, 1])


def lines_of(shown: xr.Dataset, width: int = 80, signs: Signs = SIGNS, title: str = "title") -> list[str]:
    return [joined(line) for line in picture_lines(BinnedReliability.of(shown, ""), title, "score", width, signs)]


def test_points_are_where_they_belong() -> None:
    lines = lines_of(ONE)
    field = [line[6:].ljust(41) for line in lines[1:14]]
    places = {
        sign: (column, line) for line, text in enumerate(field) for column, sign in enumerate(text) if sign not in " ·│"
    }
    # A quarter is three lines, or ten columns.
    assert places == {"▲": (4, 9), "●": (12, 8), "▽": (30, 9), "○": (36, 1)}
    assert [field[line][30] for line in (3, 4, 5, 6, 7, 8, 9)] == [*"·│││││▽"], "a stick from the diagonal to the point"
    for column in (0, 20, 40):
        assert field[12 - round(column * 12 / 40)][column] == "·"
    assert [line[:4] for line in lines[1:14] if line[0].isdigit()] == ["1.00", "0.75", "0.50", "0.25", "0.00"]


def test_signs_are_explained_where_they_occur() -> None:
    legend = " ".join(lines_of(ONE)[-2:])
    assert "▲ more frequent than scored" in legend
    assert "▼ less frequent than scored" in legend
    assert "● gap below 0.01" in legend
    assert "▽○ the same, of less than 1% of the rows" in legend
    calm = " ".join(lines_of(diagram([0.1, 0.3, 0.5, 0.7, 0.9], [0.3, 0.5, 0.7, 0.9, 1.0], [100] * 5))[-2:])
    assert "▲" in calm
    assert not set("▼●△▽○") & set(calm)


def test_bars_are_as_high_as_scores_are_dense() -> None:
    upper, lower = (line[6:].ljust(41) for line in lines_of(ONE)[15:17])
    assert (upper[0], lower[0]) == ("█", "█")
    assert (upper[12], lower[12]) == (" ", "█"), "half as many"
    assert (upper[20], lower[20]) == (" ", " "), "none"
    assert (upper[39], lower[39]) == (" ", "▁"), "a single row still shows"
    narrow = ONE.assign(lower=("bin", [0, 0.1, 0.4, 0.6, 0.8]), upper=("bin", [0.1, 0.4, 0.6, 0.8, 1.0]))
    upper, lower = (line[6:].ljust(41) for line in lines_of(narrow)[15:17])
    assert (upper[0], lower[12]) == ("█", "▃"), "rows by width of the bin: a sixth"


@pytest.mark.parametrize(("width", "signs"), [(30, SIGNS), (40, PLAIN), (60, SIGNS), (100, PLAIN)])
def test_it_fits(width: int, signs: Signs) -> None:
    lines = lines_of(ONE, width, signs)
    assert max(map(width_of, lines[:19])) <= min(width, 47)
    assert max(map(width_of, lines)) <= max(width, 47)
    assert max(map(width_of, lines_of(ONE, width, signs, title="many words " * 9))) <= max(width, 47)
    if signs is PLAIN:
        assert "".join(lines).isascii()
        assert {"^", "v", ".", "'", ","} & set("".join(lines[1:14])) >= {"^"}


def test_the_scores_are_those_of_the_metric() -> None:
    chosen = {"brier": cd.BrierScore(), "a": cd.ECE(bins=7, binning="equal-mass"), "b": cd.ECE()}
    shown = suited(chosen, None, None)
    assert (shown.bins, shown.binning) == (7, "equal-mass")
    assert (suited({"a": cd.ECE()}, None, None).bins, suited({"a": cd.ECE(bins="sqrt")}, None, None).bins) == (
        "auto",
        "auto",
    )
    assert suited({"brier": cd.BrierScore()}, 1, None).setting == 1
    assert heading_of(shown, 7, vector=False) == ("Accuracy by confidence, in 7 bins", "confidence")
    assert heading_of(TextDiagram(setting=2), 1, vector=False)[0] == "Frequency of class 2 by its score, in 1 bin"


def test_skewed_scores_fill_the_diagram() -> None:
    scores = np.r_[np.linspace(0.0, 0.3, 1990), np.linspace(0.7, 0.9, 10)]
    result = cd.evaluate(np.arange(2000) % 9 == 0, scores, {"shown": TextDiagram()})
    lines = [joined(line) for line in picture_lines(BinnedReliability.of(result, "shown"), "title", "score", 80, PLAIN)]
    assert lines[1].split()[0] == "0.3"
    assert lines[17].split() == ["0", "0.075", "0.15", "0.22", "0.3"]
    assert lines[-1] == "Axis to 0.3, the 99.5th percentile: 10 rows beyond."
    columns = [text.rfind(sign) for text in lines[1:14] for sign in "^vo" if sign in text[6:]]
    assert max(columns) > 40, "points reach the right end"


@pytest.mark.parametrize(
    "metrics",
    [
        {"brier": cd.BrierScore()},
        {"ece": cd.ECE(binning="equal-mass", bins=9)},
        {"ece": cd.ECE(bins="sqrt", mapping="convex")},
        {"skce": cd.SKCE(bandwidth=0.3, estimator="linear")},
        None,
    ],
    ids=["brier", "equal-mass", "sqrt", "skce", "panel"],
)
@pytest.mark.parametrize("ci", [0.9])
def test_it_costs_no_pass_and_changes_no_number(metrics: Any, ci: float | None) -> None:
    labels, scores = RNG.random(200) < SCORES[:200], SCORES[:200]
    chosen = cd.default_metrics(2, vector=True) if metrics is None else metrics
    options: Any = {"ci": ci, "n_boot": 3}
    alone = cd.evaluate(labels, scores, chosen, **options)
    shown = cd.evaluate(labels, scores, {**chosen, "reliability_diagram": suited(chosen, None, None)}, **options)
    assert shown.attrs["passes"] == alone.attrs["passes"]
    xr.testing.assert_identical(shown[list(alone.data_vars)], alone)
    assert "reliability_diagram_outcome_low" not in shown, "nor intervals that nobody sees"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    day = RNG.integers(0, 2, ROWS)
    np.savez(folder / "binary.npz", labels=RNG.random(ROWS) < SCORES**2, scores=SCORES, day=day)
    scores = RNG.dirichlet(np.ones(3), ROWS)
    np.savez(folder / "multi.npz", labels=RNG.integers(0, 3, ROWS), scores=scores, day=day)
    for name in ("binary", "multi"):
        words = ["--setting", "classwise"] if name == "multi" else []
        assert main(["summarize", str(folder / f"{name}.npz"), "--out", str(folder / f"{name}.nc"), *words]) == 0
    return folder


def on_terminal(monkeypatch: pytest.MonkeyPatch, *arguments: str, **options: Any) -> str:
    """What a terminal gets to see."""
    from rich.console import Console

    from calibdask.cli import tables

    written = io.StringIO()
    made = Console(file=written, force_terminal=True, width=options.pop("width", 80), highlight=False, **options)
    monkeypatch.setattr(tables, "console", lambda **_: made)
    assert main(["evaluate", *arguments]) == 0
    return written.getvalue()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_terminals_show_one_curve(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    shown = on_terminal(monkeypatch, str(data / "binary.npz"), "--metric", "ece")
    assert "Frequency of y = 1 by score, in 15 bins" in plain(shown)
    assert "▼" in shown
    assert "\x1b[1m" in shown
    multi = on_terminal(monkeypatch, str(data / "multi.npz"), "--metric", "ece", "--bins", "10")
    assert "Accuracy by confidence, in 10 bins" in plain(multi)
    one = on_terminal(monkeypatch, str(data / "multi.npz"), "--metric", "ece", "--setting", "1")
    assert "Frequency of class 1 by its score" in plain(one)
    assert "▼" in on_terminal(monkeypatch, str(data / "binary.nc"), "--metric", "density-ece")


@pytest.mark.parametrize(
    "options",
    [
        ["binary.npz", "--metric", "ece-a", "--no-text-plot"],
        ["binary.npz", "--metric", "ece-a", "--by", "day"],
        ["multi.npz", "--metric", "ece-a", "--setting", "classwise"],
        ["multi.nc"],
    ],
    ids=" ".join,
)
def test_where_there_is_no_one_curve_none_is_shown(
    options: list[str], monkeypatch: pytest.MonkeyPatch, data: Path
) -> None:
    name, *others = options
    shown = plain(on_terminal(monkeypatch, str(data / name), *others))
    assert "0." in shown
    assert not set("▲▼●") & set(shown)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--json"], "--text-plot has no effect with --json"),
        (["--by", "day"], "it has no effect with --by"),
        (["--setting", "classwise"], "a --setting of all classes"),
    ],
)
def test_what_makes_no_sense_is_refused(
    options: list[str], message: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(data / "multi.npz"), "--text-plot", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    command = (str(data / "binary.npz"), "--metric", "ece")
    coloured = on_terminal(monkeypatch, *command, color_system="truecolor")
    assert re.search(r"\x1b\[[0-9;]*3[0-9]", coloured)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", on_terminal(monkeypatch, *command, color_system="truecolor"))


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
@pytest.mark.parametrize(("columns", "encoding"), [(60, "ascii")])
def test_on_a_real_terminal(columns: int, encoding: str, data: Path) -> None:
    """Through a pseudo-terminal: it fits, and says all in letters where there are no more."""
    import pty
    import termios

    main_end, other_end = pty.openpty()
    termios.tcsetwinsize(other_end, (40, columns))
    around = {**os.environ, "PYTHONIOENCODING": encoding, "TERM": "xterm-256color"}
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        around.pop(name, None)
    command = [sys.executable, "-c", CODE, "evaluate", str(data / "binary.npz"), "--metric", "ece,brier-decomposition"]
    with subprocess.Popen(command, stdout=other_end, stderr=subprocess.DEVNULL, env=around) as process:
        os.close(other_end)
        read = b""
        while True:
            try:
                piece = os.read(main_end, 1 << 16)
            except OSError:
                break
            if not piece:
                break
            read += piece
    os.close(main_end)
    assert process.returncode == 0
    text = read.decode("utf-8")
    assert "\x1b[" in text
    lines = plain(text).splitlines()
    assert max(map(width_of, lines)) <= columns
    assert any("0.75" in line for line in lines)
    assert any("covariance of scores and outcomes" in line for line in lines)
    assert plain(text).isascii() == (encoding == "ascii")

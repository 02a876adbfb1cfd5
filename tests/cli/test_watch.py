"""``calibdask watch``: a job that runs every day, its alarms, and what it tells other programs."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli import main
from calibdask.cli.watch_state import WatchState
from calibdask.errors import Unavailable
from calibdask.storage.writers import write_dataset
from tests.cli.sample_rows import Run
from tests.monitoring.exposition_reader import read_exposition
from tests.monitoring.test_watch import DAYS, summary

# Its input is added to a file, of which there is then a line for every alarm that was told.
TELL = f'{shlex.quote(sys.executable)} -c \'import sys; open("told", "a").write(sys.stdin.read())\''
FAIL = f"{shlex.quote(sys.executable)} -c 'raise SystemExit(\"no mail\")'"

# Leaves a process behind that holds its output.
GOES_ON = """
import subprocess, sys
left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
open("number", "w").write(str(left.pid))
left.returncode = 0
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Summaries of the first 12, 16 and all 20 days; from the 13th on country b drifts."""
    folder = tmp_path_factory.mktemp("summaries")
    drifted = summary(shift=0.2)
    for days in (12, 16):
        write_dataset(drifted.isel(day=slice(0, days)), folder / f"days{days}.nc")
    write_dataset(drifted, folder / "days.zarr")
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_history_shows_when_it_would_have_alarmed(run: Run, stored: Path, here: Path) -> None:
    outputs = ("--state", "w.json", "--metrics-file", "w.prom", "--out", "w.csv", "--on-alarm", TELL)
    status, out, err = run("watch", stored / "days.zarr", "--by", "country", "--dry-run", *outputs)
    assert (status, err, files(here)) == (1, "", [])
    lines = out.splitlines()
    assert lines[0] == "days: NOT calibrated: 1 alarm in 3 slices, 1 new, in 20 periods up to 2026-01-20."
    assert lines[1].startswith(
        "country b: off since 2026-01-13, new alarm on 2026-01-15; over all periods until then outcomes were"
    )
    first = next(line for line in lines if line.startswith("b "))
    assert first.split()[-2:] == ["2026-01-13", "2026-01-15"]
    assert lines[-1] == "dry run: nothing was written or run"
    status, out, err = run("watch", f"forest={stored / 'days12.nc'}", "--by", "country")
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "forest: quiet. No alarm in 12 periods up to 2026-01-12."


def test_the_threshold_of_several_slices_is_that_which_decides(run: Run, stored: Path) -> None:
    """Of three slices E has to be 60; evidence that is no alarm yet has its onset."""
    rng = np.random.default_rng(4)
    scores, day, country = rng.random(24_000), np.arange(24_000) // 3000, np.arange(24_000) % 3
    labels = (rng.random(24_000) < scores + np.where((country == 2) & (day >= 4), 0.03, 0)).astype(int)
    weak = cd.summarize(labels, scores, by={"day": day, "country": country}, settings=["binary"])
    result = cd.watch(weak, by="country").isel(day=-1)
    log_e = result.log_e.values[2]
    assert np.log(20) < log_e < np.log(60)
    assert bool(result.alarm[2])
    assert not result.found.any()
    write_dataset(weak, stored / "weak.nc")
    status, out, _ = run("watch", stored / "weak.nc", "--by", "country", "--dry-run")
    assert status == 0
    words = " ".join(out.split())
    assert "with 3 slices the first alarm needs E of 60 (log E 4.09), k alarms E of 60 / k each (e-BH)" in words
    (line,) = [line for line in out.splitlines() if line.startswith("2 ")]
    assert line.split()[-2:] == [str(int(result.since[2])), "-"]


def test_lines_of_json(run: Run, stored: Path) -> None:
    drifted = summary(shift=0.2)
    expected = cd.watch(drifted, by="country", tolerance=0.01).sel(country="b")
    at = expected.isel(day=int(expected.found.values.argmax()))
    status, out, err = run("watch", stored / "days.zarr", "--by", "country", "--tolerance", 0.01, "--json")
    assert (status, err) == (1, "")
    (line,) = map(json.loads, out.splitlines())
    assert line["by"] == {"country": "b"}
    assert (line["summary"], line["tolerance"], line["alpha"], line["new"]) == ("days", 0.01, 0.05, True)
    assert np.datetime64(line["period"]) == at.day
    assert np.datetime64(line["since"]) == at.since
    for name in ("log_e", "pvalue", "gap", "gap_low", "gap_high", "error", "error_low", "error_high"):
        assert line[name] == at[name], name
    assert line["rows"] == int(expected.rows.sel(day=slice(None, at.day)).sum())
    status, out, _ = run("watch", stored / "days.zarr", "--json")
    assert (status, json.loads(out)["by"]) == (1, {})
    assert run("watch", stored / "days12.nc", "--json") == (0, "", "")


def test_a_daily_job_tells_every_alarm_once(run: Run, stored: Path, here: Path) -> None:
    job = ("--by", "country", "--state", "w.json", "--on-alarm", TELL, "--json")
    assert run("watch", stored / "days12.nc", *job) == (0, "", "")
    assert files(here) == ["w.json"]
    status, out, _ = run("watch", stored / "days16.nc", *job)
    assert (status, json.loads(out)["new"]) == (1, True)
    assert Path("told").read_text() == out
    told = Path("told").read_text()
    for days in ("days16.nc", "days.zarr"):
        status, out, _ = run("watch", stored / days, *job)
        assert (status, json.loads(out)["new"]) == (1, False)
        assert Path("told").read_text() == told
    whole = json.loads(cd.watch(summary(shift=0.2), by="country").attrs["state"])
    assert json.loads(Path("w.json").read_text())["state"] == whole
    out = run("watch", stored / "days.zarr", "--by", "country", "--state", "w.json")[1]
    assert "1 alarm in 3 slices, none new" in out
    assert "country b: off since 2026-01-13, alarm on 2026-01-15" in out


def test_a_command_that_fails_is_trouble_and_its_alarms_are_told_again(run: Run, stored: Path, here: Path) -> None:
    job = ("watch", stored / "days16.nc", "--by", "country", "--state", "w.json", "--metrics-file", "w.prom")
    status, out, err = run(*job, "--on-alarm", FAIL)
    assert (status, err.count("\n")) == (2, 1)
    assert "ended with status 1 (no mail); the alarms are kept in w.json, and the next run reports them again" in err
    assert "1 alarm in 3 slices, 1 new" in out
    assert read_exposition(Path("w.prom").read_text())["calibdask_watch_periods"]
    status, out, _ = run(*job, "--on-alarm", TELL, "--json")
    assert (status, json.loads(out)["new"]) == (1, True)
    assert run(*job, "--on-alarm", FAIL)[0] == 1
    assert len(Path("told").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    "program",
    ['import sys; sys.stdout.buffer.write(b"\\xff\\xfe" * 10**6)', "import sys; sys.stdin.close()", GOES_ON],
    ids=["output that is no text", "input that nobody reads", "a program that goes on"],
)
def test_a_command_is_judged_by_its_status_alone(program: str, run: Run, stored: Path, here: Path) -> None:
    command = shlex.join([sys.executable, "-c", program])
    status, out, err = run("watch", stored / "days16.nc", "--by", "country", "--on-alarm", command)
    assert (status, err) == (1, ""), out
    if program == GOES_ON:
        # Fails where it was waited for.
        os.kill(int(Path("number").read_text()), signal.SIGKILL)


def test_labels_are_no_words_of_a_command(run: Run, here: Path) -> None:
    rng = np.random.default_rng(0)
    scores, day = rng.random(4000), np.repeat(np.arange(4), 1000)
    by = {"day": day, "country": np.full(4000, '$(touch x); "`touch y`\n')}
    write_dataset(cd.summarize(rng.random(4000) < scores**2, scores, by=by, settings=["binary"]), Path("s.nc"))
    status, out, err = run("watch", "s.nc", "--by", "country", "--on-alarm", TELL, "--metrics-file", "m.prom")
    assert (status, err) == (1, "")
    assert files(here) == ["m.prom", "s.nc", "told"]
    assert json.loads(Path("told").read_text())["by"] == {"country": by["country"][0]}
    samples = read_exposition(Path("m.prom").read_text())["calibdask_watch_alarm"]
    assert [labels["country"] for labels in samples] == [by["country"][0]]
    assert r"$(touch x); \"`touch y`\n" in out.replace('"', r"\"")


def test_gauges(run: Run, stored: Path, here: Path) -> None:
    options = ("--by", "country", "--due", "30d", "--now", "2026-02-18", "--metrics-file", "m.prom")
    assert run("watch", f"x={stored / 'days.zarr'}", *options)[0] == 1
    gauges = read_exposition(Path("m.prom").read_text())
    result = cd.watch(summary(shift=0.2).isel(day=slice(0, 18)), by="country")
    own = {"summary": "x", "setting": "class 1", "tolerance": "0"}
    for country in ("a", "b", "c"):
        here_now = result.sel(country=country).isel(day=-1)
        for name in ("log_e", "pvalue", "gap", "gap_low", "gap_high", "error", "error_low", "error_high"):
            ((labels, value),) = [
                (labels, value)
                for labels, value in gauges[f"calibdask_watch_{name}"].items()
                if dict(labels)["country"] == country
            ]
            assert dict(labels) == own | {"country": country}
            assert value == here_now[name]
    assert sum(gauges["calibdask_watch_rows"].values()) == 18 * 600
    assert [value for _, value in sorted(gauges["calibdask_watch_alarm"].items())] == [0, 1, 0]
    whole = {name: [*gauges[f"calibdask_watch_{name}"].values()] for name in ("periods", "pending_periods")}
    assert whole == {"periods": [18], "pending_periods": [2]}
    (begin,) = gauges["calibdask_watch_last_period_timestamp_seconds"].values()
    assert np.datetime64(int(begin), "s") == DAYS[17]
    assert run("watch", stored / "days.zarr", "--due", "10000d", "--metrics-file", "m.prom")[0] == 0
    assert read_exposition(Path("m.prom").read_text())["calibdask_watch_log_e"] == {}


def test_names_of_labels_are_told_apart(run: Run, here: Path) -> None:
    by = {"day": [1, 1], "cell type": [0, 1], "cell-type": [1, 1], "setting": [0, 0]}
    write_dataset(cd.summarize([0, 1], [0.3, 0.6], by=by, settings=["binary"]), Path("s.nc"))
    slices = ("--by", "cell type", "--by", "cell-type", "--by", "setting")
    assert run("watch", "s.nc", *slices, "--metrics-file", "m.prom")[0] == 0
    samples = read_exposition(Path("m.prom").read_text())["calibdask_watch_rows"]
    assert {frozenset(labels) for labels in map(dict, samples)} == {
        frozenset({"summary", "setting", "tolerance", "cell_type", "cell_type_", "setting_"})
    }


def test_what_is_not_due_is_shown(run: Run, stored: Path, here: Path) -> None:
    due = ("--due", "30d", "--state", "w.json", "--now")
    status, out, _ = run("watch", stored / "days.zarr", *due, "2026-01-21")
    assert status == 0
    assert out.startswith("days: nothing to watch yet: no day is due, 20 pending, the first is due on 2026-02-01.\n")
    assert "pending, not watched: 2026-01-01 (600 rows, due 2026-02-01), 2026-01-02" in out
    status, out, _ = run("watch", stored / "days.zarr", *due, "2026-02-12")
    assert (status, "No alarm in 12 periods up to 2026-01-12." in out) == (0, True)
    assert run("watch", stored / "days.zarr", *due, "2026-03-12")[0] == 1


def test_results_over_time_are_written(run: Run, stored: Path, here: Path) -> None:
    assert run("watch", stored / "days12.nc", "--by", "country", "--out", "w.nc")[0] == 0
    expected = cd.watch(summary(shift=0.2).isel(day=slice(0, 12)), by="country")
    with xr.open_dataset("w.nc") as read:
        assert (read.log_e == expected.log_e).all()
    assert (
        run("watch", stored / "days12.nc", "--out", "w.nc", "--overwrite", "--now", "2026-01-01", "--due", "1d")[0] == 0
    )
    with xr.open_dataset("w.nc") as read:
        assert read.sizes["day"] == 0


@pytest.mark.filterwarnings("default")
def test_changed_and_late_periods(run: Run, stored: Path, here: Path) -> None:
    state = ("--by", "country", "--state", "w.json")
    drifted = summary(shift=0.2).isel(day=slice(0, 10))
    write_dataset(drifted.isel(day=[0, 1, 3]), Path("early.nc"))
    assert run("watch", "early.nc", *state)[0] == 0
    write_dataset(drifted, Path("all.nc"))
    status, out, err = run("watch", "all.nc", *state)
    assert "ignored, as they arrived late: 2026-01-03\n" in out
    assert (status, "day 2026-01-03 arrived after 2026-01-04 had been monitored, and is ignored" in err) == (0, True)
    before = Path("w.json").read_text()
    more = cd.summarize([1], [0.5], by={"day": DAYS[1:2], "country": ["a"]}, settings=["binary"])
    write_dataset(cd.merge(drifted, more), Path("changed.nc"))
    status, out, err = run("watch", "changed.nc", *state)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "day 2026-01-02 had other rows when it was monitored" in err
    assert Path("w.json").read_text() == before


def test_two_runs_at_once(run: Run, stored: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run writes the state between reading and writing."""
    job = ("watch", stored / "days16.nc", "--by", "country", "--state", "w.json", "--on-alarm", TELL)
    read = WatchState.read

    def overtaken(target: Any) -> WatchState:
        state = read(target)
        monkeypatch.setattr(WatchState, "read", read)
        assert main([*map(str, job)]) == 1
        return state

    monkeypatch.setattr(WatchState, "read", overtaken)
    status, _, err = run(*job)
    assert (status, "Another run has meanwhile written w.json" in err) == (2, True)
    assert len(Path("told").read_text().splitlines()) == 1


def test_an_alarm_is_claimed_by_the_run_that_reports_it(
    run: Run, stored: Path, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs that begin while the command of the first one is running."""
    job = ["watch", str(stored / "days16.nc"), "--by", "country", "--state", "w.json", "--json", "--on-alarm", TELL]
    command, others = subprocess.run, []

    def during(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(subprocess, "run", command)
        for _ in range(2):
            assert main(job) == 1
            others.append(json.loads(capsys.readouterr().out)["new"])
        return command(*arguments, **options)

    monkeypatch.setattr(subprocess, "run", during)
    status, out, err = run(*job)
    assert (status, err, json.loads(out)["new"], others) == (1, "", True, [False, False])
    assert Path("told").read_text() == out
    assert not json.loads(Path("w.json").read_text())["claims"]


def test_alarms_of_a_killed_run_are_reported_by_the_next_one(run: Run, stored: Path, here: Path) -> None:
    job = ["watch", str(stored / "days16.nc"), "--by", "country", "--state", "w.json", "--json"]
    # The command ends the run that has started it.
    program = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"
    killing = [*job, "--on-alarm", shlex.join([sys.executable, "-c", program])]
    assert subprocess.run([sys.executable, "-m", "calibdask", *killing], check=False).returncode == -signal.SIGKILL
    assert json.loads(Path("w.json").read_text())["claims"]
    for new in (True, False):
        status, out, _ = run(*job, "--on-alarm", TELL)
        assert (status, json.loads(out)["new"]) == (1, new)
    assert len(Path("told").read_text().splitlines()) == 1


def test_alarms_that_could_not_be_printed_are_reported_again(
    run: Run, stored: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ("watch", stored / "days16.nc", "--by", "country", "--state", "w.json", "--json")

    def failing(*given: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("click.echo", failing)
        assert run(*job)[0] == 2
    for new in (True, False):
        assert json.loads(run(*job)[1])["new"] is new


def test_what_stops_it_is_no_alarm(run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (Unavailable("the store is away"), MemoryError("full"), RuntimeError("a defect")):

        def opened(url: str, error: Exception = error) -> Any:
            raise error

        monkeypatch.setattr("calibdask.storage.open_store.open_store", opened)
        assert run("watch", stored / "days.zarr")[0] == 2


BAD = [
    (["SUMMARY", "--period", "week"], "period expects one of the slices"),
    (["SUMMARY", "--tolerance", "1"], "tolerance expects"),
    (["SUMMARY", "--due", "soon"], "due expects a time such as '30d'"),
    (["SUMMARY", "--now", "2026-01-01"], "now has no effect without due"),
    (["SUMMARY", "--metrics-file", "w.txt"], "ends in one of .prom"),
    (["SUMMARY", "--state", "broken.json"], "is not a state of calibdask watch --state, or it is corrupted: "),
    (["SUMMARY", "--state", "other.json"], "is not a state of calibdask watch --state, or it is corrupted: "),
    (["SUMMARY", "--on-alarm", "no-such-program-here x"], "there is no such program"),
    (["SUMMARY", "--on-alarm", "'"], "--on-alarm expects a command"),
    (["SUMMARY", "--on-alarm", ""], "--on-alarm expects a program"),
    (["rows.csv"], "watch expects a summary that calibdask summarize wrote"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_bad_use(arguments: list[str], message: str, run: Run, stored: Path, here: Path) -> None:
    Path("broken.json").write_text("{")
    Path("other.json").write_text('{"format": 1}')
    Path("rows.csv").write_text("label,score\n0,0.2\n1,0.7\n")
    before = files(here)
    status, out, err = run("watch", *(stored / "days12.nc" if word == "SUMMARY" else word for word in arguments))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert files(here) == before


def test_a_state_of_other_choices_is_refused(run: Run, stored: Path, here: Path) -> None:
    assert run("watch", stored / "days12.nc", "--state", "w.json")[0] == 0
    status, _, err = run("watch", stored / "days16.nc", "--state", "w.json", "--tolerance", "0.1")
    assert (status, "state was made with" in err) == (2, True)


def says_the_same(changed: str, text: str) -> bool:
    """Whether a changed digit leaves the document as it was: the last of 17 digits may say nothing."""
    try:
        return json.loads(changed) == json.loads(text)
    except json.JSONDecodeError:  # 9 became a leading 0
        return False


def harmed_states(text: str) -> dict[str, str]:
    """A state file that is cut short, changed in a digit or in a name, or made by hand."""
    digits = [at for at, character in enumerate(text) if character.isdigit()]
    cases = {
        "empty": "",
        "blank": "\n",
        "cut short": text[: len(text) // 2],
        "a key twice": '{"format": 2, ' + text[1:],
    }
    for at in digits[:: max(1, len(digits) // 12)]:
        changed = f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}"
        if not says_the_same(changed, text):
            cases[f"digit {at}"] = changed
    for name in ("format", "hash", "alarms", "untold", "state", "watch"):
        cases[f"name {name}"] = text.replace(f'"{name}"', f'"{name[:-1]}"', 1)
    old = json.loads(text)
    del old["hash"], old["state"]["hash"]
    old["format"] = old["state"]["format"] = 1
    for name, value in (("rows", -1.0), ("events", 1e9), ("run_length", 10**6)):
        made_up = json.loads(json.dumps(old))
        numbers = made_up["state"]["processes"]
        numbers[name] = np.full(np.shape(numbers[name]), value).tolist()
        cases[f"made up {name}"] = json.dumps(made_up)
    return cases


def test_a_state_that_is_not_what_was_written_is_trouble(run: Run, stored: Path, here: Path) -> None:
    job = ("watch", stored / "days16.nc", "--by", "country", "--state", "w.json")
    assert run(*job)[0] == 1
    text = Path("w.json").read_text()
    for name, case in harmed_states(text).items():
        Path("w.json").write_text(case)
        status, out, err = run(*job)
        assert (status, out) == (2, ""), name
        assert "is not a state of calibdask watch --state, or it is corrupted" in err or "state is damaged" in err, name
        assert Path("w.json").read_text() == case
    for case in ("null", "[1]", '"a"'):
        Path("w.json").write_text(case)
        status, _, err = run(*job)
        assert status == 2
        assert f"corrupted: a JSON object is expected, got {case}. Give another name" in err
    # Without hashes, as earlier versions wrote it.
    old = json.loads(text)
    del old["hash"], old["state"]["hash"], old["watch"]
    old["format"] = old["state"]["format"] = 1
    Path("w.json").write_text(json.dumps(old))
    assert run(*job)[0] == 1


@pytest.mark.parametrize(("every", "last"), [("month", "2026-04"), ("quarter", "2026-Q2")])
def test_the_only_slices_that_are_dates_are_the_periods(every: str, last: str, run: Run, tmp_path: Path) -> None:
    when = pd.date_range("2026-01-01", "2026-04-10", 2000)
    frame = pd.DataFrame({"label": np.arange(2000) % 2, "score": 0.5, "when": when, "shop": np.arange(2000) % 3 + 1010})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    summary = tmp_path / "summary.zarr"
    given = ("summarize", tmp_path / "rows.csv", "--period", "when", "--every", every, "--by", "shop", "--out", summary)
    assert run(*given)[0] == 0
    status, out, err = run("watch", summary)
    assert (status, err) == (0, "")
    assert f"up to {last}" in out
    assert run("watch", summary, "--by", "shop", "--period", "when")[1].count("101") >= 1

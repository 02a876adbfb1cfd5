"""The command line: what it prints and writes, and that it refuses in one line and writes nothing."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.cli import main
from calibdask.estimators.signatures import signatures
from calibdask.results.format import shown_texts
from calibdask.results.values import Results
from tests.cli.sample_rows import COUNTRY, DAY, LABELS, ROWS, SCORES, WEIGHTS, Run, open_result

CURVES = {
    *("local-calibration-error", "reliability-curve", "reliability-diagram"),
    *("murphy-curve", "net-benefit", "risk-coverage-curve", "consistency-bars"),
}


def test_help_is_fast(run: Run) -> None:
    heavy = {"numpy", "dask", "distributed", "xarray", "hvplot", "holoviews", "sklearn", "pandas", "rich", "numba"}
    code = "import sys; from calibdask.cli import main"
    code += "".join(f"; main(['{command}', '--help'])" for command in ("evaluate", "summarize"))
    code += "; main(['evaluate', 'rows.csv', '--metric', 'acc'])"
    code += f"; assert not {heavy} & set(sys.modules)"
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([sys.executable, "-c", code], check=True, **silent)
    status, out, _ = run()
    assert status == 0
    assert "evaluate" in out
    assert "summarize" in out
    assert "demo" in out

    assert run("--version")[:2] == (0, f"calibdask, version {cd.__version__}\n")


@pytest.fixture
def parquet(data: Path) -> Path:
    columns = {"label": LABELS > 0, "score": 1 - SCORES[:, 0], "country": COUNTRY}
    pd.DataFrame(columns).to_parquet(data / "rows.parquet")
    return data / "rows.parquet"


def test_a_wrong_column_is_found_before_xarray_is_imported(data: Path) -> None:
    words = ["evaluate", str(data / "rows.csv"), "--metric", "ece", "--label", "nope"]
    code = f"import sys; from calibdask.cli import main; assert main({words}) == 2"
    code += "; assert not {'xarray', 'pandas', 'numba', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, stderr=subprocess.DEVNULL)


def test_few_rows_wait_for_no_imports_that_they_do_not_need(parquet: Path) -> None:
    def loaded(*options: str) -> set[str]:
        words = ["evaluate", str(parquet), *options]
        code = f"import sys; from calibdask.cli import main; assert main({words}) == 0; print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
        return {*done.stdout.splitlines()[-1].split()}

    one = ["--metric", "ece"]
    # Compiled and kept by now: to compile, numba loads its implementations of functions.
    assert main(["evaluate", str(parquet), *one]) == 0
    everything = {"dask", "distributed", "scipy.special", "scipy.stats", "sklearn", "numba.np.linalg"}
    assert not everything & loaded(*one)
    assert not {"dask.array", "distributed", "scipy.stats", "sklearn"} & loaded("--by", "country", "--ci", "0.9")


def test_dask_without_a_cluster_does_not_import_distributed() -> None:
    code = """
import sys
import dask.array as da, dask.dataframe as dd, numpy as np, pandas as pd
import calibdask as cd
columns = {"label": np.arange(90) % 2, "score": np.linspace(0.01, 0.99, 90), "day": np.arange(90) % 3}
cd.evaluate(dd.from_pandas(pd.DataFrame(columns), npartitions=3), metrics="ece", by="day")
labels, scores, days = (da.from_array(column, chunks=40) for column in columns.values())
cd.evaluate(labels, scores, "ece", by={"day": days}, ignore_label=0, skip_missing=True)
sys.exit("distributed" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_fits_two_screens_and_names_every_metric(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    _, out, _ = run("evaluate", "--help")
    lines = out.splitlines()
    assert len(lines) < 90
    assert max(map(len, lines)) <= 100
    assert {*signatures()} <= {word.strip(",") for word in out.split()}
    assert [line for line in lines if line.startswith("  --help-all ")]
    assert "--conventions" not in out


def test_table(run: Run, data: Path) -> None:
    status, out, err = run("evaluate", data / "rows.csv")
    assert (status, err) == (0, "")
    figures = Results(cd.evaluate(LABELS, SCORES))
    shown = [line.split()[:2] for line in out.splitlines()[2:8]]
    assert shown == [
        [part.variable, *shown_texts(float(part.values), kind=part.kind, rows=ROWS)] for part in figures.shown
    ]
    assert [name for name, _ in shown][2] == "cutoff_error"
    assert out.splitlines()[8] == "", "six numbers"
    right = int((SCORES.argmax(1) == LABELS).sum())
    assert re.search(rf"{ROWS} rows, {right} right \(accuracy 0\.\d+, mean confidence 0\.\d+\), 1 pass over the", out)
    assert "\x1b" not in out


def test_table_of_slices_fits(run: Run, data: Path) -> None:
    metrics = [word for name in signatures() if name not in CURVES for word in ("--metric", name)]
    status, out, err = run("evaluate", data / "rows.csv", "--by", "country", "--by", "day", *metrics)
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 100
    lines = [line.split() for line in out.splitlines() if line.split()[:2] == ["fr", "2"]]
    assert lines
    # Saturation counts rows, and there are none.
    assert {word for line in lines for word in line[2:]} == {"-", "0"}
    assert "..." not in out
    assert "…" not in out


def test_many_slices_are_cut(run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", labels=[0, 1] * 150, scores=[0.5] * 300, row=np.arange(300))
    _, out, _ = run("evaluate", tmp_path / "rows.npz", "--by", "row", "--metric", "brier")
    assert "and 100 more slices" in out


def test_json(run: Run, data: Path) -> None:
    status, out, _ = run("evaluate", data / "rows.csv", "--metric", "ece", "--metric", "brier-decomposition", "--json")
    result = json.loads(out)
    assert status == 0
    head = ["format", "rows", "passes", "calibdask_version"]
    assert list(result) == [*head, "events", "mean_score", "frequency", "metrics", "slices"]
    assert result["format"] == 2
    assert result["events"] == int((SCORES.argmax(1) == LABELS).sum())
    assert result["metrics"]["ece"]["direction"] == "zero"
    assert "gap of a bin" in result["metrics"]["ece"]["definition"]
    assert result["rows"] == ROWS
    assert result["slices"] == []
    assert result["metrics"]["ece"]["value"] == cd.ece(LABELS, SCORES)
    assert result["metrics"]["ece"]["estimator"] == repr(cd.ECE())
    parts = cd.evaluate(LABELS, SCORES, cd.BrierDecomposition())
    for name, value in parts.data_vars.items():
        actual = result["metrics"]["brier_decomposition"][str(name).removeprefix("brier_decomposition_")]
        assert actual == float(value)


def test_options_reach_the_estimators(run: Run, data: Path) -> None:
    cases: list[tuple[list[str], Any, dict[str, Any]]] = [
        (["--bins", "5", "--norm", "l2", "--closed", "left"], cd.ECE(bins=5, norm="l2", closed="left"), {}),
        (["--bins", "0,0.5,1", "--setting", "2"], cd.ECE(bins=(0.0, 0.5, 1.0), setting=2), {}),
        (["--bins", "sqrt", "--setting", "classwise"], cd.ECE(bins="sqrt", setting="classwise"), {}),
        (["--binning", "equal-mass", "--mapping", "convex"], cd.ECE(binning="equal-mass", mapping="convex"), {}),
        (["--setting", "top-k", "--k", "2"], cd.ECE(setting="top-k", k=2), {}),
        (["--compat", "netcal"], cd.ECE(compat="netcal"), {}),
        (["--norm", "l2", "--debias"], cd.ECE(norm="l2", debias=True), {}),
        (["--weight", "w"], cd.ECE(), {"sample_weight": WEIGHTS}),
        (["--label", "day", "--score", "score"], cd.ECE(), {}),
    ]
    for options, estimator, extra in cases:
        status, out, err = run("evaluate", data / "rows.csv", "--metric", "ece", "--json", *options)
        assert (status, err) == (0, "")
        actual = json.loads(out)["metrics"]["ece"]
        assert actual["estimator"] == repr(estimator)
        labels = DAY if "--label" in options else LABELS
        expected = float(cd.evaluate(labels, SCORES, estimator, **extra)["ece"])
        assert actual["value"] == pytest.approx(expected, rel=1e-12)


def test_metrics_have_choices_of_their_own(run: Run, data: Path) -> None:
    metrics = ("--metric", "ece(bins=10), ece(setting=classwise)", "--metric", "skce(estimator=features)")
    status, out, err = run("evaluate", data / "rows.csv", *metrics, "--closed", "left", "--features", "32", "--json")
    assert (status, err) == (0, "")
    result = json.loads(out)
    assert result["passes"] == 2
    assert {name: metric["estimator"] for name, metric in result["metrics"].items()} == {
        "ece_bins_10": repr(cd.ECE(bins=10, closed="left")),
        "ece_classwise": repr(cd.ECE(setting="classwise", closed="left")),
        "skce": repr(cd.SKCE(estimator="features", features=32)),
    }
    assert result["metrics"]["ece_bins_10"]["label"] == "ECE, 10 bins"
    assert result["metrics"]["ece_classwise"]["setting"] == "classwise"
    assert result["metrics"]["skce"]["kind"] == "error"


def test_pictures_besides_a_diagram_as_a_metric(run: Run, data: Path) -> None:
    metrics = ("--metric", "reliability-diagram(bins=3),ece")
    status, out, err = run("evaluate", data / "rows.csv", *metrics, "--plot", data / "page.html", "--json")
    assert (status, err) == (0, "")
    diagram, _ = json.loads(out)["metrics"].values()
    assert len(diagram["score"]) == 3
    assert "<html" in (data / "page.html").read_text()


def test_names_are_those_of_the_panel(run: Run, data: Path) -> None:
    words = [word for name in ("ECE_A", "brier", "log-loss") for word in ("--metric", name)]
    _, out, _ = run("evaluate", data / "rows.csv", "--json", *words)
    assert list(json.loads(out)["metrics"]) == ["ece_equal_mass", "brier_score", "log_loss"]


def test_out_datasets(run: Run, data: Path) -> None:
    name = "result.zarr"
    status, out, err = run("evaluate", data / "rows.csv", "--by", "country", "--out", data / name)
    assert (status, err) == (0, "")
    assert f"wrote {data / name}" in out.replace("\n", "")
    result = open_result(data / name)
    expected = cd.evaluate(LABELS, SCORES, by={"country": COUNTRY})
    for metric in expected.data_vars:
        np.testing.assert_array_equal(result[metric], expected[metric])
    assert result["country"].values.tolist() == ["de", "fr"]
    assert result.attrs["rows"] == ROWS


def test_out_texts(run: Run, data: Path) -> None:
    run("evaluate", data / "rows.csv", "--by", "country", "--out", data / "result.csv")
    table = pd.read_csv(data / "result.csv")
    assert list(table)[:6] == ["country", "rows", "events", "mean_score", "frequency", "ece"]
    assert table["rows"].tolist() == [(country == COUNTRY).sum() for country in table["country"]]
    np.testing.assert_array_equal(table["ece"], cd.ece(LABELS, SCORES, by=COUNTRY))
    run("evaluate", data / "rows.csv", "--out", data / "whole.csv")
    assert pd.read_csv(data / "whole.csv")["ece"].item() == cd.ece(LABELS, SCORES)
    _, out, _ = run("evaluate", data / "rows.csv", "--out", data / "result.json", "--json")
    assert (data / "result.json").read_text() == out
    assert sorted(path.name for path in data.iterdir() if path.name.startswith(".")) == []


def test_one_curve_has_a_csv_and_several_have_none(run: Run, data: Path) -> None:
    curves = "reliability-diagram,saturation(setting=classwise)"
    command = ("evaluate", data / "rows.csv", "--metric", curves, "--by", "country")
    status, out, err = run(*command, "--out", data / "bins.csv")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "A table holds one number" in err
    assert ".nc or .zarr" in err
    assert not (data / "bins.csv").exists()
    assert run(*command, "--out", data / "bins.nc", "--overwrite")[0] == 0
    assert run(*command[:-3], "reliability-diagram", *command[-2:], "--out", data / "bins.csv")[0] == 0
    bins = pd.read_csv(data / "bins.csv")
    assert list(bins)[:4] == ["country", "bin", "score", "outcome"]
    assert bins["count"].sum() == len(LABELS)
    run("evaluate", data / "rows.csv", "--metric", "ece,reliability-diagram", "--out", data / "both.csv")
    assert pd.read_csv(data / "both.csv")["ece"].tolist() == [cd.ece(LABELS, SCORES)]


@pytest.mark.parametrize("chart", ["decision-curve", "belt"])
def test_plots_of_decisions(chart: str, run: Run, data: Path) -> None:
    """The picture has its metric, which the table and JSON have not."""
    status, out, err = run(
        *("evaluate", data / "rows.csv", "--setting", "1", "--metric", "ece"),
        *("--plot", data / "page.html", "--chart", chart, "--ci", "0.9", "--n-boot", "5", "--json"),
    )
    assert (status, err) == (0, "")
    assert list(json.loads(out)["metrics"]) == ["ece"]
    assert "Decisions of " in (data / "page.html").read_text()


@pytest.mark.parametrize("name", ["result.csv", "result.zarr"])
def test_overwrite_only_on_purpose(name: str, run: Run, data: Path) -> None:
    command = ("evaluate", data / "rows.csv", "--metric", "brier", "--out", data / name)
    assert run(*command)[0] == 0
    status, out, err = run(*command)
    assert (status, out) == (2, "")
    assert "already exists; choose another name or give --overwrite." in err
    assert run(*command, "--overwrite")[0] == 0


BAD: list[tuple[list[str], str]] = [
    (["evaluate"], "Missing argument 'DATA...'"),
    (["evaluate", "rows.csv", "--bin", "3"], "No such option"),
    (["evaluate", "rows.csv", "--metric", "acc"], "no metric 'acc'; there are atb, brier-decomposition, brier-score"),
    (["evaluate", "rows.csv", "--metric", "smoothece"], "Did you mean smooth-ece?"),
    (["evaluate", "rows.csv", "--metric", "ece(bins=3"], "a closing parenthesis is missing"),
    (["evaluate", "rows.csv", "binary.npz"], "Models side by side expect the same setting"),
    (["evaluate", "rows.csv", "--all", "--metric", "ece"], "--all has no effect with --metric"),
    (["evaluate", "rows.csv", "--worst", "3"], "--worst has no effect without --by"),
    (["evaluate", "rows.csv", "--metric", "brier", "--bins", "5"], "--bins has no effect on brier-score"),
    (
        ["evaluate", "rows.csv", "--setting", "multiclass"],
        "--metric: cme-test, kernel-canonical-ece, multiclass-ece",
    ),
    (["evaluate", "rows.csv", "--setting", "top-k"], "requires k, such as k=2"),
    (
        ["evaluate", "rows.csv", "--metric", "smooth-ece", "--bandwidth", "0.1"],
        "--bandwidth has no effect on smooth-ece",
    ),
    (["evaluate", "rows.csv", "--metric", "density-ece", "--ci", "95"], "number between 0 and 1 such as 0.95, got 95"),
    (["evaluate", "rows.csv", "--metric", "ece-d", "--ci", "0.9", "--n-boot", "1"], "n-boot expects"),
    (["evaluate", "rows.csv", "--n-boot", "100"], "--n-boot has no effect without --ci"),
    (["evaluate", "rows.csv", "--curve"], "--curve has no effect without --plot"),
    (["evaluate", "rows.csv", "--chart", "belt"], "--chart has no effect without --plot"),
    (["evaluate", "rows.csv", "--chart", "belt", "--curve", "--plot", "page.html"], "draw different plots"),
    (["evaluate", "nowhere.csv"], "nowhere.csv does not exist"),
    (["evaluate", "."], "has both 'score' and score_0, score_1, score_2; drop one of the two"),
    (["evaluate", "rows.csv", "--out", "./rows.csv", "--overwrite"], "would replace the input"),
    (["evaluate", "rows.csv", "--out", "link.csv", "--overwrite"], "would replace the input"),
    (["evaluate", "folder.zarr", "--out", "folder.zarr/r.json"], "be inside it"),
    (["evaluate", "folder.zarr/a", "--out", "folder.zarr", "--overwrite"], "would replace the input"),
    (["evaluate", "folder.zarr", "--plot", "folder.zarr/p.html"], "be inside it"),
    (["evaluate", "rows.csv", "--out", "r.json", "--plot", "p.html", "--overwrite"], "would replace each other"),
    (["evaluate", "nosuch://rows.csv"], "Protocol not known"),
    (["evaluate", "rows.csv", "--by", "nowhere"], "has no column 'nowhere'"),
    (["evaluate", "rows.csv", "--by", "country,day"], "Those are 2 names: give each by itself."),
    (
        ["evaluate", "rows.csv", "--label", "country"],
        "a class for each of the 3 columns of scores, got the names of 2: ['de', 'fr']",
    ),
    (["evaluate", "rows.csv", "--cluster", "moon"], "Expected threads, threads:N, local"),
    (["evaluate", "rows.csv", "--out", "result.txt"], "ends in one of .json, .csv, .parquet, .nc, .zarr"),
    (["evaluate", "rows.csv", "--out", "nowhere/result.json"], "folder of the output"),
    (["evaluate", "rows.csv", "--out", "folder.zarr", "--overwrite"], "already exists and has another type"),
    (["evaluate", "rows.csv", "--plot", "page.pdf"], "ends in one of .html, .png, .svg"),
    (["evaluate", "unlike.csv", "--out", "result.json"], "first is row 1 with score 1.5"),
    (["demo", "--out", "rows.csv"], "is not a folder"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_bad_use_is_one_line_and_writes_nothing(
    arguments: list[str], message: str, run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    (data / "folder.zarr").mkdir()
    (data / "folder.zarr" / "mine.txt").write_text("mine")
    (data / "link.csv").symlink_to(data / "rows.csv")
    (data / "r.json").symlink_to(data / "p.html")
    (data / "unlike.csv").write_text("label,score\n1,0.5\n0,1.5\n")
    before = sorted(data.rglob("*"))
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.startswith("calibdask: ")
    assert err.count("\n") == 1
    assert sorted(data.rglob("*")) == before


def test_interrupted(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cd, "evaluate", interrupt)
    status, out, _ = run("evaluate", data / "rows.csv", "--out", data / "result.json")
    assert (status, out) == (130, "")
    assert not (data / "result.json").exists()


def test_nobody_answers(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibdask.cluster.scheduler.SECONDS_TO_ANSWER", 0.3)
    status, _, err = run("evaluate", data / "rows.csv", "--cluster", "tcp://127.0.0.1:9")
    assert status == 1
    assert err.startswith("calibdask: No scheduler answers at tcp://127.0.0.1:9")


@pytest.mark.heavy
def test_clusters(run: Run, data: Path, tmp_path: Path) -> None:
    from distributed import Client, LocalCluster

    expected = cd.ece(LABELS, SCORES)
    pd.read_csv(data / "rows.csv").to_parquet(data / "rows.parquet", row_group_size=50)
    command = ("evaluate", data / "rows.parquet", "--metric", "ece", "--json", "--cluster")
    assert json.loads(run(*command, "local:2")[1])["metrics"]["ece"]["value"] == expected
    with LocalCluster(n_workers=1, dashboard_address=None, host="127.0.0.1") as cluster:
        with Client(cluster) as client:
            client.write_scheduler_file(str(tmp_path / "scheduler.json"))
        for where in (cluster.scheduler_address, tmp_path / "scheduler.json"):
            assert json.loads(run(*command, where)[1])["metrics"]["ece"]["value"] == expected


def test_numbers_of_each_class(run: Run, data: Path) -> None:
    command = ("evaluate", data / "rows.csv", "--metric", "smooth-ece", "--setting", "classwise", "--by", "country")
    _, out, _ = run(*command, "--json")
    estimator = cd.SmoothECE(setting="classwise")
    expected = cd.evaluate(LABELS, SCORES, estimator, by={"country": COUNTRY})
    for entry in json.loads(out)["slices"]:
        here = expected.sel(entry["by"])
        numbers = entry["metrics"]["smooth_ece"]
        assert numbers["value"] == pytest.approx(float(here["smooth_ece"]), rel=1e-12)
        assert numbers["bandwidth"] == pytest.approx(here["smooth_ece_bandwidth"].values.tolist(), rel=1e-12)
    status, out, _ = run(*command, "--out", data / "result.csv")
    assert status == 0
    assert "bandwidth" not in out
    assert list(pd.read_csv(data / "result.csv")) == [
        *("country", "rows", "events", "mean_score", "frequency", "smooth_ece")
    ]


def test_warnings_are_one_line(data: Path) -> None:
    code = "import sys; from calibdask.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "evaluate", data / "rows.csv", "--metric", "ece-d", "--bandwidth", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr.startswith("calibdask: The bandwidth 0.0 is below the step of the grid")
    assert done.stderr.count("\n") == 1

"""Kernel calibration errors and calibration tests on the command line, and the table of several files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.results.build import sentences_of
from calibdask.results.values import Results
from calibdask.storage.open_store import StoredResult, open_store, read_rows
from tests.cli.sample_rows import LABELS, SCORES, Run, open_result

ROWS = 150
TESTS = ("evaluate", "--panel", "tests")
QUICK = ("--resamples", "50", "--features", "64")


jsonschema = pytest.importorskip("jsonschema")


def draw(seed: int, sharper: float) -> tuple[Any, Any]:
    """Labels, and scores that are calibrated only if they are made no sharper."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, (ROWS, 3))
    calibrated, sharpened = (np.exp(logits * by) for by in (1.0, sharper))
    calibrated, sharpened = (rows / rows.sum(axis=1, keepdims=True) for rows in (calibrated, sharpened))
    labels = (rng.random(ROWS)[:, None] > np.cumsum(calibrated, axis=1)[:, :-1]).sum(axis=1)
    return labels, sharpened


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    labels, scores = draw(0, 1.0)
    np.savez("calibrated.npz", labels=labels, scores=scores)
    for seed, sharper, name in ((1, 3.0, "bold"), (2, 0.3, "timid")):
        labels, scores = draw(seed, sharper)
        frame = pd.DataFrame({"label": labels, **{f"score_{k}": scores[:, k] for k in range(3)}})
        if name == "bold":
            frame.to_csv("bold.csv", index=False)
        else:
            frame.to_parquet("timid.parquet", row_group_size=40)
    return ["calibrated.npz", "bold.csv", "timid.parquet"]


CASES: list[tuple[list[str], Any]] = [
    (["skce"], cd.SKCE()),
    (["skce", "--estimator", "block", "--block", "7"], cd.SKCE(estimator="block", block=7)),
    (
        ["skce", "--estimator", "features", "--features", "32", "--seed", "4"],
        cd.SKCE(estimator="features", features=32, seed=4),
    ),
    (["skce", "--bandwidth", "median-full", "--max-pairs", "1e6"], cd.SKCE(bandwidth="median-full", max_pairs=1e6)),
    (["skce", "--setting", "largest-2"], cd.SKCE(setting=cd.Lens.largest(2))),
    (
        ["skce-test", "--method", "distribution-free", "--estimator", "linear", "--delta", "0.1"],
        cd.SKCETest(method="distribution-free", estimator="linear", delta=0.1),
    ),
    (
        ["consistency-test", "--bins", "5", "--norm", "l2", "--resamples", "20", "--seed", "7"],
        cd.ConsistencyTest(statistic=cd.ECE(bins=5, norm="l2"), resamples=20, seed=7),
    ),
    (["cme-test", "--locations", "4", "--setting", "confidence"], cd.CMETest(locations=4, setting="confidence")),
]


@pytest.mark.parametrize(("words", "estimator"), CASES, ids=[" ".join(words) for words, _ in CASES])
def test_evaluate_gives_the_numbers_of_the_library(words: list[str], estimator: Any, run: Run, data: Path) -> None:
    status, out, err = run("evaluate", data / "rows.csv", "--json", "--metric", *words)
    assert (status, err) == (0, "")
    name = words[0].replace("-", "_")
    result = json.loads(out)["metrics"][name]
    # Numbers of rows of the command line are floats: 1e6.
    assert result["estimator"].replace("1000000.0", "1000000") == repr(estimator).replace("1000000.0", "1000000")
    for variable, value in cd.evaluate(LABELS, SCORES, {name: estimator}).data_vars.items():
        assert result[str(variable).removeprefix(f"{name}_") if variable != name else "value"] == float(value)


def test_evaluate_shows_the_parts_of_tests(run: Run, data: Path) -> None:
    command = ("evaluate", data / "rows.csv", "--metric", "skce", "--metric", "skce-test", "--metric", "cme-test")
    status, out, err = run(*command)
    assert (status, err) == (0, "")
    first = [line.split()[0] for line in out.splitlines() if line.split()]
    parts = [f"skce_test_{part}" for part in ("estimate", "statistic", "pvalue")]
    assert ["skce", *parts, "cme_test_statistic", "cme_test_pvalue"] == [
        word for word in first if "_" in word or word == "skce"
    ]
    _, out, _ = run(*command, "--by", "country", "--json")
    result = json.loads(out)
    assert [set(entry["metrics"]["skce_test"]) for entry in result["slices"]] == [
        {"estimate", "statistic", "pvalue"}
    ] * 2
    assert "rows are independent" in result["metrics"]["skce_test"]["assumes"]


def metrics_of(run: Run, *arguments: Any) -> list[dict[str, Any]]:
    result = json_of(run, *arguments)
    described = result["metrics"]
    if not result["slices"]:
        return [described]
    return [{name: described[name] | numbers for name, numbers in each["metrics"].items()} for each in result["slices"]]


def json_of(run: Run, *arguments: Any) -> Any:
    status, out, err = run(*TESTS, *arguments, "--json")
    assert (status, err) == (0, "")
    result = json.loads(out)
    schema = json.loads(run("evaluate", "--json-schema")[1])
    jsonschema.Draft202012Validator(schema).validate(result)
    return result


def evaluated(path: str, estimators: dict[str, Any]) -> Any:
    table = read_rows(path)
    return cd.evaluate(table.labels, table.scores, estimators)


def expected_entries(**kernel: Any) -> dict[str, Any]:
    features = {**kernel, "estimator": "features", "features": 64}
    entries: dict[str, Any] = {
        "ece": cd.ECE(),
        "multiclass_ece_uniform": cd.MulticlassECE(),
        "multiclass_ece_median_variance": cd.MulticlassECE(partition="median-variance"),
        "skce_biased": cd.SKCE(estimator="biased", **kernel),
        "skce_unbiased": cd.SKCE(estimator="unbiased", **kernel),
        "skce_linear": cd.SKCE(estimator="linear", **kernel),
        "skce_block": cd.SKCE(estimator="block", block=10, **kernel),
        "skce_features": cd.SKCE(**features),
        "mmce": cd.MMCE(),
    }
    for way in ("biased", "unbiased", "linear", "block"):
        block = {"block": 10} if way == "block" else {}
        bound: Any = {"method": "distribution-free", "estimator": way, **block, **kernel}
        entries[f"distribution_free_{way}"] = cd.SKCETest(**bound)
        if way != "biased":
            entries[f"asymptotic_{way}"] = cd.SKCETest(**{**bound, "method": "asymptotic"})
    return entries | {
        "asymptotic_features": cd.SKCETest(**features),
        "consistency_ece": cd.ConsistencyTest(resamples=50),
        "cme": cd.CMETest(**kernel),
        "spiegelhalter": cd.SpiegelhalterTest(),
    }


def test_numbers_are_those_of_the_library(run: Run, files: list[str]) -> None:
    entries = expected_entries()
    for path, metrics in zip(files, metrics_of(run, *files, "--block", "10", *QUICK), strict=True):
        assert set(metrics) == {"bandwidth", *entries}
        del metrics["bandwidth"]
        expected = evaluated(path, entries)
        for name, actual in metrics.items():
            parts = [part for part in ("value", "estimate", "statistic", "pvalue") if part in actual]
            for part in parts:
                assert actual[part] == float(expected[name if part == "value" else f"{name}_{part}"]), (name, part)
            assert parts == ["value"] or ("pvalue" in parts and "rows are independent" in actual["assumes"])


def test_table(run: Run, files: list[str]) -> None:
    status, out, err = run(*TESTS, *files, *QUICK)
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 100
    lines = [line.split() for line in out.splitlines()]
    assert ["calibrated", "bold", "timid"] in lines
    assert ["rows", *["150"] * 3] in lines
    metrics = metrics_of(run, *files, *QUICK)
    parts = (("SKCE, linear ", "skce_linear", "value"), ("Spiegelhalter (g)", "spiegelhalter", "pvalue"))
    for label, name, part in parts:
        (line,) = (line for line in out.splitlines() if line.startswith(label))
        for shown, numbers in zip(line.replace(label, "").split()[:3], metrics, strict=True):
            assert float(shown.lstrip("<")) == pytest.approx(numbers[name][part], rel=0.05, abs=1e-3)
    at = {word: out.index(word) for word in ("Estimates", "p-values", "MMCE", "CME", "a: rows are independent;")}
    assert sorted(at, key=lambda word: at[word]) == ["Estimates", "MMCE", "p-values", "CME", "a: rows are independent;"]


def test_published_conventions(run: Run, files: list[str]) -> None:
    (metrics,) = metrics_of(run, files[1], "--conventions", "published", "--block", "10", *QUICK)
    full: Any = {"bandwidth": "median-full"}
    published = expected_entries(**full) | {
        "asymptotic_linear": cd.SKCETest(estimator="linear", ddof=0, **full),
        "asymptotic_block": cd.SKCETest(estimator="block", block=10, ddof=0, **full),
        "consistency_ece": cd.ConsistencyTest(resamples=50, predictions="resampled"),
    }
    expected = evaluated(files[1], published)
    assert metrics.pop("bandwidth")["value"] == expected["skce_linear"].attrs["bandwidth"]
    for name, actual in metrics.items():
        part = "value" if "value" in actual else "pvalue"
        assert actual[part] == float(expected[name if part == "value" else f"{name}_pvalue"]), name
    (ours,) = metrics_of(run, files[1], *QUICK)
    assert ours["asymptotic_linear"]["statistic"] != metrics["asymptotic_linear"]["statistic"]
    (given,) = metrics_of(run, files[1], "--conventions", "published", "--bandwidth", "0.3", *QUICK)
    assert given["skce_linear"]["bandwidth"] == 0.3


def test_too_many_pairs_are_said(run: Run, files: list[str]) -> None:
    labels, scores = draw(3, 1.0)
    np.savez("small.npz", labels=labels[:20], scores=scores[:20])
    command = (files[0], "small.npz", "--max-pairs", "1000", *QUICK)
    large, small = metrics_of(run, *command)
    missing = {name for name, actual in large.items() if None in (actual.get("value", 0), actual.get("pvalue", 0))}
    assert missing == {
        *("skce_biased", "skce_unbiased", "mmce"),
        *("distribution_free_biased", "distribution_free_unbiased", "asymptotic_unbiased"),
    }
    reason = "11,175 pairs of rows are more than --max-pairs 1,000"
    (said,) = json_of(run, *command)["metrics_left_out"]
    assert said.startswith("calibrated: SKCE, biased; SKCE, unbiased; MMCE;")
    assert said.endswith(f"p-value of SKCE, unbiased, asymptotic: {reason}")
    parts = [large["asymptotic_unbiased"][part] for part in ("estimate", "statistic", "pvalue")]
    assert (large["skce_biased"]["value"], parts) == (None, [None] * 3)
    assert small["skce_biased"]["value"] is not None
    status, out, err = run(*TESTS, *command, "--out", "result.nc")
    assert (status, err) == (0, "")
    (line,) = (line for line in out.splitlines() if "SKCE, unbiased  " in line)
    assert line.split()[2] == "-"
    assert line.split()[3] != "-"
    assert "".join(said.split()) in "".join(out.split())
    result = open_result(Path("result.nc"))
    assert np.isnan(result["skce_biased"].values).tolist() == [True, False]
    assert run(*TESTS, command[0], *command[2:], "--out", "none.nc")[0] == 0
    for part in Results(open_result(Path("none.nc"))).of("skce_biased"):
        assert (part.kind, part.title, part.estimator_class) == (
            "error",
            Results(result).of("skce_biased")[0].title,
            "SKCE",
        )
    assert sentences_of(result, "metrics_left_out") == [said]


def test_slices_and_scores_of_one_file(run: Run, files: list[str]) -> None:
    """What evaluate takes, the panel takes."""
    frame = pd.read_csv("bold.csv").assign(country=["de", "fr"] * (ROWS // 2))
    frame.to_csv("countries.csv", index=False)
    by_country = json_of(run, "countries.csv", "--by", "country", *QUICK)
    assert [each["by"] for each in by_country["slices"]] == [{"country": "de"}, {"country": "fr"}]
    for each in by_country["slices"]:
        frame[frame.country == each["by"]["country"]].to_csv("alone.csv", index=False)
        alone = json_of(run, "alone.csv", *QUICK)["metrics"]
        assert each["metrics"]["ece"]["value"] == alone["ece"]["value"]
    binary = pd.DataFrame({"label": [0, 1] * 40, "p_a": np.linspace(0.1, 0.9, 80), "p_b": np.linspace(0.9, 0.1, 80)})
    binary.to_csv("two.csv", index=False)
    status, out, err = run(*TESTS, "two.csv", "--score", "old=p_a", "--score", "new=p_b", *QUICK)
    assert (status, err) == (0, "")
    assert ["old", "new"] in [line.split() for line in out.splitlines()]


def test_what_cannot_be_is_said(run: Run, files: list[str]) -> None:
    result = json_of(run, files[0], "--kernel", "gaussian", "--setting", "1", *QUICK)
    metrics, reasons = result["metrics"], result["metrics_left_out"]
    assert [metrics[name]["value"] for name in ("skce_features", "mmce")] == [None, None]
    assert metrics["asymptotic_features"]["pvalue"] is None
    assert reasons[0].startswith("SKCE, features; p-value of SKCE, features, asymptotic: ")
    assert reasons[0].endswith("--distance euclidean only")
    assert reasons[1].startswith("MMCE: ")
    assert reasons[1].endswith("the confidence otherwise")
    assert metrics["ece"]["value"] == float(evaluated(files[0], {"ece": cd.ECE(setting=1)})["ece"])


@pytest.mark.parametrize("name", ["result.csv", "result.zarr"])
def test_out(name: str, run: Run, files: list[str]) -> None:
    status, text, err = run(*TESTS, *files, *QUICK, "--out", name, "--json")
    assert (status, err) == (0, "")
    slices = json.loads(text)["slices"]
    unbiased = [each["metrics"]["skce_unbiased"]["value"] for each in slices]
    if name == "result.csv":
        table = pd.read_csv(name)
        assert table["model"].tolist() == ["calibrated", "bold", "timid"]
        assert table["skce_unbiased"].tolist() == unbiased
    else:
        result = open_result(Path(name))
        assert result["model"].values.tolist() == ["calibrated", "bold", "timid"]
        assert result["skce_unbiased"].values.tolist() == unbiased
        assert result["rows"].values.tolist() == [ROWS] * 3
        assert result.attrs["conventions"] == "ours"
        assert isinstance(open_store(name), StoredResult)
        results = Results(result)
        assert (results.batch, results.slices) == (("model",), ())
        assert [float(each["metrics"]["cme"]["pvalue"]) for each in slices] == [
            part.value().value for part in (results.variable("cme_pvalue").at({"model": i}) for i in range(3))
        ]
        (unbiased_part,) = results.of("skce_unbiased")
        assert (unbiased_part.kind, unbiased_part.label) == ("error", "SKCE, unbiased")
        assert unbiased_part.estimator_class == "SKCE"
        assert {part.kind for part in results if part.part == "pvalue"} == {"pvalue"}
        assert "assumes" in results.variable("cme_pvalue").notes


BROKEN: list[tuple[list[str], str]] = [
    ([*TESTS], "Missing argument 'DATA...'"),
    ([*TESTS, "FILES", "unlike.csv"], "unlike.csv: "),
    (
        ["evaluate", "--panel", "tests", "FILES", "summary.zarr"],
        "summary.zarr is a stored summary; --panel tests expects scored rows.",
    ),
    ([*TESTS, "FILES", "--block", "1"], "block expects a whole number from 2 on"),
    ([*TESTS, "FILES", "--conventions", "mine"], "'mine' is not one of"),
    ([*TESTS, "FILES", "--weight", "w"], "--weight has no effect with --panel tests"),
    ([*TESTS, "FILES", "--bins", "5"], "--bins has no effect with --panel tests"),
    (["evaluate", "FILES"], "--resamples has no effect on ece"),
    (["evaluate", "bold.csv", "--conventions", "published"], "--conventions has no effect without --panel tests"),
]


@pytest.mark.parametrize(("words", "message"), BROKEN, ids=[" ".join(words) for words, _ in BROKEN])
def test_bad_use_is_one_line_and_writes_nothing(words: list[str], message: str, run: Run, files: list[str]) -> None:
    Path("unlike.csv").write_text("label,score\n1,0.5\n0,1.5\n")
    if "summary.zarr" in words:
        assert run("summarize", files[0], "--out", "summary.zarr")[0] == 0
    before = sorted(Path().rglob("*"))
    arguments = [argument for word in words for argument in (files if word == "FILES" else [word])]
    if "--out" not in words:
        arguments += ["--out", "result.json"]
    status, out, err = run(*arguments, *QUICK if "--resamples" not in words else ())
    assert (status, out) == (2, "")
    assert message in err
    assert err.startswith("calibdask: ")
    assert err.count("\n") == 1
    assert sorted(Path().rglob("*")) == before


def test_the_old_name_says_where_the_panel_is(run: Run, files: list[str]) -> None:
    status, out, err = run("test", *files[:2], *QUICK, "--json")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "test is a panel of evaluate now: calibdask evaluate DATA --panel tests" in err

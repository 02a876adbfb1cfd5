"""Several files at the shell: models side by side, compared, and in one summary."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from tests.cli.sample_rows import Run, open_result

pytestmark = pytest.mark.usefixtures("without_recalibration")

ROWS = 400
RNG = np.random.default_rng(9)
SCORES = RNG.random(ROWS)
LABELS = (RNG.random(ROWS) < SCORES).astype(int)
COUNTRY = RNG.choice(["de", "es", "fr"], ROWS)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name, scores in {"old": SCORES**3, "new": SCORES}.items():
        frame = pd.DataFrame({"label": LABELS, "score": scores, "country": COUNTRY})
        frame.to_csv(folder / f"{name}.csv", index=False)
        frame.iloc[:100].to_csv(folder / f"{name}_100.csv", index=False)
        np.savez(folder / f"{name}.npz", labels=LABELS, scores=scores, country=COUNTRY)
    np.savez(folder / "other.npz", labels=1 - LABELS, scores=SCORES)
    return folder


def read(run: Run, *words: Any) -> Any:
    status, out, err = run(*words)
    assert (status, err) == (0, "")
    return json.loads(out)


def test_several_files_are_several_models(run: Run, files: Path, tmp_path: Path) -> None:
    data = f"a={files / 'old.csv'}", files / "new_100.csv"
    result = read(run, "evaluate", *data, "--metric", "ece", "--json", "--out", tmp_path / "models.csv")
    assert [(slice_["by"], slice_["rows"]) for slice_ in result["slices"]] == [
        ({"model": "a"}, ROWS),
        ({"model": "new_100"}, 100),
    ]
    assert result["rows"] == ROWS + 100
    values = [slice_["metrics"]["ece"]["value"] for slice_ in result["slices"]]
    assert values == [cd.ece(LABELS, SCORES**3), cd.ece(LABELS[:100], SCORES[:100])]
    frame = pd.read_csv(tmp_path / "models.csv")
    assert list(frame) == ["model", "rows", "events", "mean_score", "frequency", "ece"]


def test_models_by_slices_fit_in_a_table(run: Run, files: Path) -> None:
    _, out, _ = run("evaluate", files / "old.npz", files / "new.npz", "--by", "country", "--ci", "0.9", "--n-boot", 5)
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    # The first of the tables, which has the rows of each slice.
    rows = [line.split()[:3] for line in lines if line.startswith(("old ", "new "))][:6]
    sizes = [str((country == COUNTRY).sum()) for country in ("de", "es", "fr")]
    assert rows == [[m, c, n] for m in ("old", "new") for c, n in zip(("de", "es", "fr"), sizes, strict=True)]
    assert lines[-1].startswith("400 rows of each model, 1 pass over the data")


def test_the_worst_slices_come_first(run: Run, files: Path, tmp_path: Path) -> None:
    words = "evaluate", files / "old.npz", "--by", "country", "--metric", "brier,ece"
    every = read(run, *words, "--json")["slices"]
    worst = read(run, *words, "--json", "--worst", 2, "--out", tmp_path / "all.json")["slices"]
    ordered = sorted(every, key=lambda one: -one["metrics"]["ece"]["value"])
    assert worst == ordered[:2]
    assert len(json.loads((tmp_path / "all.json").read_text())["slices"]) == 3
    _, out, _ = run(*words, "--worst", 2)
    assert [line.split()[0] for line in out.splitlines()[3:5]] == [one["by"]["country"] for one in worst]
    assert "... and 1 more slices; --out gives them all." in out


def test_compare_says_who_is_better(run: Run, files: Path, tmp_path: Path) -> None:
    data = files / "old.npz", files / "new.npz"
    words = "compare", *data, "--metric", "brier,ece", "--n-boot", 99
    _, out, err = run(*words, "--out", tmp_path / "result.nc")
    assert err == ""
    assert " ".join(out.split()).startswith("new is better than old: the Brier score of new is lower by 0.")
    assert max(map(len, out.splitlines())) <= 100
    result = read(run, *words, "--json")
    (one,) = result["comparisons"]
    expected = cd.compare(LABELS, {"old": SCORES**3, "new": SCORES}, metrics=[cd.BrierScore(), cd.ECE()], n_boot=99)
    assert one["better"] is True
    assert one["metrics"]["brier_score"]["difference"] == float(expected.brier_score_difference[0])
    assert one["metrics"]["ece"]["pvalue"] == float(expected.ece_difference_pvalue[0])
    assert float(open_result(tmp_path / "result.nc").ece_difference_low[0]) == one["metrics"]["ece"]["low"]


@pytest.mark.parametrize("vector", [True, False])
def test_recalibrated_logits_are_compared_and_checked(vector: bool, run: Run, tmp_path: Path) -> None:
    scores = SCORES if vector else np.stack([1 - SCORES, SCORES], 1)
    logits = np.log(scores / (1 - scores)) if vector else np.log(scores)
    np.savez(tmp_path / "rows.npz", labels=LABELS, scores=logits)
    fitted = cd.TemperatureScaling(logits=True).fit(LABELS[:200], logits[:200])
    (tmp_path / "map.json").write_text(json.dumps(fitted.to_dict()))
    mapped = tmp_path / "rows.npz", "--logits", "--map", tmp_path / "map.json"
    one = read(run, "compare", *mapped, "--metric", "brier", "--n-boot", 40, "--json")["comparisons"][0]
    calibrated = fitted.predict_proba(logits)
    expected = cd.compare(LABELS, scores, calibrated[:, 1] if vector else calibrated, cd.BrierScore(), n_boot=40)
    assert one["model"] == "map"
    for end in ("", "_low", "_high"):
        key = end.removeprefix("_") or "difference"
        assert one["metrics"]["brier_score"][key] == pytest.approx(float(expected[f"brier_score_difference{end}"]))
    (limit,) = read(run, "check", *mapped, "--limit", "brier-score=0.9", "--json")["limits"]
    assert limit["value"] == pytest.approx(float(expected.brier_score[1]))


def test_compare_by_slices(run: Run, files: Path, tmp_path: Path) -> None:
    words = "compare", f"a={files / 'old.csv'}", f"b={files / 'new.csv'}", "--by", "country", "--n-boot", 200
    result = read(run, *words, "--metric", "brier", "--json", "--out", tmp_path / "result.csv")
    assert [one["by"] for one in result["comparisons"]] == [{"country": name} for name in ("de", "es", "fr")]
    assert all("pvalue_holm" in one["metrics"]["brier_score"] for one in result["comparisons"])
    assert result["verdict"][0].startswith("By the Brier score, b is better than a in 3 of 3 slices")
    frame = pd.read_csv(tmp_path / "result.csv")
    assert list(frame)[:5] == ["country", "challenger", "rows", "metric", "baseline"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("old.npz",), "compare expects two models or more, got one"),
        (("old.npz", "--map", "old.npz"), "--map .*old.npz and a model would both be called 'old'"),
        (("old.npz", "new_100.csv"), "got 400 rows of .*old.npz and 100 of .*new_100.csv"),
        (("old.npz", "other.npz"), "but 400 of 400 labels of .* differ"),
        (("old.npz", "new.npz", "--baseline", "third"), "--baseline expects one of old, new, got third"),
        (("old.npz", "new.npz", "--metric", "cme-test"), "'cme_test' is a test"),
    ],
)
def test_compare_refuses(words: tuple[str, ...], message: str, run: Run, files: Path) -> None:
    status, _, err = run("compare", *(files / word if "." in word else word for word in words))
    assert status == 2
    assert len(err.splitlines()) == 1
    assert re.search(message, err)


def test_models_in_one_summary(run: Run, files: Path, tmp_path: Path) -> None:
    out = tmp_path / "summary.nc"
    _, printed, err = run("summarize", files / "old.npz", files / "new.npz", "--by", "country", "--out", out)
    assert err == ""
    assert "2 models, 400 rows, 3 slices" in printed
    stored = read(run, "evaluate", out, "--metric", "ece", "--json")["slices"]
    assert [one["by"] for one in stored] == [{"model": "old"}, {"model": "new"}]
    assert stored[1]["metrics"]["ece"]["value"] == pytest.approx(cd.ece(LABELS, SCORES), abs=1e-9)
    status, _, err = run("summarize", files / "old.npz", files / "other.npz", "--out", tmp_path / "b.nc")
    assert status == 2
    assert "summarize of several DATA expects the same rows" in err


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models as columns of one file, and as files of their own with rows in different orders."""
    folder = tmp_path_factory.mktemp("keyed")
    frame = pd.DataFrame({"id": [f"{i:04d}" for i in range(ROWS)], "label": LABELS, "old": SCORES**3, "new": SCORES})
    frame.to_parquet(folder / "both.parquet", row_group_size=90)
    frame.rename(columns={"old": "score"})[["id", "label", "score"]].to_parquet(folder / "old.parquet")
    some = frame.rename(columns={"new": "score"})[["id", "label", "score"]].sample(frac=0.9, random_state=1)
    some.to_parquet(folder / "new.parquet", row_group_size=70)
    some.to_csv(folder / "new.csv", index=False)
    return folder


COLUMNS = ("--score", "a=old", "--score", "b=new")


@pytest.mark.parametrize("other", ["new.csv"])
def test_files_are_joined_on_a_key(other: str, run: Run, keyed: Path) -> None:
    words = ("--metric", "brier", "--n-boot", 20, "--json")
    status, out, err = run("compare", keyed / "old.parquet", keyed / other, "--key", "id", *words)
    assert status == 0
    assert err == "calibdask: left out 40 rows of old, whose id is not in all files\n"
    frame = pd.read_parquet(keyed / "new.parquet")
    rows = np.sort(frame.id.astype(int))
    expected = cd.compare(
        LABELS[rows], {"old": SCORES[rows] ** 3, "new": SCORES[rows]}, metrics=cd.BrierScore(), n_boot=20
    )
    (one,) = json.loads(out)["comparisons"]
    assert one["metrics"]["brier_score"]["difference"] == expected.brier_score_difference.item()
    low = expected.brier_score_difference_low.item()
    assert one["metrics"]["brier_score"]["low"] == pytest.approx(low, rel=1e-12)


def test_labels_of_a_key_differ(run: Run, keyed: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(keyed / "new.parquet")
    frame.loc[frame.index[:3], "label"] = 1 - frame.label.iloc[:3]
    frame.to_parquet(tmp_path / "new.parquet")
    status, _, err = run("compare", keyed / "old.parquet", tmp_path / "new.parquet", "--key", "id")
    assert status == 2
    assert "but 3 of 360 labels of rows with the same id differ in " in err


@pytest.mark.parametrize(
    "words", [("threshold", "--risk", "0.2"), ("audit", "--features", "id"), ("calibrate", "--compare")]
)
def test_commands_of_one_model(words: tuple[str, ...], run: Run, keyed: Path) -> None:
    command, *options = words
    status, _, err = run(command, keyed / "both.parquet", *COLUMNS, *options)
    assert status == 2
    assert f"{command} expects the scores of one model: --score COLUMN, without NAME=." in err


def test_keys_that_do_not_join(run: Run, keyed: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(keyed / "new.parquet")
    frame.assign(id="0001").to_parquet(tmp_path / "same.parquet")
    frame.assign(id=None).astype({"id": object}).to_parquet(tmp_path / "none.parquet")
    frame.assign(id="x" + frame.id).to_parquet(tmp_path / "others.parquet")
    for name, words in (
        ("same", "got '0001' twice in same"),
        ("none", "some are missing in none"),
        ("others", "rows with the same values in all files, got none"),
    ):
        status, _, err = run("compare", keyed / "old.parquet", tmp_path / f"{name}.parquet", "--key", "id")
        assert status == 2
        assert words in err

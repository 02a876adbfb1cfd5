"""``calibdask calibrate`` and ``evaluate --map``: maps as the library fits them, and what is wrong in one sentence."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.cli import main
from calibdask.estimators.signatures import calibrator_signatures
from tests.cli.sample_rows import COUNTRY, DAY, LABELS, SCORES, Run, open_result

BINARY = ("binary.npz", LABELS > 0, 1 - SCORES[:, 0])


def fitted(path: Path) -> Any:
    return cd.Calibrator.from_dict(json.loads(path.read_text()))


def same(one: Any, other: Any) -> bool:
    """But for how NumPy holds the names of slices."""
    documents = [made.to_dict() for made in (one, other)]
    for document in documents:
        document["slices"] = document["slices"] and {**document["slices"], "kinds": None}
        # Which is of these, too.
        del document["checksum"]
        document.pop("rows_fingerprint", None)
    return bool(documents[0] == documents[1])


def test_every_public_calibrator_is_a_method() -> None:
    public = {name for name in cd.__all__ if isinstance(getattr(cd, name), type)}
    kinds = {name for name in public if issubclass(getattr(cd, name), cd.Calibrator)} - {"Calibrator"}
    assert {signature.public for signature in calibrator_signatures().values()} == kinds
    for signature in calibrator_signatures().values():
        # Edges of several columns are for Python.
        of_python = {"edges"} & {*signature.constructor().get_params()}
        assert {*signature.choices, "logits"} | of_python == {*signature.constructor().get_params()}


def test_a_vector_of_scores(run: Run, data: Path) -> None:
    status, out, err = run("calibrate", data / "binary.npz", "--out", data / "map.json")
    assert (status, err) == (0, "")
    expected = cd.PlattScaling().fit(LABELS > 0, 1 - SCORES[:, 0])
    assert same(fitted(data / "map.json"), expected)
    assert "PlattScaling (the usual one for a column of scores; --method names others)" in out
    (head, line) = (row.split() for row in out.splitlines() if "rows" in row and "wrote" not in row)
    assert head[:4] == ["rows", "events", "intercept", "coef"]
    assert line[:4] == ["all", "rows", str(len(LABELS)), str((LABELS > 0).sum())]
    error = float(expected.coef_se_)
    assert f"({error:.2g}" in out


@pytest.mark.parametrize("method", [word for word in calibrator_signatures() if word != "multicalibrated"])
def test_every_method_is_fitted_stored_and_applied(method: str, run: Run, data: Path) -> None:
    file = "binary.npz" if method not in ("temperature", "vector", "structured") else "rows.csv"
    chosen = f"{method}(max_passes=3)" if "max_passes" in calibrator_signatures()[method].choices else method
    chosen = "prior-shift(prevalence=0.2)" if method == "prior-shift" else chosen
    status, out, _ = run("calibrate", data / file, "--method", chosen, "--out", data / "map.json")
    assert (status, out.startswith(calibrator_signatures()[method].public)) == (0, True)
    assert run("apply", data / "map.json", data / file, "--out", data / "out.zarr")[0] == 0
    given = BINARY[2] if file == "binary.npz" else SCORES
    expected = fitted(data / "map.json").predict_proba(given)
    written = np.asarray(cd.read_rows(data / "out.zarr").scores)
    np.testing.assert_array_equal(written, expected[:, 1] if given.ndim == 1 else expected)


def test_slices_and_choices(run: Run, data: Path) -> None:
    method = "LCE_Calibrator(kernel=gaussian, monotone=true)"
    for name, chosen, calibrator in (
        ("platt", "platt(smooth_targets=true)", cd.PlattScaling(smooth_targets=True)),
        ("lce", method, cd.LCECalibrator(kernel="gaussian", monotone=True)),
    ):
        path = data / f"{name}.json"
        command = ("calibrate", data / "rows.csv", "--by", "country", "--by", "day")
        status, out, err = run(*command, "--method", chosen, "--min-rows", 60, "--out", path)
        assert status == 0
        with pytest.warns(UserWarning, match=r"have the map of all rows: .* or --shrink, gives"):
            calibrator.fit(LABELS, SCORES, by={"country": COUNTRY, "day": DAY}, min_rows=60)
        assert same(fitted(path), calibrator)
        assert err == "".join(f"calibdask: {caution}\n" for caution in calibrator.cautions_)
        assert next(line.split()[:3] for line in out.splitlines() if line.startswith("de")) == ["de", "1", "0"]


def test_a_summary_suffices(run: Run, data: Path) -> None:
    assert main(["summarize", str(data / "binary.npz"), "--out", str(data / "s.zarr")]) == 0
    run()
    status, out, err = run("calibrate", data / "s.zarr", "--out", "-")
    assert status == 0
    expected = cd.PlattScaling().fit(cd.summarize(LABELS > 0, 1 - SCORES[:, 0]))
    assert same(cd.Calibrator.from_dict(json.loads(out)), expected)
    assert "scores alone, of a summary" in err


def test_logits_and_named_classes(run: Run, data: Path) -> None:
    names = np.array(["auk", "owl", "tit"])
    frame = pd.DataFrame({f"z_{name}": np.log(SCORES[:, k]) for k, name in enumerate(names)})
    frame.assign(bird=names[LABELS]).to_parquet(data / "birds.parquet")
    command = ("calibrate", data / "birds.parquet", "--label", "bird", "--score", "z_*", "--logits")
    assert run(*command, "--method", "platt", "--out", data / "map.json")[0] == 0
    calibrator = fitted(data / "map.json")
    assert calibrator.logits
    assert calibrator.classes_.tolist() == names.tolist()
    np.testing.assert_allclose(calibrator.coef_, cd.PlattScaling().fit(LABELS, SCORES).coef_, rtol=1e-9)
    wrong = ("evaluate", data / "birds.parquet", "--label", "bird", "--map", data / "map.json")
    assert "is for the classes auk, owl, tit, but the columns" in run(*wrong, "--score", "z_owl,z_auk,z_tit")[2]
    status, out, _ = run(*wrong, "--score", "z_*", "--metric", "brier", "--json")
    assert status == 0
    expected = cd.evaluate(LABELS, calibrator.predict_proba(np.log(SCORES)), cd.BrierScore()).brier_score
    assert json.loads(out)["metrics"]["brier_score"]["value"] == pytest.approx(float(expected), abs=1e-15)


def test_evaluating_through_a_map(run: Run, data: Path) -> None:
    path = data / "map.json"
    assert run("calibrate", data / "rows.csv", "--method", "platt", "--by", "day", "--out", path)[0] == 0
    command = ("evaluate", data / "rows.csv", "--map", path, "--metric", "ece,brier", "--by", "day")
    status, out, err = run(*command, "--out", data / "result.nc", "--report", data / "page.html")
    assert status == 0
    assert err.startswith(f"calibdask: these are the rows that {path} was fitted to, on which errors look smaller")
    assert err.count("\n") == 1
    calibrated = fitted(path).predict_proba(SCORES, by=DAY)
    expected = cd.evaluate(LABELS, calibrated, ["ece", "brier"], by={"day": DAY})
    result = open_result(data / "result.nc")
    for name in ("ece", "brier_score"):
        np.testing.assert_array_equal(result[name], expected[name])
    assert "scores calibrated by PlattScaling of" in out
    assert result.attrs["map"].startswith("PlattScaling of ")
    assert "Scores were calibrated before: PlattScaling of" in (data / "page.html").read_text()


def test_a_map_knows_the_rows_of_its_fit(run: Run, tmp_path: Path) -> None:
    """In another order, another format and with other slices, but not other rows of the same number."""
    labels, scores = LABELS > 0, 1 - SCORES[:, 0]
    frame = pd.DataFrame({"label": labels.astype(int), "score": scores, "day": DAY})
    frame.to_csv(tmp_path / "fit.csv", index=False)
    frame[::-1].to_parquet(tmp_path / "reversed.parquet")
    frame.assign(score=np.where(np.arange(len(frame)) == 7, 0.123, scores)).to_parquet(tmp_path / "changed.parquet")
    frame[1:].to_parquet(tmp_path / "fewer.parquet")
    path = tmp_path / "map.json"
    assert run("calibrate", tmp_path / "fit.csv", "--by", "day", "--out", path)[0] == 0
    warned = {"fit.csv": True, "reversed.parquet": True, "changed.parquet": False, "fewer.parquet": False}
    for name, is_fit in warned.items():
        status, _, err = run("evaluate", tmp_path / name, "--map", path, "--metric", "brier")
        assert (status, bool(err)) == (0, is_fit), name
    # Maps of earlier versions do not know their rows.
    document = json.loads(path.read_text())
    del document["rows_fingerprint"], document["checksum"]
    path.write_text(json.dumps({**document, "format": 1}))
    assert run("evaluate", tmp_path / "fit.csv", "--map", path, "--metric", "brier")[2] == ""


CALIBRATE = ["calibrate", "binary.npz"]
OUT = ["--out", "x.json"]
THROUGH = ["evaluate", "rows.csv", "--map"]
BAD = [
    ([*CALIBRATE], "Missing option '--out'"),
    ([*CALIBRATE, "--out", "good.json"], "'good.json' already exists"),
    (["calibrate", "good.json", "--out", "good.json", "--overwrite"], "would replace the input"),
    ([*CALIBRATE, *OUT, "--method", "plat"], "There is no method 'plat'"),
    ([*CALIBRATE, *OUT, "--method", "platt(setting=top)"], "setting of platt expects classwise or confidence, got"),
    ([*CALIBRATE, *OUT, "--method", "platt,lce"], "a method is written as platt or platt(smooth_targets=true)"),
    ([*CALIBRATE, *OUT, "--min-rows", "5"], "--min-rows has no effect without --by"),
    ([*CALIBRATE, *OUT, "--task", "multilabel"], "expects"),
    (["calibrate", "summary.nc", *OUT, "--score", "p"], "--score has no effect on summary.nc"),
    (["calibrate", "summary.nc", *OUT, "--by", "day"], "expects a slice of the summary"),
    (["calibrate", "one.npz", *OUT], "expects labels of at least two classes, got one class in all 400 rows"),
    (["calibrate", "equal.npz", *OUT], "expects at least 2 distinct scores, all are 0.5"),
    ([*THROUGH, "none.json"], "none.json cannot be read"),
    ([*THROUGH, "list.json"], "list.json is not a map that can be applied"),
    ([*THROUGH, "later.json"], "later.json is not a map that can be applied: it expects format 1 or 2, got 99"),
    ([*THROUGH, "other.json"], "it expects a calibrator of calibdask, got 'Calibrator2'"),
    (
        [*THROUGH, "edited.json"],
        "edited.json is not a map that can be applied: it expects what to_dict returned, but its",
    ),
    ([*THROUGH, "short.json"], "short.json is not a complete map; it is damaged"),
    ([*THROUGH, "good.json"], "expects scores of P(y = 1), but rows.csv has scores of 3 classes"),
    ([*THROUGH, "good.json", "--logits"], "--logits has no effect with the map good.json"),
    (["evaluate", "binary.npz", "--map", "sliced.json"], "has no array 'day'"),
    (["evaluate", "summary.nc", "--map", "good.json"], "--map has no effect on summary.nc"),
    (["evaluate", "binary.npz", "--map", "good.json", "--out", "good.json", "--overwrite"], "would replace the input"),
]


def test_bad_use(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)
    cd.summarize(*BINARY[1:]).to_netcdf("summary.nc", engine="h5netcdf")
    np.savez("one.npz", labels=np.ones(400, int), scores=BINARY[2])
    np.savez("equal.npz", labels=BINARY[1], scores=np.full(400, 0.5))
    good = cd.PlattScaling().fit(*BINARY[1:]).to_dict()
    sliced = cd.PlattScaling().fit(*BINARY[1:], by={"day": DAY}).to_dict()
    by_hand = {key: value for key, value in good.items() if key != "checksum"} | {"format": 1}
    maps = {
        "good": good,
        "edited": good | {"rows": [399]},
        "sliced": sliced,
        "list": [good],
        "later": good | {"format": 99},
        "other": by_hand | {"calibrator": "Calibrator2"},
        "short": by_hand | {"numbers": {"intercept": good["numbers"]["intercept"]}},
        "texts": by_hand | {"numbers": good["numbers"] | {"coef": ["a"]}},
    }
    for name, document in maps.items():
        Path(f"{name}.json").write_text(json.dumps(document))
    before = sorted(Path().iterdir())
    for arguments, message in BAD:
        status, out, err = run(*arguments)
        assert (status, out, err.count("\n")) == (2, "", 1), arguments
        assert message in err
        assert sorted(Path().iterdir()) == before, arguments

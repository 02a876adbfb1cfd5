"""The JSON of ``calibdask evaluate`` is what its schema says, and the schema can say no."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibdask.cli import main
from calibdask.estimators.signatures import signatures

jsonschema = pytest.importorskip("jsonschema")

ROWS = 300
RNG = np.random.default_rng(8)
SCORES = RNG.dirichlet(np.ones(3), ROWS)
COUNTRY = np.array(["de", "fr"])[RNG.integers(0, 2, ROWS)]
# No row of France on day 2.
SLICES = {"country": COUNTRY, "day": np.where(COUNTRY == "fr", 1, RNG.integers(1, 3, ROWS))}
CASES = {
    "panel": ["multi.npz"],
    "full panel": ["multi.npz", "--all"],
    "models": ["multi.npz", "other=multi.npz", "--metric", "ece,mce", "--by", "day"],
    "binary": ["binary.npz"],
    "ci": ["multi.npz", "--ci", "0.9", "--n-boot", "5", "--metric", "ece,brier,smooth-ece,spiegelhalter-test"],
    "slices": ["multi.npz", "--by", "country", "--by", "day", "--metric", "ece,brier-decomposition,spiegelhalter-test"],
    "slices with ci": ["binary.npz", "--by", "day", "--metric", "ece,ecce", "--ci", "0.9", "--n-boot", "5"],
    "class-wise": ["multi.npz", "--metric", "smooth-ece", "--setting", "classwise"],
    "bins": ["multi.npz", "--metric", "ece-a", "--norm", "l2", "--debias"],
    "summary": ["summary.nc"],
    "slices of a summary": ["summary.nc", "--by", "country", "--metric", "ece", "--ci", "0.9", "--n-boot", "5"],
    **{name: ["binary.npz", "--metric", name] for name in signatures()},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    labels = RNG.integers(0, 3, ROWS)
    np.savez(folder / "multi.npz", labels=labels, scores=SCORES, **SLICES)
    np.savez(folder / "binary.npz", labels=labels > 0, scores=1 - SCORES[:, 0], **SLICES)
    assert main(["summarize", str(folder / "multi.npz"), "--by", "country", "--out", str(folder / "summary.nc")]) == 0
    return folder


@pytest.fixture
def schema(capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["evaluate", "--json-schema"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_what_the_schema_says(
    name: str, schema: Any, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    file, *options = CASES[name]
    options = [option.replace("=multi", f"={data / 'multi'}") for option in options]
    assert main(["evaluate", str(data / file), "--json", *options]) == 0
    result = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(schema).validate(result)
    assert set(result) <= set(schema["properties"]), "the schema knows all that is said once"
    assert bool(result["slices"]) == ("--by" in options)


def test_written_results_are_the_printed_ones(schema: Any, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["evaluate", str(data / "binary.npz"), "--metric", "brier"]
    assert main([*command, "--out", str(data / "result.json"), "--text-plot"]) == 0
    capsys.readouterr()
    assert main([*command, "--json"]) == 0
    written = (data / "result.json").read_text()
    assert written == capsys.readouterr().out, "a picture on the terminal changes nothing in the file"
    jsonschema.Draft202012Validator(schema).validate(json.loads(written))


PLAIN = ["multi.npz", "--metric", "ece,brier-decomposition"]
SLICED = ["multi.npz", "--metric", "ece", "--by", "day"]
BROKEN: list[tuple[list[str], tuple[str, ...], Any]] = [
    (PLAIN, ("format",), 1),
    (PLAIN, ("format",), ...),
    (PLAIN, ("rows",), "300"),
    (PLAIN, ("rows",), 0),
    (PLAIN, ("passes",), -1),
    (PLAIN, ("calibdask_version",), ...),
    (PLAIN, ("ci",), 0.9),
    (PLAIN, ("metrics",), {}),
    (PLAIN, ("metrics", "ece", "value"), ...),
    (PLAIN, ("metrics", "ece", "value"), "0.1"),
    (PLAIN, ("metrics", "ece", "estimator"), ...),
    (PLAIN, ("metrics", "ece", "meaning"), ...),
    (PLAIN, ("metrics", "brier_decomposition", "meaning", "score"), 1),
    (PLAIN, ("metrics", "brier_decomposition", "score"), {"value": 0.1}),
    (PLAIN, ("slices",), ...),
    (SLICED, ("metrics", "ece", "value"), 0.1),
    (SLICED, ("slices", "0", "by"), ...),
    (SLICED, ("slices", "0", "by"), {}),
    (SLICED, ("slices", "0", "rows"), ...),
    (SLICED, ("slices", "0", "frequency"), 1.5),
    (SLICED, ("slices", "0", "events"), -1),
    (SLICED, ("metrics", "ece", "direction"), "down"),
    (SLICED, ("slices", "0", "metrics", "ece"), {}),
    (SLICED, ("slices", "0", "metrics", "ece", "value"), "none"),
    (SLICED, ("slices", "0", "metrics", "ece", "low"), 0.1),
]


def test_the_schema_refuses_other_things(schema: Any, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = []
    for file, *options in (PLAIN, SLICED):
        assert main(["evaluate", str(data / file), "--json", *options]) == 0
        results.append(json.loads(capsys.readouterr().out))
    for command, path, value in BROKEN:
        result = results[0] if command is PLAIN else results[1]
        broken = copy.deepcopy(result)
        place = broken
        for key in path[:-1]:
            place = place[int(key)] if isinstance(place, list) else place[key]
        if value is ...:
            del place[path[-1]]
        else:
            place[path[-1]] = value
        assert broken != result
        assert not jsonschema.Draft202012Validator(schema).is_valid(broken), path

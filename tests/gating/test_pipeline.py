"""The gate as a pipeline runs it: the commands of the example, one after the other."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

_ROOT = Path(__file__).parents[2]
_EXAMPLE = _ROOT / "deploy" / "ci"
_PREDICT = """
import sys
import numpy as np, pandas as pd
rng = np.random.default_rng(0)
n = 12_000
scores, country = rng.beta(1, 3, n), rng.choice(["at", "be", "fr"], n, p=[0.6, 0.3, 0.1])
off = {planted} * (country == "fr")
labels = (rng.random(n) < np.clip(scores + off, 0, 1)).astype(int)
pd.DataFrame({{"label": labels, "score": scores, "country": country}}).to_parquet(sys.argv[2])
"""


def _run(folder: Path, planted: float) -> dict[str, int]:
    """Exit statuses of the steps by name, of those that run as GitHub runs them."""
    shutil.copy(_EXAMPLE / "limits.toml", folder)
    (folder / "predict.py").write_text(_PREDICT.format(planted=planted))
    workflow = yaml.safe_load((_EXAMPLE / "calibration.yml").read_text())
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    places = {"PATH": path, "PYTHONPATH": str(_ROOT), "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    statuses: dict[str, int] = {}
    for step in workflow["jobs"]["gate"]["steps"]:
        if step.get("name", "Install") == "Install" or (any(statuses.values()) and "if" not in step):
            continue
        command = ["bash", "-e", "-c", step["run"]]
        done = subprocess.run(command, cwd=folder, env={**os.environ, **places}, capture_output=True, check=False)
        statuses[step["name"]] = done.returncode
    return statuses


@pytest.mark.parametrize(("planted", "status"), [(0.15, 1)])
def test_a_slice_that_is_off_fails_the_pull_request(planted: float, status: int, tmp_path: Path) -> None:
    statuses = _run(tmp_path, planted)
    assert statuses == {"Score the holdout": 0, "Hold it against the limits": status, "Show the decision": 0}
    summary = (tmp_path / "summary.md").read_text()
    broken = [line.split("|")[2].strip() for line in summary.splitlines() if "❌ broken" in line]
    assert broken == ["country=fr"] * status
    assert summary.startswith("### Calibration of holdout")
    failures = int(ElementTree.parse(tmp_path / "gate.xml").getroot().attrib["failures"])
    assert bool(failures) == bool(status)
    assert (tmp_path / "receipt.json").exists()

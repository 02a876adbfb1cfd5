"""Every place that names the version of calibdask names the same one."""

import re
import tomllib
from pathlib import Path

import yaml

import calibdask

ROOT = Path(calibdask.__file__).parents[1]
# Results of experiments keep the version that computed them.
FOLDERS = ("calibdask", "deploy", "tests")
TEXTS = {".py", ".md", ".rst", ".yaml", ".yml", ".toml", ".cff", ".tpl", ""}
IMAGE = re.compile(r"\bcalibdask:(\d+\.\d+\.\d[\w.+-]*)")


def only(pattern: str, name: str) -> str:
    (value,) = re.findall(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    return str(value)


def semantic(version: str) -> str:
    """A version of Python as semantic versioning writes it: 1.0.0rc1 is 1.0.0-rc1."""
    return re.sub(r"(?<=\d)(?=[a-z])", "-", version, count=1)


def test_versions_agree() -> None:
    version = calibdask.__version__
    assert only(r'^__version__ = "(.*)"$', "calibdask/__init__.py") == version
    assert only(r"^version: (\S+)$", "CITATION.cff") == version
    assert only(r"^appVersion: (\S+)$", "deploy/helm/calibdask/Chart.yaml") == version
    assert only(r"^version: (\S+)", "deploy/helm/calibdask/Chart.yaml") == semantic(version)
    assert re.findall(r"^## (\d\S*\w)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[0] == version


def test_images_have_the_version() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in TEXTS]
    texts = {path: path.read_text(encoding="utf-8") for path in paths if path.is_file() and "build" not in path.parts}
    named = {path.relative_to(ROOT).as_posix(): {*IMAGE.findall(text)} for path, text in texts.items()}
    tagged = {path: tags for path, tags in named.items() if tags}
    assert {"deploy/Dockerfile", "deploy/compose.yaml", "deploy/kubernetes/dask.yaml"} <= set(tagged)
    assert {path: tags for path, tags in tagged.items() if tags != {calibdask.__version__}} == {}


def test_conda_requires_what_pip_does() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = yaml.safe_load((ROOT / "deploy" / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    floors = [re.sub(r"\[.*\]", "", line).replace(">=", " >=") for line in project["dependencies"]]
    # On conda the package dask also brings Bokeh, and dask-core is that of pip.
    expected = [line.replace("dask ", "dask-core ") if line.startswith("dask ") else line for line in floors]
    assert recipe["requirements"]["run"] == ["python >=${{ python_min }}", *expected]
    assert recipe["context"] == {"version": calibdask.__version__, "python_min": project["requires-python"][2:]}

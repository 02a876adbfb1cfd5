"""Completion by the shell: what is offered, what it imports, and that shells take the script."""

import io
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import click
import pytest

import calibdask
from calibdask.cli import cli, main
from calibdask.estimators.signatures import signatures

CODE = "import sys; from calibdask.cli import main; sys.exit(main())"


def completed(line: str) -> list[tuple[str, str]]:
    """What is offered for the last word of a line, by the protocol of bash: type and value of each.

    Without a process of its own; how the command is called is for the tests below.
    """
    words = line.split(" ")
    asked = {"_CALIBDASK_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    out, errors = (io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2))
    with (
        mock.patch.dict(os.environ, asked),
        redirect_stdout(out),
        redirect_stderr(errors),
        pytest.raises(SystemExit) as ended,
    ):
        main([])
    said, complained = (stream.buffer.getvalue().decode() for stream in (out, errors))
    assert (ended.value.code, complained) == (0, "")
    return [(kind, value) for kind, _, value in (row.partition(",") for row in said.splitlines())]


def test_words_are_offered() -> None:
    plain = {
        "calibdask ev": ["evaluate"],
        "calibdask evaluate rows.csv --metric smooth": ["smooth-ece"],
        "calibdask evaluate rows.csv --metric ece,brier-s": ["ece,brier-score", "ece,brier-skill-score"],
        "calibdask evaluate rows.csv --metric ECE_A": ["ece-a", "ece-ac"],
        "calibdask evaluate rows.csv --metric ece(bi": ["ece(bins=", "ece(binning="],
        "calibdask evaluate rows.csv --metric brier,ece(bins=5,bi": ["brier,ece(bins=5,binning="],
        "calibdask evaluate rows.csv --metric ece(norm=l": ["ece(norm=l1", "ece(norm=l2"],
        "calibdask evaluate rows.csv --metric ece(bins=5),smooth": ["ece(bins=5),smooth-ece"],
        "calibdask calibrate rows.csv --method pl": ["platt"],
        "calibdask calibrate rows.csv --method multi": ["multicalibrated"],
        "calibdask calibrate rows.csv --method platt(s": [
            *("platt(slope=", "platt(shrink=", "platt(smooth_targets=", "platt(setting="),
        ],
        "calibdask calibrate rows.csv --method platt(setting=cl": ["platt(setting=classwise"],
        "calibdask evaluate rows.csv --panel ": ["default", "tests"],
        "calibdask evaluate rows.csv --metric ece-a,ece-a": ["ece-a,ece-ac"],
        "calibdask evaluate rows.csv --metric ece --metric skce": ["skce", "skce-test"],
        "calibdask evaluate rows.csv --setting c": ["confidence", "classwise"],
        "calibdask evaluate rows.csv --bandwidth s": ["silverman"],
        "calibdask evaluate rows.csv --bins ": ["sqrt"],
        "calibdask evaluate rows.csv --norm m": ["max"],
        "calibdask evaluate rows.csv --json-": ["--json-schema"],
        "calibdask evaluate rows.csv --setting larg": ["largest-2"],
        "calibdask run study --cluster local": ["local", "local:2"],
        "calibdask completion ": ["bash", "zsh", "fish"],
    }
    for line, words in plain.items():
        assert completed(line) == [("plain", word) for word in words], line
    assert [name for _, name in completed("calibdask evaluate rows.csv --metric ")] == list(signatures())


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("calibdask evaluate ro", "file"),
        ("calibdask compare one.npz tw", "file"),
        ("calibdask summarize ro", "file"),
        ("calibdask evaluate rows.csv --out re", "file"),
        ("calibdask evaluate rows.csv --cluster sched", "file"),
        ("calibdask run experiments/", "dir"),
        ("calibdask status cu", "file"),
        ("calibdask certs ce", "dir"),
        ("calibdask run study --tls ce", "dir"),
    ],
)
def test_paths_are_left_to_the_shell(line: str, kind: str) -> None:
    assert completed(line) == [(kind, line.rpartition(" ")[2])]


def test_what_names_a_path_is_completed() -> None:
    """New commands too: who takes a file says so to the shell."""
    for name, command in cli.commands.items():
        for parameter in command.get_params(click.Context(command)):
            shown = parameter.make_metavar(click.Context(command)) or ""
            if shown.strip("[].") in ("DATA", "FILE", "FOLDER", "CUBE", "STORE", "STUDY"):
                assert parameter.type.shell_complete(click.Context(command), parameter, "x"), f"{name} {parameter.name}"


def test_completion_imports_nothing_heavy() -> None:
    """What makes completion slow is what it imports; seconds themselves would tell of the machine."""
    code = "import atexit, sys; from calibdask.cli import main; "
    code += "heavy = {'numpy', 'scipy', 'pandas', 'pyarrow', 'dask', 'xarray', 'rich', 'numba', 'sklearn'}; "
    code += "atexit.register(lambda: sys.stderr.write(' '.join(sorted(heavy & set(sys.modules))))); sys.exit(main())"
    line = "calibdask evaluate rows.csv --metric e"
    asked = {"_CALIBDASK_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": "4"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )
    assert "ece" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("module", ["calibdask", "calibdask.cli"])
def test_modules_that_run(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"calibdask, version {calibdask.__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "_CALIBDASK_COMPLETE=" in script
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """As bash itself calls the function of the script."""
    assert main(["completion", "bash"]) == 0
    command = tmp_path / "calibdask"
    command.write_text(f"#!{sys.executable}\n{CODE}\n")
    command.chmod(0o755)
    script = capsys.readouterr().out
    script += (
        "COMP_WORDS=(calibdask evaluate rows.csv --metric ece,ec); COMP_CWORD=4; _calibdask_completion calibdask\n"
    )
    script += 'printf "%s\\n" "${COMPREPLY[@]}"\n'
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc"], input=script, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["ece,ecce", "ece,ece-a", "ece,ece-ac", "ece,ece-c", "ece,ece-d", "ece,ece-l"]

"""``calibdask report`` and ``--report``."""

import html
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.report import measuring
from calibdask.study.example import Means
from tests.report.page_reader import Reader
from tests.report.sample_rows import COUNTRY, LABELS, LIMITED, TRUTH, WEIGHTS, of_two_models


@pytest.fixture
def data(tmp_path: Path) -> Path:
    frame = pd.DataFrame({"label": LABELS, "score": TRUTH**1.5, "country": COUNTRY, "w": WEIGHTS})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    np.savez(tmp_path / "other.npz", labels=LABELS, scores=TRUTH)
    return tmp_path


class TestCommand:
    def test_slices_and_weights(self, run: Any, data: Path) -> None:
        options = ("--by", "country", "--weight", "w", "--n-boot", 20, "--ci", 0.9, "--title", "Mine")
        status, _, err = run("report", data / "rows.csv", "--out", data / "page.html", *options)
        assert (status, err) == (0, "")
        reader = Reader((data / "page.html").read_text())
        expected = cd.evaluate(LABELS, TRUTH**1.5, cd.ECE(), by={"country": COUNTRY}, sample_weight=WEIGHTS)
        assert set(expected.ece.values.tolist()) <= set(reader.numbers)
        assert "90 % interval" in reader.text
        assert reader.text.count("Mine") >= 2

    def test_summaries(self, run: Any, data: Path) -> None:
        summary = data / "summary.zarr"
        run("summarize", data / "rows.csv", "--by", "country", "--out", summary)
        status, _, err = run("report", summary, "--out", data / "page.html", "--n-boot", 20)
        assert (status, err) == (0, "")
        assert "by country, the worst first" in Reader((data / "page.html").read_text()).text
        status, _, err = run("report", summary, "--by", "day", "--out", data / "no.html")
        assert status == 2
        assert "--by day expects a slice" in err
        status, _, err = run("report", summary, "--weight", "w", "--out", data / "no.html")
        assert status == 2
        assert "--weight has no effect" in err
        assert not (data / "no.html").exists()

    def test_models_of_summaries(self, run: Any, data: Path) -> None:
        summary = cd.summarize(*of_two_models())
        summary.to_netcdf(data / "models.nc", engine="h5netcdf")
        status, _, err = run("report", data / "models.nc", "--out", data / "page.html", "--n-boot", 20)
        assert (status, err) == (0, "")
        reader = Reader((data / "page.html").read_text())
        assert set(cd.evaluate(summary, metrics=cd.ECE()).ece.values.tolist()) <= set(reader.numbers)
        assert "Metrics of two" in reader.text

    def test_cubes(self, run: Any, data: Path) -> None:
        store = data / "cube.zarr"
        cd.run(Means(rows=(4, 5), replicates=3), str(store))
        status, _, err = run("report", store, "--out", data / "page.html")
        assert (status, err) == (0, "")
        assert "2 of 2 cells are done." in Reader((data / "page.html").read_text()).text
        for arguments, words in (
            ((data / "rows.csv",), "give it alone"),
            (("--by", "rows"), "--by has no effect"),
            LIMITED,
        ):
            status, _, err = run("report", store, *arguments, "--out", data / "no.html")
            assert status == 2
            assert words in err

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("none.csv", "--limit", "3", "--out", "page.html"), "--limit expects a fraction between 0 and 1"),
            (("none.csv", "--limit", "nan", "--out", "page.html"), "--limit expects a fraction between 0 and 1"),
            (("none.csv", "--by", "c", "--slice-limit", "0", "--out", "page.html"), "--slice-limit expects a fraction"),
            (("rows.csv", "--slice-limit", "0.1", "--out", "page.html"), "has no effect without --by"),
            (("rows.csv", "--out", "page.txt"), "ends in one of .html"),
            (("rows.csv", "--out", "there.html"), "already exists"),
            (("rows.csv", "--out", "nowhere/page.html"), "does not exist"),
            (("none.csv", "--out", "page.html"), "none.csv does not exist"),
            (("rows.csv", "sub/rows.csv", "--out", "page.html"), "would both be called 'rows'"),
            (("rows.csv", "--ci", "2", "--out", "page.html"), "ci expects a number between 0 and 1"),
            (("rows.csv", "--by", "month", "--out", "page.html"), "no column 'month'"),
            (("broken.npz", "--out", "page.html"), "broken.npz"),
            (("rows.csv",), "Missing option"),
        ],
    )
    def test_bad_use(
        self, run: Any, data: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
    ) -> None:
        monkeypatch.chdir(data)
        Path("there.html").write_text("mine")
        Path("broken.npz").write_bytes(b"PK no archive")
        before = sorted(data.iterdir())
        status, out, err = run("report", *arguments)
        assert (status, out) == (2, "")
        assert words in err
        assert err.count("\n") == 1
        assert sorted(data.iterdir()) == before
        assert Path("there.html").read_text() == "mine"

    def test_evaluate_writes_one_too(self, run: Any, data: Path) -> None:
        options = ("--metric", "ece", "--metric", "skce", "--estimator", "linear", "--bins", 7, "--by", "country")
        status, out, err = run(
            "evaluate", data / "rows.csv", *options, "--report", data / "page.html", "--n-boot", 20, "--ci", 0.9
        )
        assert (status, err) == (0, "")
        assert f"wrote {data / 'page.html'}" in out.replace("\n", "")
        reader = Reader((data / "page.html").read_text())
        assert float(cd.ece(LABELS, TRUTH**1.5, bins=7)) in reader.numbers
        assert "calibdask evaluate" in reader.text
        assert "90 % interval" in reader.text
        status, _, err = run("evaluate", data / "rows.csv", "--report", data / "page.html")
        assert status == 2
        assert "already exists" in err

    def test_the_printed_command_runs(self, run: Any, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Beside the page that it is printed on, and with the same numbers."""
        monkeypatch.chdir(data)
        Path("it's a.csv").write_bytes(Path("rows.csv").read_bytes())
        words = ["it's a.csv", "--by", "country", "--limit", "0.1", "--n-boot", "20", "--title", 'of "us" & <b>']
        assert run("report", *words, "--out=page.html", "--receipt", "receipt.json")[0] == 0
        first = Path("page.html").read_bytes()
        (printed,) = re.findall(r"<code>(.*?)</code>", first.decode(), re.S)
        program, *again = shlex.split(html.unescape(printed))
        assert program == "calibdask"
        status, _, err = run(*again)
        assert (status, err) == (0, "")
        assert Path("page.html").read_bytes() == first
        assert Reader(Path("page-again.html").read_text()).numbers == Reader(first.decode()).numbers
        assert Path("receipt-again.json").exists()

    def test_models_of_the_same_rows_are_compared(self, run: Any, data: Path) -> None:
        words = ("--n-boot", 20, "--out", data / "page.html")
        assert run("report", f"new={data / 'rows.csv'}", data / "other.npz", *words)[0] == 0
        reader = Reader((data / "page.html").read_text())
        assert "other is better than new: the Brier score" in reader.text
        result = cd.compare(LABELS, {"new": TRUTH**1.5, "other": TRUTH}, n_boot=20)
        assert set(result.brier_score_difference.values.tolist()) <= set(reader.numbers)
        assert (
            len([given for given in reader.having("svg", role="img") if "over each other" in given["aria-label"]]) == 1
        )

    def test_rows_that_are_missing_are_left_out_of_all_models(self, run: Any, tmp_path: Path) -> None:
        """A label is missing in both files, a score in either one: pairs are the rows that all of them have."""
        labels, scores = LABELS[:600].astype(float), {"old": TRUTH[:600] ** 1.5, "new": TRUTH[:600].copy()}
        labels[[3, 50]], scores["old"][7], scores["new"][[8, 50]] = np.nan, np.nan, np.nan
        files = []
        for name, column in scores.items():
            frame = pd.DataFrame({"label": labels, "score": column})
            files.append(tmp_path / f"{name}.parquet")
            frame.to_parquet(files[-1], index=False)
        kept = np.isfinite(labels + scores["old"] + scores["new"])
        direct = cd.compare(labels[kept], {name: column[kept] for name, column in scores.items()}, n_boot=20)
        words = ("--skip-missing", "--n-boot", 20)
        assert run("report", *files, *words, "--out", tmp_path / "page.html")[0] == 0
        reader = Reader((tmp_path / "page.html").read_text())
        assert set(direct.brier_score_difference.values.tolist()) <= set(reader.numbers)
        assert "4 rows without a label or a score are excluded." in reader.text
        status, out, err = run("compare", *files, *words)
        assert status == 0
        assert "left out 4 of 600 rows" in err
        assert "596 rows" in out
        # Where rows differ in number they are not the same ones.
        frame.iloc[:-1].to_csv(tmp_path / "fewer.csv", index=False)
        status, _, err = run("compare", files[0], tmp_path / "fewer.csv", *words)
        assert status == 2
        assert "same rows in the same order, got 600 rows" in err

    def test_many_rows_are_not_resampled(self, run: Any, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(measuring, "MOST_RESAMPLED", 1)
        words = ("--n-boot", 20, "--out", data / "page.html")
        assert run("report", f"new={data / 'rows.csv'}", data / "other.npz", *words)[0] == 0
        said = "not compared by pairs of rows: resampling 4,000 rows would take minutes"
        assert said in Reader((data / "page.html").read_text()).text

    def test_models_of_other_rows_are_not(self, run: Any, data: Path) -> None:
        np.savez(data / "fewer.npz", labels=LABELS[:3000], scores=TRUTH[:3000])
        words = ("--n-boot", 20, "--out", data / "page.html")
        assert run("report", data / "other.npz", data / "fewer.npz", *words)[0] == 0
        said = "The models are not compared by pairs of rows: a comparison expects the same rows in the same order"
        assert said in Reader((data / "page.html").read_text()).text

    def test_help_is_fast(self, run: Any) -> None:
        heavy = {"numpy", "dask", "xarray", "jinja2", "holoviews", "pandas"}
        code = "import sys; from calibdask.cli import main; main(['report', '--help'])"
        code += f"; assert not {heavy} & set(sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)

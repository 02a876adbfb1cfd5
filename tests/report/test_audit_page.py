"""Pages on audits: they hold together, say first what was found, and show every column by its values."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.analyses.auditing.audit_document import audit_document
from calibdask.cli import main
from calibdask.report import write_audit_report
from tests.report.page_reader import Reader, scripts_allowed


def table(n: int = 20_000, *, off: bool = True) -> pd.DataFrame:
    """Rows of which one group is off by 15 points or so, with missing and rare values."""
    rng = np.random.default_rng(3)
    score = rng.beta(2, 3, n)
    frame = pd.DataFrame({"age": rng.integers(18, 90, n).astype(float), "score": score})
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    frame["country"] = rng.choice(np.array(["be", "fr", "lu", "is", "<b>&"], object), n, p=[0.6, 0.2, 0.1, 0.05, 0.05])
    wrong = off & (frame.age > 70) & (frame.country == "be")
    frame["label"] = (rng.random(n) < np.where(wrong, 0.6 * score, score)).astype(int)
    return frame


def page_of(path: Path, result: xr.Dataset, **options: str) -> tuple[str, Reader]:
    write_audit_report(path / "audit.html", result, overwrite=True, **options)
    html = (path / "audit.html").read_text(encoding="utf-8")
    return html, Reader(html)


@pytest.fixture(scope="module")
def audited() -> xr.Dataset:
    frame = table()
    return cd.audit(frame.label, frame.score, frame[["age", "country"]], values=4)


def test_it_holds_together(tmp_path: Path, audited: xr.Dataset) -> None:
    html, reader = page_of(tmp_path, audited, source="rows.parquet", command="calibdask audit rows.parquet")
    assert not re.search(r"https?://|//[a-z]|url\(|@import|xmlns", html)
    assert scripts_allowed(html)
    anchors = {attributes.get("id") for _, attributes in reader.tags}
    links = {str(attributes["href"]).removeprefix("#") for attributes in reader.having("a")}
    assert {"column-1", "column-2", "groups", "excluded"} <= links <= anchors
    pictures = reader.having("svg", role="img")
    assert len(pictures) == 2
    assert all(attributes["aria-label"] for attributes in pictures)
    levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert (
        reader.text.partition("Calibration audit ")[2].rpartition("Calibration audit ")[2].startswith("1 subgroup is")
    )
    assert "calibdask audit rows.parquet" in reader.text


def test_it_shows_the_numbers(tmp_path: Path, audited: xr.Dataset) -> None:
    html, reader = page_of(tmp_path, audited)
    single = audited.isel(segment=(audited.depth <= 1).values)
    assert {100 * gap for gap in single.gap.values.tolist()} <= set(reader.numbers)
    assert set(single.pvalue_adjusted.values.tolist()) <= set(reader.numbers)
    described = audited.isel(segment=audited.described.values)
    assert {*described.rows.values.tolist(), *described.ece.values.tolist()} <= set(reader.numbers)
    for words in ("age missing", "country other", "country = be", "all rows"):
        assert words in reader.text
    # Only the groups that are off are coloured, in tables and in the picture.
    assert html.count('class="dot over"') >= int(audited.described.sum())
    assert "<b>" not in html


def test_nothing_found(tmp_path: Path) -> None:
    frame = table(off=False)
    result = cd.audit(frame.label, frame.score, frame[["age", "country"]])
    html, reader = page_of(tmp_path, result)
    assert not result.found.any()
    assert result.attrs["conclusion"].replace("(-", "(−") in reader.text
    assert "No subgroup is significantly miscalibrated" in reader.text
    assert 'class="dot over"' not in html
    few = cd.audit(frame.label[:30], frame.score[:30], frame[["age"]][:30])
    html, reader = page_of(tmp_path, few)
    assert "No subgroup has 100 rows: undecided." in reader.text
    assert not reader.having("svg", role="img")


def test_rows_of_rare_values_are_counted(tmp_path: Path) -> None:
    frame = table(2000, off=False)
    edges = {"age": [19.0, 88.0]}
    result = cd.audit(frame.label, frame.score, frame[["age", "country"]], edges=edges, min_rows=100)
    rare = int((frame.age <= 19).sum() + (frame.age > 88).sum())
    _, reader = page_of(tmp_path, result)
    said = [f"{rare} further rows in values with fewer than 100 rows each."]
    assert 0 < rare < 200
    assert re.findall(r"\S+ further rows in [^.]*\.", reader.text) == said
    lines = audit_document(result, one_way_only=True).to_text().splitlines()
    assert [line for line in lines if "further rows" in line] == said


def test_many_columns_of_many_values_stay_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    score = rng.random(7_000)
    features = {f"column {number}": rng.random(score.size) for number in range(80)}
    result = cd.audit(rng.random(score.size) < score, score, features, depth=1, values=60, score_cells=4)
    html, reader = page_of(tmp_path, result)
    assert len(html.encode()) < 2e6
    assert "20 further columns with less evidence not shown." in reader.text


def test_the_command_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table().to_parquet("rows.parquet")
    words = ["audit", "rows.parquet", "--features", "all", "--report", "page.html"]
    assert main(words) == 1
    assert "wrote page.html" in capsys.readouterr().out
    reader = Reader(Path("page.html").read_text(encoding="utf-8"))
    assert "calibdask audit rows.parquet --features all --report page-again.html" in reader.text
    assert main(words) == 2
    assert "already exists" in capsys.readouterr().err


def test_only_of_audits(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"calibdask\.audit"):
        write_audit_report(tmp_path / "page.html", cd.evaluate([0, 1], [0.1, 0.9]))
    assert not list(tmp_path.iterdir())


def test_reports_show_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    table(4000).to_parquet("rows.parquet")
    assert main(["summarize", "rows.parquet", "--features", "age,country", "--out", "s.zarr"]) == 0
    pages = {}
    for name, words in {"rows": ["rows.parquet", "--features", "age,country"], "summary": ["s.zarr"]}.items():
        assert main(["report", *words, "--n-boot", "5", "--out", f"{name}.html"]) == 0
        pages[name] = Reader(Path(f"{name}.html").read_text(encoding="utf-8"))
    expected = cd.audit(cd.open_summary("s.zarr"))
    for reader in pages.values():
        assert "Miscalibrated subgroups" in reader.text
        assert expected.attrs["conclusion"].replace("(-", "(−") in reader.text
        single = expected.isel(segment=(expected.depth == 1).values)
        assert {100 * gap for gap in single.gap.values.tolist()} <= set(reader.numbers)
        assert {"column-1-1", "column-1-2"} <= {attributes.get("id") for _, attributes in reader.tags}
    assert main(["report", "s.zarr", "--features", "age", "--out", "again.html"]) == 2
    assert "--features has no effect on s.zarr" in capsys.readouterr().err
    assert main(["report", "rows.parquet", "--n-boot", "5", "--out", "plain.html"]) == 0
    assert "Miscalibrated subgroups" not in Path("plain.html").read_text(encoding="utf-8")


def test_the_first_page_says_first_what_the_audit_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found, none = table(), table(off=False)
    # Scores that are too high for some are too low for others: over all rows there is nothing to see.
    rng = np.random.default_rng(8)
    side = 0.1 * np.select([found.country == "fr", found.country == "lu"], [1.0, -2.0])
    found["label"] = (rng.random(len(found)) < np.clip(found.score + side, 0, 1)).astype(int)
    for name, frame in {"found": found, "none": none}.items():
        frame[["label", "score", "country"]].to_parquet(f"{name}.parquet")
    options = ["--features", "country", "--n-boot", "20"]
    shown = {}
    for name in ("found", "none"):
        assert main(["report", f"{name}.parquet", *options, "--out", f"{name}.html"]) == 0
        html = Path(f"{name}.html").read_text(encoding="utf-8")
        shown[name] = re.findall(
            r"<p[^>]*>(.*?)</p>", html.partition('<article class="banner')[2].partition("</article>")[0]
        )
        assert shown[name][-1] == '<a href="#groups">Miscalibrated subgroups</a>'
        assert 'id="groups"' in html
    result = cd.audit("found.parquet", features="country")
    assert shown["found"][0] == result.attrs["conclusion"].replace("(-", "(−")
    assert "2 subgroups are off" in shown["found"][0]
    assert shown["found"][1].startswith("No significant bias of the mean score over all rows (")
    assert shown["none"][0].startswith("No significant bias of the mean score over all rows (")
    assert shown["none"][1].startswith("No calibration error shown beyond chance over all rows:")
    assert shown["none"][2].startswith("No subgroup of at least ")
    assert main(["report", "found.parquet", *options, "--limit", "0.5", "--out", "limit.html"]) == 0
    html = Path("limit.html").read_text(encoding="utf-8")
    article = html.partition('<article class="banner')[2].partition("</article>")[0]
    assert article.index("Within the limit") < article.index("2 subgroups are off") < article.index("#groups")

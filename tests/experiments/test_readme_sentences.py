"""The sentences of the studies' pages that state numbers follow from the numbers that are kept beside them."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from experiments.ece_benchmark import claims
from experiments.ece_benchmark import outcome as benchmark_outcome
from experiments.ece_benchmark import tables as benchmark_tables
from experiments.monitoring import outcome as monitoring_outcome
from experiments.monitoring import tables as monitoring_tables
from experiments.recalibration import outcome as recalibration_outcome
from experiments.recalibration import tables as recalibration_tables
from experiments.skce_tests import outcome as tests_outcome

STUDIES = Path(__file__).parents[2] / "experiments"
STUDY = STUDIES / "ece_benchmark"
# Of the tables of the page.
SHOWN = (
    *("smooth", "residual-silverman", "residual-0.1", "density-silverman", "density-isj"),
    *("uniform-convex-10", "equal-mass-convex-10", "uniform-hard-10", "uniform-hard-15", "equal-mass-hard-15"),
)


@pytest.fixture(scope="module")
def kept() -> xr.Dataset:
    return xr.load_dataset(STUDY / "results" / "summary.nc", engine="scipy")


@pytest.fixture(scope="module")
def page() -> str:
    return " ".join((STUDY / "README.md").read_text(encoding="utf-8").split())


def written() -> dict[str, str]:
    """Tables and claims of all studies, as their kept summaries give them."""

    def kept(study: str, name: str = "summary.nc") -> str:
        return str(STUDIES / study / "results" / name)

    benchmark = benchmark_outcome.summary_of([kept("ece_benchmark")])
    tests = xr.load_dataset(kept("skce_tests"), engine="scipy")
    found = recalibration_outcome.summaries_of([kept("recalibration", f"{name}.nc") for name in ("truth", "models")])
    truth, models = found["Recalibration"], found["RealModels"]
    title = ["# Recalibration: which calibrator to trust at which number of rows", ""]
    return {
        "ece_benchmark/results/results.md": benchmark_tables.markdown(benchmark),
        "ece_benchmark/results/claims.md": claims.markdown(benchmark),
        "skce_tests/results/tables.md": tests_outcome.tables(tests),
        "monitoring/results/results.md": "\n".join(
            monitoring_tables.results(monitoring_outcome.summary_at(kept("monitoring")))
        ),
        "recalibration/results/results.md": "\n".join(
            [*title, *recalibration_tables.known_truth(truth), *recalibration_tables.real_models(models)]
        ),
        "recalibration/results/claims.md": "\n".join(recalibration_tables.claims(truth, models)),
    }


def test_tables_that_are_kept_are_those_of_the_summaries() -> None:
    for name, text in written().items():
        assert (STUDIES / name).read_text(encoding="utf-8") == text, name


def leads(errors: xr.DataArray, estimator: str) -> list[int]:
    """The sizes at which the error of this estimator is the smallest."""
    return [int(size) for size in errors["size"] if errors.sel(size=size).idxmin("estimator") == estimator]


def above(errors: xr.DataArray, estimator: str) -> xr.DataArray:
    """How far the error of this estimator is above the smallest, in percent."""
    return 100 * (errors.sel(estimator=estimator) / errors.min("estimator") - 1)


def ratio(errors: xr.DataArray, numerator: str, denominator: str) -> xr.DataArray:
    """The change of the error, in percent."""
    return 100 * (errors.sel(estimator=numerator) / errors.sel(estimator=denominator) - 1)


def test_smooth_ece_leads_for_the_confidence(kept: xr.Dataset, page: str) -> None:
    assert "smallest of all 50 estimators at 19 of 20 sizes, under both" in page
    assert "smallest up to 580 rows under `code`, and from 259 to 994 rows under `text`" in page
    assert "up to 18 % above the smallest below 259 rows; beyond 1000 rows it is up to 35 % above the smallest" in page
    confidence = kept.sel(setting="confidence")
    sizes = [int(size) for size in kept["size"]]
    for means in ("code", "text"):
        assert len(leads(confidence.absolute.sel(means=means), "smooth")) == 19
    relative = confidence.relative
    assert leads(relative.sel(means="code"), "smooth") == [size for size in sizes if size <= 580]
    assert leads(relative.sel(means="text"), "smooth") == [size for size in sizes if 259 <= size <= 994]
    few = above(relative.sel(means="text"), "smooth").sel(size=slice(None, 258))
    many = xr.concat([above(relative.sel(means=means), "smooth") for means in ("code", "text")], "means")
    assert round(float(few.max())) == 18
    assert round(float(many.sel(size=slice(1000, None)).max())) == 35


def test_convex_mapping_of_ten_bins(kept: xr.Dataset, page: str) -> None:
    assert "by 8 to 21 % up to 259 rows, and by 2 to 7 % from 994 rows on for the confidence" in page
    assert "class-wise it increases the error by up to 14 % from 2918 rows on (`text`: 1703)" in page
    change = ratio(kept.absolute, "uniform-convex-10", "uniform-hard-10")
    few, many = change.sel(size=slice(None, 259)), change.sel(setting="confidence", size=slice(994, None))
    assert (few > -22).all()
    assert (few < -7.5).all()
    assert (many > -7.5).all()
    assert (many < -1.5).all()
    for means, first in (("code", 2918), ("text", 1703)):
        worse = change.sel(setting="classwise", means=means)
        assert [int(size) for size in worse["size"][worse > 0]] == [
            int(size) for size in worse["size"] if int(size) >= first
        ]
    assert round(float(change.sel(setting="classwise").max())) == 14


def test_equal_mass_bins_class_wise(kept: xr.Dataset, page: str) -> None:
    assert "with 10 bins, or 15 from 1700 rows on under `code` (under `text`, 15 bins are 9 to 28 % worse" in page
    change = ratio(kept.absolute.sel(setting="classwise"), "equal-mass-convex-15", "equal-mass-convex-10")
    assert next(int(size) for size in change["size"][change.sel(means="code") < 0]) == 1703
    text = change.sel(means="text", size=slice(None, 2918))
    assert round(float(text.min())) == 9
    assert round(float(text.max())) == 28


def test_coverage_of_percentiles(kept: xr.Dataset, page: str) -> None:
    assert "contains the true value in 0 to 82 % of the samples" in page
    coverage = 100 * kept.coverage_percentile.sel(estimator=list(SHOWN))
    assert round(float(coverage.min())) == 0
    assert round(float(coverage.max())) == 82


def test_the_best_of_the_paper_class_wise(kept: xr.Dataset, page: str) -> None:
    assert (
        "ECE_d with the bandwidth 0.1 is best at 4 of the 5 sizes below 100 rows, and ECE_c with 10 bins from 151"
        in page
    )
    names = [name for name in kept.estimator.values if name.startswith(("euranova", "density-0"))]
    errors = kept.absolute.sel(means="text", setting="classwise", estimator=names)
    assert [size for size in leads(errors, "density-0.1") if size < 100] == [39, 51, 67, 88]
    published = np.array(kept["size"])[:11]
    assert [size for size in leads(errors, "euranova-c-10") if size in published] == [151, 198, 259, 339, 443]

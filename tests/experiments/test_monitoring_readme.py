"""The page of the study of watching says what the numbers that are kept beside it say."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from experiments.monitoring.charts import cusum_limit

STUDY = Path(__file__).parents[2] / "experiments" / "monitoring"
CALIBRATED = ["calibrated", "other people", "rare"]
# Kinds of change in the table of the page, and how it calls them.
SHOWN = {"shift 0.02": "shift by 0.02", "slope": "slope 0.8", "one group": "one group", "gradual": "gradual"}


def page_table(kept: xr.Dataset) -> list[str]:
    """False alarms over all numbers of rows, and medians of delays at 1,000 rows a day."""
    header = [
        "at 1,000 rows a day, looks until half signal",
        *SHOWN.values(),
        "false alarms in a year, all numbers of rows",
    ]
    lines = [header, ["---"] * len(header)]
    for monitor in kept["monitor"].values:
        at = kept.sel(monitor=monitor)
        delays = [float(at["delay"].sel(kind=kind, rows=1000)) for kind in SHOWN]
        false = float(at["ever"].sel(kind=CALIBRATED).mean())
        cells = ["–" if np.isinf(delay) else f"{delay:.0f}" for delay in delays]
        lines.append([str(monitor), *cells, f"{100 * false:.0f} %"])
    return [f"| {' | '.join(cells)} |" for cells in lines]


@pytest.fixture(scope="module")
def kept() -> xr.Dataset:
    return xr.load_dataset(STUDY / "results" / "summary.nc", engine="scipy")


@pytest.fixture(scope="module")
def page() -> str:
    return " ".join((STUDY / "README.md").read_text(encoding="utf-8").split())


def test_table(kept: xr.Dataset, page: str) -> None:
    assert " ".join(page_table(kept)) in page


def test_delays_of_the_sentences(kept: xr.Dataset, page: str) -> None:
    def delay(monitor: str, kind: str, rows: int) -> int:
        return int(kept["delay"].sel(monitor=monitor, kind=kind, rows=rows))

    detector, with_tolerance = "detector, all looks", "detector, all looks, tolerance"
    said = (delay(detector, "shift 0.02", 1000), delay("e-process", "shift 0.02", 1000))
    assert "takes {} looks, and {}.".format(*said) in page
    assert delay(with_tolerance, "shift 0.05", 10_000) == 1
    assert f"an alarm after {delay('e-process, tolerance', 'shift 0.05', 10_000)} looks" in page
    slopes = (delay("cusum, Brier", "slope", 1000), delay("cusum", "slope", 1000))
    assert "({} looks instead of {})".format(*slopes) in page
    for rows in (100, 1000, 10_000):
        for kind in ("shift 0.02", "shift 0.05", "gradual"):
            ratio = kept["delay"].sel(kind=kind, rows=rows)
            assert float(ratio.sel(monitor=detector) / ratio.sel(monitor="cusum")) < 1.5
            assert float(ratio.sel(monitor="cusum, Brier") / ratio.sel(monitor="cusum")) >= 1


def test_false_alarms_of_the_sentences(kept: xr.Dataset, page: str) -> None:
    ever = kept["ever"]
    rare = ever.sel(kind="rare", rows=20)
    assert f"in {100 * float(rare.sel(monitor='cusum')):.0f} % of the calibrated streams instead of 5 %" in page
    assert float(rare.sel(monitor="daily test, Bonferroni")) == 1
    promised = ever.sel(kind=CALIBRATED, monitor=["e-process", "e-process, tolerance", "detector, all looks"])
    assert float(promised.max()) <= 0.08
    assert float(promised.mean(["kind", "rows"]).max()) <= 0.05
    moving = ever.sel(kind=CALIBRATED, monitor="moving ece, 99 %")
    assert 0.85 < float(moving.mean()) < 0.95
    psi = ever.sel(monitor=["psi 0.1", "psi 0.25"])
    assert float(psi.sel(kind="other people").min()) == 1
    assert float(psi.sel(kind=["shift 0.05", "slope", "gradual"], rows=[1000, 10_000]).max()) == 0
    assert float(kept["often"].sel(kind="calibrated", rows=20, monitor=["psi 0.1", "psi 0.25"]).min()) > 0.9
    repeated = ever.sel(kind="repeated rows")
    of_e = 100 * repeated.sel(monitor="e-process")
    least, most = float(of_e.min()), float(of_e.max())
    assert f"{least:.0f} to {most:.0f} % of the calibrated streams have an alarm of the e-process" in page
    assert float(repeated.sel(monitor="cusum").min()) == 1
    waits = 1 / kept["often"].sel(kind="calibrated", monitor="detector")
    assert f"signals every {float(waits.min()):.0f} to {float(waits.max()):.0f} looks" in page
    assert f"{cusum_limit(365, 0.05):.2f}" in page


def test_single_bad_days(kept: xr.Dataset) -> None:
    bad = kept["missed"].sel(kind="bad day", rows=[1000, 10_000])
    assert float(bad.sel(monitor="detector, all looks").max()) == 0
    assert float(bad.sel(monitor="daily test, Bonferroni").max()) == 0
    assert float(bad.sel(monitor="e-process").min()) > 0.5


def test_promises(page: str) -> None:
    """The table of 10,000 streams, of which the page gives two numbers."""
    lines = (STUDY / "results" / "promises.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    calibrated = {row[0]: row for row in rows[2:9]}
    shares = {label: float(row[2].split(" %")[0]) for label, row in calibrated.items()}
    assert f"{shares['all']:.1f} % of 10,000" in page
    assert max(shares.values()) <= 2.3
    assert all(row[3].startswith("100.00 %") for row in calibrated.values())
    beyond = {row[0]: row for row in rows[11:18]}
    assert all(beyond[label][3].startswith("100.00 %") for label in ("100,000", "1,000,000"))
    calibrated, planted = ({row[0]: row for row in rows[start : start + 2]} for start in (20, 24))
    assert f"{calibrated['30'][2]} at 30 rows a day, {calibrated['300'][2]} at 300" in page
    alone = [float(calibrated[label][3].split(" %")[0]) for label in ("30", "300")]
    assert "but {:.0f} % and {:.0f} % have some slice with E >= 1 / alpha".format(*alone) in page
    assert f"within {planted['300'][4]} days at 300 rows a day" in page
    assert f"by {float(planted['30'][3].split(' %')[0]):.0f} % within 41 days" in page
    assert all(row[5].startswith("0.00 %") for row in planted.values())

"""What type checkers know of the public names: mypy checks this file with the package, and nothing runs it.

An ignored error that mypy no longer finds is an error too.
"""

from typing import assert_type

import xarray as xr

import calibdask as cd
from calibdask.accessor import CalibrationAccessor
from calibdask.estimators.binned.ece import ECE
from calibdask.render.table import ResultTable
from calibdask.statistics.bins.bin_sums import BinSums, BinSumsState
from calibdask.statistics.bins.binnings import BinEdges, Uniform
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting
from calibdask.study.running import CellCounts


def results(accessor: CalibrationAccessor) -> None:
    assert_type(cd.ECE(bins=5), ECE)
    assert_type(cd.evaluate([0], [0.5], cd.ECE()), xr.Dataset)
    assert_type(cd.compare([0], [0.5], [0.4]), xr.Dataset)
    assert_type(cd.summarize([0], [0.5]), xr.Dataset)
    assert_type(cd.ReliabilityDisplay(xr.Dataset(), name="a").name, str)
    assert_type(cd.run(cd.Study(seed=1), "cube.zarr"), CellCounts)  # type: ignore[abstract]
    assert_type(accessor.table(), ResultTable)


def mistakes() -> None:
    cd.ECE(bin=5)  # type: ignore[call-arg]
    cd.ECE(binning="equal")  # type: ignore[arg-type]
    cd.ece([0], [0.5], bin=5)  # type: ignore[call-arg]
    cd.ece_ac(closed="both")  # type: ignore[arg-type]


def answers_to_requests(setting: Setting) -> Requests[float]:
    layout = yield from Layout()
    edges = yield from BinEdges(Uniform(15), setting)
    sums = yield from BinSums(setting, edges)
    assert_type(layout, Layout)
    assert_type(edges, Edges)
    assert_type(sums, BinSumsState)
    _ = sums.outcomes  # type: ignore[attr-defined]
    BinSums(setting, edges).merge(sums, edges)  # type: ignore[arg-type]
    BinSums(setting, edges).extracted_from(layout)  # type: ignore[arg-type]
    return "none"  # type: ignore[return-value]

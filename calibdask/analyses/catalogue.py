"""All analyses that are declared by the pattern of `calibdask.analyses.analysis.Analysis`: one line for each."""

import json

import xarray as xr

from calibdask.analyses.analysis import Analysis
from calibdask.analyses.auditing.audit import Audit
from calibdask.analyses.calibrator_comparison import CompareCalibrators
from calibdask.analyses.comparison import Compare
from calibdask.analyses.gating.check import Check
from calibdask.analyses.monitoring.attribution import Attribute
from calibdask.analyses.monitoring.watch import Watch
from calibdask.analyses.shrinkage import SliceShrinkage
from calibdask.analyses.threshold import Threshold

ANALYSES: dict[str, type[Analysis]] = {
    analysis.name: analysis
    for analysis in (Attribute, Audit, Check, Compare, CompareCalibrators, SliceShrinkage, Threshold, Watch)
}


def analysis_of(result: xr.Dataset) -> Analysis:
    """The analysis that a result is of.

    Raises
    ------
    ValueError
        If the dataset is no result of an analysis in the catalogue.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> result = cd.threshold(np.arange(100) % 2, np.linspace(0, 1, 100), risk=0.2)
    >>> analysis_of(result)
    Threshold(risk=0.2, confidence=0.95, setting=None)
    """
    described = json.loads(result.attrs.get("analysis", "{}"))
    if described.get("name") not in ANALYSES:
        raise ValueError(f"Expected a result of one of the analyses {', '.join(ANALYSES)}, got another dataset.")
    return ANALYSES[described["name"]](**described["fields"])

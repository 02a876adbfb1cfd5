"""All analyses that are declared by the pattern of `calibdask.analyses.analysis.Analysis`: one line for each."""

from calibdask.analyses.analysis import Analysis
from calibdask.analyses.auditing.audit import Audit
from calibdask.analyses.shrinkage import SliceShrinkage
from calibdask.analyses.threshold import Threshold

ANALYSES: dict[str, type[Analysis]] = {analysis.name: analysis for analysis in (Audit, SliceShrinkage, Threshold)}

"""What the numbers of `calibdask.audit` are, by the name of the variable."""

from collections.abc import Mapping

from calibdask.estimators.about import PVALUE, PartInfo

OF_SEGMENTS: Mapping[str, PartInfo] = {
    "gap": PartInfo("mean outcome less mean score", "difference"),
    "ece": PartInfo("mean absolute gap over cells of scores", "error"),
    "ece_chance": PartInfo("expected mean absolute gap of a calibrated model", "statistic"),
    "ecce": PartInfo("range of the cumulative differences of outcomes and scores", "error"),
    "sigma": PartInfo("scale of the range of the cumulative differences by chance", "statistic"),
    "slope": PartInfo("slope of the log-odds of outcomes along those of scores", "statistic"),
    "pvalue": PartInfo(PVALUE, "pvalue"),
    "pvalue_adjusted": PartInfo("p-value adjusted for all segments (familywise)", "pvalue"),
    "log_e": PartInfo("logarithm of the e-value against calibration", "statistic"),
    "found": PartInfo("whether the adjusted p-value is at most alpha", "choice"),
    "discovery": PartInfo("whether the segment is a discovery of e-BH", "choice"),
    "described": PartInfo("whether the segment belongs to the smallest set that says what is wrong", "choice"),
}

"""Every public estimator with its main options, as the text that makes it after ``import calibdask as cd``.

The text is also the name of a case, so that names outlive changes of any `repr`.
"""

from itertools import product

__all__ = ["BRIEF", "EVERY", "ONE_EACH"]

_SETTINGS = (
    "setting='binary'",
    "setting='confidence'",
    "setting='classwise'",
    "setting=0",
    "setting='top-k', k=2",
    "setting='multiclass'",
)
_LENSES = (
    "setting='multiclass'",
    "setting='confidence'",
    "setting='binary'",
    "setting=1",
    "setting=cd.Lens.largest(2)",
    "setting=cd.Lens.groups([[0, 2], [1, 3]])",
)
_TOOLS = tuple(f"compat={tool!r}" for tool in ("scikit-learn", "netcal", "torchmetrics", "euranova"))
_BINNINGS = ("", "bins=6, binning='equal-mass'")
_BANDWIDTHS = ("", "bandwidth=0.05", "bandwidth='isj'", "step=0.001")
_KERNELS = tuple(f"kernel={kernel!r}" for kernel in ("gaussian", "epanechnikov", "cosine", "beta"))
_PAIR_KERNELS = (
    "kernel='gaussian', distance='euclidean'",
    "distance='euclidean', bandwidth='median-full'",
    "bandwidth=0.3",
    "bandwidth=0.3, matrix=[[2, 1, 0, 0], [1, 2, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]",
    "kernel=cd.Kernel(profile='gaussian', bandwidth=0.2)",
    "kernel=(cd.Kernel(bandwidth=1.0), cd.Kernel(profile='gaussian', distance='euclidean'))",
)

# The first options of an estimator are its defaults, or what makes it fast enough to be resampled.
_OF_COLUMNS = {
    "ECE": (
        "",
        "bins=10",
        "bins=7, closed='left'",
        "bins='sqrt'",
        "bins=(0.0, 0.25, 0.3, 1.0)",
        "range=(0.1, 0.9)",
        "binning='equal-mass'",
        "mapping='convex'",
        "mapping='inverted'",
        "bins=6, mapping='convex', binning='equal-mass'",
        "bins=6, mapping='inverted', binning='equal-mass'",
        "norm='l2'",
        "norm='l2', debias=True",
        "bins=6, binning='equal-mass', norm='l2', debias=True",
        "norm='max'",
        *_TOOLS,
        *(f"{tool}, binning='equal-mass'" for tool in _TOOLS),
    ),
    "MCE": _BINNINGS,
    "ece_l": ("", "compat='euranova'"),
    "ece_a": ("", "compat='euranova'"),
    "ece_c": ("", "compat='euranova'"),
    "ece_ac": ("", "compat='netcal'"),
    "ece_d": ("", "compat='euranova'"),
    "BrierDecomposition": (*_BINNINGS, "debias=True", "compat='netcal'"),
    "LogLossDecomposition": _BINNINGS,
    "ReliabilityDiagram": (*_BINNINGS, "mapping='convex'"),
    "DensityECE": (*_BANDWIDTHS, *_KERNELS, "form='residual'", "compat='euranova'"),
    "ResidualECE": ("", "bandwidth=0.03, kernel='gaussian'"),
    "ReliabilityCurve": (*_BANDWIDTHS, *_KERNELS, "points=31, band='plain'"),
    "LocalCalibrationError": ("", "points=31, band='plain'"),
    "SmoothECE": ("", "step=0.001"),
    "MeanGap": ("", "step=0.001"),
    "Saturation": ("", "within=0.01"),
    "CORP": ("", "rule='log'"),
    "ECCE": ("", "kind='range'"),
    "SpiegelhalterTest": ("",),
}
_OF_VECTORS = {
    "MulticlassECE": (
        "",
        "bins=4, distance='euclidean'",
        "bins=4, distance='squared-euclidean'",
        "partition='median-variance'",
        "partition='median-variance', min_size=25, distance='euclidean'",
    ),
    "SKCE": (
        "",
        "estimator='biased'",
        "estimator='linear'",
        "estimator='block', block=7",
        "estimator='features', features=64",
        "estimator='features-biased', features=64, seed=3",
        *_PAIR_KERNELS,
    ),
    "SKCETest": (
        "draws=50",
        "estimator='linear'",
        "estimator='block', block=7, ddof=0",
        "draws=50, estimator='features', features=64",
        "method='distribution-free'",
        "method='distribution-free', estimator='biased'",
        "method='distribution-free', estimator='linear'",
        "estimator='block', block=7, delta=0.05",
        *(f"draws=50, {kernel}" for kernel in _PAIR_KERNELS),
    ),
    "CMETest": ("", "locations=4, covariance='observed', seed=5", *_PAIR_KERNELS),
    "KernelCanonicalECE": (
        "bandwidth=0.02",
        "",
        "bandwidth=0.05, distance='euclidean'",
        "bandwidth=0.05, distance='squared-euclidean'",
    ),
}
_OTHERS = {
    "BrierScore": ("", "reduction='mean'"),
    "LogLoss": ("",),
    "MMCE": ("", "bandwidth=0.2, kernel='gaussian'", "bandwidth='median'", "estimator='features-biased', features=64"),
    "ExcessCost": (
        "",
        "costs=[[0, 5], [1, 0]]",
        "costs=[[0, 5, 1, 2], [1, 0, 2, 3], [2, 2, 0, 1]]",
        "calibration='classwise'",
        "calibration='classwise', bins=5, binning='equal-mass'",
    ),
    "ConsistencyTest": (
        "resamples=20",
        "resamples=20, predictions='resampled', seed=4",
        "resamples=20, statistic=cd.ECE(bins=5, binning='equal-mass')",
        "resamples=20, statistic=cd.MulticlassECE(bins=3)",
        "resamples=20, statistic=cd.MulticlassECE(partition='median-variance')",
        "resamples=20, statistic=cd.DensityECE(setting='classwise')",
        "resamples=20, statistic=cd.SKCE(estimator='biased', bandwidth=0.3)",
        "resamples=20, statistic=cd.ECCE()",
        "resamples=20, statistic=cd.SmoothECE()",
    ),
}


def _made(name: str, *options: str) -> str:
    return f"cd.{name}({', '.join(filter(None, options))})"


_GROUPS = ((_OF_COLUMNS, _SETTINGS), (_OF_VECTORS, _LENSES), (_OTHERS, ()))

# The first options of each estimator.
ONE_EACH = [_made(name, options[0]) for table, _ in _GROUPS for name, options in table.items()]
# All options in the default setting, and the first ones in all settings.
BRIEF = [
    *(_made(name, choice) for table, _ in _GROUPS for name, options in table.items() for choice in options),
    *(
        _made(name, options[0], setting)
        for table, settings in _GROUPS
        for (name, options), setting in product(table.items(), settings)
    ),
]
# All options in all settings.
EVERY = [
    _made(name, choice, setting)
    for table, settings in _GROUPS
    for name, options in table.items()
    for choice, setting in product(options, ("", *settings))
]

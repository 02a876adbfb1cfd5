"""Names of metrics on the command line, and the options that each of them takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

import click

from calibdask.cli.choices import is_whole, setting_of

__all__ = ["CURVE", "DIAGRAM", "METRICS", "chosen_metrics", "takes"]

_BINNED = frozenset({"setting", "k", "bins", "closed", "compat"})
_SMOOTHED = frozenset({"setting", "k", "kernel", "bandwidth", "step"})
_OF_ECE = _BINNED | {"binning", "mapping", "norm", "debias"}
_KERNEL = frozenset({"setting", "kernel", "distance", "bandwidth", "seed"})
_PAIRS = frozenset({"estimator", "block", "features", "max_pairs"})


@dataclass(frozen=True)
class _Metric:
    """A public constructor of calibdask and the options it takes."""

    constructor: str
    options: frozenset[str] = frozenset()
    # What the default panel calls it; None: the word itself.
    result: str | None = None
    # Whether it measures whole score vectors too, and what a lens shows of them.
    whole: bool = False
    # The metric that it tests, with that one's options.
    tested: "_Metric | None" = None

    @property
    def known(self) -> frozenset[str]:
        return self.options | (frozenset() if self.tested is None else self.tested.known)


_ECE = _Metric("ECE", _OF_ECE)
METRICS: Mapping[str, _Metric] = {
    "ece": _ECE,
    "ece-l": _Metric("ece_l", _BINNED | {"norm", "debias"}),
    "ece-a": _Metric("ece_a", _BINNED | {"norm", "debias"}, "ece_equal_mass"),
    "ece-c": _Metric("ece_c", _BINNED | {"norm"}),
    "ece-ac": _Metric("ece_ac", _BINNED | {"norm"}),
    "mce": _Metric("MCE", _BINNED | {"binning", "mapping"}),
    "brier": _Metric("BrierScore", result="brier_score"),
    "brier-decomposition": _Metric("BrierDecomposition", _BINNED | {"binning", "debias"}),
    "log-loss": _Metric("LogLoss"),
    "log-loss-decomposition": _Metric("LogLossDecomposition", _BINNED | {"binning"}),
    "corp": _Metric("CORP", frozenset({"setting", "k", "rule"})),
    "ecce": _Metric("ECCE", frozenset({"setting", "k", "kind"})),
    "excess-cost": _Metric("ExcessCost", frozenset({"costs", "calibration", "bins", "binning"})),
    "multiclass-ece": _Metric("MulticlassECE", frozenset({"setting", "bins", "distance"}), whole=True),
    "density-ece": _Metric("DensityECE", _SMOOTHED | {"compat"}),
    "ece-d": _Metric("ece_d", _SMOOTHED | {"compat"}),
    "residual-ece": _Metric("ResidualECE", _SMOOTHED | {"compat"}),
    "mean-gap": _Metric("MeanGap", frozenset({"setting", "k", "step"})),
    "saturation": _Metric("Saturation", frozenset({"setting", "k", "step"})),
    "smooth-ece": _Metric("SmoothECE", frozenset({"setting", "k", "step"})),
    "skce": _Metric("SKCE", _KERNEL | _PAIRS, whole=True),
    "mmce": _Metric("MMCE", frozenset({"kernel", "bandwidth", "estimator", "features", "seed", "max_pairs"})),
    "kernel-canonical-ece": _Metric(
        "KernelCanonicalECE", frozenset({"setting", "bandwidth", "distance", "seed", "max_pairs"}), whole=True
    ),
    "skce-test": _Metric("SKCETest", _KERNEL | _PAIRS | {"method", "draws", "ddof", "delta"}, whole=True),
    "consistency-test": _Metric("ConsistencyTest", frozenset({"resamples", "predictions", "seed"}), tested=_ECE),
    "cme-test": _Metric("CMETest", _KERNEL | {"locations"}, whole=True),
    "spiegelhalter-test": _Metric("SpiegelhalterTest", frozenset({"setting", "k"})),
}
# What goes with a choice: it has no meaning of its own where the panel has made that choice.
_GOES_WITH = {"k": "setting", "debias": "norm"}
# The one tool whose choices concern estimates of densities too.
_OF_DENSITIES = "euranova"
DIAGRAM, CURVE = "reliability_diagram", "reliability_curve"
_PICTURES = {
    DIAGRAM: _Metric("ReliabilityDiagram", _BINNED | {"binning", "mapping"}),
    CURVE: _Metric("ReliabilityCurve", _SMOOTHED),
}


def takes(name: str, option: str) -> bool:
    """Whether there is such a metric and the option means something to it."""
    metric = METRICS.get(_word(name))
    return metric is not None and option in metric.known


def _word(name: str) -> str:
    return name.lower().replace("_", "-")


def chosen_metrics(
    names: Sequence[str], options: Mapping[str, Any], *, panel: Mapping[str, Any], picture: str | None
) -> dict[str, Any]:
    """Estimators by the name of their variable; without names those of the panel, with these options.

    Raises
    ------
    click.UsageError
        If a name is unknown, or an option means nothing to any of the metrics.
    ValueError
        If an estimator refuses its options.
    """
    given = {name: value for name, value in options.items() if value is not None}
    drawn = {picture: _PICTURES[picture]} if picture is not None else {}
    wanted = dict.fromkeys(map(_word, names))
    for name in wanted:
        if name not in METRICS:
            meant = get_close_matches(name, METRICS, n=1)
            hint = f" Did you mean {meant[0]}?" if meant else ""
            raise click.UsageError(f"There is no metric {name!r}; there are {', '.join(METRICS)}.{hint}")
    named = {METRICS[name].result or name.replace("-", "_"): METRICS[name] for name in wanted}
    known = frozenset[str]().union(*(metric.known for metric in (*named.values(), *drawn.values())))
    if not names:
        known = known.union(field.name for estimator in panel.values() for field in fields(estimator))
    for option in given:
        if option not in known:
            raise click.UsageError(f"--{option.replace('_', '-')} means nothing to {', '.join(wanted or panel)}.")
    if names:
        narrow = [name for name, metric in {**named, **drawn}.items() if "setting" in metric.known and not metric.whole]
    else:
        narrow = [*panel, *drawn]
    _check_narrow(given.get("setting"), narrow)
    if names:
        chosen = {name: _made(metric, given) for name, metric in named.items()}
    else:
        chosen = {name: _changed(estimator, given) for name, estimator in panel.items()}
    return {**chosen, **{name: _made(metric, given) for name, metric in drawn.items()}}


def _made(metric: _Metric, given: Mapping[str, Any]) -> Any:
    import calibdask as cd

    own = {name: value for name, value in given.items() if name in metric.options}
    if "setting" in own:
        own["setting"] = setting_of(own["setting"])
    if metric.tested is not None:
        own["statistic"] = _made(metric.tested, given)
    return getattr(cd, metric.constructor)(**own)


def _check_narrow(setting: Any, narrow: Sequence[str]) -> None:
    """Refuse to measure one score of each row in a setting of whole score vectors."""
    if narrow and is_whole(setting):
        whole = ", ".join(name for name, metric in METRICS.items() if metric.whole)
        raise click.UsageError(
            f"--setting {setting} looks at whole score vectors, and {', '.join(narrow)} at single scores; name metrics "
            f"of score vectors with --metric multiclass-ece or another one of {whole}."
        )


def _changed(estimator: Any, given: Mapping[str, Any]) -> Any:
    """The estimator with those options that it takes; what it has been named for stays.

    Made anew, since values filled in for a default would look like choices that ``compat`` must not touch.
    """
    kind = type(estimator)
    taken = [field.name for field in fields(kind)]
    if hasattr(estimator, "bandwidth") and given.get("compat") != _OF_DENSITIES:
        taken.remove("compat")
    own = {name: getattr(estimator, name) for name in taken if getattr(estimator, name) != getattr(kind(), name)}
    new = {name: value for name, value in given.items() if name in taken and _GOES_WITH.get(name) not in own}
    return kind(**{**new, **own})

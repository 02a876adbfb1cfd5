"""Names of metrics on the command line, and the options that each of them takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import click

__all__ = ["CURVE", "DIAGRAM", "METRICS", "BandwidthType", "BinsType", "SettingType", "chosen_metrics"]

_BINNED = frozenset({"setting", "k", "bins", "closed", "compat"})
_SMOOTHED = frozenset({"setting", "k", "kernel", "bandwidth", "step"})


@dataclass(frozen=True)
class _Metric:
    """A public constructor of calibdask and the options it takes."""

    constructor: str
    options: frozenset[str] = frozenset()
    # What the default panel calls it; None: the word itself.
    result: str | None = None


METRICS: Mapping[str, _Metric] = {
    "ece": _Metric("ECE", _BINNED | {"binning", "mapping", "norm", "debias"}),
    "ece-l": _Metric("ece_l", _BINNED | {"norm", "debias"}),
    "ece-a": _Metric("ece_a", _BINNED | {"norm", "debias"}, "ece_equal_mass"),
    "ece-c": _Metric("ece_c", _BINNED | {"norm"}),
    "ece-ac": _Metric("ece_ac", _BINNED | {"norm"}),
    "mce": _Metric("MCE", _BINNED | {"binning", "mapping"}),
    "brier": _Metric("BrierScore", result="brier_score"),
    "brier-decomposition": _Metric("BrierDecomposition", _BINNED | {"binning"}),
    "log-loss": _Metric("LogLoss"),
    "multiclass-ece": _Metric("MulticlassECE", frozenset({"bins"})),
    "density-ece": _Metric("DensityECE", _SMOOTHED | {"compat"}),
    "ece-d": _Metric("ece_d", _SMOOTHED | {"compat"}),
    "residual-ece": _Metric("ResidualECE", _SMOOTHED | {"compat"}),
    "smooth-ece": _Metric("SmoothECE", frozenset({"setting", "k", "step"})),
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


class BinsType(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.2
    """A number of bins, ``sqrt``, or edges between commas."""

    name = "N|sqrt|EDGE,EDGE,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse; whether the numbers make sense is for the estimators to say."""
        if value == "sqrt" or not isinstance(value, str):
            return value
        try:
            return tuple(float(edge) for edge in value.split(",")) if "," in value else int(value)
        except ValueError:
            self.fail(f"expected a number of bins, sqrt, or edges such as 0,0.5,1, got {value!r}.", param, ctx)


class BandwidthType(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.2
    """A bandwidth, or the name of a rule for it."""

    name = "H|silverman|isj"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse; whether the number makes sense is for the estimators to say."""
        if value in ("silverman", "isj") or not isinstance(value, str):
            return value
        try:
            return float(value)
        except ValueError:
            self.fail(f"expected a number, silverman or isj, got {value!r}.", param, ctx)


class SettingType(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.2
    """A word for a setting, or the number of a class."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.name = "|".join((*words, "CLASS"))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse; whether there is such a class shows in the data."""
        if value in self.words or not isinstance(value, str):
            return value
        if value.isdecimal():
            return int(value)
        if value == "multiclass":
            self.fail("the whole score vector is measured by evaluate --metric multiclass-ece.", param, ctx)
        self.fail(f"expected one of {', '.join(self.words)} or the number of a class, got {value!r}.", param, ctx)


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
    wanted = dict.fromkeys(name.lower().replace("_", "-") for name in names)
    for name in wanted:
        if name not in METRICS:
            raise click.UsageError(f"There is no metric {name!r}; there are {', '.join(METRICS)}.")
    named = {METRICS[name].result or name.replace("-", "_"): METRICS[name] for name in wanted}
    known = frozenset[str]().union(*(metric.options for metric in (*named.values(), *drawn.values())))
    if not names:
        known = known.union(field.name for estimator in panel.values() for field in fields(estimator))
    for option in given:
        if option not in known:
            raise click.UsageError(f"--{option} means nothing to {', '.join(wanted or panel)}.")
    if names:
        chosen = {name: _made(metric, given) for name, metric in named.items()}
    else:
        chosen = {name: _changed(estimator, given) for name, estimator in panel.items()}
    return {**chosen, **{name: _made(metric, given) for name, metric in drawn.items()}}


def _made(metric: _Metric, given: Mapping[str, Any]) -> Any:
    import calibdask as cd

    return getattr(cd, metric.constructor)(**{name: value for name, value in given.items() if name in metric.options})


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

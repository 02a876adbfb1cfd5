"""Names of metrics on the command line, and the options that each of them takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

__all__ = ["METRICS", "BinsType", "SettingType", "chosen_metrics"]

_BINNED = frozenset({"setting", "k", "bins", "closed", "compat"})


@dataclass(frozen=True)
class _Metric:
    """A public constructor of calibdask and the options it takes."""

    constructor: str
    options: frozenset[str] = frozenset()


METRICS: Mapping[str, _Metric] = {
    "ece": _Metric("ECE", _BINNED | {"binning", "mapping", "norm", "debias"}),
    "ece-l": _Metric("ece_l", _BINNED | {"norm", "debias"}),
    "ece-a": _Metric("ece_a", _BINNED | {"norm", "debias"}),
    "ece-c": _Metric("ece_c", _BINNED | {"norm"}),
    "ece-ac": _Metric("ece_ac", _BINNED | {"norm"}),
    "mce": _Metric("MCE", _BINNED | {"binning", "mapping"}),
    "brier": _Metric("BrierScore"),
    "brier-decomposition": _Metric("BrierDecomposition", _BINNED | {"binning"}),
    "log-loss": _Metric("LogLoss"),
    "multiclass-ece": _Metric("MulticlassECE", frozenset({"bins"})),
}
# What options apply to where no metric is named.
_PANEL = ("ece", "ece-a", "mce", "brier", "log-loss")
_DIAGRAM = _Metric("ReliabilityDiagram", _BINNED | {"binning", "mapping"})
DIAGRAM = "reliability_diagram"


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


class SettingType(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.2
    """A word for a setting, or the number of a class."""

    name = "confidence|classwise|binary|top-k|CLASS"
    words = ("confidence", "classwise", "binary", "top-k")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse; whether there is such a class shows in the data."""
        if value in self.words or not isinstance(value, str):
            return value
        if value.isdecimal():
            return int(value)
        if value == "multiclass":
            self.fail("the whole score vector is measured by --metric multiclass-ece.", param, ctx)
        self.fail(f"expected one of {', '.join(self.words)} or the number of a class, got {value!r}.", param, ctx)


def chosen_metrics(
    names: Sequence[str], options: Mapping[str, Any], *, diagram: bool, classes: int, vector: bool
) -> dict[str, Any]:
    """Estimators by the name of their variable; without names and options the default panel.

    Raises
    ------
    click.UsageError
        If a name is unknown, or an option means nothing to any of the metrics.
    ValueError
        If an estimator refuses its options.
    """
    import calibdask as cd

    given = {name: value for name, value in options.items() if value is not None}
    chosen: dict[str, Any] = {}
    if names or given:
        wanted = dict.fromkeys(name.lower().replace("_", "-") for name in names or _PANEL)
        for name in wanted:
            if name not in METRICS:
                raise click.UsageError(f"There is no metric {name!r}; there are {', '.join(METRICS)}.")
        used = frozenset[str]().union(*(METRICS[name].options for name in wanted), _DIAGRAM.options if diagram else ())
        for option in given:
            if option not in used:
                raise click.UsageError(f"--{option} means nothing to {', '.join(wanted)}.")
        chosen = {name.replace("-", "_"): _made(METRICS[name], given) for name in wanted}
    else:
        chosen = dict(cd.default_metrics(classes, vector))
    return {**chosen, DIAGRAM: _made(_DIAGRAM, given)} if diagram else chosen


def _made(metric: _Metric, given: Mapping[str, Any]) -> Any:
    import calibdask as cd

    return getattr(cd, metric.constructor)(**{name: value for name, value in given.items() if name in metric.options})

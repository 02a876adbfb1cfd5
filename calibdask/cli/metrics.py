"""The metrics of a command: those that are named, or a panel, with the choices that are made for all of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import click

from calibdask.cli.param_types import is_whole
from calibdask.estimators.expression import Expression
from calibdask.estimators.signatures import signatures

# What goes with a choice: it has no meaning of its own where the panel has made that choice.
_GOES_WITH = {"k": "setting", "debias": "norm"}
# The one tool whose choices concern estimates of densities too.
_OF_DENSITIES = "euranova"
# Names of the results behind pictures, which nobody has asked for as metrics.
DIAGRAM, CURVE = "plotted_diagram", "plotted_curve"
# Further pictures by the words of the command line, with the functions of `calibdask.plot` that draw them.
CHARTS = {
    "decision-curve": (Expression("net-benefit"), "decision_curve"),
    "risk-coverage": (Expression("risk-coverage-curve"), "risk_coverage_curve"),
    "murphy": (Expression("murphy-curve"), "murphy_curve"),
    "belt": (Expression("calibration-belt"), "calibration_belt"),
}
PICTURES = {
    DIAGRAM: Expression("reliability-diagram"),
    CURVE: Expression("reliability-curve"),
    **{f"plotted_{word}": expression for word, (expression, _) in CHARTS.items()},
}


def chosen_metrics(
    expressions: Sequence[Expression], options: Mapping[str, Any], *, panel: Mapping[str, Any], picture: str | None
) -> dict[str, Any]:
    """Estimators by variable name, with these options; the panel if none are named.

    Raises
    ------
    click.UsageError
        If an option has no effect on any of the metrics.
    ValueError
        If an estimator refuses its options.
    """
    given = {name: value for name, value in options.items() if value is not None}
    drawn = {} if picture is None else {picture: PICTURES[picture]}
    known = frozenset[str]().union(*(expression.takes for expression in (*expressions, *drawn.values())))
    if not expressions:
        known |= {field.name for estimator in panel.values() for field in fields(estimator)}
    words = list(dict.fromkeys(expression.keyword for expression in expressions)) or list(panel)
    for option in given:
        if option not in known:
            raise click.UsageError(f"--{option.replace('_', '-')} has no effect on {', '.join(words)}.")
    _check_narrow(given.get("setting"), [*(_narrow(expressions) if expressions else panel), *_narrow(drawn.values())])
    pictures = {name: _picture(name, expression, given) for name, expression in drawn.items()}
    if not expressions:
        return {**{name: _changed(estimator, given) for name, estimator in panel.items()}, **pictures}
    from calibdask.estimators.metrics import with_distinct_names

    named = [(expression.signature.variable, expression.make(given)) for expression in expressions]
    return {**with_distinct_names(named), **pictures}


def _picture(name: str, expression: Expression, given: Mapping[str, Any]) -> Any:
    """The picture, with bins and axis from the scores unless chosen."""
    from calibdask.estimators.smooth.adaptive import AdaptiveCurve, AdaptiveDiagram

    taken = {option: value for option, value in given.items() if option in expression.takes}
    kinds: dict[str, Any] = {DIAGRAM: AdaptiveDiagram, CURVE: AdaptiveCurve}
    if name not in kinds:
        return expression.make(given)
    kind = kinds[name]
    known = {field.name for field in fields(kind)}
    whole = isinstance(taken.get("bins", 0), int)
    return kind(**taken) if whole and taken.keys() <= known else expression.make(given)


def _narrow(expressions: Any) -> Iterator[str]:
    """The metrics that measure one score of each row, in a setting that is chosen for all."""
    for expression in expressions:
        signature = expression.signature
        chooses = "setting" in signature.choices and "setting" not in expression.choices
        if chooses and not signature.measures_vectors:
            yield expression.keyword


def _check_narrow(setting: Any, narrow: Sequence[str]) -> None:
    """Refuse to measure one score of each row in a setting of whole score vectors."""
    if narrow and is_whole(setting):
        whole = ", ".join(word for word, signature in signatures().items() if signature.measures_vectors)
        raise click.UsageError(
            f"--setting {setting} measures whole score vectors, but {', '.join(narrow)} measure single scores; name "
            "metrics "
            f"of score vectors with --metric: {whole}."
        )


def _changed(estimator: Any, given: Mapping[str, Any]) -> Any:
    """Apply the options that the estimator accepts and its name does not fix.

    Made anew, since values filled in for a default would look like choices that ``compat`` must not touch.
    """
    kind = type(estimator)
    taken = [field.name for field in fields(kind)]
    if hasattr(estimator, "bandwidth") and given.get("compat") != _OF_DENSITIES:
        taken.remove("compat")
    own = {name: getattr(estimator, name) for name in taken if getattr(estimator, name) != getattr(kind(), name)}
    new = {name: value for name, value in given.items() if name in taken and _GOES_WITH.get(name) not in own}
    return kind(**{**new, **own})

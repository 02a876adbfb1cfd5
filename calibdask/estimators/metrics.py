"""Metrics as users give them, and the names of their variables."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from calibdask.estimators.estimator import Estimator
from calibdask.estimators.expression import parse_metrics

Metric = Estimator | str | Callable[[], Estimator]
Metrics = Metric | Sequence[Metric] | Mapping[str, Metric]


def named_metrics(metrics: Metrics) -> dict[str, Estimator]:
    """Estimators by variable name; equal names in a sequence are made distinct.

    Raises
    ------
    TypeError
        If something is not an estimator.

    Examples
    --------
    >>> list(named_metrics("ece(bins=10), ece(setting=classwise), brier"))
    ['ece_bins_10', 'ece_classwise', 'brier_score']
    """
    if isinstance(metrics, Mapping):
        if not metrics:
            raise ValueError("metrics expects at least one estimator, got none.")
        check_distinct("metrics", metrics)
        return {str(name): _estimator(metric) for name, metric in metrics.items()}
    given: Any = metrics if isinstance(metrics, list | tuple) else [metrics]
    estimators = [estimator for metric in given for estimator in _estimators(metric)]
    if not estimators:
        raise ValueError("metrics expects at least one estimator, got none.")
    return with_distinct_names([(estimator.name, estimator) for estimator in estimators])


def with_distinct_names(named: Iterable[tuple[str, Estimator]]) -> dict[str, Estimator]:
    """Estimators by names that differ: equal ones are followed by the choices that differ.

    Raises
    ------
    ValueError
        If that tells two of them not apart.
    """
    distinct = list(dict.fromkeys(named))
    names: dict[str, Estimator] = {}
    for name, estimator in distinct:
        alike = [other for word, other in distinct if word == name]
        word = name if len(alike) == 1 else _distinguished(name, estimator, alike)
        if word in names:
            raise ValueError(f"Two of the metrics would be called {word!r}; name them in a mapping.")
        names[word] = estimator
    return names


def check_distinct(what: str, names: Iterable[Any]) -> None:
    """Refuse names that are equal as text."""
    words = [str(name) for name in names]
    for word in words:
        if words.count(word) > 1:
            raise ValueError(f"{what} expects names that differ as text, got {word!r} more than once.")


def refuse_unsupported(
    option: str, metrics: Mapping[str, Estimator], refusal: Callable[[Estimator], str], advice: str
) -> None:
    """Raise ValueError, with the reason, for the first metric that an option has no form for.

    ``refusal`` gives the reason as a clause, empty for a metric that is supported.
    """
    for name, metric in metrics.items():
        if reason := refusal(metric):
            raise ValueError(f"{option} is not supported by {name}, {metric!r}: {reason}. {advice}")


def supported_metrics(metrics: Mapping[str, Estimator], refusal: Callable[[Estimator], str]) -> dict[str, Estimator]:
    """The metrics that ``refusal`` has no reason against."""
    return {name: metric for name, metric in metrics.items() if not refusal(metric)}


def _estimators(metric: Any) -> Iterator[Estimator]:
    """Estimators parsed from a text, or the estimator itself."""
    if isinstance(metric, str):
        yield from (expression.make() for expression in parse_metrics(metric))
    else:
        yield _estimator(metric)


def _estimator(metric: Any) -> Estimator:
    if isinstance(metric, str):
        estimators = list(_estimators(metric))
        if len(estimators) > 1:
            raise ValueError(f"A name in metrics refers to one estimator, got {metric!r}.")
        return estimators[0]
    try:
        made = metric() if callable(metric) else metric
    except TypeError:
        made = None
    if not isinstance(made, Estimator):
        raise TypeError(f"metrics expects estimators such as cd.ECE(), got {metric!r}.")
    return made


def _distinguished(name: str, estimator: Any, others: list[Estimator]) -> str:
    """The name and those values that differ from the default and from another estimator of that name."""
    usual = type(estimator)()
    words = [name]
    for field in fields(estimator):
        value = getattr(estimator, field.name)
        differs = any(getattr(other, field.name, None) != value for other in others)
        if differs and value != getattr(usual, field.name):
            words.append(value if isinstance(value, str) else f"{field.name}_{_value_text(value)}")
    return "_".join(words).replace("-", "_")


def _value_text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{len(value)}_values"
    return str(value) if isinstance(value, int | float | str | None) else "given"

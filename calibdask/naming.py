"""Metrics as users give them, and the names of their variables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from calibdask.estimators.estimator import Estimator

__all__ = ["Metrics", "check_distinct", "named_metrics"]

Metric = Estimator | Callable[[], Estimator]
Metrics = Metric | Sequence[Metric] | Mapping[str, Metric]


def named_metrics(metrics: Metrics) -> dict[str, Estimator]:
    """Estimators by the name of their variable; in a sequence equal names get what tells them apart.

    Raises
    ------
    TypeError
        If something is not an estimator.
    """
    if isinstance(metrics, Mapping):
        if not metrics:
            raise ValueError("metrics expects at least one estimator, got none.")
        check_distinct("metrics", metrics)
        return {str(name): _estimator(metric) for name, metric in metrics.items()}
    given: Any = metrics if isinstance(metrics, list | tuple) else [metrics]
    estimators = list(dict.fromkeys(_estimator(metric) for metric in given))
    if not estimators:
        raise ValueError("metrics expects at least one estimator, got none.")
    names = [estimator.name for estimator in estimators]
    named: dict[str, Estimator] = {}
    for name, estimator in zip(names, estimators, strict=True):
        alike = [other for other in estimators if other.name == name]
        word = name if len(alike) == 1 else _told_apart(estimator, alike)
        if word in named:
            raise ValueError(f"Two of the metrics would be called {word!r}; name them in a mapping.")
        named[word] = estimator
    return named


def check_distinct(what: str, names: Iterable[Any]) -> None:
    """Refuse names that are equal as text."""
    words = [str(name) for name in names]
    for word in words:
        if words.count(word) > 1:
            raise ValueError(f"{what} expects names that differ as text, got {word!r} more than once.")


def _estimator(metric: Any) -> Estimator:
    try:
        made = metric() if callable(metric) else metric
    except TypeError:
        made = None
    if not isinstance(made, Estimator):
        raise TypeError(f"metrics expects estimators such as cd.ECE(), got {metric!r}.")
    return made


def _told_apart(estimator: Estimator, others: list[Estimator]) -> str:
    """The name and those values that differ from the default and from another estimator of that name."""
    usual = type(estimator)()
    words = [estimator.name]
    for field in fields(estimator):  # type: ignore[arg-type]
        value = getattr(estimator, field.name)
        differs = any(getattr(other, field.name, None) != value for other in others)
        if differs and value != getattr(usual, field.name):
            words.append(value if isinstance(value, str) else f"{field.name}_{_word(value)}")
    return "_".join(words).replace("-", "_")


def _word(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{len(value)}_values"
    return str(value) if isinstance(value, int | float | str | None) else "given"

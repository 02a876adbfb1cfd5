"""The catalogue of the tests lists all there is."""

import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np

import calibdask as cd
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.signatures import signatures
from calibdask.statistics.layout import Layout
from calibdask.statistics.statistic import Statistic
from tests.catalogue import ESTIMATORS, ordered_statistics, pair_statistics, statistics, target_reductions

KINDS = sorted({type(estimator) for estimator in ESTIMATORS.values()}, key=lambda kind: kind.__name__)
METRICS_PAGE = Path(__file__).parents[2] / "deploy" / "docs" / "metrics.md"
TESTING_PAGE = METRICS_PAGE.with_name("testing.md")


def kinds_below(kind: type) -> Iterator[type]:
    for below in kind.__subclasses__():
        yield below
        yield from kinds_below(below)


def test_every_public_estimator_is_there() -> None:
    public = {getattr(cd, name) for name in cd.__all__}
    assert {kind for kind in public if isinstance(kind, type) and issubclass(kind, Estimator)} == set(KINDS)


def test_every_statistic_is_there() -> None:
    for module in pkgutil.walk_packages(cd.__path__, "calibdask."):
        if module.name.startswith("calibdask.statistics"):
            import_module(module.name)
    layout, rows = Layout(classes=3, vector=False), np.array([10])
    listed = [*statistics(layout), *ordered_statistics(layout, rows), *pair_statistics(layout, rows)]
    missing = set(kinds_below(Statistic)) - {type(statistic) for statistic in (*listed, *target_reductions(layout))}
    # What has no name of its own is a view, or the base of others.
    named = {kind for kind in missing if not inspect.isabstract(kind) and not kind.__name__.startswith("_")}
    assert not {kind for kind in named if kind.__module__.startswith("calibdask.")}


def test_every_estimator_is_on_the_pages_and_at_the_shell() -> None:
    table = "\n".join(re.findall(r"^\|.*", METRICS_PAGE.read_text() + TESTING_PAGE.read_text(), re.M))
    public = {signature.public for signature in signatures().values()}
    for kind in KINDS:
        assert re.search(rf"`{kind.__name__}\b", table), f"{kind.__name__} belongs into a table of {METRICS_PAGE.name}"
        assert kind.__name__ in public

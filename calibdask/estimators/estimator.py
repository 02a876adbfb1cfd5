"""The base class of estimators: frozen descriptions that request statistics and compute from them."""

from abc import ABC, abstractmethod
from typing import ClassVar

from calibdask.estimators.about import About, Description
from calibdask.estimators.interval import FromRows, IntervalMethod, NoInterval
from calibdask.estimators.parts import Estimate
from calibdask.html_repr import HtmlRepr, class_words
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests


class Estimator(HtmlRepr, ABC):
    """A frozen, picklable description of a number, a curve or a test.

    Constructing one reads no data. To add an estimator, write a frozen dataclass with a method `estimate`; declare its
    name and definition by ``about`` and its parts by `describe`.
    """

    about: ClassVar[About] = About()
    # Whether all pairs of rows are compared, at a cost that is quadratic in their number.
    compares_pairs: ClassVar[bool] = False
    # For messages: a loss with a largest value of a row, which a limit can be decided on.
    bounded_form: ClassVar[str] = "log-loss(clip=0.001)"
    # Whether its p-values account for clusters of dependent rows.
    tests_clusters: ClassVar[bool] = False

    @abstractmethod
    def estimate(self) -> Requests[Estimate]:
        """Request statistics by ``yield from`` and return the estimate."""

    @property
    def name(self) -> str:
        """Default name of the variable that holds the result: the name of the class in snake case."""
        return "_".join(class_words(type(self).__name__)).lower()

    @property
    def declared(self) -> About:
        """Name and definition for the chosen parameters."""
        return self.about

    @property
    def label(self) -> str:
        """Short name, with the parameters that distinguish it from similar estimators."""
        return self.declared.short or self.declared.title or self.name

    def describe(self, layout: Layout) -> Description:
        """Meaning and kind of each part, for data of this shape."""
        return {}

    def measured_setting(self, layout: Layout) -> str:
        """The measured setting as text, see ``calibdask.statistics.settings``; empty for estimators without one."""
        return ""

    @property
    def supports_weights(self) -> bool:
        """Whether sample weights are supported, and thereby replicates in which rows are reweighted."""
        return True

    def interval(self, layout: Layout) -> IntervalMethod:
        """How intervals are computed; by default from replicates of the rows."""
        return FromRows()

    def row_range(self, part: str, layout: Layout) -> tuple[float, float] | None:
        """The least and the largest value of a row if this part is a mean over rows; None for other parts.

        Gates need it: large values may be so rare that none occurs in the data.
        """
        return None

    def is_test(self, layout: Layout) -> bool:
        """Whether this is a test: it has a p-value and no intervals."""
        has_pvalue = any(info.kind == "pvalue" for info in self.describe(layout).values())
        return has_pvalue and isinstance(self.interval(layout), NoInterval)

    def cluster_refusal(self, layout: Layout) -> str:
        """Why this is not computed for clusters of dependent rows, as a clause; empty if it is."""
        if self.compares_pairs:
            return "its pairs of rows would have to come from different clusters"
        if self.is_test(layout) and not self.tests_clusters:
            return "its p-value holds for independent rows"
        if not self.supports_weights and not isinstance(self.interval(layout), NoInterval):
            return "it cannot be computed for clusters that are drawn several times"
        return ""

    def errs_by_chance(self, layout: Layout) -> bool:
        """Whether a part is positive by chance for a calibrated model: by default if any part is an error.

        If so, replicates of a calibrated model are drawn as well.
        """
        return any(info.kind == "error" for info in self.describe(layout).values())

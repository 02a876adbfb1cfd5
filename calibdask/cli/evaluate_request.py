"""The checked options of ``calibdask evaluate``."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import click

from calibdask.cli.data_names import source_of
from calibdask.cli.metrics import CURVE, DIAGRAM, PICTURES, chosen_metrics
from calibdask.cli.param_types import is_whole
from calibdask.cli.rows_request import RowsRequest
from calibdask.cli.tests_panel import TESTS, PanelOfTests
from calibdask.estimators.expression import Expression

if TYPE_CHECKING:
    from calibdask.data.soft_labels import SoftRows

# Of the intervals of a report, where none is given.
_LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest(RowsRequest):
    """Options of the user; ``data`` is the first file if there are several models."""

    metrics: tuple[Expression, ...]
    # Files by the name of their model.
    files: Mapping[str, str]
    # Their columns of scores.
    scores: Mapping[str, Any]
    full: bool
    worst: int | None
    adjust: str | None
    ci: float | None
    ci_method: str | None
    n_boot: int | None
    seed: int | None
    as_text: bool
    out: str | None
    plot: str | None
    report: str | None
    receipt: str | None
    curve: bool
    chart: str | None
    text_plot: bool | None
    overwrite: bool
    # The panel of tests, if it is asked for.
    tests: PanelOfTests | None
    # Choices of the metrics.
    options: Mapping[str, Any]

    @classmethod
    def of(cls, given: dict[str, Any]) -> "EvaluateRequest":
        """Request from the parameters of the command; the remaining ones are options of metrics."""
        own = {field.name: given.pop(field.name) for field in fields(cls) if field.name in given}
        own["metrics"] = tuple(expression for expressions in own["metrics"] for expression in expressions)
        tests = given.pop("panel") == TESTS
        options = {name: value for name, value in given.items() if name not in ("conventions", "consistency")}
        if not tests:
            for name in ("conventions", "consistency"):
                if given[name]:
                    raise click.UsageError(f"--{name} has no effect without --panel {TESTS}.")
            return cls(**own, tests=None, options=options)
        panel = PanelOfTests.of({**given, "seed": own["seed"]})
        return cls(**own, tests=panel, options=dict.fromkeys(options))

    def of_file(self, name: str) -> "EvaluateRequest":
        """The request for the file of one model."""
        return replace(self, data=self.files[name], score=self.scores[name])

    @property
    def _may_have_classes(self) -> bool:
        """Whether metrics are named, which may have a value for each class, or all are measured by class."""
        return bool(self.metrics) or self.options.get("setting") == "classwise"

    @property
    def adjustment(self) -> Literal["bonferroni"] | None:
        """How the ends that slices are ordered by are adjusted for their number."""
        return None if self.adjust == "none" else "bonferroni"

    @property
    def picture(self) -> str | None:
        """The metric that is plotted."""
        if self.plot is None:
            return None
        if self.chart is not None:
            return f"plotted_{self.chart}"
        return CURVE if self.curve else DIAGRAM

    @property
    def intervals(self) -> dict[str, Any]:
        """Options of `calibdask.evaluate` for intervals."""
        given = {
            "ci": self.ci,
            "ci_method": self.ci_method,
            "n_boot": self.n_boot,
            "seed": self.seed if self.ci is not None else None,
        }
        return {name: value for name, value in given.items() if value is not None}

    @property
    def has_one_curve(self) -> bool:
        """Whether there is one reliability diagram: no slices, and one score of each row."""
        setting = self.options["setting"]
        several = self.by or len(self.files) > 1 or setting == "classwise" or is_whole(setting)
        return not (several or self.tests is not None)

    def is_pictured(self, *, terminal: bool) -> bool:
        """Whether a diagram in characters is printed: if asked for, or on a terminal if there is one to print."""
        if self.text_plot is None:
            return terminal and self.has_one_curve and not self.as_text
        return self.text_plot

    def diagram(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """The diagram to add, unless it is among the metrics already."""
        from calibdask.cli.text_plot import suited

        return {} if DIAGRAM in chosen else {DIAGRAM: suited(chosen, self.options["setting"], self.options["k"])}

    def check(self) -> None:
        """Refuse options that have no effect without, or with, another one."""
        if self.text_plot and self.as_text:
            raise click.UsageError("--text-plot has no effect with --json.")
        if self.text_plot and not self.has_one_curve:
            raise click.UsageError(
                "--text-plot shows one curve; it has no effect with --by, several DATA, or a --setting of all classes."
            )
        if self.receipt is not None and (len(self.files) > 1 or self.map_path is not None):
            raise click.UsageError(
                "--receipt covers the scores of one file; it has no effect with several files, or with --map."
            )
        if self.receipt is not None and self.ci_method is not None:
            raise click.UsageError("--receipt uses the default methods of intervals; omit --ci-method.")
        if self.soft_labels and (self.report is not None or self.receipt is not None):
            raise click.UsageError("--report and --receipt do not support --soft-labels; omit them.")
        if self.full and self.metrics:
            raise click.UsageError("--all has no effect with --metric, which names the metrics.")
        if self.worst is not None and not (self.by or len(self.files) > 1 or self._may_have_classes):
            raise click.UsageError("--worst has no effect without --by or --setting classwise: there are no slices.")
        if self.adjust is not None and (self.worst is None or self.ci is None):
            raise click.UsageError(
                "--adjust has no effect without --worst and --ci: it adjusts the bounds that order slices."
            )
        needed = {
            "--n-boot": (self.n_boot, self.ci),
            "--ci-method": (self.ci_method, self.ci),
            "--curve": (self.curve, self.plot),
            "--chart": (self.chart, self.plot),
        }
        for option, (value, other) in needed.items():
            if value not in (None, False) and other is None:
                without = "--plot" if option in ("--curve", "--chart") else "--ci"
                raise click.UsageError(f"{option} has no effect without {without}.")
        if self.curve and self.chart is not None:
            raise click.UsageError("--curve and --chart draw different plots; give only one of them.")
        draws = self.tests is not None or any("seed" in metric.takes for metric in self.metrics)
        if self.seed is not None and self.ci is None and not draws:
            raise click.UsageError("--seed has no effect without --ci, or a metric such as skce that draws at random.")

    def panel(self, classes: int, vector: bool, soft: "SoftRows | None" = None) -> dict[str, Any]:
        """The metrics of data, with soft labels or without, when none are named."""
        from calibdask.estimators.panel import default_metrics

        panel = default_metrics(classes, vector, full=self.full)
        if soft is None and not self.groups:
            return {**panel}
        from calibdask.analyses.clustered import supported_panel
        from calibdask.analyses.soft_evaluation import soft_panel
        from calibdask.statistics.layout import Layout

        layout = Layout(classes=classes, vector=vector, weighted=soft is not None, clustered=True)
        return supported_panel(panel, layout) if soft is None else soft_panel(panel, layout, soft)

    def report_options(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Options of `calibdask.report.measure` for a report that shows these metrics besides."""
        from calibdask.report.shown import SideMetrics

        setting = self.options["setting"]
        return {
            "metrics": {name: metric for name, metric in chosen.items() if name not in PICTURES},
            **({} if is_whole(setting) else {"setting": setting, "k": self.options["k"]}),
            "ci": _LEVEL,
            **self.intervals,
            "source": source_of(self),
            "shown": SideMetrics(chosen, self.intervals),
        }

    def chosen(self, panel: Mapping[str, Any]) -> dict[str, Any]:
        """Metrics by name, or the panel if none are named."""
        options = {**self.options, "seed": self.seed if self.ci is None else None}
        return chosen_metrics(self.metrics, options, panel=panel, picture=self.picture)

"""The panel of ``calibdask evaluate --panel tests``: estimates, and p-values of tests."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from calibdask.cli.param_types import is_whole
from calibdask.estimators.signatures import signatures

if TYPE_CHECKING:
    import xarray as xr

    from calibdask.estimators.about import Kind, PartInfo
    from calibdask.statistics.layout import Layout

# The name of the panel.
TESTS = "tests"
TESTS_HELP = """\b
--panel tests prints one column per model, or slice, and one row per number: estimates of
the ECE, SKCE and MMCE, and p-values of tests. They take rows, without weights and
without clusters. Estimates and tests over all pairs of rows are left out of files with
more than --max-pairs, as noted below the table. If whole score vectors are measured (the
default), the ECE, the MMCE and Spiegelhalter's test refer to the largest score, or to
P(y = 1) for a single score column.
\b
--conventions published reproduces the tables of Widmann et al. 2019: the median
bandwidth includes the zero diagonal of the n x n matrix, the variance in asymptotic
tests of linear and block estimates has their divisor, and consistency resampling
redraws predictions together with labels (which rejects calibrated models).
\b
Its JSON also has "conventions" and "bandwidth", that of the kernel. Metrics that are
left out are null, and "metrics_left_out": [str] gives the reasons.
"""
CONSISTENCY = ("ece", "uniform", "median-variance")
_MOST_PAIRS = 1e10
# The parts of tests, in the order of the output; other estimators have one without a name.
_TESTED = ("estimate", "statistic", "pvalue")
# Kinds of parts that are left out; other parts are statistics.
_KINDS: "Mapping[str, Kind]" = {"": "error", "pvalue": "pvalue"}
# Other parameters of evaluate that the panel takes. Its tests need independent rows without weights, and have no
# intervals.
_USED = (
    *("data", "panel", "label", "score", "task", "logits", "labels", "pos_label", "ignore_label", "skip_missing"),
    *("missing_chunks", "text", "by", "period", "every", "zone", "key", "cluster_check", "map_path", "cluster"),
    *("as_text", "out", "overwrite", "github"),
)
# The variable of the bandwidth, and its label.
BANDWIDTH, _BANDWIDTH_LABEL = "bandwidth", "bandwidth of the kernel"
_OPTIONS = (
    click.option(
        "--conventions",
        type=click.Choice(["ours", "published"]),
        help="Conventions of --panel tests; see below.  [default: ours]",
    ),
    click.option(
        "--consistency",
        type=click.Choice(CONSISTENCY),
        multiple=True,
        help=(
            "Statistic of the consistency test in --panel tests: the ECE, or the multiclass ECE on these cells; "
            "repeatable.  [default: ece]"
        ),
    ),
)


def tests_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of the panel alone."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def refuse_without_effect(given: Mapping[str, Any]) -> None:
    """Refuse options of evaluate that have no effect on the panel of tests.

    Raises
    ------
    click.UsageError
        If one of them is given.
    """
    context = click.get_current_context()
    used = {field.name for field in fields(PanelOfTests)}.union(_USED)
    options = {parameter.name: parameter.opts[0] for parameter in context.command.get_params(context)}
    for name in given:
        if name not in used and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{options[name]} has no effect with --panel {TESTS}.")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An estimator, its name for programs and its label for people."""

    name: str
    label: str
    estimator: Any
    # The class of the estimator where that cannot be made.
    kind: Any = None
    # Why it cannot be computed, whatever the file.
    impossible: str | None = None
    pairs: bool = False
    single_score: bool = False

    @cached_property
    def parts(self) -> "dict[str, PartInfo]":
        """Its numbers, by their names; the empty one is that of the estimate itself."""
        from calibdask.estimators.about import PartInfo
        from calibdask.statistics.layout import Layout

        kind = type(self.estimator) if self.kind is None else self.kind
        described = kind().describe(Layout())
        parts = tuple(part for part in _TESTED if part in described) or ("",)
        return {part: described.get(part, PartInfo()).settled(_KINDS.get(part, "statistic")) for part in parts}

    def attributes_of(self, part: str, layout: "Layout") -> dict[str, Any]:
        """Attributes of the variable of a part that is left out."""
        from calibdask.results.build import variable_attributes

        setting = "" if self.estimator is None else self.estimator.measured_setting(layout)
        attributes = variable_attributes(self.name, part, self.parts[part], self.estimator, setting=setting)
        kind = "" if self.kind is None else self.kind.__name__
        return {"estimator": kind, **attributes, "label": self.label}

    @property
    def is_test(self) -> bool:
        """Whether it has a p-value."""
        return "pvalue" in self.parts


@dataclass(frozen=True, kw_only=True)
class PanelOfTests:
    """The panel with the options of the user; None means the default of the estimators."""

    setting: str | int
    conventions: str
    kernel: str | None
    distance: str | None
    bandwidth: float | str | None
    block: int | None
    features: int | None
    max_pairs: float | None
    resamples: int | None
    consistency: tuple[str, ...]
    seed: int

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "PanelOfTests":
        """The panel of these options; others are ignored.

        Raises
        ------
        ValueError
            If an estimator refuses its options.
        """
        defaults: dict[str, Any] = {"conventions": "ours", "consistency": ("ece",), "setting": "multiclass", "seed": 0}
        given: dict[str, Any] = {field.name: options.get(field.name) for field in fields(cls)}
        settled: dict[str, Any] = {
            name: defaults.get(name) if value in (None, ()) else value for name, value in given.items()
        }
        panel = cls(**settled)
        _ = panel.entries
        return panel

    @property
    def published(self) -> bool:
        """Whether the conventions of the published tables apply."""
        return self.conventions == "published"

    @property
    def metrics(self) -> dict[str, Any]:
        """The estimators by name; None where one cannot be made."""
        return {entry.name: entry.estimator for entry in self.entries}

    def reasons(self, rows: int, *, vector: bool) -> dict[str, str]:
        """Why entries are left out of data of so many rows, by their names."""
        reasons = {entry.name: self.left_out(entry, rows, vector) for entry in self.entries}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def described(self, result: "xr.Dataset", left_out: Mapping[str, str], layout: "Layout") -> "xr.Dataset":
        """Add labels of entries, the bandwidth, and NaN for entries that are left out."""
        import numpy as np
        import xarray as xr

        from calibdask.estimators.about import PartInfo
        from calibdask.results.build import METRICS_LEFT_OUT, variable_attributes, variable_name
        from calibdask.results.values import Results

        measured = Results(result)
        dims = measured.shared_dims
        nothing = np.full([result.sizes[dim] for dim in dims], np.nan)
        (linear,) = measured.of("skce_linear")
        described = variable_attributes(BANDWIDTH, "", PartInfo(_BANDWIDTH_LABEL, "choice")) | {
            "estimator": linear.estimator,
            "label": _BANDWIDTH_LABEL,
        }
        widths = np.full_like(nothing, linear.notes["bandwidth"])
        variables = {BANDWIDTH: xr.Variable(dims, widths, described)}
        for entry in self.entries:
            if entry.name in left_out:
                for part in entry.parts:
                    empty = xr.Variable(dims, nothing, entry.attributes_of(part, layout))
                    variables[variable_name(entry.name, part)] = empty
                continue
            for one in measured.of(entry.name):
                variables[one.variable] = one.values.variable.copy()
                variables[one.variable].attrs["label"] = entry.label
        attributes = {**result.attrs, "conventions": self.conventions}
        if left_out:
            attributes[METRICS_LEFT_OUT] = self.sentences(left_out)
        return result.drop_vars(list(result.data_vars)).assign(variables).assign_attrs(attributes)

    def sentences(self, left_out: Mapping[str, str]) -> list[str]:
        """Group entries that are left out by reason, a sentence for each."""
        labels = {entry.name: ("p-value of " if entry.is_test else "") + entry.label for entry in self.entries}
        by_reason: dict[str, list[str]] = {}
        for name, reason in left_out.items():
            by_reason.setdefault(reason, []).append(labels[name])
        return [f"{'; '.join(names)}: {reason}" for reason, names in by_reason.items()]

    def left_out(self, entry: Entry, rows: int, vector: bool) -> str | None:
        """Why the entry is left out of a file; None if it is not."""
        pairs = rows * (rows - 1) // 2
        if entry.impossible is not None:
            return entry.impossible
        if entry.pairs and pairs > self._most:
            return f"{pairs:,} pairs of rows are more than --max-pairs {self._most:,.0f}"
        if entry.single_score and not (self._whole or self.setting == ("binary" if vector else "confidence")):
            return "it measures P(y = 1) of one column of scores, the confidence otherwise"
        return None

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All numbers, in the order of the table.

        Raises
        ------
        ValueError
            If an estimator refuses its options.
        """
        return (*self._estimates(), *self._kernel_tests(), *self._other_tests())

    @property
    def _most(self) -> float:
        return _MOST_PAIRS if self.max_pairs is None else self.max_pairs

    @property
    def _whole(self) -> bool:
        return is_whole(self.setting)

    @property
    def _single(self) -> Any:
        """The setting of what measures single scores: P(y = 1) or the confidence where vectors are measured."""
        return None if self._whole else self.setting

    @property
    def _vectors(self) -> Any:
        """The setting of what measures whole score vectors."""
        return signatures()["skce"].choices["setting"].made(self.setting)

    @property
    def _kernel(self) -> dict[str, Any]:
        bandwidth = "median-full" if self.bandwidth is None and self.published else self.bandwidth
        given = {"kernel": self.kernel, "distance": self.distance, "bandwidth": bandwidth, "seed": self.seed}
        return {**_specified(given), "setting": self._vectors}

    def _averaged(self, estimator: str) -> dict[str, Any]:
        """The options of a way to average over pairs of rows."""
        own = {"block": self.block} if estimator == "block" else {}
        if estimator == "features":
            own = _specified({"features": self.features})
        return {**self._kernel, **own, "estimator": estimator, "max_pairs": self._most}

    def _ways(self, *ways: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Ways to average: the word, the label, and how such an entry differs from others."""
        for way in ways:
            if way != "block" or self.block is not None:
                label = f"blocks of {self.block}" if way == "block" else way
                yield way, label, {"pairs": way in ("biased", "unbiased")}

    def _estimates(self) -> Iterator[Entry]:
        import calibdask as cd

        yield Entry(name="ece", label="ECE, uniform bins", estimator=cd.ECE(setting=self._single))
        for partition in CONSISTENCY[1:]:
            name = f"multiclass_ece_{partition.replace('-', '_')}"
            yield Entry(name=name, label=f"multi-class ECE, {partition} bins", estimator=self._multiclass(partition))
        for way, label, more in self._ways("biased", "unbiased", "linear", "block"):
            yield Entry(name=f"skce_{way}", label=f"SKCE, {label}", estimator=cd.SKCE(**self._averaged(way)), **more)
        yield self._of_features("skce_features", "SKCE, features", cd.SKCE)
        mmce = cd.MMCE(max_pairs=self._most, seed=self.seed)
        yield Entry(name="mmce", label="MMCE", estimator=mmce, pairs=True, single_score=True)

    def _kernel_tests(self) -> Iterator[Entry]:
        import calibdask as cd

        for way, label, more in self._ways("biased", "unbiased", "linear", "block"):
            test: Any = cd.SKCETest(method="distribution-free", **self._averaged(way))
            more |= {"label": f"SKCE, {label}, distribution-free"}
            yield Entry(name=f"distribution_free_{way}", estimator=test, **more)
        for way, label, more in self._ways("unbiased", "linear", "block"):
            ddof = 0 if self.published and way != "unbiased" else 1
            more |= {"label": f"SKCE, {label}, asymptotic"}
            yield Entry(name=f"asymptotic_{way}", estimator=cd.SKCETest(**self._averaged(way), ddof=ddof), **more)
        yield self._of_features("asymptotic_features", "SKCE, features, asymptotic", cd.SKCETest)

    def _of_features(self, name: str, label: str, kind: Any) -> Entry:
        """An entry of random features, where the kernel has any."""
        if self.kernel == "gaussian" and self.distance != "euclidean":
            why = "a Gaussian kernel has random features with --distance euclidean only"
            return Entry(name=name, label=label, estimator=None, kind=kind, impossible=why)
        return Entry(name=name, label=label, estimator=kind(**self._averaged("features")))

    def _other_tests(self) -> Iterator[Entry]:
        import calibdask as cd

        drawn = {"predictions": "resampled"} if self.published else {}
        options: Any = {**_specified({"resamples": self.resamples}), **drawn, "seed": self.seed}
        for word in dict.fromkeys(self.consistency):
            statistic: Any = cd.ECE(setting=self._single) if word == "ece" else self._multiclass(word)
            yield Entry(
                name=f"consistency_{word.replace('-', '_')}",
                label="ECE, consistency resampling" if word == "ece" else f"multi-class ECE, {word}, resampling",
                estimator=cd.ConsistencyTest(statistic=statistic, **options),
            )
        yield Entry(name="cme", label="CME", estimator=cd.CMETest(**self._kernel))
        spiegelhalter = cd.SpiegelhalterTest(setting=self._single)
        yield Entry(name="spiegelhalter", label="Spiegelhalter", estimator=spiegelhalter)

    def _multiclass(self, partition: Any) -> Any:
        import calibdask as cd

        return cd.MulticlassECE(partition=partition, setting=self._vectors)


def _specified(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}

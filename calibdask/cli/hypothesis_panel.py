"""The panel of ``calibdask evaluate --panel tests``: estimates, and p-values of tests."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from calibdask.cli.param_types import is_whole
from calibdask.estimators.signatures import signatures

CONSISTENCY = ("ece", "uniform", "median-variance")
_MOST_PAIRS = 1e10
# The parts of tests, in the order of the output; other estimators have one without a name.
_TESTED = ("estimate", "statistic", "pvalue")


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
    def parts(self) -> tuple[str, ...]:
        """The names of its numbers; the empty one is the estimate itself."""
        from calibdask.statistics.layout import Layout

        kind = type(self.estimator) if self.kind is None else self.kind
        described = kind().describe(Layout())
        return tuple(part for part in _TESTED if part in described) or ("",)

    @property
    def is_test(self) -> bool:
        """Whether it has a p-value."""
        return "pvalue" in self.parts

    @property
    def visible_part(self) -> str:
        """The part that is shown: the p-value of a test."""
        return "pvalue" if self.is_test else ""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Options of the user; None means the default of the estimators."""

    setting: str | int
    published: bool
    kernel: str | None
    distance: str | None
    bandwidth: float | str | None
    block: int | None
    features: int | None
    max_pairs: float | None
    resamples: int | None
    consistency: tuple[str, ...]
    seed: int

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

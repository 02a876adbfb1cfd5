"""Words of the command line that stand for choices: bins, bandwidths, settings, kernels."""

from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

__all__ = [
    "BandwidthType",
    "BinsType",
    "CostsType",
    "SettingType",
    "completions",
    "is_largest",
    "is_whole",
    "kernel_options",
    "setting_of",
]

# ``largest-2`` is cd.Lens.largest(2).
_LARGEST = "largest-"

_KERNEL_OPTIONS = (
    click.option(
        "--distance", type=click.Choice(["tv", "euclidean", "squared-euclidean"]), help="Between predictions."
    ),
    click.option("--block", type=int, metavar="M", help="Rows of a block."),
    click.option("--features", type=int, metavar="D", help="Number of random features.  [default: 512]"),
    click.option("--max-pairs", type=float, metavar="N", help="Most pairs of rows to visit.  [default: 1e10]"),
    click.option("--resamples", type=int, metavar="R", help="Replicates of consistency tests.  [default: 1000]"),
)


def kernel_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of kernel calibration errors and of tests, but for the kernel itself."""
    for option in reversed(_KERNEL_OPTIONS):
        command = option(command)
    return command


def setting_of(word: Any) -> Any:
    """The setting that the word means to an estimator."""
    import calibdask as cd

    return cd.Lens.largest(int(word.removeprefix(_LARGEST))) if is_largest(word) else word


def is_largest(word: Any) -> bool:
    """Whether this is the word for the k largest scores."""
    return isinstance(word, str) and word.startswith(_LARGEST) and word.removeprefix(_LARGEST).isdecimal()


def is_whole(word: Any) -> bool:
    """Whether this setting looks at whole score vectors, or at the k largest scores."""
    return word == "multiclass" or is_largest(word)


def completions(words: Iterable[str], begun: str) -> list[CompletionItem]:
    """What a beginning is completed to."""
    return [CompletionItem(word) for word in words if word.startswith(begun)]


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

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The one word."""
        return completions(["sqrt"], incomplete)


class BandwidthType(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.2
    """A bandwidth, or the name of a rule for it."""

    def __init__(self, *rules: str) -> None:
        self.rules = rules
        self.name = "|".join(("H", *rules))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse; whether the number makes sense is for the estimators to say."""
        if value in self.rules or not isinstance(value, str):
            return value
        try:
            return float(value)
        except ValueError:
            self.fail(f"expected a number or one of {', '.join(self.rules)}, got {value!r}.", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The rules."""
        return completions(self.rules, incomplete)


class CostsType(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.2
    """A matrix of costs, its rows between semicolons and its numbers between commas."""

    name = "C,C,...;C,C,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse; whether the shape fits shows in the data."""
        if not isinstance(value, str):
            return value
        try:
            return [[float(cost) for cost in row.split(",")] for row in value.split(";")]
        except ValueError:
            self.fail(f"expected a matrix such as '0,5;1,0', a row for each action, got {value!r}.", param, ctx)


class SettingType(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.2
    """A word for a setting, the number of a class, or ``largest-K`` where that word is among them."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.name = "|".join((*words, "CLASS"))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse; whether there is such a class shows in the data."""
        if value in self.words or not isinstance(value, str):
            return value
        if value.isdecimal():
            return int(value)
        if is_largest(value) and _LARGEST + "K" in self.words:
            return value
        if value == "multiclass":
            self.fail("the whole score vector is measured by evaluate --metric multiclass-ece or skce.", param, ctx)
        self.fail(f"expected one of {', '.join(self.words)} or the number of a class, got {value!r}.", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The words, with a number in the place of K."""
        return completions([word.replace("K", "2") for word in self.words], incomplete)

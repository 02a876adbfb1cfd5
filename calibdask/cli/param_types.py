"""Types of parameters: the values of choices of metrics, metrics themselves, and what they are completed to."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from calibdask.estimators.choice import Choice
from calibdask.estimators.expression import Expression, parse_method, parse_metrics, parse_value
from calibdask.estimators.signatures import CallSignature, calibrator_signatures, signatures

# ``largest-2`` is cd.Lens.largest(2).
_LARGEST = "largest-"
# What summaries hold.
SUMMARY_SETTING = Choice("setting", frozenset({"int"}), ("confidence", "classwise", "binary"))
# A metric that is begun, with the choices before the last one: its name, the last choice's name, and the rest.
_BEGUN = re.compile(r"(.*?)([\w-]+)\(((?:[^()]*,)?\s*)(?:([\w-]+)\s*=\s*)?([^()=,]*)$", re.DOTALL)


def is_largest(word: Any) -> bool:
    """Whether this is the word for the k largest scores."""
    return isinstance(word, str) and word.startswith(_LARGEST) and word.removeprefix(_LARGEST).isdecimal()


def is_whole(word: Any) -> bool:
    """Whether this setting looks at whole score vectors, or at the k largest scores."""
    return word == "multiclass" or is_largest(word)


def completions(words: Iterable[str], begun: str) -> list[CompletionItem]:
    """Completions of an unfinished word."""
    return [CompletionItem(word) for word in words if word.startswith(begun)]


class ChoiceType(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.2
    """The values that a choice of metrics may have.

    Lists stand between brackets or, alone, between commas; rows of a matrix between semicolons.
    """

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.name = choice.placeholder or "|".join(_placeholders(choice)) or "VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse; whether the numbers make sense is for the estimators to say."""
        if not isinstance(value, str) or self.choice.is_text:
            return value
        try:
            parsed = self._parsed(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not self.choice.accepts(parsed):
            self.fail(f"expected {self.choice.expected}, got {value!r}.", param, ctx)
        return self.choice.converted(parsed)

    def _parsed(self, text: str) -> Any:
        if "metric" in self.choice.kinds:
            (metric,) = parse_metrics(text)
            return metric
        if self.choice.takes_lists and "[" not in text:
            rows = [f"[{row}]" for row in text.split(";")]
            text = f"[{','.join(rows)}]" if len(rows) > 1 else rows[0] if "," in text else text
        return parse_value(text)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Allowed words of the option that complete the text."""
        return completions(_words(self.choice), incomplete)


class MetricType(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.2
    """Metrics between commas, with their own choices in parentheses."""

    name = "metric"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[Expression]:
        """Parse and check names and values."""
        if not isinstance(value, str):
            return list(value)
        try:
            return parse_metrics(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names of metrics, options and their words; entries that were typed already are not offered."""
        begun = _BEGUN.fullmatch(incomplete)
        if begun is None:
            before, comma, last = incomplete.rpartition(",")
            taken = before.split(",")
            before, names = before + comma, [name for name in signatures() if name not in taken]
        else:
            last = begun[5].lstrip()
            before = incomplete.removesuffix(last)
            names = _inside(signatures(), begun[2], begun[3], begun[4])
        last = last if begun is not None and begun[4] else last.lower().replace("_", "-")
        return [CompletionItem(before + name) for name in names if name.replace("_", "-").startswith(last)]


class MethodType(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.2
    """A method of calibration, with its choices in parentheses."""

    name = "method"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Expression:
        """Parse and check its name and values."""
        if not isinstance(value, str):
            return value
        try:
            return parse_method(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names of methods, of choices and the words of these."""
        begun = _BEGUN.fullmatch(incomplete)
        if begun is None:
            return completions(calibrator_signatures(), incomplete.lower().replace("_", "-"))
        last = begun[5].lstrip()
        names = _inside(calibrator_signatures(), begun[2], begun[3], begun[4])
        return [CompletionItem(incomplete.removesuffix(last) + name) for name in names if name.startswith(last)]


def _inside(known: Mapping[str, CallSignature], named: str, before: str, choice: str | None) -> list[str]:
    """Completions between the parentheses of a metric or a method."""
    signature = known.get(named.lower().replace("_", "-"))
    choices = {} if signature is None else signature.choices
    if choice is None:
        return [f"{name}=" for name in choices if not re.search(rf"\b{name}\s*=", before.replace("-", "_"))]
    name = choice.lower().replace("-", "_")
    return _words(choices[name]) if name in choices else []


def _words(choice: Choice) -> list[str]:
    """The words of a choice, with a number in the place of K."""
    lens = [f"{_LARGEST}2"] if "lens" in choice.kinds else []
    flag = ["true", "false"] if "bool" in choice.kinds else []
    metrics = list(signatures()) if "metric" in choice.kinds else []
    return [*choice.words, *lens, *flag, *metrics]


def _placeholders(choice: Choice) -> Iterable[str]:
    """The words, and what stands for other values."""
    yield from choice.words
    if "lens" in choice.kinds:
        yield f"{_LARGEST}K"
    if choice.name == "setting":
        yield "CLASS"
    elif "int" in choice.kinds:
        yield "N"
    elif choice.kinds & {"float", "any"}:
        yield "X"
    if choice.takes_lists:
        yield "X,X,...;..." if "any" in choice.kinds else "X,X,..."
    if "metric" in choice.kinds:
        yield "METRIC"

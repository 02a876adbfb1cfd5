"""Metrics as text, such as ``ece(bins=10, setting=classwise)``: parsed, checked and made. Calibrators likewise.

::

    metrics  = metric {"," metric}
    metric   = name ["(" [choice {"," choice}] ")"]
    choice   = name "=" value
    value    = number | word | "true" | "false" | "none" | "[" [value {"," value}] "]" | metric
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import accumulate
from typing import Any, Literal, TypeAlias

from calibdask.estimators.binned.scikit_learn_names import ALIASES, translated
from calibdask.estimators.choice import Choice
from calibdask.estimators.signatures import CallSignature, calibrator_signatures, signatures

# What names are looked up among.
Vocabulary: TypeAlias = Literal["metric", "method"]

_TOKEN = re.compile(r"""\s*([()\[\],=]|"[^"]*"|'[^']*'|[^()\[\],=\s"']+)\s*""")
_CONSTANTS = {"true": True, "false": False, "none": None}
_SHAPES = {"metric": "ece or ece(bins=10, setting=classwise)", "method": "platt or platt(smooth_targets=true)"}
_OPENING, _CLOSING = "([", ")]"
# More than any metric has; and how much of a text a message shows.
_MOST_DEPTH, _LONGEST_SHOWN = 32, 200
# Shorter names of metrics.
_ALIASES = {"brier": "brier-score"}


@dataclass(frozen=True)
class Expression:
    """A metric, or a method of calibration, by name, with its own choices.

    Parameters
    ----------
    word : str
        The name, one of those of `calibdask.estimators.signatures.signatures`.
    choices : mapping of str to value
        Numbers, words, tuples of values, expressions, True, False and None.
    vocabulary : {"metric", "method"}
        What it is.

    Examples
    --------
    >>> (expression,) = parse_metrics("consistency_test(statistic=ece(bins=[0, 0.5, 1]))")
    >>> str(expression)
    'consistency-test(statistic=ece(bins=[0, 0.5, 1]))'
    >>> expression.make().statistic.bins
    (0.0, 0.5, 1.0)
    """

    keyword: str
    choices: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: Vocabulary = "metric"

    @property
    def signature(self) -> CallSignature:
        """Signature of the metric or calibrator."""
        return _known(self.vocabulary)[self.keyword]

    @property
    def inner(self) -> dict[str, "Expression"]:
        """Metrics that are options of this one, by option, including defaults."""
        defaults = {name: choice.default for name, choice in self.signature.choices.items() if "metric" in choice.kinds}
        return {name: self.choices.get(name, Expression(_keyword(metric))) for name, metric in defaults.items()}

    @property
    def takes(self) -> frozenset[str]:
        """Names of the choices of this metric, and of those inside it."""
        return frozenset(self.signature.choices).union(*(metric.takes for metric in self.inner.values()))

    def __str__(self) -> str:
        choices = ", ".join(f"{name}={_text(value)}" for name, value in self.choices.items())
        return f"{self.keyword}({choices})" if choices else self.keyword

    def with_choices(self, given: Mapping[str, Any]) -> "Expression":
        """Add the options that the expression accepts and does not set itself."""
        known = self.signature.choices
        taken = {name: value for name, value in given.items() if name in known}
        inner = {name: metric.with_choices(given) for name, metric in self.inner.items()}
        changed = {name: metric for name, metric in inner.items() if name in self.choices or metric.choices}
        return Expression(self.keyword, {**taken, **self.choices, **changed}, self.vocabulary)

    def make(self, given: Mapping[str, Any] | None = None) -> Any:
        """The estimator; ``given`` are choices of all metrics, for those that take them and do not choose themselves.

        Raises
        ------
        ValueError
            If the estimator refuses a choice.
        """
        known = self.signature.choices
        # What is chosen for all metrics reaches the one inside another, too.
        inner = self.inner if given else {}
        shared = {name: value for name, value in (given or {}).items() if name in known}
        chosen = {**inner, **shared, **self.choices}
        made = {
            name: value.make(given) if isinstance(value, Expression) else known[name].made(value)
            for name, value in chosen.items()
        }
        return self.signature.constructor(**made)


def parse_metrics(text: str) -> list[Expression]:
    """Metrics between commas.

    Raises
    ------
    ValueError
        If there is no such metric or choice, a value is not among those allowed, or the text is no metric.

    Examples
    --------
    >>> [str(metric) for metric in parse_metrics("brier,ece(bins=10,norm=l2)")]
    ['brier-score', 'ece(bins=10, norm=l2)']
    """
    parser = _Parser(text)
    metrics = [parser.metric()]
    while parser.take(","):
        metrics.append(parser.metric())
    parser.end()
    return metrics


def parse_method(text: str) -> Expression:
    """A method of calibration.

    Raises
    ------
    ValueError
        If there is no such method or choice, a value is not among those allowed, or the text is no method.

    Examples
    --------
    >>> parse_method("platt(smooth_targets=true)").make()
    PlattScaling(smooth_targets=True)
    """
    parser = _Parser(text, "method")
    method = parser.metric()
    parser.end()
    return method


def parse_value(text: str) -> Any:
    """One value.

    Raises
    ------
    ValueError
        If the text is none.

    Examples
    --------
    >>> parse_value("[0, 0.5, 1]"), parse_value("equal-mass"), parse_value("1e6"), parse_value("none")
    ((0, 0.5, 1), 'equal-mass', 1000000.0, None)
    """
    parser = _Parser(text)
    value = parser.value()
    parser.end()
    return value


class _Parser:
    """Reads a text from the left; every error names the text."""

    def __init__(self, text: str, vocabulary: Vocabulary = "metric") -> None:
        self._text, self._vocabulary = text, vocabulary
        self._tokens = _TOKEN.findall(text)
        depths = accumulate((token in _OPENING) - (token in _CLOSING) for token in self._tokens)
        if max(depths, default=0) > _MOST_DEPTH:
            raise self._error(f"it is nested more than {_MOST_DEPTH} levels deep")
        if text.count('"') % 2 or text.count("'") % 2:
            raise self._error("a quotation mark is not closed")
        self._at = 0

    def _error(self, reason: str) -> ValueError:
        shape = f"a {self._vocabulary} is written as {_SHAPES[self._vocabulary]}"
        shown = self._text if len(self._text) <= _LONGEST_SHOWN else f"{self._text[:_LONGEST_SHOWN]}..."
        return ValueError(f"{shown!r} cannot be read: {reason}; {shape}.")

    @property
    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self, token: str) -> bool:
        """Whether this comes next; if so it is read."""
        taken = self._next == token
        self._at += taken
        return taken

    def _token(self, what: str) -> str:
        token = self._next
        if not token or token in "()[],=":
            raise self._error(f"{what} is missing {f'before {token!r}' if token else 'at the end'}")
        self._at += 1
        return token

    def end(self) -> None:
        """Raise ValueError for any remaining token."""
        if self._next:
            reason = "a parenthesis or bracket is closed that was not opened" if self._next in ")]" else None
            raise self._error(reason or f"{self._next!r} does not belong there")

    def metric(self) -> Expression:
        """A name with choices."""
        return self._choices(self._token(f"the name of a {self._vocabulary}"), self._vocabulary)

    def _choices(self, name: str, vocabulary: Vocabulary = "metric") -> Expression:
        word = _known_keyword(name, vocabulary)
        known = _known(vocabulary)[word].choices
        choices: dict[str, Any] = {}
        if self.take("("):
            while not self.take(")"):
                name, value = self._name(), self.value()
                alias = name.lower().replace("-", "_")
                if alias in ALIASES and ALIASES[alias] in known:
                    ((name, value),) = translated({alias: value}).items()
                choice = _known_choice(word, known, name)
                if choice.name in choices:
                    raise self._error(f"{choice.name} is chosen twice")
                choices[choice.name] = _checked(word, choice, value)
                self._separate(")", "parenthesis")
        return Expression(word, choices, vocabulary)

    def _name(self) -> str:
        name = self._token("the name of a choice")
        if not self.take("="):
            raise self._error(f"{name!r} is not a name=value pair")
        return name

    def _separate(self, closing: str, what: str) -> None:
        """Read a comma between two values, unless the list ends here."""
        if self._next != closing and not self.take(","):
            raise self._error(f"a closing {what} is missing" if not self._next else f"{self._next!r} is not expected")

    def value(self) -> Any:
        """A number, a word, a list or a metric."""
        if self.take("["):
            values = []
            while not self.take("]"):
                values.append(self.value())
                self._separate("]", "bracket")
            return tuple(values)
        token = self._token("a value")
        if self._next == "(":
            return self._choices(token)
        return _constant(token)


def _constant(token: str) -> Any:
    if token[0] in "\"'":
        return token[1:-1]
    if token.lower() in _CONSTANTS:
        return _CONSTANTS[token.lower()]
    for number in (int, float):
        try:
            return number(token)
        except ValueError:
            continue
    return token


def _text(value: Any) -> str:
    """A value as it is written."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return str(value)


def _known(vocabulary: Vocabulary) -> Mapping[str, CallSignature]:
    return signatures() if vocabulary == "metric" else calibrator_signatures()


def _keyword(name: str, vocabulary: Vocabulary = "metric") -> str:
    """Canonical shell name of another spelling; calibrators may be given by class name."""
    word = name.lower().replace("_", "-")
    if vocabulary == "metric":
        return _ALIASES.get(word, word)
    classes = {signature.public.lower(): short for short, signature in calibrator_signatures().items()}
    return classes.get(word.replace("-", ""), word)


def _known_keyword(name: str, vocabulary: Vocabulary = "metric") -> str:
    word, there = _keyword(name, vocabulary), _known(vocabulary)
    if word not in there:
        if ":" in name and vocabulary == "metric":
            raise ValueError(
                f"There is no metric {name!r}; estimators of your own are passed in Python: calibdask.evaluate(..., "
                "metrics={'mine': MyEstimator()})."
            )
        raise ValueError(f"There is no {vocabulary} {name!r}; there are {', '.join(there)}.{_meant(word, there)}")
    return word


def _known_choice(word: str, known: Mapping[str, Choice], name: str) -> Choice:
    choice = name.lower().replace("-", "_")
    if choice not in known:
        options = f"its options are {', '.join(known)}" if known else "it has none"
        raise ValueError(f"{word} has no option {name!r}; {options}.{_meant(choice, known)}")
    return known[choice]


def _meant(name: str, known: Mapping[str, Any]) -> str:
    close = get_close_matches(name, known, n=1)
    return f" Did you mean {close[0]}?" if close else ""


def _checked(word: str, choice: Choice, value: Any) -> Any:
    """The value; the name of a metric where one is expected is that metric."""
    if isinstance(value, str) and "metric" in choice.kinds:
        value = Expression(_known_keyword(value))
    if not choice.accepts(value):
        raise ValueError(f"{choice.name} of {word} expects {choice.expected}, got {_text(value)!r}.")
    return value
